"""Slow requests to the local server, and what others get meanwhile, on real sockets."""

import asyncio
import http.client
import json
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from infra import data_folder
from infra.server.routers import ROUTERS
from infra.server.work import ThreadedWork
from shared.authorizer.relay.connections import Config, Limits
from shared.model.items import Partition, Table
from shared.operations.changes import revocations
from shared.operations.operator import onboarding
from shared.ports import Ports
from shared.ports.store import Store
from shared.web.app import create_app
from shared.web.work import WorkKind
from tests.infra.folders import opened
from tests.kit import asgi
from tests.kit.intercepted import Intercepted
from tests.kit.processes import HOST, answers, local_server
from tests.kit.waiting import soon

_AUDIT = "/v1/audit-logs"
_CHECK = "/v1/revocations/check?warrant_id=svc_wrt_none"
_PATIENCE_SECONDS = 60


class SlowAudit(Intercepted):
    """A store whose audit table answers once `may_answer` is set."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.may_answer = threading.Event()
        self.entered = threading.Semaphore(0)
        self.inside = self.most_inside = 0
        self._lock = threading.Lock()

    def count(self, partition: Partition, **asked: Any) -> int:
        if partition.table is Table.AUDIT:
            self._wait()
        found: int = self.inner.count(partition, **asked)
        return found

    def _wait(self) -> None:
        with self._lock:
            self.inside += 1
            self.most_inside = max(self.most_inside, self.inside)
        self.entered.release()
        assert self.may_answer.wait(120)
        with self._lock:
            self.inside -= 1

    def wait_until_entered(self, times: int = 1) -> None:
        for _ in range(times):
            assert self.entered.acquire(timeout=60)


@dataclass(frozen=True)
class Running:
    """A server in a thread of this process, and what it stands on."""

    server: uvicorn.Server
    thread: threading.Thread
    port: int
    ports: Ports
    slow: SlowAudit
    pool: ThreadPoolExecutor

    def tenant(self, handle: str) -> "AdminKey":
        """The admin key of a new tenant."""
        settings, created = onboarding.create_tenant(self.ports, handle=handle)
        return AdminKey(self, created.secret, settings.tenant_id)


@dataclass(frozen=True)
class AdminKey:
    """A caller, who opens a connection for each request."""

    running: Running
    secret: str
    tenant_id: str

    def ask(self, path: str, *, timeout: float = 30) -> int:
        return ask(self.running.port, self.secret, "GET", path, timeout=timeout)

    def begin(self, path: str) -> "Future[int]":
        return self.running.pool.submit(self.ask, path)


def ask(
    port: int, secret: str, method: str, path: str, body: Any = None, *, timeout: float = 30
) -> int:
    """The status of the answer to one request, over a connection of its own."""
    return answered(sent(port, secret, method, path, body, timeout=timeout))


def sent(
    port: int, secret: str, method: str, path: str, body: Any = None, *, timeout: float = 30
) -> http.client.HTTPConnection:
    """A connection on which the server has one request; nothing waits for its answer yet."""
    headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
    connection = http.client.HTTPConnection(HOST, port, timeout=timeout)
    connection.request(method, path, None if body is None else json.dumps(body), headers)
    return connection


def answered(connection: http.client.HTTPConnection) -> int:
    """The status of the answer; the connection is closed then."""
    with closing(connection):
        answer = connection.getresponse()
        answer.read()
        return answer.status


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with serving(tmp_path) as running:
        yield running


@contextmanager
def serving(folder: Path) -> Iterator[Running]:
    """The contract, served as the local server serves it, on a store that can be made to wait."""
    data_folder.prepare(folder)
    with (
        opened(folder) as ports,
        ThreadPoolExecutor(20) as pool,
        socket.create_server((HOST, 0)) as listener,
    ):
        slow = SlowAudit(ports.store)
        waiting = replace(ports, store=slow)
        app = create_app(*ROUTERS, ports=lambda: waiting, work=ThreadedWork())
        port = listener.getsockname()[1]
        config = Config(app, Limits(1000, 100), host=HOST, port=port, lifespan="on")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            soon(lambda: answers(port, http.client.UNAUTHORIZED))
            yield Running(server, thread, port, ports, slow, pool)
        finally:
            slow.may_answer.set()
            server.should_exit = True
            thread.join(timeout=60)
    assert not thread.is_alive()


def test_a_slow_request_holds_up_nobody(running: Running) -> None:
    """F114a: A slow page of the audit log does not delay checks on one machine."""
    admin, other = running.tenant("acme"), running.tenant("globex")
    page = admin.begin(_AUDIT)
    running.slow.wait_until_entered()
    for caller in (other, admin):
        assert caller.ask(_CHECK, timeout=_PATIENCE_SECONDS) == 200
        assert caller.ask("/v1/api-keys", timeout=_PATIENCE_SECONDS) == 200
    assert not page.done()
    running.slow.may_answer.set()
    assert page.result() == 200


def test_one_tenant_does_not_take_all_threads(running: Running) -> None:
    """F115a: The slow requests of one tenant leave threads for all others."""
    admin, other = running.tenant("acme"), running.tenant("globex")
    pages = [admin.begin(_AUDIT) for _ in range(12)]
    running.slow.wait_until_entered(4)
    assert other.ask("/v1/api-keys", timeout=_PATIENCE_SECONDS) == 200
    assert admin.ask(_CHECK, timeout=_PATIENCE_SECONDS) == 200
    assert running.slow.most_inside == 4
    running.slow.may_answer.set()
    assert {page.result() for page in pages} == {200}


def test_what_is_under_way_at_a_stop_is_finished_and_answered(running: Running) -> None:
    """F116: a stop waits for what is under way; its caller has the answer before the end."""
    page = running.tenant("acme").begin(_AUDIT)
    running.slow.wait_until_entered()
    running.server.should_exit = True
    time.sleep(0.3)
    assert running.thread.is_alive()
    running.slow.may_answer.set()
    assert page.result() == 200
    running.thread.join(timeout=60)
    assert not running.thread.is_alive()


def test_a_stop_waits_for_work_that_nobody_waits_for() -> None:
    """F116a: A stop finishes work whose caller gave up, and starts no other."""
    threads, begun, may_end, done = (
        ThreadedWork(),
        threading.Event(),
        threading.Event(),
        list[str](),
    )

    def work() -> None:
        begun.set()
        may_end.wait(60)
        done.append("first")

    async def ask() -> None:
        calls: list[Callable[[], None]] = [work, *(partial(done.append, "later") for _ in range(3))]
        given = [threads(call, WorkKind.PUBLICATION, tenant_id="acme") for call in calls]
        tasks = [asyncio.create_task(each) for each in given]
        await asyncio.to_thread(begun.wait, 60)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asgi.run(ask())
    threading.Timer(0.1, may_end.set).start()
    threads.stop()
    assert done == ["first"]


def test_a_write_that_waits_holds_up_nobody_and_a_stop_loses_nothing(tmp_path: Path) -> None:
    """F114b, F116: A write that waits for another process delays nobody; a stop completes it.

    The real server: another process holds the lock of its database meanwhile.
    """
    with ExitStack() as stack:
        server = stack.enter_context(local_server(tmp_path / "data"))
        pool = stack.enter_context(ThreadPoolExecutor())
        with closing(sqlite3.connect(server.data / "svc.db", isolation_level=None)) as holder:
            holder.execute("BEGIN IMMEDIATE")
            body = {"warrant_id": "svc_wrt_a", "reason": "stolen"}
            wanted = server.port, server.admin_key, "POST", "/v1/revocations", body
            # The server has the request before the next one, which it answers.
            revoking = pool.submit(answered, sent(*wanted))
            assert ask(server.port, server.admin_key, "GET", _CHECK) == 200
            assert not revoking.done()
            stopping = pool.submit(server.interrupt)
            time.sleep(0.3)
            holder.execute("ROLLBACK")
        assert revoking.result() == 201
        assert stopping.result() == 0
        assert "Traceback" not in server.output.read_text()
    with opened(tmp_path / "data") as ports:
        operator = onboarding.operator(ports, handle="local")
        assert revocations.check(ports, operator, warrant_id="svc_wrt_a").revoked
