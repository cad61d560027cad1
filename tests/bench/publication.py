"""Publication on the embedded store, from reading the records to the body on the disk.

It is held against two others that sign a list of as much: the floor, which has the identifiers in
hand and does only what cannot be left out, with the same libraries; and OpenSSL's revocation list.
"""

import base64
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any
from unittest import mock

import cbor2

from shared.model import seeds
from shared.model.callers import Caller
from shared.model.srl import encoding as srl
from shared.operations.srl import in_force, publication, snapshot
from shared.ports import Ports
from shared.ports.store import Store
from tests.bench import crl
from tests.bench.measure import Taken, alternate, timed
from tests.bench.report import NotMeasured, Row, progress, took
from tests.bench.revoked import Tenant, revoke, tenant, warrant_ids
from tests.bench.scratch import scratch
from tests.intercepted import Call, Intercepted
from tests.processes import run as run_python

_SECONDS = ("s", 1.0)
_MILLION = 1_000_000
_FLAT_FROM = 10_000
_MIB_MAX = 1024.0
_PEAK_SECONDS = 600


@dataclass(frozen=True)
class Size:
    """How many are revoked, how often it is measured, and whether OpenSSL is asked too."""

    revoked: int
    rounds: int
    openssl: bool = True
    goals: tuple[str, str] = ("", "")


SIZES = (
    Size(1_000, 9),
    Size(10_000, 9),
    Size(100_000, 11, goals=("", "≤ 0.5")),
    Size(_MILLION, 7, openssl=False, goals=("≤ 4", "")),
)


def run(sizes: Sequence[Size] = SIZES, *, changes: int = 1000) -> Iterator[Row]:
    """Lists of each size from all records; of the last one also what follows from it."""
    each_id: dict[int, float] = {}
    for size in sizes:
        progress(f"a list of {size.revoked:,}")
        with scratch() as folder, tenant(folder / "data", revoked=size.revoked) as filled:
            if size is sizes[-1]:
                yield _memory(folder / "data", size)
            ours, rows = _from_all(filled, folder, size)
            yield from rows
            each_id[size.revoked] = median(each.cpu for each in ours) / size.revoked
            if size is sizes[-1]:
                yield from _following(filled, folder, size, changes)
    yield from _flatness(each_id)


def from_all_records(ports: Ports, caller: Caller) -> None:
    """Publish a list that follows from no other."""
    with mock.patch.object(snapshot, "_COMPARED_EVERY", 1):
        publication.publish(ports, caller)


def _from_all(filled: Tenant, folder: Path, size: Size) -> tuple[list[Taken], list[Row]]:
    name = f"publication of {size.revoked:,}, from all records"
    sides: list[Callable[[], object]] = [lambda: from_all_records(filled.ports, filled.operator)]
    sides[0]()  # the floor signs the same identifiers
    sides.append(_floor(filled, folder))
    if size.openssl and crl.is_here():
        sides.append(crl.Authority(folder / "ca", revoked=size.revoked).generate)
    figures = alternate(*map(timed, sides), rounds=size.rounds)
    ours, floor, *openssl = figures
    floor_goal, openssl_goal = size.goals
    rows = [took(name, ours, against="floor", of=floor, unit=_SECONDS, goal=floor_goal)]
    for theirs in openssl:
        against = "openssl ca -gencrl"
        rows.append(took(name, ours, against=against, of=theirs, unit=_SECONDS, goal=openssl_goal))
    if size.openssl and not openssl:
        rows.append(Row.missing(name, "no openssl on PATH"))
    return ours, rows


def _floor(filled: Tenant, folder: Path) -> Callable[[], None]:
    """What signs and keeps the tenant's list as it is now, and does nothing else."""
    head = in_force.head(filled.ports, filled.operator.tenant_id)
    ids = srl.revoked_ids(in_force.body(filled.ports, head))
    seed, _ = seeds.new()

    def floor() -> None:
        payload: dict[str, Any] = {
            "Version": 1,
            "IssuedAt": "2026-11-21T12:00:00Z",
            "ExpiresAt": "2026-11-21T13:00:00Z",
            "RevokedIDs": ids,
        }
        encoded = cbor2.dumps(payload)
        signed = {
            "Payload": base64.b64encode(encoded).decode(),
            "Signature": seeds.sign(encoded, seed=seed),
        }
        with (folder / "floor.json").open("w") as file:
            file.write(json.dumps({"payload": payload, "srl": signed}, separators=(",", ":")))
            file.flush()
            os.fsync(file.fileno())

    return floor


def _memory(data: Path, size: Size) -> Row:
    name = f"publication of {size.revoked:,}, most memory"
    if sys.platform != "linux":
        return Row.missing(name, "read from Linux's /proc")
    done = run_python("-m", "tests.bench.peak", str(data), seconds=_PEAK_SECONDS)
    if done.returncode:
        raise NotMeasured(done.stderr)
    mib = float(done.stdout)
    return Row(name, mib, "MiB", f"{_MIB_MAX:.0f} MiB", mib / _MIB_MAX, goal="≤ 1")


def _following(filled: Tenant, folder: Path, size: Size, changes: int) -> Iterator[Row]:
    name = f"publication of {size.revoked:,} after {changes:,} changes"
    names = warrant_ids("n")
    watched = Watched(filled.ports.store)
    ports = replace(filled.ports, store=watched)

    def ours() -> Taken:
        revoke(filled.ports, filled.operator, names, changes)
        return timed(lambda: publication.publish(ports, filled.operator))()

    floor = timed(_floor(filled, folder))
    progress(name)
    ours_taken, floor_taken = alternate(ours, floor, rounds=size.rounds)
    yield took(name, ours_taken, against="floor", of=floor_taken, unit=_SECONDS, goal="≤ 2")
    read = watched.read / size.rounds
    yield Row(f"{name}, items read", read, "items", f"{changes:,} changes", read / changes)


def _flatness(each_id: dict[int, float]) -> Iterator[Row]:
    """What each identifier costs, against what it costs in the first list that is not small."""
    first = next((size for size in each_id if size >= _FLAT_FROM), None)
    for size, seconds in each_id.items():
        against, ratio = "", None
        if first is not None and size > first:
            against, ratio = f"of {first:,}", seconds / each_id[first]
        name = f"publication of {size:,}, each identifier"
        yield Row(name, seconds * 1e6, "µs", against, ratio, goal="flat" if ratio else "")


class Watched(Intercepted):
    """A `Store` that counts the items which are read from another, and what it has to count."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, self._watched)
        self.read = 0
        self.counts = 0

    def _watched(self, call: Call) -> Any:
        match call.verb:
            case "get":
                self.read += 1
            case "get_many":
                self.read += len(call.arguments[0])
            case "count":
                self.counts += 1
            case "query" | "column":
                return self._walked(call())
        return call()

    def _walked(self, walk: Iterator[Any]) -> Iterator[Any]:
        for each in walk:
            self.read += len(each) if isinstance(each, list) else 1
            yield each
