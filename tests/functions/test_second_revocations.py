"""A revocation that two makers made is not taken back by one of them alone (APPROVAL-1)."""

from typing import Any

import pytest

from shared.model.callers import Scope
from shared.model.revocations import counter_address
from shared.model.warrants import WarrantState, warrant_address
from tests.functions.signing import create as create_key
from tests.functions.signing import signed
from tests.kit.api import Client, Tenant
from tests.kit.endpoints import audit_entries, audited
from tests.kit.offices import ASKING, BATCH, Office, asked
from tests.kit.worlds import Clock

PATH = "/v1/revocations"
NAME = "svc_wrt_a"
OTHERS = "revocations.unrevoke_others"


@pytest.fixture
def office(tenant: Tenant) -> Office:
    return Office(tenant)


def refused(answer: Any) -> None:
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "approval_required")


def outcomes(answer: Any) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [each["outcome"] for each in answer.json()["results"]]


def revoke(who: Client, status: int, reason: str = "routine", **more: Any) -> str:
    answer = who.post(PATH, json={"warrant_id": NAME, "reason": reason, **more})
    assert answer.status_code == status, answer.text
    return str(answer.json()["id"])


def revoke_all(who: Client, names: list[str], **more: Any) -> list[str]:
    body = {"action": "revoke", "warrant_ids": names, "reason": "INCIDENT stolen", **more}
    return outcomes(who.post(BATCH, json=body))


def delete(who: Client, record: str, headers: Any = None) -> Any:
    return who.delete(f"{PATH}/{record}", headers=headers or {})


def version(tenant: Tenant, name: str = NAME) -> int:
    return WarrantState.of(tenant.ports.store.get(warrant_address(tenant.id, name))).version


def counted(tenant: Tenant, name: str = NAME) -> tuple[Any, Any]:
    """How many revoked warrants the counter of a warrant has, and how many changes."""
    item = tenant.ports.store.get(counter_address(tenant.id, name)) or {}
    return item["count"], item["changes"]


def test_who_revoked_first_does_not_take_it_back_alone(office: Office) -> None:
    """APPROVAL-1, REVOKE-2, F2860a: A second maker makes the revocation one of others too.

    The note ends with the revocation, also of a warrant that was signed here.
    """
    office.protects(OTHERS)
    signed(office.tenant, create_key(office.tenant)["id"], warrant_id=NAME)
    record = revoke(office.carol, 201)
    assert revoke(office.bob, 200, "INCIDENT stolen") == record
    for who in (office.carol, office.bob):
        refused(delete(who, record))
        refused(office.unrevoke(who, [record]))
    assert office.tenant.admin.get(f"{PATH}/check?warrant_id={NAME}").json()["revoked"]
    answer = delete(office.carol, record, ASKING)
    assert asked(answer)["action"] == OTHERS
    assert delete(office.carol, record, office.approved(answer)).status_code == 204
    assert delete(office.carol, revoke(office.carol, 201)).status_code == 204


def test_a_batch_revokes_second(office: Office) -> None:
    """APPROVAL-1, REVOKE-21, F2860b: A warrant that was `already_revoked` is of two makers."""
    office.protects(OTHERS)
    names = [f"svc_wrt_{number}" for number in range(4)]
    revoke_all(office.carol, names)
    assert revoke_all(office.bob, names[:3]) == ["already_revoked"] * 3
    records = office.carol.get(PATH).json()["revocations"]
    ids = [each["id"] for name in names for each in records if each["warrant_id"] == name]
    refused(delete(office.carol, ids[0]))
    refused(office.unrevoke(office.carol, ids[1:2]))
    body = {"action": "unrevoke", "warrant_ids": names[2:], "reason": "r"}
    refused(office.carol.post(BATCH, json=body))
    assert outcomes(office.unrevoke(office.carol, ids[3:])) == ["unrevoked"]


@pytest.mark.parametrize("above", [None, 0])
def test_a_manifest_of_what_another_revoked_second(office: Office, above: int | None) -> None:
    """APPROVAL-2, F2860c: The action of a manifest counts second makers, also later ones."""
    office.protects(OTHERS, unrevoke_threshold=above)
    first, second = office.revoked(2, by=office.alice)
    part = office.manifest(office.alice, [first, second])
    name = office.alice.get(f"{PATH}/{second}").json()["warrant_id"]
    assert revoke_all(office.bob, [name]) == ["already_revoked"]
    body = {"reason": "mistake"}
    refused(office.alice.post(part, json=body))
    answer = office.alice.post(part, json=body, headers=ASKING)
    assert asked(answer)["action"] == OTHERS
    done = office.alice.post(part, json=body, headers=office.approved(answer))
    assert outcomes(done) == ["unrevoked"] * 2


def test_an_approval_from_before_the_second_revocation(office: Office) -> None:
    """APPROVAL-2, F2860d: An approval to restore many does not cover what became another's."""
    office.protects(OTHERS, unrevoke_threshold=0)
    (record,) = office.revoked(1, by=office.alice)
    part, body = office.manifest(office.alice, [record]), {"reason": "mistake"}
    answer = office.alice.post(part, json=body, headers=ASKING)
    assert asked(answer)["action"] == "revocations.unrevoke"
    use = office.approved(answer)
    name = office.alice.get(f"{PATH}/{record}").json()["warrant_id"]
    revoke_all(office.bob, [name])
    refused(office.alice.post(part, json=body, headers=use))
    answer = office.alice.post(part, json=body, headers=ASKING)
    assert asked(answer)["action"] == OTHERS


def test_a_revoker_takes_back_what_is_its_own_alone(office: Office) -> None:
    """REVOKE-9, F2860e: With the policy `own`, only an administrator undoes a second maker."""
    office.alice.request("PATCH", "/v1/tenant/settings", json={"unrevoke_policy": "own"})
    record = revoke(office.carol, 201)
    dave = office.person("dave", Scope.REVOKER)
    revoke(dave, 200)
    assert delete(office.carol, record).json()["error"]["code"] == "insufficient_scope"
    assert outcomes(office.unrevoke(office.carol, [record])) == ["failed"]
    assert delete(office.bob, record).status_code == 204


def test_another_key_of_the_account_revokes_second(office: Office) -> None:
    """APPROVAL-1, REVOKE-9, F2860f: It is another maker for approvals, and the same identity."""
    office.alice.request("PATCH", "/v1/tenant/settings", json={"unrevoke_policy": "own"})
    office.protects(OTHERS)
    account = office.alice.post("/v1/service-accounts", json={"name": "soc"}).json()["id"]
    body = {"name": "k", "scopes": ["revoker"], "expires_at": "2026-12-24T00:00:00Z"}
    body |= {"service_account_id": account}
    keys = (office.alice.post("/v1/api-keys", json=body).json()["key"] for _ in range(2))
    one, other = map(office.tenant.holding, keys)
    record = revoke(one, 201)
    revoke(other, 200)
    refused(delete(one, record))
    office.protects_nothing()
    revoke(office.carol, 200)
    revoke(other, 200)
    assert delete(one, record).json()["error"]["code"] == "insufficient_scope"
    assert delete(office.bob, record).status_code == 204
    record = revoke(one, 201)
    revoke(other, 200)
    assert delete(one, record).status_code == 204


def test_a_second_revocation_is_noted_once(office: Office) -> None:
    """REVOKE-2, REVOKE-24, F2860g: Later ones, those of the maker, and rehearsals write nothing.

    As each entry about revocations, its entry is a change that is counted (LOG-29).
    """
    tenant = office.tenant
    record = revoke(office.carol, 201)
    before = audited(tenant), version(tenant)
    count, changes = counted(tenant)
    revoke(office.carol, 200)
    revoke_all(office.carol, [NAME])
    revoke_all(office.bob, [NAME], dry_run=True)
    assert (audited(tenant), version(tenant)) == before
    again = {"Idempotency-Key": "again"}
    body = {"warrant_id": NAME, "reason": "INCIDENT stolen"}
    for _ in range(2):
        assert office.bob.post(PATH, json=body, headers=again).json()["id"] == record
    revoke(office.alice, 200)
    revoke_all(office.alice, [NAME])
    assert (audited(tenant), version(tenant)) == (before[0] + 1, before[1] + 1)
    assert counted(tenant) == (count, changes + 1)
    entry = audit_entries(tenant)[-1]
    assert (entry["action"], entry["resource_id"]) == ("revocation.extend", record)
    assert (
        entry["details"].items()
        >= {
            "warrant_id": NAME,
            "reason": "INCIDENT stolen",
            "was": None,
            "warrant_expires_at": None,
        }.items()
    )


def test_a_batch_notes_and_extends(office: Office, clock: Clock) -> None:
    """REVOKE-2, REVOKE-21, F2860h: One entry has the later ends and the second makers.

    A repeated call writes nothing.
    """
    early, late = "2026-12-01T00:00:00Z", "2026-12-02T00:00:00Z"
    office.protects(OTHERS)
    # Both are of one shard.
    names = ["svc_wrt_0", "svc_wrt_27"]
    revoke_all(office.carol, names[:1], warrant_expires_at=early)
    revoke_all(office.carol, names[1:], warrant_expires_at=late)
    assert revoke_all(office.bob, names, warrant_expires_at=late) == ["extended", "already_revoked"]
    before = audited(office.tenant)
    (_, first), (_, second) = (counted(office.tenant, each) for each in names)
    assert first + second == 4
    assert revoke_all(office.bob, names, warrant_expires_at=late) == ["already_revoked"] * 2
    assert audited(office.tenant) == before
    entries = [each for each in audit_entries(office.tenant) if "extend" in str(each["action"])]
    told = [
        (each["warrant_id"], each["was"], each["warrant_expires_at"])
        for entry in entries
        for each in entry["details"]["revocations"]
    ]
    assert sorted(told) == [(names[0], early, late), (names[1], late, late)]
    for each in office.carol.get(PATH).json()["revocations"]:
        refused(delete(office.carol, each["id"]))
