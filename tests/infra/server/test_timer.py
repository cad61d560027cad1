"""The local server's timer, which does what the schedule does on AWS."""

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest

from functions.authorizers import propagation
from infra import data_folder
from infra.server import server
from infra.server import timer as local_timer
from infra.server.board import ProcessStatus
from infra.server.processes import ProcessSupervisor
from infra.server.timer import Scheduler
from shared import logs
from shared.model.audit.audit_log import month
from shared.model.lists.schedule import TURNS
from shared.model.lists.verification import public_key_bytes, verify
from shared.model.tenants import settings_address
from shared.operations.lists import in_force, publication, schedule
from shared.operations.operator import onboarding
from shared.ports import Ports
from shared.ports.store import Delete, Expect
from tests.infra.folders import opened
from tests.kit.intercepted import Call, Intercepted
from tests.kit.processes import local_server as running_server
from tests.kit.tenants import Tenant
from tests.kit.waiting import soon
from tests.kit.worlds import embedded
from tests.operations.fleets import Fleet


def test_the_timer_announces_stale_authorizers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """FLEET-18, F400f: A server on one machine counts authorizers, and announces stale ones."""
    caplog.set_level("INFO", "rescind")
    ports = embedded(tmp_path, _now)
    tenant = Tenant.create(ports)
    tenant.revoke(ports, "svc_wrt_a")
    publication.publish_feed(ports, tenant.id)
    Fleet(ports, tenant).add("north")
    monkeypatch.setattr(propagation, "SETTLED_AFTER", timedelta())
    monkeypatch.setattr(schedule, "is_survey_due", lambda _now: True)
    with _timer(ports, monkeypatch):
        soon(lambda: "authorizer.stale" in tenant.actions(ports))
        soon(lambda: "authorizers" in caplog.messages)
    counted = [each for each in caplog.records if each.getMessage() == "authorizers"]
    assert logs.logged_fields(counted[0]).metrics == {
        "AuthorizersEnforced": 0,
        "AuthorizersFailClosed": 0,
        "AuthorizersUnknown": 1,
    }


def test_a_list_that_expired_in_a_pause_is_not_served(tmp_path: Path) -> None:
    """OPS-7, F80a, F118a: A start publishes expired lists first; one bad tenant stops nothing.

    The more urgent one of two tenants has lost its settings, so that its list cannot be made.
    """
    data = tmp_path / "data"
    data_folder.prepare(data)
    with opened(data) as ports:
        long_past = replace(ports, now=lambda: _now() - timedelta(days=20))
        past = replace(ports, now=lambda: _now() - timedelta(days=10))
        broken, _ = onboarding.create_tenant(long_past, handle="broken")
        ports.store.write(Delete(settings_address(broken.tenant_id), Expect.PRESENT))
        _, created = onboarding.create_tenant(past, handle="local")
    data_folder.write_secret(data / "admin.key", created.secret)
    with running_server(data) as server:
        headers = {"Authorization": f"Bearer {created.secret}"}
        with httpx2.Client(base_url=server.url, headers=headers) as http:
            body = http.get("/v1/revocations/srl/signed").content
            key = http.get("/v1/revocations/srl/keys").json()["keys"][0]["public_key"]
        assert f"cannot publish the SRL of tenant {broken.tenant_id}" in server.output.read_text()
    assert verify(body, public_key=public_key_bytes(key), now=_now()).version == 2


def test_a_start_does_not_wait_for_ever(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """F118b: A server starts although its first publications take long, and logs that."""
    ports = embedded(tmp_path, _now)
    board, may_answer = ProcessStatus(), threading.Event()

    def wait(call: Call) -> Any:
        """Who is due is found out once `may_answer` is set."""
        assert call.arguments[:1] != (TURNS,) or may_answer.wait(60)
        return call()

    timer = Scheduler(
        replace(ports, store=Intercepted(ports.store, wait)), board.record_startup_done
    )
    timer.start()
    with ProcessSupervisor(board) as processes:
        server._wait_for_lists(processes, board, seconds=0.05)
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        may_answer.set()
        server._wait_for_lists(processes, board)
    assert len(caplog.records) == 1
    timer.stop()
    timer.join()


def test_a_stop_waits_for_one_list_at_most(tmp_path: Path) -> None:
    """F118c: A server that is stopped during its publications finishes at most one list."""
    ports = embedded(tmp_path, _now)
    tenants = [Tenant.create(ports, handle=f"t{number}") for number in range(3)]
    for tenant in tenants:
        tenant.revoke(ports, "svc_wrt_a")

    def stop(call: Call) -> Any:
        if call.verb == "put":
            timer.stop()
        return call()

    timer = Scheduler(replace(ports, blobs=Intercepted(ports.blobs, stop)))
    timer.start()
    soon(lambda: not timer.is_alive())
    versions = [in_force.read_srl_head(ports, tenant.id).version for tenant in tenants]
    assert sorted(versions) == [1, 1, 2]


def test_a_list_that_is_asked_for_does_not_wait(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """F222e: On one machine a list that the feed asks for is published at once.

    One that cannot be published is logged, and stops no other.
    """
    ports = embedded(tmp_path, _now)
    tenant = Tenant.create(ports)
    begun = threading.Event()
    timer = Scheduler(ports, begun.set)
    timer.start()
    try:
        assert begun.wait(60)  # the first round publishes what is due by itself
        tenant.revoke(ports, "svc_wrt_a")
        timer.request("svc_tnt_nobody")
        timer.request(tenant.id)
        soon(lambda: in_force.read_srl_head(ports, tenant.id).version == 2)
    finally:
        timer.stop()
        soon(lambda: not timer.is_alive())
    assert "cannot publish the SRL of tenant svc_tnt_nobody" in caplog.text


def test_the_timer_makes_room_although_nothing_can_be_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F119d: A tick of the timer that fails has removed leftovers of crashed writers first."""
    file = tmp_path / "svc.db"
    ports = embedded(tmp_path, _now, store=str(file))
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("DROP TABLE keys")
    part = tmp_path / "blobs" / ".tmp" / "part"
    part.write_bytes(b"{")
    os.utime(part, (0, 0))
    with _timer(ports, monkeypatch):
        soon(lambda: not part.exists())


@pytest.mark.slow
def test_the_timer_removes_expired_audit_entries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F71a: The local server removes audit entries whose retention is over."""
    long_ago = embedded(tmp_path, lambda: _now() - timedelta(days=500), store=str(tmp_path / "db"))
    tenant = Tenant.create(long_ago)
    long_ago.store.close()  # type: ignore[attr-defined]
    ports = embedded(tmp_path, _now, store=str(tmp_path / "db"))
    made = month(tenant.id, _now() - timedelta(days=500))
    assert sum(map(ports.store.count, made)) == 1
    with _timer(ports, monkeypatch):
        soon(lambda: sum(map(ports.store.count, made)) == 0)


def _now() -> datetime:
    return datetime.now(UTC)


@contextmanager
def _timer(ports: Ports, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The server's own timer at work, in a hurry; it has ended at the end."""
    monkeypatch.setattr(local_timer, "_PUBLISH_SECONDS", 0.02)
    timer = Scheduler(ports)
    timer.start()
    try:
        yield
        assert timer.is_alive()
    finally:
        timer.stop()
        soon(lambda: not timer.is_alive())
