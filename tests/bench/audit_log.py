"""Pages of the audit log on the embedded store: what they cost among few entries and among many.

    python -m tests.bench.audit_log 1000000

fills a data folder with so many entries and prints the table for it alone.
"""

import sqlite3
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any, Final

import cbor2

from infra import data_folder
from shared.model import audit_log as model
from shared.model import times
from shared.model.audit_log import Action, Entry
from shared.model.items import Address
from shared.operations.operator import onboarding
from shared.ports import Ports
from tests.api import Client, serve
from tests.bench.measure import alternate, timed
from tests.bench.publication import Watched
from tests.bench.report import Row, compared, progress, table
from tests.bench.scratch import scratch
from tests.infra.folders import opened
from tests.sqlite_files import insert

HANDLE: Final = "bench"
_PATH: Final = "/v1/audit-logs"
_FEW: Final = 1_000
_MANY: Final = 100_000
_ROUNDS: Final = 9
# All of them are in the window that a page has by default.
_SPAN: Final = timedelta(days=6)
_BATCH: Final = 10_000
_MILLISECONDS: Final = ("ms", 1000.0)


@dataclass(frozen=True)
class Filled:
    """A tenant with entries, a client that reads them, and the items that were read for it."""

    client: Client
    watched: Watched
    now: datetime

    def get(self, **query: Any) -> dict[str, Any]:
        """One page."""
        answer = self.client.get(_PATH, params=query)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def pages(self) -> dict[str, Callable[[], dict[str, Any]]]:
        """Kinds of pages, each as a call."""
        start = times.whole(self.now - _SPAN / 2)
        minute = {"from": times.text(start), "to": times.text(start + timedelta(minutes=1))}
        cursor = self.get(to=times.text(self.now), limit=100)["cursor"]
        (last,) = self.get(action="key.sign", limit=1)["audit_logs"]
        return {
            "first": self.get,
            "second": lambda: self.get(to=times.text(self.now), limit=100, cursor=cursor),
            "of one minute": lambda: self.get(**minute),
            "of one key": lambda: self.get(actor_key_id=last["actor_key_id"]),
            "of one action": lambda: self.get(action=last["action"]),
            "of one warrant": lambda: self.get(warrant_id=last["details"]["warrant_id"]),
            "of one key and action": lambda: self.get(
                actor_key_id=last["actor_key_id"], action=last["action"]
            ),
            "of one signing key and action": lambda: self.get(
                resource_id=last["resource_id"], action=last["action"]
            ),
        }


def fill(folder: Path, ports: Ports, tenant_id: str, entries: int, *, now: datetime) -> None:
    """Put so many entries of the last days into a data folder, past its store."""
    rows = _rows(ports, tenant_id, now, entries)
    with closing(sqlite3.connect(folder / "svc.db")) as connection:
        while batch := list(islice(rows, _BATCH)):
            with connection:
                insert(connection, batch)


@contextmanager
def filled(folder: Path, entries: int) -> Iterator[Filled]:
    """A tenant with so many entries in a new data folder."""
    data_folder.prepare(folder)
    with opened(folder) as ports:
        settings, key = onboarding.create_tenant(ports, handle=HANDLE)
        now = times.whole(ports.now())
        fill(folder, ports, settings.tenant_id, entries, now=now)
        watched = Watched(ports.store)
        yield Filled(Client(serve(replace(ports, store=watched)), key.secret), watched, now)


def _rows(
    ports: Ports, tenant_id: str, now: datetime, entries: int
) -> Iterator[tuple[Address, bytes]]:
    for number in range(entries):
        at = now - _SPAN + _SPAN * (number + 1) / entries
        warrant_id, key_id = ports.new_id("wrt"), f"svc_ak_{number % 4:026}"
        entry = Entry(
            id=ports.new_id("evt", at=at),
            timestamp=at,
            actor="admin@bench.svc",
            action=Action.KEY_SIGN,
            resource_id=f"svc_key_{number % 3:026}",
            result="success",
            source_ip="127.0.0.1",
            request_id="0" * 32,
            details={"warrant_id": warrant_id},
            expires=int((at + timedelta(days=400)).timestamp()),
            actor_key_id=key_id,
        )
        yield model.address(tenant_id, entry.id, at), cbor2.dumps(entry.to_item())


def run(sizes: Sequence[int] = (_FEW, _MANY), *, rounds: int = _ROUNDS) -> Iterator[Row]:
    """Each kind of page among few entries and among many, by turns."""
    few, many = sizes
    with (
        scratch() as folder,
        filled(folder / "few", few) as small,
        filled(folder / "many", many) as large,
    ):
        progress(f"{many:,} audit entries")
        calls = large.pages()
        for kind, other in small.pages().items():
            sides = [timed(call, clock=time.process_time) for call in (calls[kind], other)]
            ours, theirs = alternate(*sides, rounds=rounds)
            name = f"audit page {kind}, of {many:,}"
            yield compared(name, ours, f"of {few:,}", theirs, unit=_MILLISECONDS, goal="≤ 2")


def main() -> int:
    """Measure one size, and print for each kind of page its CPU time and the items read."""
    number = int(sys.argv[1])
    with scratch() as folder, filled(folder / "data", number) as tenant:
        rows = []
        for kind, call in tenant.pages().items():
            tenant.watched.read = 0
            call()
            read = tenant.watched.read
            side = timed(call, clock=time.process_time)
            seconds = median(side() for _ in range(_ROUNDS))
            rows.append(Row(f"{kind}, of {number:,}", seconds * 1000, "ms", f"{read:,} items read"))
    print(table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
