"""Authorizers that prove a key, and sign what they report (FLEET-27, TRUST-10)."""

import base64
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from functions.authorizers import registering
from functions.authorizers.records import AuthorizerDescription, authorizers, ended_partition
from shared.model import times
from shared.model.callers import Scope
from shared.model.feed import FeedHead
from shared.model.identifiers import AUTHORIZER
from shared.operations.changes import feed as feed_api
from shared.operations.lists import publication
from tests.functions.authorizers.fleet import REGISTER, STOCK, Gate, described, stored
from tests.functions.signing import refusal
from tests.kit.api import Client, Tenant
from tests.kit.endpoints import audit_entries
from tests.kit.faults import Script, scripted
from tests.kit.worlds import Clock

_MONTH = {"days": 30}


@pytest.fixture
def gate(tenant: Tenant) -> Gate:
    """A gate that has registered with its key."""
    return Gate(tenant, tenant.authorizer).begin()


def published(tenant: Tenant) -> FeedHead:
    """A new entry of the feed."""
    tenant.admin.post("/v1/revocations/srl/regenerate")
    tenant.revoke(tenant.ports.new_id("wrt"))
    publication.publish_feed(tenant.ports, tenant.id)
    return feed_api.news(tenant.ports, tenant.operator).head


def held(head: FeedHead) -> dict[str, Any]:
    """What a report of this head says."""
    return {"sequence": head.sequence, "chain": head.signed_head.chain}


def entries(tenant: Tenant, action: str = "authorizer.register") -> list[Any]:
    """The audit entries of this action of this month, oldest first."""
    return [each for each in audit_entries(tenant) if each["action"] == action]


def reasoned(answer: Any) -> str:
    """The reason for which a report was refused."""
    assert refusal(answer) == (409, "conflict"), answer.text
    message: str = answer.json()["error"]["message"]
    return message.partition("(")[2].partition(")")[0]


def proof_of(tenant: Tenant, revocation_id: str) -> Any:
    return tenant.admin.get(f"/v1/revocations/{revocation_id}/propagation").json()


# --- what a registration proves ---


def test_a_proof_binds_a_key_to_a_name(tenant: Tenant, clock: Clock) -> None:
    """FLEET-27: A registration with a proof binds its key, and is audited with it.

    The same one again has the same identifier, and leaves no entry.
    """
    gate = Gate(tenant, tenant.authorizer)
    first = gate.register()
    assert first.status_code == 201
    made = first.json()
    assert (made["key_verified"], made["last_number"]) == (True, 0)
    gate.id = made["id"]
    shown = tenant.admin.get(f"/v1/authorizers/{made['id']}").json()
    assert (shown["key_verified"], shown["public_key"]) == (True, gate.public_key.hex())
    clock.advance(seconds=10)
    number = int(tenant.ports.now().timestamp() * 1000)
    assert gate.beat(trust=7).json()["status"] == "ok"
    again = gate.register()
    assert (again.status_code, again.json()) == (200, made | {"last_number": number})
    (entry,) = entries(tenant)
    assert entry["details"] == {"name": "gate", "public_key": gate.public_key.hex()}
    assert entry["actor_key_id"] == tenant.authorizer.key_id
    assert tenant.admin.get(f"/v1/authorizers/{made['id']}").json()["trust_version"] == 7


def test_a_known_name_with_another_key_is_refused(tenant: Tenant, gate: Gate) -> None:
    """FLEET-27, F770a: Nobody takes the name of an authorizer with another key, or without one.

    The owner may remove it, and register anew.
    """
    before = stored(tenant, gate.id)
    other = Gate(tenant, tenant.authorizer, key=12)
    public_key = gate.public_key.hex()
    for answer in (
        other.register(),
        other.register_stock(),
        gate.register_stock(public_key=public_key),
        other.register_stock(public_key=other.public_key.hex()),
    ):
        assert refusal(answer) == (409, "conflict")
        message = answer.json()["error"]["message"]
        assert f"rescind authorizers remove {gate.id}" in message
    assert stored(tenant, gate.id) == before
    assert len(entries(tenant)) == 1
    assert tenant.authorizer.delete(f"/v1/authorizers/{gate.id}").status_code == 204
    anew = other.register()
    assert anew.status_code == 201
    assert anew.json()["id"] != gate.id
    assert gate.beat().status_code == 404


def test_a_name_is_that_of_an_owner(tenant: Tenant, gate: Gate) -> None:
    """FLEET-1, F770b: Another owner has names of its own, and knows nothing of the others."""
    thief = Gate(tenant, tenant.client(Scope.AUTHORIZER), key=12).begin()
    assert thief.id != gate.id
    # Not even with the genuine report of the other.
    assert thief.beat(gate.signed(), of=gate.id).status_code == 404
    assert stored(tenant, gate.id).number == 0


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"tenant_id": "svc_tnt_other"}, "tenant"),
        ({"name": "other"}, "name"),
        ({"public_key": b"\x01" + bytes(31)}, "malformed"),
        ({"name": "x" * 4096}, "too_large"),
    ],
)
def test_a_proof_of_something_else(tenant: Tenant, changes: dict[str, Any], word: str) -> None:
    """FLEET-27, F771a: A proof for another tenant, name or key registers nothing, and says why."""
    gate = Gate(tenant, tenant.authorizer)
    if "public_key" in changes:
        # Nobody has the private key of this one.
        payload = gate.statement(**changes).encode()
        answer = gate.register(proof=gate.proof() | {"payload": base64.b64encode(payload).decode()})
    else:
        answer = gate.register(proof=gate.proof(**changes))
    assert refusal(answer) == (400, "invalid_request")
    message = answer.json()["error"]["message"]
    assert message.startswith("proof: ")
    assert word in message
    assert list(tenant.ports.store.query(authorizers(tenant.id))) == []


@pytest.mark.parametrize(
    ("seconds", "status"), [(-301, 400), (-300, 201), (0, 201), (30, 201), (31, 400)]
)
def test_a_proof_has_a_time(tenant: Tenant, seconds: int, status: int) -> None:
    """TRUST-10, F771b: A proof is five minutes old at most; the refusal says the right time."""
    gate = Gate(tenant, tenant.authorizer)
    at = tenant.ports.now() + timedelta(seconds=seconds)
    answer = gate.register(proof=gate.proof(issued_at=at))
    assert answer.status_code == status
    if status == 400:
        assert "2026-11-21T12:00:00Z" in answer.json()["error"]["message"]
        assert "clock" in answer.json()["error"]["message"]


# --- what counts ---


def test_only_signed_reports_count(tenant: Tenant, gate: Gate) -> None:
    """FLEET-27, F772a: Of an authorizer with a key nothing counts but what it signed."""
    head = published(tenant)
    assert reasoned(gate.beat_stock(srl_version=1)) == "unsigned"
    assert stored(tenant, gate.id).sequence is None
    # The fields beside it do not count, and nor does what a relay says.
    lies = {"sequence": 0, "chain": "ab" * 32, "fail_open": True, "refused": {"gap": 9}}
    signed = gate.signed(**held(head), refused={"rollback": 2})
    assert gate.beat(lies | signed).json()["status"] == "ok"
    found = stored(tenant, gate.id)
    assert (found.sequence, found.chain) == (head.sequence, head.signed_head.chain)
    assert (found.fail_open, found.refused) == (False, {"rollback": 2})
    assert found.max_staleness_seconds == 30


def test_a_report_of_another_is_refused(tenant: Tenant, gate: Gate) -> None:
    """FLEET-27, F772b: B's report for A is refused, whoever signs it, and A stays as it was."""
    other = Gate(tenant, tenant.authorizer, name="b", key=12).begin()
    head = published(tenant)
    thief = Gate(tenant, tenant.authorizer, key=12, id=gate.id)
    for fields, why in [
        (thief.signed(**held(head)), "signature"),
        (other.signed(**held(head)), "signature"),
        (gate.signed(**held(head), authorizer_id=other.id), "signature"),
        (gate.signed(**held(head), tenant_id="svc_tnt_other"), "tenant"),
        (gate.signed(refused={"A": 1}), "malformed"),
        (gate.signed(refused={"x" * 200 + str(n): 1 for n in range(20)}), "too_large"),
        ({"report": "?", "signature": "AA=="}, "malformed"),
        (gate.signed() | {"signature": "?"}, "signature"),
    ]:
        assert reasoned(gate.beat(fields)) == why
    assert stored(tenant, gate.id).number == 0
    assert gate.beat(**held(head)).status_code == 200
    assert stored(tenant, other.id).sequence is None


def test_a_report_is_not_replayed(tenant: Tenant, gate: Gate, clock: Clock) -> None:
    """FLEET-27, F773a: A report counts once; an older one never replaces a newer one."""
    old = gate.signed(fail_open=True)
    clock.advance(seconds=1)
    new = gate.signed()
    assert gate.beat(new).status_code == 200
    assert reasoned(gate.beat(new)) == "rollback"
    assert reasoned(gate.beat(old)) == "rollback"
    assert not stored(tenant, gate.id).fail_open


def test_a_late_report_does_not_prolong(tenant: Tenant, gate: Gate, clock: Clock) -> None:
    """FLEET-27, F773b: Who passes on an old report late does not make its authorizer seen later.

    It does not bring back a registration that has ended, either.
    """
    head = published(tenant)
    gate.beat()
    clock.advance(seconds=60)
    kept = gate.signed(**held(head))
    clock.advance(days=29)
    assert gate.beat(kept).status_code == 200
    assert times.format_utc(stored(tenant, gate.id).last_seen_at) == "2026-11-21T12:01:00Z"
    last = gate.signed(number=int(tenant.ports.now().timestamp() * 1000) - 28 * 86_400_000)
    clock.advance(days=2)
    assert gate.beat(last).status_code == 404
    assert gate.beat().status_code == 200


def test_a_clock_that_was_ahead(tenant: Tenant, gate: Gate, clock: Clock) -> None:
    """FLEET-27, F773c: An authorizer whose clock was years ahead goes on above its last number.

    A number that is no time at all is one, too.
    """
    for number in (4_000_000_000_000, 2**53 - 1):
        # What is no news would not be stored.
        assert gate.beat(number=number, max_staleness=number).status_code == 200
        assert stored(tenant, gate.id).last_seen_at == tenant.ports.now()
        assert reasoned(gate.beat()) == "rollback"
        assert gate.register().json()["last_number"] == number
        assert gate.beat(number=number + 1).status_code == 200


def test_reports_are_written_as_seldom_as_before(tenant: Tenant, gate: Gate, clock: Clock) -> None:
    """FLEET-4: A number and the version of the trust document alone are no news."""
    gate.beat()
    version = stored(tenant, gate.id).version
    clock.advance(seconds=269)
    assert gate.beat(trust=5).status_code == 200
    assert stored(tenant, gate.id).version == version
    clock.advance(seconds=1)
    gate.beat(trust=5)
    found = stored(tenant, gate.id)
    assert (found.version, found.trust) == (version + 1, 5)


def test_relayed_reports(tenant: Tenant, gate: Gate) -> None:
    """FLEET-7, F774a: In a batch of a relay each signed report counts or is refused by itself."""
    head = published(tenant)
    other = Gate(tenant, tenant.authorizer, name="b", key=12).begin()
    third = Gate(tenant, tenant.authorizer, name="c").begin()
    stock, fifth = (Gate(tenant, tenant.authorizer, name=name) for name in "de")
    for each in (stock, fifth):
        each.id = each.register_stock().json()["id"]
    reports = [
        {"id": gate.id, **gate.signed(**held(head)), "srl_version": 1},
        {"id": other.id, **gate.signed(**held(head))},
        {"id": third.id, "srl_version": head.sequence + 1},
        {"id": stock.id, "srl_version": head.sequence + 1, "seen_at": "2026-11-21T12:00:00Z"},
        {"id": fifth.id, **fifth.signed(**held(head))},
    ]
    body = {"relay": "site-a", "reports": reports}
    results = tenant.authorizer.post("/v1/authorizers/reports", json=body).json()["results"]
    assert [(each["status"], each["reason"]) for each in results] == [
        ("ok", None),
        ("refused", "signature"),
        ("refused", "unsigned"),
        ("ok", None),
        ("refused", "key_unverified"),
    ]
    assert stored(tenant, gate.id).relay == "site-a"
    found = [stored(tenant, each.id) for each in (gate, other, third, stock, fifth)]
    assert [each.sequence for each in found] == [head.sequence, None, None, head.sequence, None]
    assert found[3].max_staleness_seconds == 300


# --- what an operator sees ---


def test_a_proof_by_signed_reports_alone(tenant: Tenant, gate: Gate) -> None:
    """FLEET-27, F775a: A propagation is proven if nobody reports without a key."""
    head, old = published(tenant), Gate(tenant, tenant.authorizer, name="old")
    revocation = tenant.admin.get("/v1/revocations").json()["revocations"][0]["id"]
    old.id = old.register_stock().json()["id"]
    gate.beat(**held(head))
    old.beat_stock(srl_version=head.sequence + 1)
    found = proof_of(tenant, revocation)
    assert (found["is_complete"], found["is_verified"]) == (True, False)
    counts = {"total": 2, "enforced": 2, "fail_closed": 0, "unknown": 0}
    counts |= {"unsupported": 0, "key_unverified": 1}
    assert found["authorizers"] == counts
    # An upgrade of the authorizer suffices: the registration gets the key, and counts anew.
    assert old.begin().register().json()["key_verified"]
    assert proof_of(tenant, revocation)["authorizers"]["key_unverified"] == 0
    old.beat(**held(head))
    found = proof_of(tenant, revocation)
    assert (found["is_complete"], found["is_verified"]) == (True, True)


def test_what_was_said_without_a_key_does_not_count_for_it(tenant: Tenant) -> None:
    """FLEET-27, F775b: An authorizer that gets a key is unknown until it reports with it.

    The change is audited.
    """
    head, gate = published(tenant), Gate(tenant, tenant.authorizer)
    gate.id = gate.register_stock(metadata={"zone": "a"}).json()["id"]
    gate.beat_stock(srl_version=head.sequence + 1)
    made = gate.register(metadata={"zone": "b"})
    assert (made.status_code, made.json()["id"]) == (200, gate.id)
    found = stored(tenant, gate.id)
    assert (found.sequence, found.chain, found.max_staleness_seconds) == (None, b"", None)
    assert (found.metadata, found.key_verified) == ({"zone": "b"}, True)
    assert [each["details"].get("public_key") for each in entries(tenant)] == [
        None,
        gate.public_key.hex(),
    ]


# --- what ended ---


def end(tenant: Tenant, clock: Clock, client: Client) -> None:
    """Let a month pass, and the count of a day find what ended."""
    clock.advance(**_MONTH)
    counting = Gate(tenant, client, name="counting").begin()
    counting.beat()


def test_what_ended_is_remembered(tenant: Tenant, gate: Gate, clock: Clock) -> None:
    """FLEET-5, F776a: A heartbeat revives a registration that ended; this is audited.

    So a stock authorizer, which registers only at its start, counts again.
    """
    body = {"name": "stock", "public_key": "ab" * 32}
    stock = tenant.authorizer.post(f"{STOCK}/register", json=body).json()["id"]
    end(tenant, clock, tenant.admin)
    assert {row.sk for row in tenant.ports.store.query(ended_partition(tenant.id))} == {
        gate.id,
        stock,
    }
    assert tenant.admin.get(f"/v1/authorizers/{gate.id}").status_code == 404
    # Not by what it did not sign, or by another owner.
    assert reasoned(gate.beat_stock(srl_version=1)) == "unsigned"
    assert Gate(tenant, tenant.admin).beat(of=stock).status_code == 404
    path = f"{STOCK}/{stock}/heartbeat"
    assert tenant.authorizer.post(path, json={"srl_version": 1}).status_code == 200
    assert gate.beat().status_code == 200
    assert list(tenant.ports.store.query(ended_partition(tenant.id))) == []
    assert stored(tenant, stock).sequence == 0
    revived = entries(tenant)[1:]
    assert {each["resource_id"] for each in revived} == {gate.id, stock}
    assert all(each["details"]["revived"] for each in revived)
    assert tenant.admin.get("/v1/authorizers").json()["total"] == 3


def test_one_that_has_just_ended_is_revived_too(tenant: Tenant, gate: Gate, clock: Clock) -> None:
    """FLEET-5, F776b: What no list shows any more comes back with an audit entry only."""
    clock.advance(**_MONTH)
    assert gate.beat().status_code == 200
    assert [each["details"]["revived"] for each in entries(tenant)] == [True]
    clock.advance(**_MONTH)
    assert gate.register().json()["id"] == gate.id
    assert [each["details"]["revived"] for each in entries(tenant)] == [True]


def test_a_name_that_ended_is_free(tenant: Tenant, gate: Gate, clock: Clock) -> None:
    """FLEET-27, F776c: A registration that has ended does not keep its name from another key."""
    gate.beat()
    end(tenant, clock, tenant.admin)
    other = Gate(tenant, tenant.authorizer, key=12).begin()
    assert other.id == gate.id
    assert stored(tenant, gate.id).number == 0
    assert reasoned(gate.beat()) == "signature"
    assert refusal(gate.register()) == (409, "conflict")
    assert other.beat().status_code == 200


def test_what_ended_is_forgotten(tenant: Tenant, gate: Gate, clock: Clock) -> None:
    """FLEET-5, F776d: 400 days after it ended, a registration is as if it had never been."""
    end(tenant, clock, tenant.admin)
    clock.advance(days=400, seconds=-1)
    assert gate.register().json()["id"] == gate.id
    end(tenant, clock, tenant.admin)
    clock.advance(days=400)
    assert gate.beat().status_code == 404
    end(tenant, clock, tenant.admin)
    assert gate.id not in {row.sk for row in tenant.ports.store.query(ended_partition(tenant.id))}
    assert gate.register().json()["id"] != gate.id


def test_what_ended_can_be_removed(tenant: Tenant, gate: Gate, clock: Clock) -> None:
    """FLEET-19, F776e: A registration that is only remembered is removed as others are."""
    second = Gate(tenant, tenant.authorizer, name="second").begin()
    end(tenant, clock, tenant.admin)
    assert tenant.admin.delete(f"/v1/authorizers/{gate.id}").status_code == 204
    assert gate.beat().status_code == 404
    path = f"/v1/authorizers?owner={tenant.authorizer.key_id}"
    assert tenant.admin.delete(path).status_code == 204
    assert second.beat().status_code == 404
    assert list(tenant.ports.store.query(ended_partition(tenant.id))) == []


def test_a_revival_needs_room(tenant: Tenant, gate: Gate, clock: Clock) -> None:
    """FLEET-3, F777a: Nobody gets above its quota by reviving what has ended."""
    others = [Gate(tenant, tenant.authorizer, name=str(number)).begin() for number in range(2)]
    tenant.admin.request("PATCH", "/v1/tenant/settings", json={"max_authorizers": 2})
    end(tenant, clock, tenant.admin)
    for each in others:
        assert each.beat().status_code == 200
    assert gate.beat().status_code == 404
    assert refusal(gate.register()) == (429, "authorizer_limit")
    assert tenant.admin.delete(f"/v1/authorizers/{others[0].id}").status_code == 204
    assert gate.beat().status_code == 200


# --- the attacks of the review ---


@pytest.mark.slow
def test_the_201st_registration(tenant: Tenant) -> None:
    """FLEET-3, F777b: One identity registers 200 authorizers, with all its keys; then none.

    Others are not affected, and each registration has its audit entry.
    """
    account = tenant.admin.post("/v1/service-accounts", json={"name": "edge"}).json()["id"]
    keys = [tenant.client(Scope.AUTHORIZER, service_account_id=account) for _ in range(2)]
    for number in range(200):
        key = keys[number % 2]
        answer = key.post(REGISTER, json=described(key, f"false-{number}"))
        assert answer.status_code == 201
    for each in keys:
        refused = each.post(REGISTER, json=described(each, "the 201st"))
        assert refusal(refused) == (429, "authorizer_limit")
        assert "edge@acme.svc" in refused.json()["error"]["message"]
    assert Gate(tenant, tenant.authorizer).register().status_code == 201
    assert tenant.admin.get("/v1/authorizers").json()["total"] == 201
    path = "/v1/authorizers?owner=edge@acme.svc"
    assert tenant.authorizer.delete(path).status_code == 404
    assert keys[0].delete(path).status_code == 204
    assert tenant.admin.get("/v1/authorizers").json()["total"] == 1
    removed = entries(tenant, "authorizer.remove_batch")
    assert {each["resource_id"] for each in removed} == {"edge@acme.svc"}


def test_invented_identifiers(tenant: Tenant, gate: Gate) -> None:
    """FLEET-5, F777c: Invented identifiers register nothing, and spoil no proof.

    Stock authorizers get 200, as they give up after any other answer (NATIVE-6).
    """
    head = published(tenant)
    revocation = tenant.admin.get("/v1/revocations").json()["revocations"][0]["id"]
    gate.beat(**held(head))
    invented = [tenant.ports.new_id(AUTHORIZER) for _ in range(30)]
    for each in invented:
        assert gate.beat(of=each).status_code == 404
        stock = tenant.authorizer.post(f"{STOCK}/{each}/heartbeat", json={"srl_version": 1})
        assert stock.status_code == 200
    body = {"relay": "r", "reports": [{"id": each} for each in invented]}
    results = tenant.authorizer.post("/v1/authorizers/reports", json=body).json()["results"]
    assert {each["status"] for each in results} == {"not_found"}
    found = proof_of(tenant, revocation)
    assert found["authorizers"]["total"] == 1
    assert (found["is_complete"], found["is_verified"]) == (True, True)


def test_an_owner_without_authorizers_is_not_counted_again(tenant: Tenant) -> None:
    """FLEET-9, F777d: A new owner does not make the service read all registrations again."""
    tenant.admin.request("PATCH", "/v1/tenant/settings", json={"max_authorizers": 1})
    Gate(tenant, tenant.admin).begin().beat()
    for number in range(2):
        caller = replace(tenant.operator, identity=f"x{number}@acme.svc", key_id="svc_ak_x")
        script = Script()
        ports = scripted(tenant.ports, script)
        registering.register(ports, caller, description=AuthorizerDescription("gate"))
        assert "query" not in script.calls
