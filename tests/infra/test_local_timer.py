"""The local server's timer, which does what the schedule does on AWS."""

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx2
import pytest

from infra import data_folder, local_server
from shared.model.audit_log import month
from shared.model.srl_verification import public_key_bytes, verify
from shared.operations import onboarding, publication
from shared.ports import Ports
from tests.infra.folders import opened
from tests.operations.tenants import Tenant
from tests.processes import local_server as running_server
from tests.worlds import embedded


def test_the_timer_publishes_what_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was revoked is in the published list after the next tick, and then nothing is."""
    ports = embedded(tmp_path, _now)
    tenant = Tenant.create(ports)
    tenant.revoke(ports, "svc_wrt_a")
    with _timer(ports, monkeypatch):
        _wait_until(lambda: publication.current(ports, tenant.id).version == 2)
        assert tenant.published(ports).revoked_ids == ["svc_wrt_a"]
        time.sleep(0.2)
    assert publication.current(ports, tenant.id).version == 2


def test_a_list_that_expired_in_a_pause_is_not_served(tmp_path: Path) -> None:
    """F80: what expired while the server was stopped is published before the first request."""
    data = tmp_path / "data"
    data_folder.prepare(data)
    with opened(data) as ports:
        past = replace(ports, now=lambda: _now() - timedelta(days=10))
        _, created = onboarding.create_tenant(past, handle="local")
    data_folder.write_secret(data / "admin.key", created.secret)
    with running_server(data) as server:
        headers = {"Authorization": f"Bearer {created.secret}"}
        with httpx2.Client(base_url=server.url, headers=headers) as http:
            body = http.get("/v1/revocations/srl/signed").content
            key = http.get("/v1/revocations/srl/keys").json()["keys"][0]["public_key"]
    assert verify(body, public_key=public_key_bytes(key), now=_now()).version == 2


def test_the_timer_goes_on_after_a_tick_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A tick that the store failed is logged, and the next one publishes."""
    file = tmp_path / "svc.db"
    ports = embedded(tmp_path, _now, store=str(file))
    tenant = Tenant.create(ports)
    tenant.revoke(ports, "svc_wrt_a")
    _execute(file, "ALTER TABLE items RENAME TO elsewhere")
    with _timer(ports, monkeypatch):
        _wait_until(lambda: bool(caplog.records))
        _execute(file, "ALTER TABLE elsewhere RENAME TO items")
        _wait_until(lambda: publication.current(ports, tenant.id).count == 1)


def test_the_timer_removes_what_crashed_writers_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part of a blob, a day old, is removed; lists stay, however old they are."""
    ports = embedded(tmp_path, _now)
    tenant = Tenant.create(ports)
    part = tmp_path / "blobs" / ".tmp" / "part"
    part.write_bytes(b"{")
    blob = tmp_path / "blobs" / publication.current(ports, tenant.id).blob
    age = (_now() - timedelta(days=31)).timestamp()
    for each in (part, blob):
        os.utime(each, (age, age))
    with _timer(ports, monkeypatch):
        _wait_until(lambda: not part.exists())
    assert blob.exists()


def test_the_timer_makes_room_although_nothing_can_be_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F119: a tick that fails has removed what crashed writers left, which may be why it fails."""
    file = tmp_path / "svc.db"
    ports = embedded(tmp_path, _now, store=str(file))
    _execute(file, "DROP TABLE items")
    part = tmp_path / "blobs" / ".tmp" / "part"
    part.write_bytes(b"{")
    os.utime(part, (0, 0))
    with _timer(ports, monkeypatch):
        _wait_until(lambda: not part.exists())


def test_the_timer_removes_expired_audit_entries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F71: the server removes them by itself, once its clock has been read sixty times."""
    long_ago = embedded(tmp_path, lambda: _now() - timedelta(days=500), store=str(tmp_path / "db"))
    tenant = Tenant.create(long_ago)
    long_ago.store.close()  # type: ignore[attr-defined]
    ports = embedded(tmp_path, _now, store=str(tmp_path / "db"))
    made = month(tenant.id, _now() - timedelta(days=500))
    assert ports.store.count(made) == 1
    with _timer(ports, monkeypatch):
        _wait_until(lambda: ports.store.count(made) == 0)


def _now() -> datetime:
    return datetime.now(UTC)


@contextmanager
def _timer(ports: Ports, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The server's own timer at work, in a hurry; it has ended at the end."""
    monkeypatch.setattr(local_server, "_PUBLISH_SECONDS", 0.02)
    stopped = threading.Event()
    timer = threading.Thread(target=local_server._publish_on_time, args=(ports, stopped))
    timer.start()
    try:
        yield
        assert timer.is_alive()
    finally:
        stopped.set()
        timer.join(timeout=10)
    assert not timer.is_alive()


def _wait_until(condition: Callable[[], bool], *, seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _execute(file: Path, statement: str) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(statement)
