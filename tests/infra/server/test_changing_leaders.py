"""The feed while the leader changes again and again, and callers revoke all the time."""

import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from infra import data_folder
from infra.server import leader, publisher
from infra.server.board import PUBLISHER, Board
from infra.server.leader import Leader, LeaderItem
from shared import wiring
from shared.errors import Unavailable
from shared.ports import Ports
from tests.kit import feeds, postgresql
from tests.kit.intercepted import Call, Intercepted
from tests.kit.tenants import Tenant
from tests.kit.waiting import soon


@dataclass
class Replica:
    """A publisher in a thread, whose store can be cut off."""

    ports: Ports
    board: Board = field(default_factory=lambda: Board([PUBLISHER]))
    is_cut_off: bool = False

    def __post_init__(self) -> None:
        self.start()

    def _around(self, call: Call) -> Any:
        if call.verb == "listen":
            # Across a network nothing is heard.
            return None
        if self.is_cut_off:
            raise Unavailable
        return call()

    def start(self) -> None:
        store: Any = Intercepted(self.ports.store, self._around)
        leading, (stop, self._stopping) = Leader(LeaderItem(store)), os.pipe()
        args = leading, replace(self.ports, store=store), stop, self.board
        self._thread = threading.Thread(target=publisher.lead, args=args)
        self._thread.start()

    def stop(self) -> None:
        os.close(self._stopping)
        self._thread.join()
        self.board.follows(0)


@contextmanager
def replicas(folder: Path) -> Iterator[tuple[list[Replica], Ports]]:
    """Three of them on one PostgreSQL, and the ports of another process on it."""
    data_folder.prepare(folder)
    with ExitStack() as stack:
        url = stack.enter_context(postgresql.borrowed())
        places = {"SVC_STORE": url, "SVC_BLOBS": "postgresql:"}
        settings = wiring.settings(data_folder.environment(folder) | places)

        def opened() -> Ports:
            return stack.enter_context(closing(wiring.build(settings)))

        found = []
        for _ in range(3):
            found.append(Replica(opened()))
            stack.callback(found[-1].stop)
        yield found, opened()


@pytest.mark.parametrize("changes", [2, pytest.param(10, marks=pytest.mark.slow)])
def test_one_chain_over_changes_of_the_leader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: int
) -> None:
    """FEED-5, F618a: While leaders are cut off or stopped in turn, one chain has all changes."""
    monkeypatch.setattr(leader, "RENEW_SECONDS", 0.05)
    monkeypatch.setattr(leader, "LAPSE_SECONDS", 0.5)
    with replicas(tmp_path) as (servers, ports):
        tenant, over, revoked = Tenant.create(ports), threading.Event(), list[str]()

        def revoke() -> None:
            for number in count():
                if over.wait(0.05):
                    return
                # A busy machine may take longer than the patience of the store.
                with suppress(Unavailable):
                    tenant.revoke(ports, f"svc_wrt_{number}")
                    revoked.append(f"svc_wrt_{number}")

        working = threading.Thread(target=revoke)
        working.start()
        try:
            for change in range(changes):
                _change(servers, is_stopped=bool(change % 2))
        finally:
            over.set()
            working.join()
        soon(lambda: set(revoked) <= feeds.published(ports, tenant.id), seconds=30)
        assert len(revoked) > changes
        soon(lambda: postgresql.is_well(ports), seconds=30)


def _change(servers: list[Replica], *, is_stopped: bool) -> None:
    """Let another server lead."""
    soon(lambda: any(each.board.is_leader() for each in servers), seconds=30)
    (first, *_) = (each for each in servers if each.board.is_leader())
    others = [each for each in servers if each is not first]
    if is_stopped:
        first.stop()
    first.is_cut_off = True
    soon(lambda: any(each.board.is_leader() for each in others), seconds=30)
    soon(lambda: not first.board.is_leader(), seconds=30)
    first.is_cut_off = False
    if is_stopped:
        first.start()
