"""Usage counts of API keys: exact for a quiet key, cheap for a busy one, and never in the way."""

import logging
from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise

import pytest
from starlette.types import ASGIApp, Message
from starlette.types import Scope as Exchange

from shared.adapters.stored_usage import StoreUsageCounts
from shared.errors import Unavailable
from shared.model import api_keys as model
from shared.model.api_keys import Usage
from shared.model.callers import Caller, Scope
from shared.operations.access import api_keys
from shared.ports import Ports
from shared.ports.token_buckets import UsageDelta
from shared.web.authentication import UsageCounter
from shared.web.work import result_of
from tests.kit.api import Client, Tenant, serve
from tests.kit.asgi import request_scope, run
from tests.kit.faults import Script, scripted
from tests.kit.worlds import Clock

LOGGER = "shared.web.authentication"


def caller(tenant: Tenant, client: Client) -> Caller:
    return replace(tenant.operator, key_id=client.key_id)


def used(tenant: Tenant, client: Client) -> Usage:
    """What the store says of how the client's key was used."""
    item = tenant.ports.store.get(model.usage(tenant.id).address(client.key_id))
    assert item is not None
    return replace(Usage.from_item(item), digest=None)


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def watched(tenant: Tenant, script: Script) -> Ports:
    """The tenant's ports, with a script around each call to the store."""
    ports = scripted(tenant.ports, script)
    return replace(ports, usage=StoreUsageCounts(ports.store))


# --- exact counts ---


@pytest.mark.parametrize("instances", [1, 2])
def test_a_key_used_up_to_once_a_second_is_counted_at_once(
    tenant: Tenant, clock: Clock, instances: int
) -> None:
    """Each request of a quiet key is in the figures when it is answered, on any instance."""
    clients = [Client(serve(tenant.ports), tenant.authorizer.secret) for _ in range(instances)]
    assert used(tenant, tenant.authorizer) == Usage()
    for number in range(1, 7):
        clock.advance(seconds=1)
        clients[number % instances].get("/nowhere")
        assert used(tenant, tenant.authorizer) == Usage(number, clock())


def test_what_is_refused_with_a_key_counts_and_what_is_not_admitted_does_not(
    tenant: Tenant, clock: Clock
) -> None:
    """403 and 404 are uses of a key; 429 is none, and neither is a key that does not open."""
    for path in ("/v1/api-keys", "/nowhere"):
        clock.advance(seconds=1)
        assert tenant.authorizer.get(path).status_code in {403, 404}
    clock.advance(seconds=1)
    now = round(clock().timestamp() * 1_000_000)
    tenant.ports.buckets.lease(tenant.id, 2000, now=now)
    assert tenant.authorizer.get("/nowhere").status_code == 429
    assert used(tenant, tenant.authorizer).request_count == 2
    clock.advance(seconds=2)
    api_keys.revoke(tenant.ports, tenant.operator, key_id=tenant.authorizer.key_id)
    assert tenant.authorizer.get("/nowhere").status_code == 401
    assert used(tenant, tenant.authorizer).request_count == 2


# --- cost ---


def test_a_busy_key_is_written_once_a_second(
    tenant: Tenant, watched: Ports, script: Script, clock: Clock
) -> None:
    """An instance writes a key at most once in any second, however busy it is."""
    counter, written = UsageCounter(), list[datetime]()
    for _ in range(2500):
        before = script.calls.count("write")
        result_of(counter.count(watched, caller(tenant, tenant.authorizer)))
        written += [clock()] * (script.calls.count("write") - before)
        clock.advance(milliseconds=2)
    assert len(written) == 5
    for earlier, later in pairwise(written):
        assert later - earlier >= timedelta(seconds=1)


def test_a_silent_key_is_written_by_the_requests_of_others(tenant: Tenant, clock: Clock) -> None:
    """Keys that fall silent are counted up, one with each request of another, as last used then."""
    silent = [tenant.client(Scope.AUTHORIZER) for _ in range(5)]
    for client in silent * 3:
        client.get("/nowhere")
    last = clock()
    assert {used(tenant, client).request_count for client in silent} == {1}
    clock.advance(seconds=60)
    for number in range(1, 6):
        clock.advance(milliseconds=1)
        tenant.admin.get("/nowhere")
        counts = Counter(used(tenant, client).request_count for client in silent)
        assert counts == Counter({3: number, 1: 5 - number})
    assert {used(tenant, client).last_used_at for client in silent} == {last}


def test_memory_is_for_the_keys_of_a_second(tenant: Tenant, clock: Clock) -> None:
    """However many keys were used, those that are written and silent are forgotten."""
    counter = UsageCounter()
    for number in range(1000):
        who = replace(tenant.operator, key_id=f"svc_ak_{number}")
        for _ in range(2):
            result_of(counter.count(tenant.ports, who))
        clock.advance(milliseconds=10)
    for _ in range(200):
        clock.advance(milliseconds=10)
        result_of(counter.count(tenant.ports, caller(tenant, tenant.admin)))
    assert len(counter._tallies) < 110


# --- deletion ---


def totals(tenant: Tenant) -> int:
    total = tenant.admin.get("/v1/api-keys").json()["total"]
    assert isinstance(total, int)
    return total


@pytest.mark.parametrize("by", ["its own instance", "another instance"])
def test_a_count_after_the_deletion_brings_nothing_back(
    tenant: Tenant, clock: Clock, by: str
) -> None:
    """F14a: A use that is counted after the deletion of its key does not bring the key back."""
    client = tenant.client(Scope.READ_ONLY)
    for _ in range(5):
        client.get("/v1/api-keys")
    http = client.http if by == "its own instance" else serve(tenant.ports)
    deleter = Client(http, tenant.admin.secret)
    assert deleter.delete(f"/v1/api-keys/{client.key_id}").status_code == 204
    before = totals(tenant)
    for _ in range(5):
        clock.advance(seconds=1)
        assert tenant.admin.get("/v1/api-keys").status_code == 200
    place = model.usage(tenant.id)
    assert tenant.ports.store.get(place.address(client.key_id)) is None
    assert totals(tenant) == before == 3
    assert client.key_id not in {entry.sk for entry in tenant.ports.store.query(place)}
    assert tenant.admin.get(f"/v1/api-keys/{client.key_id}").status_code == 404


# --- failures ---


class NoUsage:
    """Counts that fail, before they are made or after."""

    def __init__(self, ports: Ports, *, after: bool) -> None:
        self._usage = ports.usage
        self._after = after

    def add(self, used: UsageDelta) -> None:
        if not self._after:
            raise Unavailable("throttled")
        self._usage.add(used)
        raise Unavailable("no answer")


@pytest.mark.parametrize("after", [False, True])
def test_a_request_does_not_fail_for_its_count(
    tenant: Tenant, clock: Clock, after: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """F22: where counts cannot be written requests are answered; none is counted twice."""
    broken = replace(tenant.ports, usage=NoUsage(tenant.ports, after=after))
    client = Client(serve(broken), tenant.read_only.secret)
    for _ in range(3):
        clock.advance(seconds=1)
        assert client.get("/v1/api-keys").status_code == 200
    assert len([record for record in caplog.records if record.name == LOGGER]) == 3
    assert used(tenant, tenant.read_only).request_count == (3 if after else 0)


def test_a_store_that_fails_is_not_asked_for_each_request(
    tenant: Tenant, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """F22: an outage costs a busy key one failed write a second, not one a request."""
    caplog.set_level(logging.ERROR, LOGGER)
    broken = replace(tenant.ports, usage=NoUsage(tenant.ports, after=False))
    counter = UsageCounter()
    for _ in range(300):
        result_of(counter.count(broken, caller(tenant, tenant.authorizer)))
        clock.advance(milliseconds=10)
    assert len(caplog.records) == 3


@pytest.mark.parametrize("back", [timedelta(milliseconds=1), timedelta(hours=1)])
def test_a_clock_that_steps_back_does_not_stop_the_counting(
    tenant: Tenant, clock: Clock, back: timedelta
) -> None:
    """F09: after the clock stepped back counts are written as before, and none is lost."""
    counter = UsageCounter()
    for _ in range(5):
        result_of(counter.count(tenant.ports, caller(tenant, tenant.authorizer)))
    clock.moment -= back
    result_of(counter.count(tenant.ports, caller(tenant, tenant.authorizer)))
    assert used(tenant, tenant.authorizer).request_count == 6
    for _ in range(3):
        clock.advance(seconds=1)
        result_of(counter.count(tenant.ports, caller(tenant, tenant.authorizer)))
    assert used(tenant, tenant.authorizer) == Usage(9, clock().replace(microsecond=0))


class Watching:
    """Counts that note how much of the answer was sent before each of them."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.before: list[list[str]] = []

    async def send(self, message: Message) -> None:
        self.sent.append(message["type"])

    def add(self, _used: UsageDelta) -> None:
        self.before.append(list(self.sent))


def test_a_caller_has_the_answer_before_the_use_is_counted(tenant: Tenant) -> None:
    """F134c: The use of a key is counted after the response is sent."""
    watching = Watching()
    app = serve(replace(tenant.ports, usage=watching)).app
    headers = [("Authorization", f"Bearer {tenant.read_only.secret}")]
    scope = request_scope("GET", "/v1/api-keys", headers, "203.0.113.1")
    run(answered(app, scope, watching))
    assert watching.before == [["http.response.start", "http.response.body"]]


async def answered(app: ASGIApp, scope: Exchange, watching: Watching) -> None:
    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    await app(scope, receive, watching.send)


# --- an orderly stop ---


def test_a_stop_writes_what_is_not_written(tenant: Tenant, clock: Clock) -> None:
    """F77b: When the server stops, the counts of every key are written, as last used then."""
    clients = [tenant.client(Scope.AUTHORIZER) for _ in range(3)]
    counter = UsageCounter()
    began = clock().replace(microsecond=0)
    for _ in range(5):
        for client in clients:
            result_of(counter.count(tenant.ports, caller(tenant, client)))
        clock.advance(milliseconds=10)
    assert {used(tenant, client).request_count for client in clients} == {1}
    clock.advance(hours=1)
    counter.flush(lambda: tenant.ports)
    assert {used(tenant, client).request_count for client in clients} == {5}
    assert {used(tenant, client).last_used_at for client in clients} == {began}
    counter.flush(lambda: tenant.ports)
    assert {used(tenant, client).request_count for client in clients} == {5}
