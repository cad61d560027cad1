"""The thread that asks witnesses, apart from all others (LOG-31)."""

import threading
from pathlib import Path
from typing import Any

import pytest

from functions.transparency_log import sealing, witnessing
from infra.server.sealing import Witnessing
from shared import wiring
from shared.errors import Unavailable
from shared.ports import Ports
from shared.ports.outside import WitnessAnswer
from shared.ports.store import Address, Item
from tests.kit.tenants import Tenant
from tests.kit.waiting import soon
from tests.kit.witnesses import Witnessed, answering, know, made, policy, url
from tests.kit.worlds import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock(wiring.now())


@pytest.fixture
def tenant(ports: Ports) -> Tenant:
    return Tenant.create(ports)


def test_each_tenant_is_signed(
    ports: Ports,
    tenant: Tenant,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """LOG-31, F810a, F810c: The thread requests signatures of each tenant's log.

    If the store fails, the thread logs that once, and tries again.
    """
    failures, get = [Unavailable()] * 3, ports.store.get

    def fails(address: Address, *more: Any) -> Item | None:
        if address.pk.startswith(tenant.id) and failures:
            raise failures.pop()
        return get(address, *more)

    other = Tenant.create(ports, handle="other")
    memory = made(tmp_path, "w")
    for each in (tenant, other):
        sealing.extend(ports, each.id)
        know(memory, ports, each.id)
    monkeypatch.setattr(ports.store, "get", fails)
    client = Witnessed({url(memory): answering(memory)})
    thread = Witnessing(ports, client, policy(1, memory), pause=0.01)
    thread.start()
    soon(lambda: not failures)
    for each in (tenant, other):
        soon(lambda each=each: witnessing.quorum_checkpoint(ports, each.id))  # type: ignore[misc]
    thread.stop()
    thread.join()
    soon(lambda: not thread._thread.is_alive())
    assert caplog.text.count("failed; retrying") == 1


@pytest.mark.slow
def test_a_slow_witness_holds_nobody(ports: Ports, tenant: Tenant, tmp_path: Path) -> None:
    """LOG-31, F810b: While a witness does not answer, passes seal, and the server can end."""
    sealing.extend(ports, tenant.id)
    memory, asked, may_end = made(tmp_path, "w"), threading.Event(), threading.Event()

    def slow(_: bytes) -> WitnessAnswer:
        asked.set()
        may_end.wait(120)
        return WitnessAnswer(0)

    client = Witnessed({url(memory): slow})
    thread = Witnessing(ports, client, policy(1, memory), pause=0.01)
    thread.start()
    try:
        assert asked.wait(60)
        tenant.revoke(ports, "svc_wrt_1")
        assert sealing.extend(ports, tenant.id).size == 2
        thread.stop()
        thread.join()
        assert thread._thread.is_alive()
    finally:
        may_end.set()
    thread._thread.join(60)
