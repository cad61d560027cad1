"""Changes over HTTP: each of the five kinds, and who still accepts what it revoked (FLEET-30)."""

from itertools import count
from typing import Any

import pytest

from functions.changes import operations as changes
from shared.errors import Unavailable
from shared.model.identifiers import token_id
from tests.functions.authorizers.fleet import beat, listed, register
from tests.functions.batches.calls import MANY, done, revoke
from tests.functions.signing import child, create, move
from tests.kit.api import Tenant
from tests.kit.faults import broken_at
from tests.kit.feeds import publish_feed
from tests.kit.worlds import Clock


def change(tenant: Tenant, change_id: str) -> dict[str, Any]:
    answer = tenant.admin.get(f"/v1/changes/{change_id}")
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def publish(tenant: Tenant) -> int:
    found = publish_feed(tenant.ports, tenant.id)
    assert found is not None
    return found.head.sequence


@pytest.fixture
def gates(tenant: Tenant) -> list[str]:
    """Two authorizers, which report with a state that may be 30 seconds old, and any."""
    listed(tenant)
    found = [register(tenant.authorizer, name) for name in ("a", "b")]
    for each, seconds in zip(found, (30, None), strict=True):
        answer = beat(tenant.authorizer, each, sequence=0, max_staleness=seconds)
        assert answer.status_code == 200
    return found


def counts(found: dict[str, Any]) -> tuple[int, int, int, int, bool]:
    of = found["authorizers"]
    return of["total"], of["enforced"], of["fail_closed"], of["unknown"], found["is_complete"]


def test_a_warrant_from_the_record_to_the_last_authorizer(
    tenant: Tenant, gates: list[str], clock: Clock
) -> None:
    """FLEET-30, FLEET-31, F1375a: The room of a warrant has the proof, and since when."""
    own = tenant.revoke("svc_wrt_a")
    found = change(tenant, own)
    told = {"kind": "warrant", "name": "svc_wrt_a", "reason": "stolen", "can_unrevoke": True}
    assert found.items() >= told.items()
    assert found["actor"]["key_id"] == tenant.admin.key_id
    assert found["feed"] == {"sequence": None, "issued_at": None, "published": 0, "total": 1}
    assert (found["srl"], found["srl_due_at"] is None) == (None, False)
    assert counts(found) == (2, 0, 0, 2, False)
    sequence = publish(tenant)
    clock.advance(seconds=5)
    beat(tenant.authorizer, gates[1], sequence=sequence)
    found = change(tenant, own)
    assert (found["feed"]["sequence"], found["propagation_curve"]) == (sequence, [[5, "enforced"]])
    assert counts(found) == (2, 1, 0, 1, False)
    (left,) = found["lagging_authorizers"]
    assert (left["name"], left["lag_entries"], left["enforcement"]) == ("a", sequence, "unknown")
    clock.advance(seconds=85)
    found = change(tenant, own)
    assert (found["propagation_curve"], found["is_upper_bound"]) == (
        [[5, "enforced"], [90, "fail_closed"]],
        False,
    )
    assert (found["is_complete"], found["completed_at"]) == (True, "2026-11-21T12:01:30Z")
    proof = tenant.admin.get(f"/v1/revocations/{own}/propagation").json()
    assert found["authorizers"].items() <= proof["authorizers"].items()
    assert "unrevoked_at" not in found


@pytest.mark.parametrize("in_batch", [False, True])
def test_a_client_without_subject_cutoffs_never_refuses(
    tenant: Tenant, gates: list[str], clock: Clock, in_batch: bool
) -> None:
    """FLEET-11, F2403a: Of a cutoff, authorizers without the feature are never said to refuse."""
    cutoff = token_id("jwt-subject", "https://as.example", "ann", 1)
    if in_batch:
        answer = revoke(tenant, "svc_wrt_a", cutoff)
        own = {each["id"]: each["revocation_id"] for each in answer["results"]}[cutoff]
        found = answer["batch_id"]
    else:
        own = found = tenant.revoke(cutoff)
    sequence = publish(tenant)
    for each in gates:
        beat(tenant.authorizer, each, sequence=sequence)
    clock.advance(hours=1)
    features = {"features": ["subject-cutoffs"]}
    assert register(tenant.authorizer, "a", **features) == gates[0]
    summary = tenant.admin.get("/v1/authorizers/summary").json()
    assert (summary["without_cutoffs"], summary["enforced"]) == (1, 2)
    proof = tenant.admin.get(f"/v1/revocations/{own}/propagation").json()
    for answer in (change(tenant, found), proof):
        assert counts(answer) == (2, 1, 0, 1, False)
        assert answer["authorizers"]["unsupported"] == 1
        left = [(each["name"], each["enforcement"]) for each in answer["lagging_authorizers"]]
        assert left == [("b", "unsupported")]
    register(tenant.authorizer, "b", **features)
    assert change(tenant, found)["is_complete"]
    register(tenant.authorizer, "b")
    assert not change(tenant, found)["is_complete"]
    assert change(tenant, tenant.revoke("svc_wrt_b"))["authorizers"]["unsupported"] == 0


@pytest.mark.parametrize("in_batch", [False, True])
@pytest.mark.parametrize("by_batch", [False, True])
def test_a_warrant_that_was_unrevoked(
    tenant: Tenant, gates: list[str], clock: Clock, in_batch: bool, by_batch: bool
) -> None:
    """FLEET-30, F1485a: The room of a revocation that was taken back says since when.

    Nobody is said to refuse the warrant then, not even if it is revoked again.
    """
    own = tenant.revoke("svc_wrt_a")
    if in_batch:
        own = revoke(tenant, "svc_wrt_b", "svc_wrt_c")["results"][0]["revocation_id"]
    sequence = publish(tenant)
    for each in gates:
        beat(tenant.authorizer, each, sequence=sequence)
    before = change(tenant, own)
    assert (before["is_complete"], "unrevoked_at" in before) == (True, False)
    clock.advance(minutes=20)
    if by_batch:
        done(tenant, action="unrevoke", warrant_ids=[before["name"]])
    else:
        assert tenant.admin.delete(f"/v1/revocations/{own}").status_code == 204
    tenant.revoke(before["name"])
    clock.advance(minutes=1)
    found = change(tenant, own)
    assert found["unrevoked_at"] == "2026-11-21T12:20:00Z"
    same = ("id", "kind", "name", "recorded_at", "reason", "actor", "reach")
    assert [found[each] for each in same] == [before[each] for each in same]
    assert (found["can_unrevoke"], found["srl"], found["srl_due_at"]) == (False, None, None)
    assert counts(found) == (2, 0, 0, 2, False)
    assert found["propagation_curve"] == []


def test_a_batch_is_complete_with_its_last_warrant(tenant: Tenant, gates: list[str]) -> None:
    """FLEET-30, F1376a: A batch is in the feed once each of its warrants is.

    An entry may state a warrant twice, or another change it again: each counts once.
    """
    batch = revoke(tenant, *MANY[:30])["batch_id"]
    first = publish(tenant)
    found = change(tenant, batch)
    assert found["feed"] | {"issued_at": None} == {
        "sequence": first,
        "issued_at": None,
        "published": 30,
        "total": 30,
    }
    assert (found["reach"], found["reason"], found["can_unrevoke"]) == (
        {"keys": 0, "warrants": 30},
        "r",
        True,
    )
    # The first entry is stated again, and a second call goes on with the batch.
    own = {"warrant_id": MANY[0], "reason": "x", "warrant_expires_at": None}
    tenant.admin.post("/v1/revocations", json={k: v for k, v in own.items() if v})
    revoke(tenant, *MANY[30:60], batch_id=batch)
    found = change(tenant, batch)
    assert (found["feed"]["published"], found["feed"]["total"]) == (30, 60)
    assert (found["feed"]["sequence"], found["is_complete"]) == (None, False)
    for each in gates:
        beat(tenant.authorizer, each, sequence=first)
    assert not change(tenant, batch)["is_complete"]
    last = publish(tenant)
    assert change(tenant, batch)["feed"]["sequence"] == last
    for each in gates:
        beat(tenant.authorizer, each, sequence=last)
    assert change(tenant, batch)["is_complete"]
    done(tenant, action="unrevoke", warrant_ids=MANY[:30])
    publish(tenant)
    found = change(tenant, batch)
    assert (found["feed"]["published"], found["feed"]["total"]) == (30, 30)


@pytest.mark.parametrize("signs", [0, 3])
def test_a_signing_key(tenant: Tenant, gates: list[str], clock: Clock, signs: int) -> None:
    """FLEET-30, F1377a: A key is in the feed once all that it signed is, if it signed anything."""
    key = create(tenant)["id"]
    for _ in range(signs):
        assert tenant.admin.post(f"/v1/keys/{key}/sign", json={"payload": ""}).status_code == 201
    assert tenant.admin.get(f"/v1/changes/{key}").status_code == 404
    move(tenant, key, "revoke")
    found = change(tenant, key)
    assert (found["kind"], found["reason"], found["feed"]["published"]) == (
        "signing_key",
        "lost",
        0,
    )
    assert found["reach"] == {"keys": 1, "warrants": signs}
    sequence = publish(tenant)
    for each in gates:
        beat(tenant.authorizer, each, sequence=sequence)
    if not signs:
        # Its mark might not be visible yet.
        assert not change(tenant, key)["is_complete"]
        clock.advance(minutes=6)
    assert change(tenant, key)["is_complete"]
    # Later entries are not needed.
    tenant.revoke("svc_wrt_later")
    publish(tenant)
    assert change(tenant, key)["is_complete"] is bool(signs)


def test_keys_that_go_together(tenant: Tenant, gates: list[str], clock: Clock) -> None:
    """FLEET-30, F1486a: With a key, those below it count, until the feed has all that they signed.

    What was revoked before is a change of its own.
    """
    root = create(tenant)
    below = [child(tenant, root)["id"] for _ in range(3)]
    for key in below:
        assert tenant.admin.post(f"/v1/keys/{key}/sign", json={"payload": ""}).status_code == 201
    move(tenant, below[0], "revoke")
    publish(tenant)
    clock.advance(seconds=5)
    move(tenant, root["id"], "revoke", cascade=True)
    found = change(tenant, root["id"])
    assert found["reach"] == {"keys": 3, "warrants": 2}
    assert (found["feed"]["published"], found["is_complete"]) == (0, False)
    sequence = publish(tenant)
    for each in gates:
        beat(tenant.authorizer, each, sequence=sequence)
    found = change(tenant, root["id"])
    assert (found["feed"]["sequence"], found["is_complete"]) == (sequence, True)
    assert change(tenant, below[0])["reach"] == {"keys": 1, "warrants": 1}


def test_an_srl_signer(tenant: Tenant, gates: list[str]) -> None:
    """FLEET-30, F1378a: A stolen list signer is left behind with the break that replaces it."""
    (key,) = tenant.admin.get("/v1/revocations/srl/keys").json()["keys"]
    path = f"/v1/revocations/srl/keys/{key['key_id']}/revoke"
    assert tenant.admin.post(path).status_code == 200
    found = change(tenant, key["key_id"])
    assert (found["kind"], found["feed"]["published"]) == ("srl_signer", 1)
    assert counts(found) == (2, 0, 0, 2, False)
    for each in gates:
        beat(tenant.authorizer, each, sequence=found["feed"]["sequence"])
    assert change(tenant, key["key_id"])["is_complete"]


def test_an_api_key(tenant: Tenant, gates: list[str]) -> None:
    """FLEET-30, F1379a: An API key has no feed; those that it registered must find another."""
    key = tenant.authorizer.key_id
    assert tenant.admin.post(f"/v1/api-keys/{key}/revoke").status_code == 200
    found = change(tenant, str(key))
    assert (found["kind"], found["feed"], found["srl_due_at"]) == ("api_key", None, None)
    assert counts(found) == (2, 0, 0, 2, False)
    for each in gates:
        assert tenant.admin.delete(f"/v1/authorizers/{each}").status_code == 204
    assert counts(change(tenant, str(key))) == (0, 0, 0, 0, True)


def test_what_is_no_change(tenant: Tenant) -> None:
    """FLEET-30: What is unknown, of another form, or not revoked is not found."""
    unknown = [tenant.ports.new_id(kind) for kind in ("rev", "bat", "key", "ak", "wrt")]
    for each in (*unknown, "x", str(tenant.admin.key_id)):
        assert tenant.admin.get(f"/v1/changes/{each}").status_code == 404


def test_a_fault_is_never_complete(tenant: Tenant, gates: list[str]) -> None:
    """FLEET-30, F1380a: Wherever the store fails, the room raises, and never says less."""
    batch = revoke(tenant, "svc_wrt_a", "svc_wrt_b")["batch_id"]
    sequence = publish(tenant)
    for each in gates:
        beat(tenant.authorizer, each, sequence=sequence)
    assert change(tenant, batch)["is_complete"]
    for step in count():
        ports = broken_at(tenant.ports, step, Unavailable())
        try:
            found = changes.of_change(ports, tenant.operator, change_id=batch)
        except Unavailable:
            continue
        assert (step > 8, found.is_complete) == (True, True)
        break


def test_the_list_of_changes(tenant: Tenant, clock: Clock) -> None:
    """FLEET-32, F1381a: All kinds are listed, newest first, in pages, and by their kind."""
    made = [tenant.revoke("svc_wrt_a")]
    clock.advance(seconds=1)
    made.append(str(revoke(tenant, "svc_wrt_b", "svc_wrt_c")["batch_id"]))
    clock.advance(seconds=1)
    made.append(str(create(tenant)["id"]))
    move(tenant, made[-1], "revoke")
    clock.advance(seconds=1)
    made.append(str(tenant.read_only.key_id))
    tenant.admin.post(f"/v1/api-keys/{made[-1]}/revoke")
    done(tenant, action="unrevoke", warrant_ids=["svc_wrt_b"])
    clock.advance(seconds=1)
    whole = tenant.admin.get("/v1/changes").json()
    assert [each["id"] for each in whole["changes"]] == made[::-1]
    assert [each["reason"] for each in whole["changes"]] == [None, "lost", "r", "stolen"]
    assert whole["changes"][1]["name"] == "k"
    walked, cursor = list[str](), ""
    while cursor is not None:
        page = tenant.admin.get(f"/v1/changes?limit=1{cursor}").json()
        walked += [each["id"] for each in page["changes"]]
        cursor = page["cursor"] and f"&cursor={page['cursor']}"
    assert walked == made[::-1]
    of_keys = tenant.admin.get("/v1/changes?kind=signing_key").json()["changes"]
    assert [each["id"] for each in of_keys] == [made[2]]
    early = "to=2026-11-21T12:00:00Z"
    assert [each["id"] for each in tenant.admin.get(f"/v1/changes?{early}").json()["changes"]] == [
        made[0]
    ]
    for wrong in ("kind=x", "from=2026-11-21T12:00:00Z&to=2026-11-20T12:00:00Z", "limit=0"):
        assert tenant.admin.get(f"/v1/changes?{wrong}").status_code == 400
