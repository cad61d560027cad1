"""Requests that wait, at any server whose work lets them (POLL-5, FLEET-14)."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.types import Message

from functions.authorizers import operations as authorizers
from functions.authorizers import registering
from functions.authorizers.records import AuthorizerDescription, Heartbeat
from infra.server.routers import ROUTERS
from shared.model.callers import Scope
from shared.model.feed import head_address
from shared.operations.access import api_keys
from shared.operations.changes import revocations
from shared.operations.lists import publication
from shared.ports import Ports
from shared.ports.store import Address, Expect, Put
from shared.web import work as web_held
from shared.web.app import create_app
from shared.web.work import InlineWork
from tests.kit.api import Tenant
from tests.kit.asgi import Answer, bearer, exchange, request_scope, run
from tests.kit.feeds import StoredFeed

FEED = "/v1/revocations/feed"


@dataclass
class Patient(InlineWork):
    """`Work` that lets requests wait until `news` comes; `asked` are the seconds they would."""

    max_wait_seconds = 25
    news: asyncio.Event = field(default_factory=asyncio.Event)
    asked: list[float] = field(default_factory=list)
    seen: list[Address] = field(default_factory=list)
    ended: int = 0

    async def change(self, ports: Ports, address: Address, version: int, *, seconds: float) -> None:
        self.asked.append(seconds)
        found = ports.store.get(address)
        assert found is not None
        assert found["version"] == version
        self.seen.append(address)
        try:
            await self.news.wait()
        finally:
            self.ended += 1


class Held:
    """A poll of a tenant that holds the head of its feed, and waits."""

    def __init__(self, tenant: Tenant) -> None:
        self.tenant, self.feed = tenant, StoredFeed(tenant.ports, tenant.id)
        self.work = Patient()
        self.app = create_app(*ROUTERS, ports=lambda: tenant.ports, work=self.work)

    async def poll(self, *, wait: int = 20, etag: str = "*", method: str = "GET") -> Answer:
        """The answer to a poll that waits, if its `etag` is that of the head."""
        headers = bearer(self.tenant.authorizer.secret, ("If-None-Match", etag))
        return await exchange(self.app, method, f"{FEED}?wait={wait}", headers=headers)

    def during(self, happens: Callable[[], Any], **poll: Any) -> Answer:
        """The answer to a poll during whose wait this happens."""

        async def both() -> Answer:
            answer = asyncio.create_task(self.poll(**poll))
            await self.until_waiting()
            happens()
            self.work.news.set()
            return await answer

        return run(both())

    async def until_waiting(self) -> None:
        async with asyncio.timeout(60):
            while not self.work.seen:  # noqa: ASYNC110 (nobody tells)
                await asyncio.sleep(0)


@pytest.fixture
def held(tenant: Tenant) -> Held:
    return Held(tenant)


def etag(held: Held) -> str:
    return run(held.poll(etag='"x"')).headers["etag"]


def test_news_end_the_wait(held: Held) -> None:
    """POLL-5, F214b: After a wait, the answer is that of a poll without a wait."""
    known = etag(held)
    answer = held.during(lambda: held.feed.revoke("svc_wrt_a"), etag=known)
    assert (answer.status_code, len(answer.json()["entries"])) == (200, 1)
    assert answer.headers["etag"] == etag(held) != known
    assert (held.work.asked, held.work.seen) == ([20], [head_address(held.tenant.id)])


def test_without_news_the_answer_is_304(held: Held) -> None:
    """POLL-5: A wait that ends without news ends in 304, also for HEAD."""
    known = etag(held)
    for method in ("GET", "HEAD"):
        held.work.news.clear()
        answer = held.during(lambda: None, etag=known, method=method)
        assert (answer.status_code, answer.content) == (304, b"")


@pytest.mark.parametrize(("wait", "seconds"), [(1, 1), (25, 25), (26, 25), (3600, 25)])
def test_the_longest_wait(held: Held, wait: int, seconds: int) -> None:
    """POLL-5: A `wait` above `max_wait_seconds` counts as `max_wait_seconds`."""
    held.during(lambda: None, wait=wait, etag=etag(held))
    assert held.work.asked == [seconds]


def test_a_key_that_is_revoked_during_the_wait(held: Held) -> None:
    """POLL-5, F217a: A caller whose key was revoked during the wait is refused like any other."""
    tenant, known = held.tenant, etag(held)

    def revoked() -> None:
        api_keys.revoke(tenant.ports, tenant.operator, key_id=str(tenant.authorizer.key_id))
        held.feed.revoke("svc_wrt_a")

    answer = held.during(revoked, etag=known)
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "invalid_api_key")


def test_a_caller_that_leaves_during_the_wait(held: Held) -> None:
    """POLL-5, F215d: When the caller disconnects, the wait ends and nothing is answered."""
    messages = [{"type": "http.request", "body": b"", "more_body": False}]
    sent: list[Message] = []
    leaves = asyncio.Event()

    async def receive() -> Message:
        if messages:
            return messages.pop()
        await leaves.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    async def both(known: str) -> None:
        headers = bearer(held.tenant.authorizer.secret, ("If-None-Match", known))
        scope = request_scope("GET", f"{FEED}?wait=20", headers)
        served: Awaitable[None] = asyncio.ensure_future(held.app(scope, receive, send))
        await held.until_waiting()
        leaves.set()
        await served
        await asyncio.sleep(0)

    run(both(etag(held)))
    assert (sent, held.work.ended) == ([], 1)


# --- the proof of propagation, which is made again after each pause ---


@dataclass
class Pausing(InlineWork):
    """`Work` whose clock is `now`: a pause puts it forward, and one of `happens` happens in it.

    If `is_full`, too many requests wait, so that a pause ends at once.
    """

    max_wait_seconds = 25
    happens: list[Callable[[], Any]] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)
    is_full: bool = False
    now: float = 0.0

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        if self.happens:
            self.happens.pop(0)()
        self.now += 0 if self.is_full else seconds
        await asyncio.sleep(0)


@dataclass
class Proof:
    """A revocation whose propagation is asked for, and the authorizer that lacks it."""

    tenant: Tenant
    revocation_id: str
    authorizer_id: str
    work: Pausing = field(default_factory=Pausing)

    @classmethod
    def of(cls, tenant: Tenant) -> "Proof":
        revocation_id = tenant.revoke("svc_wrt_a")
        publication.publish_feed(tenant.ports, tenant.id)
        described = AuthorizerDescription("gateway")
        made = registering.register(tenant.ports, tenant.operator, description=described)
        return cls(tenant, revocation_id, made.authorizer.id)

    def get(self, wait: str = "?wait=1") -> Answer:
        app = create_app(*ROUTERS, ports=lambda: self.tenant.ports, work=self.work)
        path = f"/v1/revocations/{self.revocation_id}/propagation{wait}"
        return run(exchange(app, "GET", path, headers=bearer(self.tenant.admin.secret)))

    def report(self) -> None:
        tenant, own = self.tenant, self.authorizer_id
        authorizers.heartbeat(tenant.ports, tenant.operator, authorizer_id=own, beat=Heartbeat(1))


@pytest.fixture
def proof(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> Proof:
    made = Proof.of(tenant)
    monkeypatch.setattr(web_held, "_PAUSE", 0.05)
    monkeypatch.setattr(web_held, "time", SimpleNamespace(monotonic=lambda: made.work.now))
    return made


def test_a_proof_waits_until_it_is_complete(proof: Proof) -> None:
    """FLEET-14, F268a: A proof with `wait` is answered as soon as it is complete."""
    assert proof.get("").json()["is_complete"] is False
    assert proof.work.pauses == []
    proof.work.happens = [lambda: None, proof.report]
    assert proof.get("?wait=3600").json()["is_complete"] is True
    assert len(proof.work.pauses) == 2
    assert proof.get("?wait=3600").json()["is_complete"] is True
    assert len(proof.work.pauses) == 2


def test_a_proof_that_does_not_come(proof: Proof) -> None:
    """FLEET-14: After the wait the answer is what is true then, and it is not made too often."""
    answer = proof.get()
    assert (answer.status_code, answer.json()["is_complete"]) == (200, False)
    assert len(proof.work.pauses) == 20


def test_a_proof_while_too_many_wait(proof: Proof) -> None:
    """FLEET-14, F268b: If waiting places are full, a proof is answered at once, and once only."""
    proof.work.is_full = True
    assert proof.get("?wait=3600").json()["is_complete"] is False
    assert len(proof.work.pauses) == 1


def _damage(proof: Proof) -> None:
    head = head_address(proof.tenant.id)
    proof.tenant.ports.store.write(Put(head, {"payload": b"x"}, Expect.PRESENT))


def _delete(proof: Proof) -> None:
    tenant, own = proof.tenant, proof.revocation_id
    revocations.delete(tenant.ports, tenant.operator, revocation_id=own)


def _revoke_key(proof: Proof) -> None:
    tenant = proof.tenant
    tenant.client(Scope.ADMIN)  # a tenant keeps one
    api_keys.revoke(tenant.ports, tenant.operator, key_id=tenant.admin.key_id)


@pytest.mark.parametrize(
    ("happens", "status"), [(_damage, 503), (_delete, 404), (_revoke_key, 401)]
)
def test_what_ends_the_wait_of_a_proof(
    proof: Proof, happens: Callable[[Proof], None], status: int
) -> None:
    """FLEET-14, F268c: A fault during the wait is 503, a deletion 404, a revoked key 401."""
    proof.work.happens = [lambda: happens(proof)]
    assert proof.get().status_code == status


@pytest.mark.parametrize("wait", ["-1", "+1", "3601", "01", "1.5", "", "x", "1&wait=1"])
def test_a_wait_that_cannot_be(proof: Proof, wait: str) -> None:
    """FLEET-14: A `wait` that is not a whole number from 0 to 3600 is refused."""
    assert proof.get(f"?wait={wait}").status_code == 400
