"""Requests that wait for news, at any server whose work lets them (POLL-5)."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from starlette.types import Message

from infra.routers import ROUTERS
from shared.operations.api import api_keys
from shared.web.app import create_app
from shared.web.work import InPlace
from tests.api import Tenant
from tests.asgi import Answer, bearer, exchange, request_scope, run
from tests.feeds import StoredFeed

FEED = "/v1/revocations/feed"


@dataclass
class Patient(InPlace):
    """`Work` that lets requests wait until `news` comes; `asked` are the seconds they would."""

    wait_max = 25
    news: asyncio.Event = field(default_factory=asyncio.Event)
    asked: list[float] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)
    ended: int = 0

    async def change(
        self, read: Callable[[], str], seen: str, *, tenant_id: str, seconds: float
    ) -> None:
        self.asked.append(seconds)
        assert read() == seen
        self.seen.append(tenant_id)
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
        async with asyncio.timeout(5):
            while not self.work.seen:  # noqa: ASYNC110 (nobody tells)
                await asyncio.sleep(0)


@pytest.fixture
def held(tenant: Tenant) -> Held:
    return Held(tenant)


def etag(held: Held) -> str:
    return run(held.poll(etag='"x"')).headers["etag"]


def test_news_end_the_wait(held: Held) -> None:
    """POLL-5, F214b: After a wait, the answer is what a poll without a wait would be told."""
    known = etag(held)
    answer = held.during(lambda: held.feed.revoke("svc_wrt_a"), etag=known)
    assert (answer.status_code, len(answer.json()["entries"])) == (200, 1)
    assert answer.headers["etag"] == etag(held) != known
    assert (held.work.asked, held.work.seen) == ([20], [held.tenant.id])


def test_without_news_the_answer_is_304(held: Held) -> None:
    """POLL-5: A wait that ends without news ends in 304, also for HEAD."""
    known = etag(held)
    for method in ("GET", "HEAD"):
        held.work.news.clear()
        answer = held.during(lambda: None, etag=known, method=method)
        assert (answer.status_code, answer.content) == (304, b"")


@pytest.mark.parametrize(("wait", "seconds"), [(1, 1), (25, 25), (26, 25), (3600, 25)])
def test_the_longest_wait(held: Held, wait: int, seconds: int) -> None:
    """POLL-5: A `wait` above `wait_max` counts as `wait_max`."""
    held.during(lambda: None, wait=wait, etag=etag(held))
    assert held.work.asked == [seconds]


def test_a_key_that_is_revoked_during_the_wait(held: Held) -> None:
    """POLL-5, F217b: A caller whose key was revoked during the wait is refused like any other."""
    tenant, known = held.tenant, etag(held)

    def revoked() -> None:
        api_keys.revoke(tenant.ports, tenant.operator, key_id=str(tenant.authorizer.key_id))
        held.feed.revoke("svc_wrt_a")

    answer = held.during(revoked, etag=known)
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "invalid_api_key")


def test_a_caller_that_leaves_during_the_wait(held: Held) -> None:
    """POLL-5, F215f: When the caller disconnects, the wait ends and nothing is answered."""
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
