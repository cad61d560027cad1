"""The process that publishes: one at work on a data folder, as all others can tell."""

import json
import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request

from functions.transparency_log import log
from functions.trust import documents
from functions.webhooks import operations as managing
from infra import data_folder
from infra.server import leader, ops, publisher, sealing
from infra.server.board import PUBLISHER, ProcessStatus
from infra.server.ops import Health, alive
from infra.server.publications import PublicationRequests
from infra.server.sealing import Witnessing
from shared import wiring
from shared.model.deployment import PROBE_ADDRESS
from shared.model.outbound import DeliveryOutcome, DeliveryResponse, EventMessage
from shared.ports import Ports
from shared.ports.outside import WitnessAnswer
from shared.web.work import IN_PLACE
from tests.infra.folders import chosen, opened
from tests.kit import witnesses
from tests.kit.asgi import run
from tests.kit.tenants import Tenant
from tests.kit.waiting import soon

_REQUEST = Request({"type": "http", "method": "GET", "path": "/readyz", "headers": []})


@pytest.fixture
def ports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ports]:
    """The ports of a new folder, which the environment names as it does for a server's process."""
    data_folder.prepare(tmp_path)
    monkeypatch.setattr(leader, "RENEW_SECONDS", 0.05)
    with chosen(data_folder.environment(tmp_path), monkeypatch), opened(tmp_path) as found:
        yield found


@contextmanager
def publishing() -> Iterator[ProcessStatus]:
    """What the process does, in a thread; the body runs once it is at work, or stands by."""
    stop, stopping = os.pipe()
    board = ProcessStatus([PUBLISHER])
    publications = PublicationRequests()
    thread = threading.Thread(target=publisher.run, args=(stop, board, publications))
    thread.start()
    try:
        soon(board.has_begun)
        yield board
    finally:
        os.close(stopping)
        thread.join()
        os.close(stop)
        publications.close()


def test_one_of_two_servers_publishes(ports: Ports) -> None:
    """F226a: Of two servers on the same data one publishes; the other one takes over."""
    tenant = Tenant.create(ports)
    other = leader.lease(ports.store)
    assert other.take(wants=True)
    with publishing() as board:
        tenant.revoke(ports, "svc_wrt_a")
        beats = board.beats(PUBLISHER)
        soon(lambda: board.beats(PUBLISHER) > beats + 1)
        assert (tenant.feed_sequence(ports), board.is_leader()) == (0, False)
        other.end()
        soon(lambda: tenant.feed_sequence(ports))
        soon(board.is_leader)


def test_a_server_without_duties_never_publishes(
    ports: Ports, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F226b: With `RESCIND_LEADER_ELIGIBLE=off` a server only answers, and reports the delay."""
    tenant = Tenant.create(ports)
    tenant.revoke(ports, "svc_wrt_a")
    monkeypatch.setenv("RESCIND_LEADER_ELIGIBLE", "off")
    with publishing() as board:
        soon(lambda: board.leader_seconds() > 0.3)
        assert (tenant.feed_sequence(ports), board.is_leader()) == (0, False)
        monkeypatch.setenv("RESCIND_LEADER_ELIGIBLE", "on")
        with publishing():
            soon(lambda: tenant.feed_sequence(ports))
            soon(lambda: board.leader_seconds() < 0.3)


class _Silent:
    """Receivers of webhooks, and witnesses, that do not answer until the end."""

    def __init__(self) -> None:
        self.asked = list[str]()
        self.ends = threading.Event()

    def send(self, url: str, messages: Sequence[EventMessage]) -> list[DeliveryResponse]:
        self.asked.append(url)
        self.ends.wait()
        return [DeliveryResponse(DeliveryOutcome.NO_RESPONSE, 0) for _ in messages]

    def ask(self, asked: Sequence[tuple[str, bytes]]) -> list[WitnessAnswer]:
        self.asked += [url for url, _ in asked]
        self.ends.wait()
        return [WitnessAnswer(0) for _ in asked]


def test_others_that_do_not_answer_delay_no_change(
    ports: Ports, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F1682b: Witnesses and receivers of webhooks that do not answer delay no change.

    What was sealed, and the trust document, are also new meanwhile.
    """
    silent, witness = _Silent(), witnesses.made(tmp_path, "w")
    monkeypatch.setattr(wiring, "sender_from_environment", lambda: silent)
    monkeypatch.setattr(wiring, "witnesses", lambda: witnesses.policy(1, witness))
    monkeypatch.setattr(wiring, "witness_client", lambda: silent)
    monkeypatch.setattr(sealing, "_PAUSE_SECONDS", 0.05)
    monkeypatch.setattr(publisher, "Witnessing", partial(Witnessing, pause=0.05))
    tenant = Tenant.create(ports)
    managing.create(
        ports, tenant.operator, url="https://hooks.example.com/", events=("*",), description=None
    )
    with publishing():
        try:
            soon(lambda: len(set(silent.asked)) == 2)
            sealed = log.head(ports, tenant.id)
            for number in range(1, 4):
                tenant.revoke(ports, f"svc_wrt_{number}")
                soon(lambda number=number: tenant.feed_sequence(ports) >= number)  # type: ignore[misc]
            soon(lambda: log.head(ports, tenant.id) != sealed)
            soon(lambda: documents.read_head(ports, tenant.id))
        finally:
            silent.ends.set()


@pytest.mark.slow
def test_health_tells_that_nothing_can_be_stored(
    ports: Ports, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """F1691a: While the store cannot be written, `/readyz` is 503; it writes nothing by itself.

    The publisher tests that, and only while readiness is requested.
    """
    monkeypatch.setattr(publisher, "_TEST_SECONDS", 0.02)
    answer: dict[int, Any] = {}

    def asked() -> int:
        health = Health(lambda: ports, IN_PLACE)
        health.board = board
        answer[0] = run(health.ready(_REQUEST))
        return int(answer[0].status_code)

    with publishing() as board:
        beats = board.beats(PUBLISHER)
        soon(lambda: board.beats(PUBLISHER) > beats + 2)
        assert ports.store.get(PROBE_ADDRESS) is None
        assert asked() == 200
        soon(lambda: ports.store.get(PROBE_ADDRESS))
        with closing(sqlite3.connect(tmp_path / "svc.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            soon(lambda: asked() == 503)
            assert b"The store cannot be written." in answer[0].body
            soon(lambda: "the store cannot be written; retrying" in caplog.text)
            assert asked() == 503
        soon(lambda: asked() == 200)


def test_health_tells_that_nobody_publishes(ports: Ports, monkeypatch: pytest.MonkeyPatch) -> None:
    """F226c: While nobody publishes, `/readyz` says so; `/healthz` is 200, as no restart helps."""
    monkeypatch.setattr(ops, "_LEADERLESS_SECONDS_MAX", -1)
    board = ProcessStatus([PUBLISHER])

    async def asked() -> tuple[int, int, Any]:
        health = Health(lambda: ports, IN_PLACE)
        health.board = board
        lives, ready = await alive(_REQUEST), await health.ready(_REQUEST)
        told = json.loads(bytes(ready.body))
        return lives.status_code, ready.status_code, (told["feed"], told["leader_seconds"])

    assert run(asked()) == (200, 200, ("stopped", 0))
    board.record_other_leader(2**40)
    assert run(asked())[2][0] == "published"
