"""Batches of revocations over HTTP (REVOKE-20 to REVOKE-25)."""

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

import pytest

from functions.batches import operations as revocation_batches
from shared.errors import Unavailable
from shared.model import revocations, warrants
from shared.model.callers import Scope
from shared.model.items import Item
from shared.model.rate_limit import BURST, BucketPurpose, microseconds
from shared.model.revocation_batches import BatchAction, BatchRequest, BatchResults
from shared.model.revocations import Revocation
from shared.model.text import REASON_MAX
from shared.operations.base import counters, operation
from shared.ports import Ports
from shared.ports.store import MOST_CHANGES, Expect, Put
from tests.functions import signing
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
    send,
)
from tests.functions.bodies import variants
from tests.functions.signing import next_list, refusal
from tests.kit.api import Client, Tenant, serve
from tests.kit.endpoints import audited
from tests.kit.faults import Script, raises, scripted
from tests.kit.intercepted import Call, Intercepted
from tests.kit.log_lines import lines, metrics
from tests.kit.worlds import Clock


def outcomes(answer: dict[str, Any]) -> dict[str, str]:
    return {each["id"]: each["outcome"] for each in answer["results"]}


def test_a_batch_revokes_each_warrant(tenant: Tenant) -> None:
    """REVOKE-20, F351a: A batch revokes each of its warrants, and has a result for each."""
    answer = revoke(tenant, *MANY, MANY[0], batch_id=BATCH)
    assert [each["id"] for each in answer["results"]] == MANY
    assert answer["batch_id"] == BATCH
    assert answer["counts"]["revoked"] == len(MANY)
    assert revoked(tenant, *MANY, "svc_wrt_other") == {*MANY}
    record = tenant.admin.get(f"/v1/revocations/{answer['results'][0]['revocation_id']}").json()
    assert {name: record[name] for name in ("warrant_id", "reason", "batch_id", "created_by")} == {
        "warrant_id": MANY[0],
        "reason": "r",
        "batch_id": BATCH,
        "created_by": "admin@acme.svc",
    }
    assert next_list(tenant) == MANY
    check_totals(tenant)


def test_results_are_counted(tenant: Tenant, caplog: pytest.LogCaptureFixture) -> None:
    """F519a: Results in batches are counted by action and outcome; those of a dry run are not."""
    caplog.set_level(logging.INFO)
    revoke(tenant, *MANY[:3])
    revoke(tenant, *MANY[:4])
    revoke(tenant, *MANY, dry_run=True)
    done(tenant, action="unrevoke", warrant_ids=MANY[2:5])
    found = [
        (each["Action"], each["Outcome"], metrics(each)["BatchItems"])
        for each in lines(caplog, "batch")
    ]
    assert sorted(found) == [
        ("revoke", "already_revoked", (3, "Count")),
        ("revoke", "revoked", (1, "Count")),
        ("revoke", "revoked", (3, "Count")),
        ("unrevoke", "not_revoked", (1, "Count")),
        ("unrevoke", "unrevoked", (2, "Count")),
    ]


def test_what_failed_is_counted(tenant: Tenant, caplog: pytest.LogCaptureFixture) -> None:
    """F519b: If no change of a batch could be made, its results are counted as failed."""
    caplog.set_level(logging.INFO)
    down = {number: raises(Unavailable("down")) for number in range(4, 99)}
    client = Client(serve(scripted(tenant.ports, Script(before=down))), tenant.admin.secret)
    assert send(client, action="revoke", warrant_ids=MANY[:2], reason="r").status_code == 503
    (line,) = lines(caplog, "batch")
    assert (line["Outcome"], line["BatchItems"]) == ("failed", 2)


def test_each_write_names_its_warrants_in_one_entry(tenant: Tenant) -> None:
    """REVOKE-23, F351b: Each write of a batch has one audit entry, which names what it changed."""
    end = "2027-01-01T00:00:00Z"
    answer = revoke(tenant, *MANY, batch_id=BATCH, reason="lost", warrant_expires_at=end)
    made = {each["revocation_id"]: each["id"] for each in answer["results"]}
    created = entries(tenant, "revocation.create_batch")
    # Of 16 shards, each takes a write for 23 of its warrants.
    assert len(created) <= 20
    of_created = named(tenant, "revocation.create_batch")
    assert {each["id"]: each["warrant_id"] for each in of_created} == made
    for entry in created:
        assert entry["resource_id"] == BATCH
        assert (entry["details"]["reason"], entry["details"]["batch_id"]) == ("lost", BATCH)
        assert entry["details"]["warrant_expires_at"] == end
    done(tenant, action="unrevoke", revocation_ids=[*made], reason="mistake", batch_id=OTHER)
    taken = entries(tenant, "revocation.delete_batch")
    back = named(tenant, "revocation.delete_batch")
    assert {each["id"]: each["warrant_id"] for each in back} == made
    assert {(entry["resource_id"], entry["details"]["reason"]) for entry in taken} == {
        (OTHER, "mistake")
    }
    assert all(entry["details"]["reasons"] == ["lost"] for entry in taken)
    for each in back:
        assert each["reason"] == 0
        assert each["created_by"] == "admin@acme.svc"
        assert each["created_at"] == "2026-11-21T12:00:00Z"
        assert (each["batch_id"], each["warrant_expires_at"]) == (BATCH, end)
    assert revoked(tenant, *MANY) == set()
    assert counters.of_revocations(tenant.ports, tenant.id)["changes"] == 2 * len(MANY)
    check_totals(tenant)


def test_a_call_is_summed_up(tenant: Tenant) -> None:
    """REVOKE-25, F572a: A call that changes something has one entry, which its parts name."""
    revoke(tenant, *MANY, batch_id=BATCH, reason="lost")
    revoke(tenant, *MANY, "svc_wrt_more", batch_id=BATCH, reason="lost")
    revoke(tenant, *MANY, batch_id=BATCH, reason="lost")
    revoke(tenant, "svc_wrt_rehearsed", dry_run=True)
    done(tenant, action="unrevoke", warrant_ids=MANY[:3], batch_id=OTHER, reason="mistake")
    parts = entries(tenant, "revocation.create_batch") + entries(tenant, "revocation.delete_batch")
    summaries = {each["id"]: each for each in entries(tenant, "revocation.batch")}
    assert {each["details"]["summary_id"] for each in parts} == summaries.keys()
    shown = [
        (each["resource_id"], each["details"]["action"], each["details"]["reason"])
        for each in summaries.values()
    ]
    assert shown == [
        (BATCH, "revoke", "lost"),
        (BATCH, "revoke", "lost"),
        (OTHER, "unrevoke", "mistake"),
    ]
    assert [each["details"]["asked"] for each in summaries.values()] == [120, 121, 3]
    for summary_id, number in zip(summaries, [120, 1, 3], strict=True):
        found = tenant.admin.get(f"/v1/audit-logs?summary_id={summary_id}").json()["audit_logs"]
        assert sum(len(each["details"]["revocations"]) for each in found) == number
        assert summaries[summary_id]["actor_name"] == "admin"


@pytest.mark.slow_on("before")
@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("action", ["revoke", "unrevoke"])
@pytest.mark.parametrize("lasts", [1, 99], ids=["once", "from then on"])
def test_no_part_is_without_its_summary(ports: Ports, action: str, late: bool, lasts: int) -> None:
    """REVOKE-25, F572b: Where the writes of a call fail, its parts have their one summary."""
    parts_of = {"revoke": "revocation.create_batch", "unrevoke": "revocation.delete_batch"}
    for broken in range(3):
        tenant = Tenant(ports, serve(ports), handle=f"acme-{broken}")
        if action == "unrevoke":
            revoke(tenant, *MANY)
        before = len(entries(tenant, "revocation.batch"))
        store = Intercepted(ports.store, _failing(range(broken, broken + lasts), late=late))
        client = Client(serve(replace(ports, store=store)), tenant.admin.secret)
        send(client, action=action, warrant_ids=MANY, batch_id=BATCH)
        parts = entries(tenant, parts_of[action])
        summaries = [each["id"] for each in entries(tenant, "revocation.batch")[before:]]
        assert {each["details"]["summary_id"] for each in parts} == {*summaries}
        assert len(summaries) == (1 if parts else 0)
        done(tenant, action=action, warrant_ids=MANY, batch_id=BATCH)
        named = {each["details"]["summary_id"] for each in entries(tenant, parts_of[action])}
        assert named == {each["id"] for each in entries(tenant, "revocation.batch")[before:]}
        check_totals(tenant)


def _failing(numbers: range, *, late: bool) -> Callable[[Call], Any]:
    """Writes with these numbers, from 0, fail before they take effect, or lose their answer."""
    written = count()

    def run(call: Call) -> Any:
        fails = call.verb == "write" and next(written) in numbers
        if fails and not late:
            raise Unavailable("down")
        answer = call()
        if fails:
            raise Unavailable("the answer is lost")
        return answer

    return run


def test_what_is_revoked_already_stays_as_it_is(tenant: Tenant) -> None:
    """REVOKE-21, F351c: A batch leaves a revoked warrant as it is, and returns its revocation."""
    record = tenant.revoke("svc_wrt_a", "first")
    answer = revoke(tenant, "svc_wrt_a", "svc_wrt_b", reason="second")
    assert outcomes(answer) == {"svc_wrt_a": "already_revoked", "svc_wrt_b": "revoked"}
    assert answer["results"][0]["revocation_id"] == record
    assert tenant.admin.get(f"/v1/revocations/{record}").json()["reason"] == "first"
    check_totals(tenant)


def test_a_batch_extends_false_ends(tenant: Tenant, clock: Clock) -> None:
    """REVOKE-21, F568e: A batch extends revocations whose end was said too early.

    The other ones stay as they are, and taking the batch back leaves the first revocations.
    """
    revoke(tenant, "svc_wrt_a", "svc_wrt_b", warrant_expires_at="2026-11-21T12:01:00Z")
    revoke(tenant, "svc_wrt_c")
    clock.advance(days=100)
    assert next_list(tenant) == next_list(tenant) == ["svc_wrt_c"]
    names = ["svc_wrt_a", "svc_wrt_b", "svc_wrt_c", "svc_wrt_d"]
    expected = dict(zip(names, ["extended", "extended", "already_revoked", "revoked"], strict=True))
    assert outcomes(revoke(tenant, *names, dry_run=True)) == expected
    answer = revoke(tenant, *names, batch_id=BATCH, reason="again")
    assert outcomes(answer) == expected
    assert answer["counts"]["extended"] == 2
    assert next_list(tenant) == names
    extended = named(tenant, "revocation.extend_batch")
    assert {each["warrant_id"]: each["was"] for each in extended} == dict.fromkeys(
        names[:2], "2026-11-21T12:01:00Z"
    )
    assert len(extended) == 2
    assert outcomes(revoke(tenant, *names, batch_id=BATCH, reason="again")) == expected | {
        "svc_wrt_a": "already_revoked",
        "svc_wrt_b": "already_revoked",
    }
    ofbatch = tenant.admin.get(f"/v1/revocations?batch_id={BATCH}").json()["revocations"]
    assert [each["warrant_id"] for each in ofbatch] == ["svc_wrt_d"]
    check_totals(tenant)


def test_a_repeated_call_changes_nothing(tenant: Tenant) -> None:
    """REVOKE-22, F352a: A repeated call returns the same results and changes nothing."""
    first = revoke(tenant, *MANY, batch_id=BATCH)
    before = audited(tenant)
    assert revoke(tenant, *MANY, batch_id=BATCH) == first
    ids = [each["revocation_id"] for each in first["results"]]
    assert audited(tenant) == before
    undo = {"action": "unrevoke", "revocation_ids": ids, "batch_id": OTHER}
    taken = done(tenant, **undo)
    assert set(outcomes(taken).values()) == {"unrevoked"}
    before = audited(tenant)
    assert done(tenant, **undo) == taken
    assert audited(tenant) == before
    again = done(tenant, **undo | {"batch_id": "svc_bat_01kbm4xt3rfz8c5w7y2q9n6d1g"})
    assert set(outcomes(again).values()) == {"not_revoked"}
    check_totals(tenant)


def test_a_repeated_call_takes_no_later_revocation_back(tenant: Tenant) -> None:
    """REVOKE-22, F352b, F483b: A repeated take-back does not lift a revocation after it.

    It is the same call if it has the same identifiers in another order.
    """
    both = ["svc_wrt_a", "svc_wrt_b"]
    revoke(tenant, *both)
    undo = {"action": "unrevoke", "batch_id": BATCH}
    done(tenant, **undo, warrant_ids=both)
    tenant.revoke("svc_wrt_a")
    for warrant_ids in (both, both[::-1]):
        answer = done(tenant, **undo, warrant_ids=warrant_ids)
        assert [each["outcome"] for each in answer["results"]] == ["unrevoked"] * 2
    assert revoked(tenant, *both) == {"svc_wrt_a"}


def test_a_repeated_revocation_holds(tenant: Tenant) -> None:
    """REVOKE-22, F352c: A repeated call revokes again what was taken back in the meantime."""
    first = revoke(tenant, "svc_wrt_a", batch_id=BATCH)
    tenant.admin.delete(f"/v1/revocations/{first['results'][0]['revocation_id']}")
    assert outcomes(revoke(tenant, "svc_wrt_a", batch_id=BATCH)) == {"svc_wrt_a": "revoked"}
    assert revoked(tenant, "svc_wrt_a") == {"svc_wrt_a"}


def test_a_rehearsal_changes_nothing(tenant: Tenant) -> None:
    """REVOKE-24, F353a: A dry run returns what the call would do, and changes nothing."""
    record = tenant.revoke("svc_wrt_a")
    before = audited(tenant)
    answer = revoke(tenant, "svc_wrt_a", "svc_wrt_b", dry_run=True, batch_id=BATCH)
    assert answer["results"] == [
        {"id": "svc_wrt_a", "outcome": "already_revoked", "revocation_id": record},
        {"id": "svc_wrt_b", "outcome": "revoked"},
    ]
    back = done(tenant, action="unrevoke", warrant_ids=["svc_wrt_a", "svc_wrt_b"], dry_run=True)
    assert outcomes(back) == {"svc_wrt_a": "unrevoked", "svc_wrt_b": "not_revoked"}
    assert audited(tenant) == before
    assert revoked(tenant, "svc_wrt_a", "svc_wrt_b") == {"svc_wrt_a"}


def test_an_end_against_the_signed_one_fails_alone(tenant: Tenant) -> None:
    """REVOKE-21, F354a: A fault of one warrant fails that warrant and no other."""
    key_id = signing.create(tenant)["id"]
    signing.signed(tenant, key_id, warrant_id="svc_wrt_a", expires_at="2027-01-01T00:00:00Z")
    answer = revoke(tenant, "svc_wrt_a", "svc_wrt_b", warrant_expires_at="2026-12-01T00:00:00Z")
    failed, revoked_ = answer["results"]
    assert (failed["outcome"], failed["code"]) == ("failed", "invalid_request")
    assert "warrant_expires_at" in failed["message"]
    assert revoked_["outcome"] == "revoked"
    assert answer["counts"] == {
        **dict.fromkeys(("already_revoked", "extended", "unrevoked", "not_revoked"), 0),
        "revoked": 1,
        "failed": 1,
    }
    assert revoked(tenant, "svc_wrt_a", "svc_wrt_b") == {"svc_wrt_b"}


def test_a_damaged_warrant_fails_alone(tenant: Tenant, caplog: pytest.LogCaptureFixture) -> None:
    """REVOKE-21, F354b: A damaged record fails its warrant, which is never reported as revoked."""
    address = warrants.warrant_address(tenant.id, MANY[7])
    tenant.ports.store.write(Put(address, {"version": "?"}, Expect.ABSENT))
    answer = revoke(tenant, *MANY)
    assert answer["counts"]["failed"] == 1
    (failed,) = [each for each in answer["results"] if each["outcome"] == "failed"]
    assert (failed["id"], failed["code"]) == (MANY[7], "unavailable")
    assert "1 of 120 changes of a batch failed because the service is unavailable" in caplog.text
    assert len(next_list(tenant)) == len(MANY) - 1
    # Alone, it is the whole call.
    assert send(tenant.admin, action="revoke", warrant_ids=[MANY[7]], reason="r").status_code == 503


def test_two_batches_at_once(ports: Ports) -> None:
    """REVOKE-22, F352d: Of two simultaneous batches, each warrant is revoked by exactly one."""
    for number in range(8):
        tenant = Tenant(ports, serve(ports), handle=f"acme-{number}")
        said: list[BatchResults] = []
        script = Script()
        script.before = {2 + 5 * number: partial(_applied, ports, tenant, OTHER, said)}
        _applied(scripted(ports, script), tenant, BATCH, said)
        for one, other in zip(*(each.results for each in said), strict=True):
            assert {one.outcome, other.outcome} == {"revoked", "already_revoked"}
            assert one.revocation_id == other.revocation_id
        check_totals(tenant)


def _applied(ports: Ports, tenant: Tenant, batch_id: str, said: list[BatchResults]) -> None:
    batch = BatchRequest(BatchAction.REVOKE, tuple(MANY[:30]), id=batch_id, reason="r")
    said.append(revocation_batches.apply(ports, tenant.operator, batch=batch))


@pytest.mark.parametrize("named", [True, False], ids=["repeatable", "begun"])
def test_a_lost_answer_hides_nothing_that_was_unrevoked(tenant: Tenant, named: bool) -> None:
    """REVOKE-21, F483a: If the answer to a write is lost, the call reports what it took back."""
    ports, warrant_ids, lost = tenant.ports, MANY[:30], list[Call]()
    revoke(tenant, *warrant_ids)

    def lose(call: Call) -> Any:
        answer = call()
        if call.verb == "write" and not lost:
            lost.append(call)
            raise Unavailable("the answer is lost")
        return answer

    broken = Client(
        serve(replace(ports, store=Intercepted(ports.store, lose))), tenant.admin.secret
    )
    body = {"action": "unrevoke", "warrant_ids": warrant_ids}
    answer = send(broken, **body, **({"batch_id": BATCH} if named else {}))
    assert lost
    assert set(outcomes(answer.json()).values()) == {"unrevoked"}
    check_totals(tenant)


def test_a_record_that_its_warrant_does_not_name_is_left(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """REVOKE-21, F354d: Records that contradict each other are not taken back: it fails."""
    monkeypatch.setattr(operation, "_TOGETHER", 0)
    kept = tenant.revoke("svc_wrt_a")
    stray = replace(Revocation.from_item({**_record(tenant, kept)}), id=tenant.ports.new_id("rev"))
    address = revocations.record_address(tenant.id, stray.id)
    tenant.ports.store.write(Put(address, stray.to_item(), Expect.ABSENT))
    tenant.revoke("svc_wrt_b")
    both = {"action": "unrevoke", "revocation_ids": [stray.id, tenant.revoke("svc_wrt_c")]}
    assert [*outcomes(done(tenant, **both)).values()] == ["failed", "unrevoked"]
    assert revoked(tenant, "svc_wrt_a", "svc_wrt_b", "svc_wrt_c") == {"svc_wrt_a", "svc_wrt_b"}


def _record(tenant: Tenant, revocation_id: str) -> Item:
    item = tenant.ports.store.get(revocations.record_address(tenant.id, revocation_id))
    assert item is not None
    return item


def test_a_revoker_takes_back_only_its_own(tenant: Tenant) -> None:
    """REVOKE-9, F571a: By default, a revoker deletes only the revocations of its own identity.

    An administrator deletes any revocation, and so do all others if `unrevoke_policy` is `any`.
    """
    revoker, other = tenant.client(Scope.REVOKER), tenant.client(Scope.REVOKER)
    for number, client in enumerate((revoker, other, tenant.admin)):
        names = [f"svc_wrt_{number}-{each}" for each in range(3)]
        assert send(client, action="revoke", warrant_ids=names).status_code == 200
    settings = {"unrevoke_policy": "any"}
    assert tenant.admin.request("PATCH", "/v1/tenant/settings", json=settings).is_success
    free = send(revoker, action="unrevoke", warrant_ids=["svc_wrt_1-0"]).json()
    assert outcomes(free) == {"svc_wrt_1-0": "unrevoked"}
    settings = {"unrevoke_policy": "own"}
    assert (
        tenant.admin.request("PATCH", "/v1/tenant/settings", json=settings).json()[
            "unrevoke_policy"
        ]
        == "own"
    )
    names = ["svc_wrt_0-1", "svc_wrt_1-1", "svc_wrt_2-1"]
    answer = send(revoker, action="unrevoke", warrant_ids=names).json()
    assert outcomes(answer) == dict(zip(names, ["unrevoked", "failed", "failed"], strict=True))
    assert {each.get("code") for each in answer["results"]} == {None, "insufficient_scope"}
    for each, status in (("svc_wrt_0-2", 204), ("svc_wrt_1-2", 403), ("svc_wrt_2-2", 403)):
        (record,) = tenant.admin.get(f"/v1/revocations?warrant_id={each}").json()["revocations"]
        deleted = revoker.delete(f"/v1/revocations/{record['id']}")
        assert deleted.status_code == status
        if status == 403:
            assert deleted.json()["error"]["code"] == "insufficient_scope"
    assert revoked(tenant, *names, "svc_wrt_1-2", "svc_wrt_2-2") == {
        *names[1:],
        *("svc_wrt_1-2", "svc_wrt_2-2"),
    }
    done(tenant, action="unrevoke", warrant_ids=names)
    assert revoked(tenant, *names) == set()
    check_totals(tenant)


def test_the_reason_of_taking_back(tenant: Tenant, caplog: pytest.LogCaptureFixture) -> None:
    """REVOKE-4, F571b: A deletion may have a reason; each one is counted for an alarm."""
    caplog.set_level(logging.INFO)
    for query, more in ({}, {}), ({"reason": " mistake "}, {"unrevoke_reason": "mistake"}):
        record = tenant.revoke("svc_wrt_a", "stolen")
        answer = tenant.admin.delete(f"/v1/revocations/{record}", params=query)
        assert answer.status_code == 204
        details = entries(tenant, "revocation.delete")[-1]["details"]
        assert details["reason"] == "stolen"
        assert {each: details[each] for each in details if each.startswith("unrevoke")} == more
    record = tenant.revoke("svc_wrt_a")
    assert tenant.admin.delete(f"/v1/revocations/{record}?reason=").status_code == 400
    revoke(tenant, *MANY[:3])
    done(tenant, action="unrevoke", warrant_ids=MANY[:3])
    done(tenant, action="unrevoke", warrant_ids=MANY[:3], dry_run=True)
    numbers = [metrics(each)["Unrevocations"] for each in lines(caplog, "unrevoked")]
    assert numbers == [(1, "Count"), (1, "Count"), (3, "Count")]


_REVOKE = {"action": "revoke", "warrant_ids": ["svc_wrt_a"]}
_UNREVOKE = {"action": "unrevoke", "warrant_ids": ["svc_wrt_a"]}
_RECORDS = [BATCH.replace("bat", "rev")]


@pytest.mark.parametrize(
    ("named", "body"),
    [
        ("warrant_ids", {"action": "revoke"}),
        *(
            ("warrant_ids", body)
            for body in variants(_REVOKE, "warrant_ids", [], ["svc_wrt_a"] * 1001, ["a"])
        ),
        ("warrant_ids", {"action": "revoke", "revocation_ids": _RECORDS}),
        *(("reason", each | {"reason": None}) for each in (_REVOKE, _UNREVOKE)),
        ("revocation_ids", {"action": "unrevoke"}),
        ("revocation_ids", {"action": "unrevoke", "revocation_ids": ["svc_rev_1"]}),
        ("revocation_ids", _UNREVOKE | {"revocation_ids": _RECORDS}),
        ("warrant_expires_at", _UNREVOKE | {"warrant_expires_at": "2027-01-01T00:00:00Z"}),
        ("warrant_expires_at", _REVOKE | {"warrant_expires_at": "1999-01-01T00:00:00Z"}),
        ("batch_id", _REVOKE | {"batch_id": "b"}),
        ("action", _REVOKE | {"action": "forget"}),
    ],
)
def test_a_contradictory_call(standing: Tenant, body: dict[str, Any], named: str) -> None:
    """REVOKE-20: A batch whose fields are invalid or contradict each other is 400."""
    answer = send(standing.admin, **body)
    assert refusal(answer) == (400, "invalid_request")
    assert named in answer.json()["error"]["message"]


def test_a_batch_takes_tokens_by_its_length(tenant: Tenant, clock: Clock) -> None:
    """REVOKE-20, F355a: A batch costs a token, and another for each 10 of its identifiers."""
    ids = [f"svc_wrt_{number}" for number in range(1000)]
    clock.advance(seconds=10)
    revoke(tenant, *ids, dry_run=True)
    name, now = BucketPurpose.REQUESTS.bucket(tenant.id), microseconds(clock())
    left = tenant.ports.buckets.lease(name, BURST, now=now).granted
    # An instance leases eight tokens, or a few more, at a time.
    assert BURST - 140 <= left <= BURST - 101
    answer = send(tenant.admin, action="revoke", warrant_ids=ids, reason="r")
    assert answer.status_code == 429
    clock.advance(seconds=1)
    assert revoked(tenant, *ids[:1]) == set()


def test_a_revoker_leaves_the_reserve_to_administrators(tenant: Tenant, clock: Clock) -> None:
    """AUTH-8, F355b: A batch by a key that is not of an administrator leaves the reserve."""
    ids = [f"svc_wrt_{number}" for number in range(1000)]
    revoker = tenant.client(Scope.REVOKER)
    clock.advance(seconds=10)
    name, now = BucketPurpose.REQUESTS.bucket(tenant.id), microseconds(clock())
    tenant.ports.buckets.lease(name, BURST - 250, now=now)
    body = {"action": "revoke", "warrant_ids": ids, "reason": "r", "dry_run": True}
    assert send(revoker, **body).status_code == 429
    assert send(tenant.admin, **body).status_code == 200


def test_the_largest_write_is_accepted(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    """F351d: A write of a batch has at most 100 changes, and an entry of less than 400 KB."""
    monkeypatch.setattr("shared.model.revocations.SHARDS", 1)
    ids = [f"svc_wrt_{number:064}" for number in range(48)]
    end = "2026-12-01T00:00:00Z"
    script = Script()
    client = Client(serve(scripted(tenant.ports, script)), tenant.admin.secret)
    others = [f"svc_wrt_{number}" for number in range(48)]
    body = {"action": "revoke", "warrant_ids": others, "reason": "x" * REASON_MAX}
    assert send(client, **body).json()["counts"]["revoked"] == 48
    assert script.calls.count("write") == 3
    reasons = [f"{number}".ljust(REASON_MAX, "x") for number in range(48)]
    for warrant_id, reason in zip(ids, reasons, strict=True):
        body = {"warrant_id": warrant_id, "reason": reason, "warrant_expires_at": end}
        assert tenant.admin.post("/v1/revocations", json=body).status_code == 201
    answer = send(client, action="unrevoke", warrant_ids=ids)
    assert answer.json()["counts"]["unrevoked"] == 48
    assert script.calls.count("write") == 3 + 3
    for entry in entries(tenant, "revocation.delete_batch"):
        assert len(str(entry).encode()) < 400_000
        assert len(entry["details"]["revocations"]) * 5 + 5 <= MOST_CHANGES
    check_totals(tenant)


def test_a_tenant_does_not_see_the_batches_of_another(tenant: Tenant, other_tenant: Tenant) -> None:
    """TENANT-5: A batch of another tenant with the same identifier is another batch."""
    first = revoke(tenant, "svc_wrt_a", batch_id=BATCH)
    ids = [first["results"][0]["revocation_id"]]
    back = {"action": "unrevoke", "revocation_ids": ids, "batch_id": OTHER}
    assert set(outcomes(done(other_tenant, **back)).values()) == {"not_revoked"}
    assert outcomes(revoke(other_tenant, "svc_wrt_a", batch_id=BATCH)) == {"svc_wrt_a": "revoked"}
    assert revoked(tenant, "svc_wrt_a") == {"svc_wrt_a"}


def test_work_that_takes_too_long_is_given_up(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """REVOKE-21, F354c: Changes that a call has no time for fail, and the call reports the rest."""
    times = iter([0.0] * 20 + [100.0] * 10_000)
    slow = replace(operation.PACING, clock=lambda: next(times))
    monkeypatch.setattr(operation, "PACING", slow)
    counts = revoke(tenant, *MANY)["counts"]
    assert counts["revoked"] > 0 < counts["failed"]
    assert counts["revoked"] + counts["failed"] == len(MANY)
    assert len(revoked(tenant, *MANY)) == counts["revoked"]
