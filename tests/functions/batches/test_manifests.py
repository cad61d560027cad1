"""Manifests of revocations that are unrevoked together, over HTTP (REVOKE-26, REVOKE-27)."""

import hashlib
from typing import Any

import pytest

from shared.model import unrevoke_manifests as model
from shared.model.callers import Scope
from shared.model.identities.roles import Role
from shared.operations.identities import roles
from tests.functions.batches.calls import (
    BATCH,
    MANY,
    OTHER,
    check_totals,
    done,
    entries,
    named,
    revoke,
    revoked,
)
from tests.functions.signing import refusal
from tests.kit.api import Client, Tenant
from tests.kit.endpoints import audited
from tests.kit.offices import ASKING, Office, asked
from tests.kit.worlds import Clock

PATH = "/v1/unrevoke-manifests"
_NO_RECORD = "svc_rev_01jd8x6d5v0000000000000000"


@pytest.fixture
def office(tenant: Tenant) -> Office:
    return Office(tenant)


def ids_of(answer: dict[str, Any]) -> list[str]:
    return [each["revocation_id"] for each in answer["results"]]


def made(who: Client, **body: Any) -> dict[str, Any]:
    """A new manifest."""
    answer = who.post(PATH, json=body)
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def apply(who: Client, manifest: dict[str, Any], part: int = 1, headers: Any = None) -> Any:
    path = f"{PATH}/{manifest['id']}/parts/{part}/apply"
    return who.post(path, json={"reason": "mistake"}, headers=headers or {})


def counts(answer: Any) -> dict[str, int]:
    assert answer.status_code == 200, answer.text
    return {name: number for name, number in answer.json()["counts"].items() if number}


def members(who: Client, manifest: dict[str, Any], limit: int = 100) -> list[dict[str, Any]]:
    """All members, by the pages of the list."""
    found, cursor = list[dict[str, Any]](), ""
    while True:
        path = f"{PATH}/{manifest['id']}/members?limit={limit}{cursor}"
        page = who.get(path).json()
        assert page["total"] == manifest["count"]
        found += page["members"]
        if page["cursor"] is None:
            return found
        cursor = f"&cursor={page['cursor']}"


def test_a_batch_is_unrevoked_by_a_manifest(tenant: Tenant, monkeypatch: Any) -> None:
    """REVOKE-26, REVOKE-27, F2500a: A manifest of a batch has its revocations, and undoes them.

    Anybody can compute its SHA-256: of the sorted identifiers, with a line feed after each.
    """
    monkeypatch.setattr(model, "PART_SIZE", 50)
    ids = ids_of(revoke(tenant, *MANY, batch_id=BATCH, reason="stolen"))
    kept = tenant.revoke("svc_wrt_kept")
    before = audited(tenant)
    manifest = made(tenant.admin, batch_id=BATCH)
    assert audited(tenant) == before
    assert (manifest["count"], manifest["parts"], manifest["not_revoked"]) == (120, 3, [])
    text = "".join(f"{each}\n" for each in sorted(ids))
    assert manifest["sha256"] == hashlib.sha256(text.encode()).hexdigest()
    assert manifest["groups"] == [
        {
            "created_by": "admin@acme.svc",
            "created_by_id": None,
            "reason": "stolen",
            "count": 120,
        }
    ]
    shown = tenant.admin.get(f"{PATH}/{manifest['id']}").json()
    assert shown == {name: each for name, each in manifest.items() if name != "not_revoked"}
    for limit in (7, 100):
        listed = members(tenant.admin, manifest, limit)
        assert [each["revocation_id"] for each in listed] == sorted(ids)
        assert {each["warrant_id"] for each in listed} == {*MANY}
        assert {(each["created_by"], each["reason"]) for each in listed} == {
            ("admin@acme.svc", "stolen")
        }
    for part, number in ((2, 50), (1, 50), (3, 20)):
        answer = apply(tenant.admin, manifest, part)
        assert counts(answer) == {"unrevoked": number}
        assert answer.json()["batch_id"] == manifest["unrevoke_batch_id"]
    assert revoked(tenant, *MANY, "svc_wrt_kept") == {"svc_wrt_kept"}
    back = named(tenant, "revocation.delete_batch")
    assert sorted(each["id"] for each in back) == sorted(ids)
    assert {each["details"]["reason"] for each in entries(tenant, "revocation.delete_batch")} == {
        "mistake"
    }
    gone = members(tenant.admin, manifest)
    assert {(each["created_by"], each["reason"]) for each in gone} == {(None, None)}
    assert tenant.admin.get(f"/v1/revocations/{kept}").status_code == 200
    check_totals(tenant)


def test_a_part_is_applied_once(tenant: Tenant) -> None:
    """REVOKE-27, F2500b: A repeated call returns what the first one did, and changes nothing.

    A warrant that was revoked again since then stays revoked.
    """
    ids = ids_of(revoke(tenant, *MANY[:30]))
    manifest = made(tenant.admin, revocation_ids=ids)
    first = apply(tenant.admin, manifest)
    revoke(tenant, MANY[0], reason="again")
    before = audited(tenant)
    assert apply(tenant.admin, manifest).json() == first.json()
    assert audited(tenant) == before
    assert revoked(tenant, *MANY[:30]) == {MANY[0]}
    check_totals(tenant)


def test_members_that_changed_are_reported(tenant: Tenant) -> None:
    """REVOKE-27, F2500c: A member that changed since is reported, with its later revocation."""
    ids = ids_of(revoke(tenant, *MANY[:4]))
    manifest = made(tenant.admin, revocation_ids=ids)
    tenant.admin.delete(f"/v1/revocations/{ids[0]}")
    done(tenant, action="unrevoke", revocation_ids=ids[1:2])
    later = tenant.revoke(MANY[1], "stolen again")
    answer = apply(tenant.admin, manifest)
    assert counts(answer) == {"unrevoked": 2, "not_revoked": 2}
    changed = {
        each["warrant_id"]: (each["id"], each.get("revocation_id"))
        for each in answer.json()["results"]
        if each["outcome"] == "not_revoked"
    }
    assert changed == {MANY[0]: (ids[0], None), MANY[1]: (ids[1], later)}
    assert revoked(tenant, *MANY[:4]) == {MANY[1]}
    check_totals(tenant)


def test_what_is_not_revoked_is_no_member(tenant: Tenant, other_tenant: Tenant) -> None:
    """REVOKE-26, TENANT-5, F2500d: A manifest has the tenant's own revocations alone, each once.

    Identifiers by which nothing is revoked are returned, also those of another tenant.
    """
    (theirs,) = ids_of(revoke(other_tenant, "svc_wrt_theirs"))
    (own,) = ids_of(revoke(tenant, "svc_wrt_own"))
    manifest = made(
        tenant.admin,
        warrant_ids=["svc_wrt_own", "svc_wrt_theirs", "svc_wrt_free"],
        revocation_ids=[own, theirs, _NO_RECORD],
    )
    assert manifest["count"] == 1
    assert sorted(manifest["not_revoked"]) == sorted(
        ["svc_wrt_theirs", "svc_wrt_free", theirs, _NO_RECORD]
    )
    for answer in (
        other_tenant.admin.get(f"{PATH}/{manifest['id']}"),
        other_tenant.admin.get(f"{PATH}/{manifest['id']}/members"),
        apply(other_tenant.admin, manifest),
    ):
        assert refusal(answer) == (404, "not_found")
    assert made(other_tenant.admin, batch_id=OTHER)["count"] == 0
    assert counts(apply(tenant.admin, manifest)) == {"unrevoked": 1}
    assert other_tenant.admin.get(f"/v1/revocations/{theirs}").status_code == 200


@pytest.mark.slow
@pytest.mark.parametrize("size", [0, 1, 500, 501])
def test_a_manifest_has_parts_of_500(tenant: Tenant, size: int) -> None:
    """REVOKE-26, REVOKE-27, F2500e: There is no part before the first, or after the last."""
    names = [f"svc_wrt_{number}" for number in range(size)]
    if names:
        revoke(tenant, *names, batch_id=BATCH)
    manifest = made(tenant.admin, batch_id=BATCH)
    last = -(-size // 500)
    assert (manifest["count"], manifest["parts"]) == (size, last)
    for part in (0, last + 1):
        assert refusal(apply(tenant.admin, manifest, part)) == (404, "not_found")
    taken = sum(
        counts(apply(tenant.admin, manifest, part + 1))["unrevoked"] for part in range(last)
    )
    assert taken == size
    assert len(members(tenant.admin, manifest)) == size
    assert revoked(tenant, "svc_wrt_0") == set()


def test_a_manifest_that_has_ended(tenant: Tenant, clock: Clock) -> None:
    """REVOKE-26, F2500f: A manifest ends after 30 days: nothing is shown or unrevoked by it."""
    manifest = made(tenant.admin, revocation_ids=ids_of(revoke(tenant, MANY[0])))
    assert manifest["expires_at"] == "2026-12-21T12:00:00Z"
    clock.advance(days=30)
    for answer in (tenant.admin.get(f"{PATH}/{manifest['id']}"), apply(tenant.admin, manifest)):
        assert refusal(answer) == (404, "not_found")
    assert revoked(tenant, MANY[0]) == {MANY[0]}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "batch_id"),
        ({"batch_id": "svc_bat_1"}, "batch_id"),
        ({"revocation_ids": []}, "revocation_ids"),
        ({"revocation_ids": ["svc_rev_1"]}, "revocation_ids"),
        ({"warrant_ids": ["svc_rev_1"]}, "warrant_ids"),
        ({"warrant_ids": [f"svc_wrt_{number}" for number in range(50_001)]}, "50000"),
    ],
)
def test_a_manifest_that_is_malformed(standing: Tenant, body: Any, said: str) -> None:
    """REVOKE-26: A manifest of nothing, or of too much, is 400."""
    answer = standing.admin.post(PATH, json=body)
    assert refusal(answer) == (400, "invalid_request")
    assert said in answer.json()["error"]["message"]


def test_more_members_than_a_manifest_may_have(tenant: Tenant, monkeypatch: Any) -> None:
    """REVOKE-26, F2500g: A batch of more revocations than a manifest may have is refused."""
    monkeypatch.setattr(model, "MEMBERS_MAX", 20)
    revoke(tenant, *MANY[:20], batch_id=BATCH)
    assert made(tenant.admin, batch_id=BATCH)["count"] == 20
    extra = tenant.revoke("svc_wrt_extra")
    for body in ({"batch_id": BATCH, "revocation_ids": [extra]}, {"batch_id": OTHER}):
        revoke(tenant, *MANY[20:41], batch_id=OTHER)
        answer = tenant.admin.post(PATH, json=body)
        assert refusal(answer) == (400, "invalid_request")
        assert "at most 20" in answer.json()["error"]["message"]


def test_a_role_with_limits(tenant: Tenant) -> None:
    """AUTH-18, F2500h: A role with limits has manifests of warrants that it reaches alone."""
    roles.put_role(
        tenant.ports,
        tenant.operator,
        role=Role("paris", (Scope.REVOKER,), warrant_prefixes=("svc_wrt_paris-",)),
    )
    key = tenant.client(role="paris")
    own = ids_of(revoke(tenant, "svc_wrt_paris-1"))
    tenant.admin.request("PATCH", "/v1/tenant/settings", json={"unrevoke_policy": "any"})
    other = made(tenant.admin, revocation_ids=own + ids_of(revoke(tenant, "svc_wrt_rome-1")))
    assert key.post(PATH, json={"warrant_ids": ["svc_wrt_rome-1"]}).status_code == 403
    for path in ("", "/members"):
        assert key.get(f"{PATH}/{other['id']}{path}").status_code == 403
    manifest = made(key, revocation_ids=own)
    assert key.get(f"{PATH}/{manifest['id']}").status_code == 200
    assert len(members(key, manifest)) == 1
    assert counts(apply(key, other)) == {"unrevoked": 1, "failed": 1}
    assert revoked(tenant, "svc_wrt_paris-1", "svc_wrt_rome-1") == {"svc_wrt_rome-1"}


def refused(answer: Any) -> str:
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (403, "approval_required"), answer.text
    return str(error["message"])


def test_an_approval_names_a_manifest(office: Office, monkeypatch: Any) -> None:
    """APPROVAL-2, F2501a: An approval of a manifest takes back its members, and nothing else.

    The approver sees its SHA-256, its makers and reasons, and can list all members.
    """
    monkeypatch.setattr(model, "PART_SIZE", 25)
    office.protects("revocations.unrevoke_others", unrevoke_threshold=0)
    shown, stolen = office.revoked(45), office.revoked(5, by=office.bob)
    manifest = made(office.alice, revocation_ids=shown)
    other = made(office.alice, revocation_ids=stolen)
    refused(apply(office.alice, manifest))
    answer = apply(office.alice, manifest, headers=ASKING)
    said = asked(answer)
    assert (said["subject"], said["count"]) == (manifest["id"], 45)
    use = office.approved(answer)
    found = office.seen(use["Rescind-Approval"])
    assert found["action"] == "revocations.unrevoke_others"
    assert found["details"] == {
        "manifest_id": manifest["id"],
        "sha256": manifest["sha256"],
        "groups": manifest["groups"],
    }
    (group,) = manifest["groups"]
    assert (group["created_by"], group["created_by_id"], group["count"]) == (
        "carol@example.com",
        office.carol.key_id,
        45,
    )
    assert len(members(office.bob, manifest)) == 45
    assert "another action or resource" in refused(apply(office.alice, other, headers=use))
    assert "Another person" in refused(apply(office.bob, manifest, headers=use))
    assert office.seen(use["Rescind-Approval"])["remaining"] == 45
    for part, left in ((1, 20), (1, 20), (2, 0), (2, 0)):
        done_ = apply(office.alice, manifest, part, use)
        assert counts(done_) == {"unrevoked": 25 if part == 1 else 20}
        assert office.seen(use["Rescind-Approval"])["remaining"] == left
    check_totals(office.tenant)


def test_the_act_is_that_of_the_whole_manifest(office: Office) -> None:
    """APPROVAL-2, F2501b: One member of another makes the approval one of `unrevoke_others`."""
    office.protects("revocations.unrevoke_others", unrevoke_threshold=0)
    own, theirs = office.revoked(2, by=office.alice), office.revoked(1)
    manifest = made(office.alice, revocation_ids=own)
    answer = apply(office.alice, manifest, headers=ASKING)
    assert asked(answer)["action"] == "revocations.unrevoke"
    assert counts(apply(office.alice, manifest, headers=office.approved(answer))) == {
        "unrevoked": 2
    }
    both = made(office.alice, revocation_ids=[*theirs, *office.revoked(1, by=office.alice)])
    answer = apply(office.alice, both, headers=ASKING)
    assert asked(answer)["action"] == "revocations.unrevoke_others"
    assert counts(apply(office.alice, both, headers=office.approved(answer))) == {"unrevoked": 2}


def test_a_manifest_that_needs_no_approval(office: Office) -> None:
    """APPROVAL-2, F2501c: A request that asks in vain changes nothing, and neither without."""
    manifest = made(office.alice, revocation_ids=office.revoked(3))
    for limit in (None, 3):
        office.protects(unrevoke_threshold=limit)
        before = audited(office.tenant)
        assert apply(office.alice, manifest, headers=ASKING).status_code == 409
        assert audited(office.tenant) == before
    assert counts(apply(office.alice, manifest)) == {"unrevoked": 3}


def test_a_batch_endpoint_takes_no_approval(office: Office) -> None:
    """APPROVAL-2, F2501d: What needs an approval is unrevoked by a manifest, not by a batch."""
    office.protects(unrevoke_threshold=0)
    some = office.revoked(2)
    assert PATH in refused(office.unrevoke(office.alice, some))
    assert office.unrevoke(office.alice, some, ASKING).status_code == 400


def test_too_many_reasons_to_approve(office: Office) -> None:
    """APPROVAL-2, F2501e: A manifest has any number of reasons, and an approval at most 50."""
    names = []
    for number in range(52):
        body = {"warrant_id": f"svc_wrt_{number}", "reason": f"reason {number}"}
        names.append(office.tenant.admin.post("/v1/revocations", json=body).json()["id"])
    manifest = made(office.alice, revocation_ids=names)
    assert len(manifest["groups"]) == 51
    assert manifest["groups"][-1] == {
        "created_by": None,
        "created_by_id": None,
        "reason": None,
        "count": 2,
    }
    office.protects("revocations.unrevoke_others")
    assert apply(office.alice, manifest, headers=ASKING).status_code == 400
    fewer = made(office.alice, revocation_ids=names[:50])
    answer = apply(office.alice, fewer, headers=ASKING)
    groups = office.seen(asked(answer)["approval_id"])["details"]["groups"]
    assert {each["reason"] for each in groups} == {f"reason {number}" for number in range(50)}
    office.protects_nothing()
    assert counts(apply(office.alice, manifest)) == {"unrevoked": 52}
