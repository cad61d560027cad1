"""The process that publishes: one at work on a data folder, as all others can tell."""

import fcntl
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request

from infra import data_folder
from infra.server import publisher
from infra.server.board import PUBLISHER, Board
from infra.server.ops import Health, alive
from infra.server.publications import Publications
from infra.server.publisher import is_missing
from shared.operations.lists import in_force
from shared.ports import Ports
from shared.web.work import IN_PLACE
from tests.infra.folders import chosen, opened
from tests.kit.asgi import run
from tests.kit.tenants import Tenant
from tests.kit.waiting import soon

_REQUEST = Request({"type": "http", "method": "GET", "path": "/readyz", "headers": []})


@pytest.fixture
def ports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ports]:
    """The ports of a new folder, which the environment names as it does for a server's process."""
    data_folder.prepare(tmp_path)
    lock = str(data_folder.publisher_lock(tmp_path))
    monkeypatch.setenv(publisher.LOCK_VARIABLE, lock)
    with chosen(data_folder.environment(tmp_path), monkeypatch), opened(tmp_path) as found:
        yield found


@contextmanager
def publishing(folder: Path) -> Iterator[Board]:
    """What the process does, in a thread; the body runs once it is at work, or stands by."""
    stop, stopping = os.pipe()
    board = Board([PUBLISHER])
    lock = data_folder.publisher_lock(folder)
    publications = Publications()
    thread = threading.Thread(target=publisher.run, args=(stop, lock, board, publications))
    thread.start()
    try:
        soon(board.has_begun)
        yield board
    finally:
        os.close(stopping)
        thread.join()
        os.close(stop)
        publications.close()


def _sequence(ports: Ports, tenant: Tenant) -> int:
    head = in_force.feed_head(ports, tenant.id)
    assert head is not None
    return head.sequence


def test_one_of_two_servers_publishes(tmp_path: Path, ports: Ports) -> None:
    """F226a: Of two servers on the same data one publishes; the other one takes over."""
    tenant = Tenant.create(ports)
    with data_folder.publisher_lock(tmp_path).open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with publishing(tmp_path) as board:
            tenant.revoke(ports, "svc_wrt_a")
            beats = board.beats(PUBLISHER)
            soon(lambda: board.beats(PUBLISHER) > beats + 1)
            assert _sequence(ports, tenant) == 0
            other.close()
            soon(lambda: _sequence(ports, tenant) == 1)


def test_a_publisher_that_ended_is_noticed(tmp_path: Path, ports: Ports) -> None:
    """F226b: Every process of the server notices if the publisher has ended."""
    assert is_missing()
    with publishing(tmp_path):
        assert not is_missing()
    assert is_missing()


def test_a_server_that_must_not_publish_misses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """OPS-14: A server with `SVC_MODE=read-only` has no publisher, and lives all the same."""
    monkeypatch.delenv(publisher.LOCK_VARIABLE, raising=False)
    assert not is_missing()


def test_health_tells_that_the_publisher_ended(tmp_path: Path, ports: Ports) -> None:
    """F226c: `/healthz` is 503 while nothing is published; `/readyz` reports it."""

    async def asked() -> tuple[int, int, Any]:
        health = Health(lambda: ports, IN_PLACE)
        lives, ready = await alive(_REQUEST), await health.ready(_REQUEST)
        return lives.status_code, ready.status_code, json.loads(bytes(ready.body))["feed"]

    with publishing(tmp_path):
        assert run(asked()) == (200, 200, "published")
    assert run(asked()) == (503, 200, "stopped")
