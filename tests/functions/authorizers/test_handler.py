"""The registry of authorizers over HTTP (FLEET-1 to FLEET-8)."""

from typing import Any

import pytest

from functions.authorizers import operations as api
from functions.authorizers import registrations
from functions.authorizers.records import (
    REGISTERED_MAX,
    OwnerRegistrationCount,
    RegistrationCounts,
    authorizers,
    ended_partition,
    of_owners,
    registered_address,
)
from shared.model import times
from shared.model.callers import Scope
from shared.model.feed import FeedHead, entry_address, head_address
from shared.model.identifiers import AUTHORIZER
from shared.model.items import Address
from shared.model.rate_limit import BURST, BucketPurpose, microseconds
from shared.operations.changes import feed as feed_api
from shared.operations.lists import publication
from shared.ports.store import Delete, Expect, Increment, Put
from tests.functions.authorizers.fleet import (
    REGISTER,
    STOCK,
    beat,
    described,
    listed,
    register,
    reported,
    stock,
    stored,
)
from tests.functions.bodies import variants
from tests.functions.signing import refusal
from tests.kit import gates
from tests.kit.api import Client, Tenant
from tests.kit.endpoints import audit_entries, audited
from tests.kit.faults import Script, scripted
from tests.kit.worlds import Clock

NOW = "2026-11-21T12:00:00Z"
FEED = "/v1/revocations/feed"


# The report of an authorizer that nobody knows.
SOMEBODY = {"id": f"svc_azr_{0:026d}"}


def numbers(tenant: Tenant) -> RegistrationCounts:
    item = tenant.ports.store.get(registered_address(tenant.id))
    return RegistrationCounts() if item is None else RegistrationCounts.from_item(item)


def published(tenant: Tenant) -> FeedHead:
    """A new entry of the feed, after its base."""
    tenant.revoke(tenant.ports.new_id("wrt"))
    publication.publish_feed(tenant.ports, tenant.id)
    return feed_api.news(tenant.ports, tenant.operator).head


def test_a_registration(tenant: Tenant) -> None:
    """FLEET-2: A registration says when to report, and the same one again has the same id.

    It stores the present description, and leaves no audit entry.
    """
    body = described(tenant.authorizer, type="rescind", version="1")
    first = tenant.authorizer.post(REGISTER, json=body | {"metadata": {"zone": "a"}})
    assert first.status_code == 201
    made = first.json()
    assert made["id"].startswith("svc_azr_")
    pace = {"report_after_seconds": 300, "jitter_seconds": 0}
    assert made == {"id": made["id"], "key_verified": True, "last_number": 0, **pace}
    assert (numbers(tenant).count, numbers(tenant).polling) == (1, 1)
    count = audited(tenant)
    again = tenant.authorizer.post(REGISTER, json=body | {"version": "2", "relay": "r"})
    assert (again.status_code, again.json()) == (200, made)
    found = stored(tenant, made["id"])
    assert (found.program_version, found.metadata, found.relay) == ("2", {}, "r")
    assert (numbers(tenant).count, numbers(tenant).polling) == (1, 0)
    assert audited(tenant) == count


def test_an_owner_has_one_authorizer_of_a_name(tenant: Tenant) -> None:
    """FLEET-1, FLEET-2: Another name, public key or owner is another authorizer.

    The API keys of one service account are one owner.
    """
    account = tenant.admin.post("/v1/service-accounts", json={"name": "edge"}).json()["id"]
    old, new = (tenant.client(Scope.AUTHORIZER, service_account_id=account) for _ in range(2))
    first = register(old)
    assert register(new) == first
    assert beat(new, first, sequence=0).status_code == 200
    others = {register(old, "edge-2"), register(tenant.admin)}
    others |= {stock(new, public_key=each * 32) for each in ("ab", "cd", "ab")}
    assert len(others | {first}) == 5
    assert numbers(tenant).count == 5


def test_a_heartbeat_is_stored(tenant: Tenant, clock: Clock) -> None:
    """FLEET-4: A heartbeat stores what the authorizer holds and how it acts without news."""
    made = register(tenant.authorizer)
    listed(tenant)
    head = published(tenant)
    fields = {
        "sequence": head.sequence,
        "verified_at": times.parse("2026-11-21T11:59:58Z"),
        "fail_open": True,
        "refused": {"rollback": 2},
    }
    clock.advance(seconds=1)
    answer = beat(tenant.authorizer, made, **fields, max_staleness=30)
    assert answer.json() == {
        "status": "ok",
        "feed_sequence": head.sequence,
        "srl_version": head.sequence + 1,
        "report_after_seconds": 300,
        "jitter_seconds": 0,
    }
    found = stored(tenant, made)
    assert {name: getattr(found, name) for name in fields} == fields
    assert (found.chain, found.max_staleness_seconds) == (head.signed_head.chain, 30)
    assert times.format_utc(found.last_seen_at) == "2026-11-21T12:00:01Z"


def test_a_heartbeat_without_news_is_rarely_stored(tenant: Tenant, clock: Clock) -> None:
    """F252a: Heartbeats that report nothing new are stored once in 270 seconds at most."""
    made = register(tenant.authorizer)
    listed(tenant)
    beat(tenant.authorizer, made, sequence=0)
    version = stored(tenant, made).version
    clock.advance(seconds=269)
    beat(tenant.authorizer, made, sequence=0, refused={"gap": 1}, verified_at=times.parse(NOW))
    assert stored(tenant, made).version == version
    clock.advance(seconds=1)
    beat(tenant.authorizer, made, sequence=0)
    assert stored(tenant, made).version == version + 1


@pytest.mark.parametrize(
    "news",
    [
        {"sequence": None},
        {"sequence": 7},
        {"sequence": 0, "chain": "ab" * 32},
        {"sequence": 0, "max_staleness": 5},
        {"sequence": 0, "fail_open": True},
    ],
)
def test_a_heartbeat_with_news_is_stored_at_once(tenant: Tenant, news: dict[str, Any]) -> None:
    """FLEET-4: Another sequence, chain or policy than the last one is stored at once."""
    made = register(tenant.authorizer)
    listed(tenant)
    beat(tenant.authorizer, made, sequence=0)
    version = stored(tenant, made).version
    beat(tenant.authorizer, made, **news)
    assert stored(tenant, made).version == version + 1


def test_times_in_the_future_count_as_now(tenant: Tenant) -> None:
    """F253a: An authorizer whose clock is ahead cannot seem to be verified in the future."""
    made = register(tenant.authorizer)
    beat(tenant.authorizer, made, sequence=0, verified_at=times.parse("2036-11-21T12:00:00Z"))
    assert stored(tenant, made).verified_at == tenant.ports.now()


def test_only_the_owner_reports(tenant: Tenant, other_tenant: Tenant) -> None:
    """F254a: A heartbeat for the authorizer of another owner is 404, and stores nothing."""
    made = register(tenant.authorizer)
    before = stored(tenant, made)
    for caller in (tenant.admin, tenant.client(Scope.AUTHORIZER)):
        assert refusal(beat(caller, made, sequence=0)) == (404, "not_found")
    assert stored(tenant, made) == before
    assert refusal(beat(other_tenant.authorizer, made, sequence=0)) == (404, "not_found")
    assert stored(tenant, made) == before


def test_an_identifier_that_was_never_issued_registers_nothing(tenant: Tenant) -> None:
    """FLEET-5, F255a: A heartbeat or report for an unknown identifier is 404 and stores nothing."""
    unknown = [tenant.ports.new_id(AUTHORIZER) for _ in range(3)]
    count = audited(tenant)
    for caller in (tenant.authorizer, tenant.admin):
        assert refusal(beat(caller, unknown[0], sequence=0)) == (404, "not_found")
    results = report(tenant.authorizer, *({"id": each} for each in unknown)).json()["results"]
    assert [each["status"] for each in results] == ["not_found"] * 3
    assert (numbers(tenant).count, audited(tenant)) == (0, count)
    assert list(tenant.ports.store.query(authorizers(tenant.id))) == []


def test_a_full_tenant_refuses_in_a_way_that_clients_retry(tenant: Tenant) -> None:
    """F256a: A tenant has at most 20,000 authorizers; the next one is asked to come back."""
    made = register(tenant.authorizer)
    beat(tenant.authorizer, made, sequence=0)
    address = registered_address(tenant.id)
    tenant.ports.store.write(Increment(address, {"count": REGISTERED_MAX - 1}, Expect.PRESENT))
    refused = tenant.authorizer.post(REGISTER, json=described(tenant.authorizer, "new"))
    assert refusal(refused) == (429, "authorizer_limit")
    assert int(refused.headers["Retry-After"]) >= 60
    assert register(tenant.authorizer) == made
    answer = beat(tenant.authorizer, made, sequence=0).json()
    assert (answer["report_after_seconds"], answer["jitter_seconds"]) == (400, 100)


@pytest.mark.parametrize(
    "body",
    [
        *variants({}, "name", "", " ", "a\nb", "é" * 128, 5, None),
        *variants({}, "type", "", "x" * 65, 5),
        *variants({}, "metadata", [], {"a": 1}, {"": "a"}, {"a": "\x00b"}),
        {"metadata": {"a": "x" * 512}},
        {"relay": "x" * 65},
        *variants({}, "proof", None, {}, "x"),
    ],
)
def test_a_malformed_registration(standing: Tenant, body: dict[str, Any]) -> None:
    """FLEET-3: A registration that breaks a limit is refused with 400, and registers nothing."""
    good = described(standing.authorizer)
    answer = standing.authorizer.post(REGISTER, json=good | body)
    assert refusal(answer) == (400, "invalid_request")
    assert numbers(standing).count == 0
    for each in good:
        rest = {name: value for name, value in good.items() if name != each}
        answer = standing.authorizer.post(REGISTER, json=rest)
        assert refusal(answer) == (400, "invalid_request")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"sequence": 1},
        {"report": "AA=="},
        {"signature": "AA=="},
        *variants({"signature": "AA=="}, "report", None, 5, "A" * 8193),
        *variants({"report": "AA=="}, "signature", None, 5, "A" * 8193),
    ],
)
def test_a_malformed_heartbeat(standing: Tenant, body: dict[str, Any]) -> None:
    """FLEET-27: A heartbeat without a report or a signature is refused with 400."""
    path = f"/v1/authorizers/{standing.ports.new_id(AUTHORIZER)}/heartbeat"
    answer = standing.authorizer.post(path, json=body)
    assert refusal(answer) == (400, "invalid_request")
    assert numbers(standing).count == 0


def test_unknown_fields_are_ignored(tenant: Tenant) -> None:
    """FLEET-7: Unknown fields of a registration and of a heartbeat are ignored."""
    made = register(tenant.authorizer, environment="production", agent_id=None)
    body = reported(tenant.authorizer, made) | {"metrics": {"requests": 5}, "sequence": "x"}
    answer = tenant.authorizer.post(f"/v1/authorizers/{made}/heartbeat", json=body)
    assert answer.status_code == 200


def test_the_longest_registration_is_small(tenant: Tenant) -> None:
    """F257a: No registration is larger than 2.25 KB, whatever is registered and reported."""
    made = register(
        tenant.authorizer,
        "é" * 127,
        type="t" * 64,
        version="v" * 64,
        relay="r" * 64,
        metadata={"k" * 12: "v" * 250, "l" * 12: "v" * 238},
    )
    listed(tenant)
    refused = {chr(97 + number) * 16: 2**53 for number in range(20)}
    told = {"chain": "cd" * 32, "refused": refused, "verified_at": times.parse(NOW)}
    assert beat(tenant.authorizer, made, sequence=2**53, **told).status_code == 200
    item = tenant.ports.store.get(authorizers(tenant.id).address(made))
    assert item is not None
    # The longest identity of an owner has 90 bytes more than this one.
    assert sum(map(_size, item.items())) + 90 <= 2304


def _size(member: Any) -> int:
    """About the bytes that DynamoDB counts of a member, which is a pair of name and value."""
    name, value = member
    of = 11 if type(value) is int else len(str(value).encode())
    return len(name) + (sum(map(_size, value.items())) + 3 if type(value) is dict else of)


# --- chains ---


def test_chains_of_the_feed_are_no_news(tenant: Tenant) -> None:
    """FLEET-6: The chain of the feed is accepted at the base, at the head, and between."""
    made, heads = register(tenant.authorizer), [listed(tenant)]
    heads += [published(tenant) for _ in range(3)]
    for head in heads:
        answer = beat(
            tenant.authorizer, made, sequence=head.sequence, chain=head.signed_head.chain.hex()
        )
        assert (answer.json()["status"], answer.json()["feed_sequence"]) == ("ok", 3)


@pytest.mark.parametrize("sequence", [0, 1, 2, 3])
def test_a_chain_that_is_not_ours(tenant: Tenant, sequence: int) -> None:
    """F258a: An authorizer with other entries than the service published is equivocating."""
    made = register(tenant.authorizer)
    listed(tenant)
    for _ in range(3):
        published(tenant)
    answer = beat(tenant.authorizer, made, sequence=sequence, chain="ab" * 32)
    assert answer.json()["status"] == "equivocation"
    assert stored(tenant, made).equivocation


def test_a_sequence_that_was_not_published(tenant: Tenant) -> None:
    """F258b: An authorizer that holds more than the service published is equivocating."""
    made = register(tenant.authorizer)
    listed(tenant)
    assert beat(tenant.authorizer, made, sequence=1).json()["status"] == "equivocation"
    assert beat(tenant.authorizer, made, sequence=0).json()["status"] == "ok"


def test_a_chain_from_long_ago(tenant: Tenant) -> None:
    """FLEET-6: If a chain cannot be compared any more, the last result for it stays."""
    made, forged = register(tenant.authorizer), register(tenant.authorizer, "forged")
    listed(tenant)
    head = published(tenant)
    ours = {"sequence": 1, "chain": head.signed_head.chain.hex()}
    beat(tenant.authorizer, forged, sequence=1, chain="ab" * 32)
    published(tenant)
    tenant.ports.store.write(Delete(entry_address(tenant.id, 1), Expect.PRESENT))
    assert beat(tenant.authorizer, made, **ours).json()["status"] == "ok"
    answer = beat(tenant.authorizer, forged, sequence=1, chain="ab" * 32)
    assert answer.json()["status"] == "equivocation"
    assert beat(tenant.authorizer, forged, **ours).json()["status"] == "ok"


def test_heartbeats_before_the_first_list(tenant: Tenant) -> None:
    """FLEET-4: Before the first list there is nothing to hold, and nobody equivocates."""
    tenant.ports.store.write(Delete(head_address(tenant.id), Expect.PRESENT))
    made = register(tenant.authorizer)
    answer = beat(tenant.authorizer, made, sequence=3, chain="ab" * 32).json()
    said = [answer[name] for name in ("status", "feed_sequence", "srl_version")]
    assert said == ["ok", 0, 0]


# --- list, get, remove ---


def test_reading_authorizers(tenant: Tenant) -> None:
    """API-7: Get and list return authorizers with exactly the fields of the contract."""
    made = [register(tenant.authorizer, f"edge-{number}") for number in range(3)]
    refused = {"gap": 1}
    beat(tenant.authorizer, made[2], sequence=0, chain="ff" * 32, max_staleness=30, refused=refused)
    page = tenant.read_only.get("/v1/authorizers?limit=2").json()
    assert [each["id"] for each in page["authorizers"]] == [made[2], made[1]]
    assert page["total"] == 3
    rest = tenant.read_only.get(f"/v1/authorizers?limit=2&cursor={page['cursor']}").json()
    assert ([each["id"] for each in rest["authorizers"]], rest["cursor"]) == ([made[0]], None)
    found = tenant.read_only.get(f"/v1/authorizers/{made[2]}").json()
    assert found == page["authorizers"][0]
    assert found == {
        "id": made[2],
        "name": "edge-2",
        **dict.fromkeys(["type", "version", "relay", "verified_at"]),
        "public_key": gates.KEY.public_key().public_bytes_raw().hex(),
        "metadata": {},
        "features": [],
        "owner": f"{tenant.authorizer.key_id}@acme.svc",
        **dict.fromkeys(["registered_at", "last_seen_at"], NOW),
        "sequence": 0,
        "chain": "ff" * 32,
        "max_staleness_seconds": 30,
        "refused": refused,
        "fail_open": False,
        "equivocation": True,
        "api_key_id": tenant.authorizer.key_id,
        "key_verified": True,
        "trust_version": 0,
    }


def test_an_authorizer_that_is_not_heard_of_ends(tenant: Tenant, clock: Clock) -> None:
    """F255b: After 30 days without a heartbeat an authorizer is in no list, and can return.

    It can until the next count removes it.
    """
    made = register(tenant.authorizer)
    clock.advance(days=30, seconds=-1)
    assert tenant.admin.get(f"/v1/authorizers/{made}").status_code == 200
    clock.advance(seconds=1)
    assert refusal(tenant.admin.get(f"/v1/authorizers/{made}")) == (404, "not_found")
    assert tenant.admin.get("/v1/authorizers").json()["authorizers"] == []
    assert beat(tenant.authorizer, made, sequence=0).status_code == 200
    assert tenant.admin.get(f"/v1/authorizers/{made}").json()["name"] == "edge-1"


def test_a_removed_authorizer(tenant: Tenant, clock: Clock) -> None:
    """FLEET-5, F259a: A heartbeat never brings back an authorizer that was removed.

    Its owner can register it again, by another identifier.
    """
    made = register(tenant.authorizer)
    assert tenant.admin.delete(f"/v1/authorizers/{made}").status_code == 204
    assert numbers(tenant).count == 0
    for days in (0, 31):
        clock.advance(days=days)
        for answer in (
            tenant.admin.delete(f"/v1/authorizers/{made}"),
            tenant.admin.get(f"/v1/authorizers/{made}"),
            beat(tenant.authorizer, made, sequence=0),
        ):
            assert refusal(answer) == (404, "not_found")
        again = register(tenant.authorizer)
        assert again != made
        assert beat(tenant.authorizer, again, sequence=0).status_code == 200
        assert numbers(tenant).count == 1


def test_who_removes_an_authorizer(tenant: Tenant) -> None:
    """FLEET-1: Its owner removes an authorizer, or an administrator; to others it is not there."""
    made, other = register(tenant.authorizer), tenant.client(Scope.AUTHORIZER)
    assert refusal(other.delete(f"/v1/authorizers/{made}")) == (404, "not_found")
    assert tenant.authorizer.delete(f"/v1/authorizers/{made}").status_code == 204
    (entry,) = [each for each in audit_entries(tenant) if each["action"] == "authorizer.remove"]
    assert (entry["resource_id"], entry["actor_key_id"]) == (made, tenant.authorizer.key_id)


# --- the quota of a key ---


def test_an_owner_registers_no_more_than_its_quota(tenant: Tenant, clock: Clock) -> None:
    """FLEET-3, F561a: One API key cannot fill the registry; other keys still register."""
    thief = tenant.client(Scope.AUTHORIZER)
    tenant.admin.request("PATCH", "/v1/tenant/settings", json={"max_authorizers": 3})
    made = [register(thief, f"false-{number}") for number in range(3)]
    beat(thief, made[0], sequence=0)
    refused = thief.post(REGISTER, json=described(thief, "false-3"))
    assert (refusal(refused), refused.headers["Retry-After"]) == ((429, "authorizer_limit"), "300")
    assert "max_authorizers" in refused.json()["error"]["message"]
    refused = thief.post(f"{STOCK}/register", json={"name": "stock"})
    assert refusal(refused) == (429, "authorizer_limit")
    assert register(thief, "false-0") == made[0]
    assert numbers(tenant).count == 3
    register(tenant.authorizer)
    # Whoever is removed makes room, and so does whatever ended.
    tenant.admin.delete(f"/v1/authorizers/{made[0]}")
    register(thief, "false-3")
    clock.advance(days=30)
    assert refusal(thief.post(REGISTER, json=described(thief, "a"))) == (429, "authorizer_limit")
    assert thief.post(REGISTER, json=described(thief, "a")).status_code == 201


def test_lost_counts_are_made_again(tenant: Tenant) -> None:
    """F261b, F561b: If the count is lost, the next heartbeat counts the authorizers.

    It also corrects how many each owner has registered.
    """
    made = register(tenant.authorizer)
    register(tenant.admin)
    addresses = [counter_of(tenant, each) for each in (tenant.authorizer, tenant.admin)]
    tenant.ports.store.write(
        Increment(addresses[0], {"count": 70, "version": 1}, Expect.PRESENT),
        Delete(addresses[1], Expect.PRESENT),
        Delete(registered_address(tenant.id), Expect.PRESENT),
    )
    beat(tenant.authorizer, made, sequence=0)
    assert (numbers(tenant).count, numbers(tenant).polling) == (2, 2)
    items = tenant.ports.store.get_many(addresses)
    assert [OwnerRegistrationCount.from_item(items[each]).count for each in addresses] == [1, 1]


# --- all of a key ---


def counter_of(tenant: Tenant, owner: Client) -> Address:
    return of_owners(tenant.id).address(owner.get("/v1/whoami").json()["identity"])


def of_key(client: Client, key_id: str) -> Any:
    return client.delete(f"/v1/authorizers?owner={key_id}")


def test_all_that_a_key_registered_is_removed_at_once(tenant: Tenant) -> None:
    """FLEET-19, F561c: One request removes the registrations of a stolen key, and no others."""
    thief, honest = tenant.client(Scope.AUTHORIZER), register(tenant.authorizer)
    false = [register(thief, f"false-{number}") for number in range(70)]
    before = tenant.admin.get("/v1/authorizers").json()["total"]
    assert of_key(tenant.admin, thief.key_id).status_code == 204
    assert (before, numbers(tenant).count) == (71, 1)
    assert [row.sk for row in tenant.ports.store.query(authorizers(tenant.id))] == [honest]
    batch = "authorizer.remove_batch"
    entries = [each for each in audit_entries(tenant) if each["action"] == batch]
    assert {each["resource_id"] for each in entries} == {thief.key_id}
    details: list[Any] = [entry["details"] for entry in entries]
    named = {of["id"] for each in details for of in each["authorizers"]}
    assert named == set(false)
    # Nothing is left, and that is no error.
    assert of_key(tenant.admin, thief.key_id).status_code == 204


def test_many_authorizers_of_a_key_are_removed_in_steps(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FLEET-19: A request that leaves some asks to be repeated, until none is left."""
    monkeypatch.setattr(api, "_REMOVED_MAX", 40)
    for number in range(70):
        register(tenant.authorizer, f"edge-{number}")
    first = of_key(tenant.authorizer, tenant.authorizer.key_id)
    assert (refusal(first), first.headers["Retry-After"]) == ((429, "rate_limited"), "1")
    assert numbers(tenant).count == 30
    assert of_key(tenant.authorizer, tenant.authorizer.key_id).status_code == 204
    assert numbers(tenant).count == 0


def test_who_removes_all_of_a_key(tenant: Tenant) -> None:
    """FLEET-19: Only an administrator removes what another owner registered."""
    made = register(tenant.authorizer)
    other = tenant.client(Scope.AUTHORIZER)
    assert refusal(of_key(other, tenant.authorizer.key_id)) == (404, "not_found")
    for wrong in ("", "x", made):
        assert refusal(of_key(tenant.admin, wrong)) == (400, "invalid_request")
    assert of_key(other, other.key_id).status_code == 204
    assert numbers(tenant).count == 1


# --- the count ---


def test_a_wrong_count_is_corrected(tenant: Tenant, clock: Clock) -> None:
    """FLEET-9, F261a: A wrong count of authorizers is corrected within a day, by a heartbeat."""
    made = register(tenant.authorizer)
    register(tenant.authorizer, "relayed", relay="r")
    beat(tenant.authorizer, made, sequence=0)
    wrong = Increment(registered_address(tenant.id), {"count": -7, "polling": -9}, Expect.PRESENT)
    tenant.ports.store.write(wrong)
    clock.advance(days=1, seconds=-1)
    beat(tenant.authorizer, made, sequence=0)
    assert (numbers(tenant).count, numbers(tenant).polling) == (-5, -8)
    listed(tenant)
    assert tenant.authorizer.get(FEED).json()["poll_seconds"] == 1
    assert beat(tenant.authorizer, made, sequence=0).json()["jitter_seconds"] == 0
    clock.advance(seconds=1)
    beat(tenant.authorizer, made, sequence=0)
    assert (numbers(tenant).count, numbers(tenant).polling) == (2, 1)


def test_what_ended_is_removed(tenant: Tenant, clock: Clock) -> None:
    """F255c: The daily count removes registrations that ended, and no other."""
    gone = [register(tenant.authorizer, f"edge-{number}") for number in range(52)]
    clock.advance(days=15)
    made = register(tenant.authorizer)
    clock.advance(days=15)
    beat(tenant.authorizer, made, sequence=0)
    assert [row.sk for row in tenant.ports.store.query(authorizers(tenant.id))] == [made]
    assert (numbers(tenant).count, numbers(tenant).polling) == (1, 1)
    assert len(list(tenant.ports.store.query(ended_partition(tenant.id)))) == 51
    # Their names still lead to them.
    assert register(tenant.authorizer, "edge-0") == gone[0]
    assert numbers(tenant).count == 2


def test_a_full_tenant_finds_room_again(tenant: Tenant, clock: Clock) -> None:
    """F256b: A tenant is full only as long as it has that many authorizers that are running."""
    made = register(tenant.authorizer)
    beat(tenant.authorizer, made, sequence=0)
    address = registered_address(tenant.id)
    tenant.ports.store.write(Increment(address, {"count": REGISTERED_MAX}, Expect.PRESENT))
    new = described(tenant.authorizer, "new")
    assert tenant.authorizer.post(REGISTER, json=new).status_code == 429
    clock.advance(minutes=10)
    new = described(tenant.authorizer, "new")
    assert tenant.authorizer.post(REGISTER, json=new).status_code == 429
    assert tenant.authorizer.post(REGISTER, json=new).status_code == 201


def test_a_registration_during_the_count(tenant: Tenant) -> None:
    """F261c: A count that meets a registration or another count leaves both as they are."""
    made = register(tenant.authorizer)
    before = numbers(tenant)
    register(tenant.authorizer, "edge-2")
    registrations.recount(tenant.ports, tenant.id, before)
    assert numbers(tenant).counted_at is None
    beat(tenant.authorizer, made, sequence=0)
    assert (numbers(tenant).count, numbers(tenant).counted_at) == (2, tenant.ports.now())
    # One that comes between the claim of the count and the count is not counted twice.
    script = Script(before={1: lambda: register(tenant.authorizer, "edge-3")})
    registrations.recount(scripted(tenant.ports, script), tenant.id, numbers(tenant))
    assert script.calls[:3] == ["write", "query", "write"]
    assert numbers(tenant).count == 3


# --- relays ---


def told(client: Client, authorizer_id: str, **changes: Any) -> dict[str, Any]:
    """What a relay passes on of an authorizer."""
    return {"id": authorizer_id, **reported(client, authorizer_id, **changes)}


def report(client: Client, *reports: dict[str, Any], relay: str = "site-a") -> Any:
    body = {"relay": relay, "reports": list(reports)}
    return client.post("/v1/authorizers/reports", json=body)


def test_a_relay_reports_for_many(tenant: Tenant) -> None:
    """F260a: Each report of a relay is taken, or not, by itself, as a heartbeat would be."""
    relay = tenant.client(Scope.AUTHORIZER)
    listed(tenant)
    head = published(tenant)
    made = [register(relay, f"edge-{number}", relay="site-a") for number in range(3)]
    removed, foreign = register(relay, "removed"), register(tenant.authorizer, "of another")
    tenant.admin.delete(f"/v1/authorizers/{removed}")
    unknown = tenant.ports.new_id(AUTHORIZER)
    answer = report(
        relay,
        told(relay, made[0], sequence=head.sequence),
        told(relay, made[1], sequence=head.sequence, chain="ab" * 32),
        told(relay, made[2], sequence=0) | {"seen_at": "2026-11-21T11:59:00Z", "x": 1},
        *(told(relay, each, sequence=head.sequence) for each in (removed, foreign, unknown)),
    ).json()
    assert [each["status"] for each in answer.pop("results")] == [
        *["ok", "equivocation", "ok"],
        *["not_found", "not_found", "not_found"],
    ]
    assert answer == {
        "feed_sequence": 1,
        "srl_version": 2,
        "report_after_seconds": 300,
        "jitter_seconds": 0,
    }
    assert [stored(tenant, each).sequence for each in made] == [1, 1, 0]
    # Those of the relay do not poll.
    assert (numbers(tenant).count, numbers(tenant).polling) == (4, 1)


def test_a_relay_reports_when_it_heard(tenant: Tenant, clock: Clock) -> None:
    """F253b: A relay cannot report that it heard of an authorizer later than now, or go back."""
    relay = tenant.client(Scope.AUTHORIZER)
    made = register(relay)
    clock.advance(seconds=60)
    for number, (heard, expected) in enumerate(
        [("12:00:30", "12:00:30"), ("12:00:10", "12:00:30"), ("23:59:59", "12:01:00")]
    ):
        report(relay, told(relay, made, sequence=number) | {"seen_at": f"2026-11-21T{heard}Z"})
        assert times.format_utc(stored(tenant, made).last_seen_at) == f"2026-11-21T{expected}Z"


def test_who_reports_is_who_polls(tenant: Tenant) -> None:
    """FLEET-8: An authorizer polls by itself from the moment at which it reports by itself."""
    made = register(tenant.authorizer)
    for reported_by, polling in (("site-a", 0), ("site-b", 0), (None, 1), ("site-a", 0)):
        if reported_by:
            report(tenant.authorizer, told(tenant.authorizer, made, sequence=0), relay=reported_by)
        else:
            beat(tenant.authorizer, made, sequence=0)
        assert (numbers(tenant).count, numbers(tenant).polling) == (1, polling)


@pytest.mark.parametrize(
    "body",
    [
        {"relay": "r"},
        {"reports": [SOMEBODY]},
        *variants({"reports": [SOMEBODY]}, "relay", "", "x" * 65, 5),
        *variants({"relay": "r"}, "reports", [], [{}], ["a"], [{"id": 5}], [SOMEBODY] * 2),
        *variants({"relay": "r"}, "reports", [{"id": "a"}]),
        {"relay": "r", "reports": [{"id": f"svc_azr_{each:026d}"} for each in range(101)]},
        {"relay": "r", "reports": [SOMEBODY | {"seen_at": "now"}]},
        {"relay": "r", "reports": [SOMEBODY | {"srl_version": -1}]},
        {"relay": "r", "reports": [SOMEBODY | {"report": 5}]},
    ],
)
def test_malformed_reports(standing: Tenant, body: dict[str, Any]) -> None:
    """FLEET-7: Reports that break a limit are refused with 400."""
    answer = standing.authorizer.post("/v1/authorizers/reports", json=body)
    assert refusal(answer) == (400, "invalid_request")


# --- the present state ---


def test_the_state_of_the_fleet(tenant: Tenant, clock: Clock) -> None:
    """FLEET-28, FLEET-29, F1374a: The summary has an ETag; rows have the proof, then the news."""
    head = listed(tenant)
    first, second = (register(tenant.admin, name) for name in ("a", "b"))
    beat(tenant.admin, first, sequence=head.sequence, max_staleness=30)
    answer = tenant.admin.get("/v1/authorizers/summary")
    told = {
        "sequence": 0,
        "total": 2,
        "enforced": 1,
        "fail_closed": 0,
        "unknown": 1,
        "missed_heartbeat": 0,
    }
    assert answer.json().items() >= told.items()
    tag = {"If-None-Match": answer.headers["ETag"]}
    assert tenant.admin.get("/v1/authorizers/summary", headers=tag).status_code == 304
    whole = tenant.admin.get("/v1/authorizers?include=enforcement").json()
    proofs = {
        each["id"]: (each["enforcement"], each.get("lag_entries")) for each in whole["authorizers"]
    }
    assert proofs == {first: ("enforced", 0), second: ("unknown", None)}
    assert (whole["sequence"], whole["removed"], whole["total"]) == (0, [], 2)
    clock.advance(minutes=3)
    assert tenant.admin.delete(f"/v1/authorizers/{second}").status_code == 204
    beat(tenant.admin, first, sequence=head.sequence, max_staleness=60)
    news = f"/v1/authorizers?include=enforcement&changed_since={whole['changed_since']}"
    found = tenant.admin.get(news).json()
    assert [each["id"] for each in found["authorizers"]] == [first]
    assert found["removed"] == [second]
    assert tenant.admin.get("/v1/authorizers/summary", headers=tag).status_code == 200
    clock.advance(hours=2)
    gone = tenant.admin.get(news)
    assert (gone.status_code, gone.json()["error"]["code"]) == (410, "gone")
    wrong = ("include=enforcement&changed_since=x", f"changed_since={whole['changed_since']}")
    for query in (*wrong, "include=names"):
        assert tenant.admin.get(f"/v1/authorizers?{query}").status_code == 400


# --- the pace of polls ---


@pytest.mark.parametrize(
    ("polling", "seconds"),
    [(0, 1), (200, 1), (201, 5), (1_000, 5), (1_001, 10), (6_000, 10), (6_001, 15)],
)
def test_many_authorizers_poll_less_often(
    tenant: Tenant, clock: Clock, polling: int, seconds: int
) -> None:
    """FLEET-8: The more authorizers poll, the longer the pauses that the service asks for.

    Authorizers behind a relay do not count.
    """
    listed(tenant)
    assert tenant.authorizer.get(FEED).json()["poll_seconds"] == 1
    more = {"count": 5_000, "polling": polling, "version": 1}
    tenant.ports.store.write(Increment(registered_address(tenant.id), more, Expect.ANYTHING))
    clock.advance(seconds=59)
    assert tenant.authorizer.get(FEED).json()["poll_seconds"] == 1
    clock.advance(seconds=1)
    assert tenant.authorizer.get(FEED).json()["poll_seconds"] == seconds


def test_a_damaged_count_does_not_stop_polls(tenant: Tenant, clock: Clock) -> None:
    """F252b: If the number of authorizers cannot be read, they can still poll the feed."""
    listed(tenant)
    address = registered_address(tenant.id)
    item = RegistrationCounts(count=300, polling=300, version=1).to_item()
    tenant.ports.store.write(Put(address, item, Expect.ABSENT))
    assert tenant.authorizer.get(FEED).json()["poll_seconds"] == 5
    tenant.ports.store.write(Put(address, {"count": "many"}, Expect.PRESENT))
    clock.advance(minutes=1)
    assert tenant.authorizer.get(FEED).json()["poll_seconds"] == 5
    assert tenant.client(Scope.AUTHORIZER).get(FEED).status_code == 200


@pytest.mark.parametrize("emptied", [BucketPurpose.HEARTBEATS, BucketPurpose.REQUESTS])
def test_heartbeats_have_a_bucket_of_their_own(tenant: Tenant, emptied: BucketPurpose) -> None:
    """AUTH-12: Heartbeats and other requests cannot use up the tokens of each other."""
    now, made = microseconds(tenant.ports.now()), register(tenant.admin)
    tenant.ports.buckets.lease(emptied.bucket(tenant.id), BURST, now=now, reserve=0)
    statuses = {
        purpose: {answer.status_code for answer in answers}
        for purpose, answers in {
            BucketPurpose.HEARTBEATS: [
                tenant.admin.post(REGISTER, json=described(tenant.admin)),
                beat(tenant.admin, made, sequence=0),
                report(tenant.admin, SOMEBODY),
            ],
            BucketPurpose.REQUESTS: [
                tenant.admin.get("/v1/authorizers"),
                tenant.admin.get("/v1/revocations/check?warrant_id=svc_wrt_a"),
            ],
        }.items()
    }
    assert statuses.pop(emptied) == {429}
    assert all(found <= {200, 201} for found in statuses.values())
