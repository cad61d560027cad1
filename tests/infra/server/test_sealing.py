"""The thread of the local server that seals the audit log."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import pytest

from functions.transparency_log import log
from infra.server import sealing as local_sealing
from infra.server.sealing import Sealing
from shared.errors import Unavailable
from shared.ports import Ports
from tests.kit.intercepted import Call, Intercepted
from tests.kit.sealed_log import entered
from tests.kit.tenants import Tenant
from tests.kit.waiting import soon
from tests.kit.worlds import Clock, embedded


@contextmanager
def _running(ports: Ports, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Sealing, list[str]]]:
    """A thread that hardly pauses, and the tenants whose log has grown."""
    monkeypatch.setattr(local_sealing, "_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(local_sealing, "_PAUSES_A_ROUND", 0)
    grown = list[str]()
    sealing = Sealing(ports, grown.append)
    sealing.start()
    try:
        yield sealing, grown
    finally:
        sealing.stop()
        soon(lambda: not sealing.is_alive())


def _size(ports: Ports, tenant: Tenant) -> int:
    head = log.head(ports, tenant.id)
    return 0 if head is None else head.size


def test_entries_are_sealed_within_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """LOG-8, F330a: On one machine a thread seals each entry, and a very late one after a start."""
    clock = Clock()
    ports = embedded(tmp_path, clock)
    acme, globex = (Tenant.create(ports, handle=each) for each in ("acme", "globex"))
    with _running(ports, monkeypatch) as (_, grown):
        soon(lambda: (_size(ports, acme), _size(ports, globex)) == (1, 1))
        acme.revoke(ports, "svc_wrt_a")
        soon(lambda: _size(ports, acme) == 2)
    assert sorted(grown) == sorted([acme.id, globex.id, acme.id])
    clock.advance(hours=30)
    acme.revoke(ports, "svc_wrt_b")
    # One entry more is the statement of the counters (LOG-29).
    with _running(ports, monkeypatch):
        soon(lambda: _size(ports, acme) == 4)
    entered(ports, clock, acme.id, ago=28 * 3600)
    with _running(ports, monkeypatch):
        soon(lambda: _size(ports, acme) == 5)


def test_what_stops_one_tenant_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """F330b, F400g: A failure is logged once and retried, and other tenants' logs grow.

    The time since all logs were sealed grows until it succeeds.
    """
    ports = embedded(tmp_path, Clock())
    acme, globex = (Tenant.create(ports, handle=each) for each in ("acme", "globex"))
    failing = {acme.id, "tenants"}

    def fail(call: Call) -> Any:
        if call.verb in ("get", "query") and any(
            call.arguments[0].pk.startswith(f) for f in failing
        ):
            raise Unavailable
        return call()

    broken = replace(ports, store=Intercepted(ports.store, fail))
    with _running(broken, monkeypatch) as (sealing, _):
        soon(lambda: "log of all tenants failed" in caplog.text)
        failing.remove("tenants")
        soon(lambda: _size(ports, globex) == 1)
        assert sealing.whole_at == -inf
        failing.clear()
        soon(lambda: sealing.whole_at > -inf)
        assert _size(ports, acme) == 1
        failing.add(acme.id)
        failed = time.monotonic()
        globex.revoke(ports, "svc_wrt_a")
        soon(lambda: _size(ports, globex) == 2)
        assert sealing.whole_at < failed
        failing.clear()
        soon(lambda: sealing.whole_at > failed)
    assert 1 <= caplog.text.count(f"{acme.id} failed;") <= 2
    assert caplog.text.count(f"{acme.id} failed;") == caplog.text.count(f"{acme.id} succeeds again")
