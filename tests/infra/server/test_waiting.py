"""Polls of the feed that wait for news at the local server, on real sockets (POLL-5)."""

import asyncio
import base64
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from infra import data_folder
from infra.server.routers import ROUTERS
from infra.server.work import ThreadedWork, WaitingRequests
from shared.authorizer.relay.connections import Config, Limits
from shared.errors import Unavailable
from shared.model import feed as model
from shared.operations.operator import onboarding
from shared.ports import Ports
from shared.ports.one_machine import CommitKind, Listener
from shared.web.app import create_app
from tests.infra.folders import opened
from tests.kit import asgi
from tests.kit.feeds import StoredFeed
from tests.kit.intercepted import Call, Intercepted

HOST = "127.0.0.1"
FEED = "/v1/revocations/feed"
CHECK = "/v1/revocations/check?warrant_id=svc_wrt_a"


@dataclass(frozen=True)
class Answer:
    """A response."""

    status: int
    headers: dict[str, str]
    body: bytes


class Watched(Intercepted):
    """A store that announces news. From Python 3.12 on, a protocol asks for no `__getattr__`."""

    def listen(self, news: CommitKind) -> Listener | None:
        found: Listener | None = self.inner.listen(news)
        return found


class Reads:
    """How often a task read the head of the feed; the store fails while `fails` is set."""

    def __init__(self) -> None:
        self.times = 0
        self.fails = False

    def __call__(self, call: Call) -> Any:
        if call.verb == "get_many":
            self.times += any(each.sk == model.HEAD for each in call.arguments[0])
        if self.fails and "#feed" in str(call.arguments[0]):
            raise Unavailable("the disk does not answer")
        return call()


@dataclass(frozen=True)
class World:
    """A tenant with a feed of one entry, in a data folder."""

    ports: Ports
    feed: StoredFeed
    admin: str
    reads: Reads
    folder: Path

    @property
    def tenant_id(self) -> str:
        return self.feed.tenant_id

    def looking(self, seconds: float) -> "World":
        """The same, in which a look follows another after so many seconds."""
        return replace(self, ports=replace(self.ports, look_seconds=seconds))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    data_folder.prepare(tmp_path)
    with opened(tmp_path) as ports:
        settings, created = onboarding.create_tenant(ports, handle="acme")
        feed = StoredFeed(ports, settings.tenant_id)
        feed.revoke("svc_wrt_a")
        reads = Reads()
        watched = replace(ports, store=Watched(ports.store, reads))
        yield World(watched, feed, created.secret, reads, tmp_path)


class Service:
    """The contract as the local server serves it, and requests to it."""

    def __init__(self, world: World, server: uvicorn.Server, work: ThreadedWork) -> None:
        self.world, self.server, self.work = world, server, work
        self.port = server.servers[0].sockets[0].getsockname()[1]

    async def get(self, path: str, *, etag: str = "", secret: str = "") -> Answer:
        """The response to one request on a connection of its own."""
        reader, writer = await self.send(path, etag=etag, secret=secret)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
            body = await reader.readexactly(int(headers.get("content-length", 0)))
        finally:
            writer.close()
        return Answer(int(head[0].split()[1]), headers, body)

    async def send(
        self, path: str, *, etag: str = "", secret: str = ""
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(HOST, self.port)
        headers = [f"Authorization: Bearer {secret or self.world.admin}", f"Host: {HOST}"]
        headers += [f"If-None-Match: {etag}"] if etag else []
        writer.write("\r\n".join([f"GET {path} HTTP/1.1", *headers, "", ""]).encode())
        return reader, writer

    async def etag(self) -> str:
        return (await self.get(FEED)).headers["etag"]

    async def wait(self, *, times: int = 1, seconds: int = 20) -> list["asyncio.Task[Answer]"]:
        """Begin polls that wait; return once all of them do."""
        etag, already = await self.etag(), self.waiting
        path = f"{FEED}?after={self.world.feed.sequence}&wait={seconds}"
        begun = [asyncio.create_task(self.get(path, etag=etag)) for _ in range(times)]
        await self.until(lambda: self.waiting == already + times)
        return begun

    @property
    def waiting(self) -> int:
        return len(self.work.waiting._all)

    @staticmethod
    async def until(holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not holds():  # noqa: ASYNC110 (nobody tells)
                await asyncio.sleep(0.01)


def serve(world: World, talk: Callable[[Service], Awaitable[None]], most: int = 750) -> None:
    """Let `talk` send requests to a server, which is stopped afterwards."""

    async def both() -> None:
        work = ThreadedWork(WaitingRequests(most))
        async with _serving(world, work) as service:
            await talk(service)

    asgi.run(asyncio.wait_for(both(), timeout=240))


@asynccontextmanager
async def _serving(world: World, work: ThreadedWork) -> AsyncIterator[Service]:
    app = create_app(*ROUTERS, ports=lambda: world.ports, work=work)
    config = Config(app, Limits(1000, 100), host=HOST, port=0, lifespan="on")
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    await server.startup()
    try:
        yield Service(world, server, work)
    finally:
        await server.shutdown()
        await Service.until(lambda: work.waiting._task is None)


def test_a_poll_waits_for_news(world: World) -> None:
    """POLL-5, F214a: A poll that waits is answered as soon as there is an entry."""

    async def talk(service: Service) -> None:
        assert json.loads((await service.get(FEED)).body)["max_wait_seconds"] == 25
        (poll,) = await service.wait()
        await asyncio.sleep(0.2)
        assert not poll.done()
        entry = world.feed.revoke("svc_wrt_b")
        answer = await poll
        assert answer.status == 200
        assert json.loads(answer.body)["entries"] == [base64.b64encode(entry).decode()]
        assert answer.headers["etag"] == await service.etag()

    serve(world, talk)


# --- what it costs ---


def test_one_task_reads_for_all_who_wait(world: World) -> None:
    """POLL-5, F215a: However many polls wait, the head is read once for each change and second."""

    async def talk(service: Service) -> None:
        before = world.reads.times
        polls = await service.wait(times=100)
        await service.until(lambda: world.reads.times >= before + 2)
        world.feed.revoke("svc_wrt_b")
        answers = await asyncio.gather(*polls)
        assert {answer.status for answer in answers} == {200}
        # One when the first began to wait, one each second, and one or two for the change.
        assert world.reads.times - before < len(polls)
        # Nobody waits, so nobody reads.
        await service.until(lambda: service.work.waiting._task is None)
        before = world.reads.times
        await asyncio.sleep(0.2)
        assert world.reads.times == before

    serve(world, talk)


def test_a_change_is_heard_of_at_once(world: World) -> None:
    """POLL-5, F557e: The commit of a new head wakes the polls that wait: none waits for a look."""

    async def talk(service: Service) -> None:
        for name in ("svc_wrt_b", "svc_wrt_c"):
            (poll,) = await service.wait()
            world.feed.revoke(name)
            assert (await poll).status == 200

    serve(world.looking(3600), talk)


def _names(folder: Path) -> list[Path]:
    return list((folder / "svc.db-news").glob("*"))


def test_a_change_that_nobody_hears_of_is_found(world: World) -> None:
    """POLL-5, F557f: News that are lost cost a poll the time of a look, and never the change."""

    async def talk(service: Service) -> None:
        (poll,) = await service.wait()
        await service.until(lambda: bool(_names(world.folder)))
        for each in _names(world.folder):
            each.unlink()
        world.feed.revoke("svc_wrt_b")
        assert (await poll).status == 200

    serve(world.looking(0.1), talk)


def test_who_waits_holds_no_thread(world: World) -> None:
    """POLL-5, F215b: Polls that wait hold no thread and delay no other request of the tenant."""

    async def talk(service: Service) -> None:
        polls = await service.wait(times=100)
        # Each kind of work has a pool, and these are all threads that it can have.
        assert threading.active_count() < 30
        for path in (CHECK, "/v1/api-keys", "/v1/revocations/srl", FEED):
            assert (await service.get(path)).status == 200
        assert not any(poll.done() for poll in polls)

    serve(world, talk)


def test_more_than_may_wait_do_not(world: World) -> None:
    """POLL-5, F215c: Only so many polls wait; a further one is answered at once, as is a check."""

    async def talk(service: Service) -> None:
        polls = await service.wait(times=3)
        further = await service.get(f"{FEED}?wait=20", etag=await service.etag())
        assert further.status == 304
        assert (await service.get(CHECK)).status == 200
        assert not any(poll.done() for poll in polls)

    serve(world, talk, most=3)


# --- ends ---


def test_a_stop_releases_all(world: World) -> None:
    """POLL-5, F216a: A server that stops answers all polls that wait, and waits for none."""

    async def talk(service: Service) -> None:
        polls = await service.wait(times=50)
        async with asyncio.timeout(15):
            await service.server.shutdown()
            assert {(await poll).status for poll in polls} == {304}

    serve(world, talk)


def test_a_fault_is_not_silence(world: World) -> None:
    """POLL-5, F218a: If the head cannot be read, those who wait get 503, and never 304."""

    async def talk(service: Service) -> None:
        polls = await service.wait(times=5)
        world.reads.fails = True
        answers = await asyncio.gather(*polls)
        assert {answer.status for answer in answers} == {503}
        world.reads.fails = False
        (poll,) = await service.wait()
        world.feed.revoke("svc_wrt_b")
        assert (await poll).status == 200

    serve(world, talk)
