"""Publication on the embedded store, from reading the records to the body on the disk.

It is held against two others that sign a list of as much: the floor, which sorts, encodes and signs
the identifiers, with the same libraries, and keeps nothing; and OpenSSL's revocation list.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any
from unittest import mock

import cbor2

from shared.model import seeds
from shared.model.callers import Caller
from shared.model.lists import content as srl
from shared.model.lists.head import lists_folder
from shared.operations.lists import decisions, in_force, publication, wake
from shared.operations.lists.journal import Journals
from shared.ports import Ports
from shared.ports.store import ColumnPage, Store
from tests.bench import crl
from tests.bench.measure import Taken, alternate, compare, timed
from tests.bench.report import NotMeasured, Row, progress, took
from tests.bench.revoked import Tenant, revoke, tenant, warrant_ids
from tests.bench.scratch import scratch
from tests.kit.intercepted import Call, OneByOne
from tests.kit.processes import run as run_python

_SECONDS = ("s", 1.0)
_JOURNAL_ROUNDS = 101
_MILLION = 1_000_000
_FLAT_FROM = 10_000
_MIB_MAX = 1024.0
_PEAK_SECONDS = 600


@dataclass(frozen=True)
class Size:
    """How many are revoked, how often it is measured, and whether OpenSSL is asked too.

    `goals` are those of a list from all records and of one that follows, against the floor, or
    against OpenSSL if that is asked. Without them, no list that follows is measured.
    """

    revoked: int
    rounds: int
    openssl: bool = True
    goals: tuple[str, str] | None = None


SIZES = (
    Size(1_000, 9),
    Size(10_000, 9),
    Size(100_000, 11, goals=("≤ 0.5", "≤ 0.35")),
    Size(_MILLION, 7, openssl=False, goals=("≤ 3", "≤ 2")),
)


def run(sizes: Sequence[Size] = SIZES, *, changes: int = 1000) -> Iterator[Row]:
    """Lists of each size from all records; of the last one also what follows from it."""
    each_id: dict[int, float] = {}
    for size in sizes:
        progress(f"a list of {size.revoked:,}")
        with scratch() as folder, tenant(folder / "data", revoked=size.revoked) as filled:
            if size is sizes[-1]:
                yield _memory(folder / "data", size)
            others = dict(_others(filled, folder, size))
            ours, rows = _from_all(filled, size, others)
            yield from rows
            each_id[size.revoked] = median(each.cpu for each in ours) / size.revoked
            if size.goals:
                yield from _following(filled, size, changes, others)
    yield from _flatness(each_id)
    with scratch() as folder, tenant(folder / "data", revoked=sizes[0].revoked) as filled:
        yield _journal(filled)


def from_all_records(ports: Ports, caller: Caller) -> None:
    """Publish a list that follows from no other."""
    with mock.patch.object(decisions, "COMPARED_EVERY", 1):
        publication.publish(ports, caller)


def _others(filled: Tenant, folder: Path, size: Size) -> Iterator[tuple[str, Callable[[], object]]]:
    """What the publication is compared with, by name; the floor signs the same identifiers."""
    from_all_records(filled.ports, filled.operator)
    yield "sort, encode, sign", _floor(filled)
    if size.openssl and crl.is_here():
        yield "openssl ca -gencrl", crl.Authority(folder / "ca", revoked=size.revoked).generate


def _from_all(
    filled: Tenant, size: Size, others: Mapping[str, Callable[[], object]]
) -> tuple[list[Taken], list[Row]]:
    name = f"publication of {size.revoked:,}, from all records"
    ours = timed(lambda: from_all_records(filled.ports, filled.operator))
    rows, taken = _beside(name, ours, others, size, of=0)
    if size.openssl and not crl.is_here():
        rows.append(Row.missing(name, "no openssl on PATH"))
    return taken, rows


def _beside(
    name: str,
    ours: Callable[[], Taken],
    others: Mapping[str, Callable[[], object]],
    size: Size,
    *,
    of: int,
) -> tuple[list[Row], list[Taken]]:
    """Measure our side and the others by turns; `of` is the place of the goal, for the last one."""
    taken, *theirs = alternate(ours, *map(timed, others.values()), rounds=size.rounds)
    goals = ["" for _ in others]
    goals[-1] = size.goals[of] if size.goals else ""
    rows = [
        took(name, taken, against=against, of=figures, unit=_SECONDS, goal=goal)
        for against, figures, goal in zip(others, theirs, goals, strict=True)
    ]
    return rows, taken


def _floor(filled: Tenant) -> Callable[[], None]:
    """What sorts, encodes and signs the identifiers of the list as it is now."""
    head = in_force.read_srl_head(filled.ports, filled.operator.tenant_id)
    ids = srl.revoked_ids(in_force.read_srl_body(filled.ports, head))
    # The records are read in the order of a hash.
    ids.sort(key=lambda each: each[::-1])
    seed, _ = seeds.new()

    def floor() -> None:
        payload: dict[str, Any] = {
            "Version": 1,
            "IssuedAt": "2026-11-21T12:00:00Z",
            "ExpiresAt": "2026-11-21T13:00:00Z",
            "RevokedIDs": sorted(ids),
        }
        seeds.sign(cbor2.dumps(payload), seed=seed)

    return floor


def _journal(filled: Tenant) -> Row:
    """A publication of the feed and the journal after it, against that publication alone.

    By the clock, since most of it is waiting for the disk.
    """
    ports, tenant_id = filled.ports, filled.operator.tenant_id
    publication.publish(ports, filled.operator)
    names, journals = warrant_ids("j"), Journals()
    journals.write_missing_records(ports, tenant_id)
    alone, both = list[Taken](), list[Taken]()
    with mock.patch.object(wake, "_seconds_left_in_window", return_value=0.0):
        for _ in range(_JOURNAL_ROUNDS):
            revoke(ports, filled.operator, names, 1)
            started = Taken.now()
            woken = wake.publish_feed(ports, tenant_id)
            alone.append(Taken.now().since(started))
            journals.write_missing_records(ports, tenant_id, woken.done)
            both.append(Taken.now().since(started))
    name = "publication of the feed with its journal, one change"
    wall, cpu = (median(each) * 1e3 for each in zip(*both, strict=True))
    found = compare([each.wall for each in both], [each.wall for each in alone])
    against = "the publication alone"
    return Row(name, wall, "ms", against, found.ratio, found.spread, goal="≤ 1.5", cpu=cpu)


def _memory(data: Path, size: Size) -> Row:
    name = f"publication of {size.revoked:,}, most memory"
    if sys.platform != "linux":
        return Row.missing(name, "read from Linux's /proc")
    done = run_python("-m", "tests.bench.peak", str(data), seconds=_PEAK_SECONDS)
    if done.returncode:
        raise NotMeasured(done.stderr)
    mib = float(done.stdout)
    return Row(name, mib, "MiB", f"{_MIB_MAX:.0f} MiB", mib / _MIB_MAX, goal="≤ 1")


def _following(
    filled: Tenant, size: Size, changes: int, others: Mapping[str, Callable[[], object]]
) -> Iterator[Row]:
    name = f"publication of {size.revoked:,} after {changes:,} changes"
    names = warrant_ids("n")
    watched = Watched(filled.ports.store)
    ports = replace(filled.ports, store=watched)

    def ours() -> Taken:
        revoke(filled.ports, filled.operator, names, changes)
        return timed(lambda: publication.publish(ports, filled.operator))()

    progress(name)
    _fill(filled)
    rows, _ = _beside(name, ours, others, size, of=1)
    yield from rows
    read = watched.read / size.rounds
    yield Row(f"{name}, items read", read, "items", f"{changes:,} changes", read / changes)


def _fill(filled: Tenant) -> None:
    """Publish until as many lists are kept as on a server, where each new one removes another.

    Its file takes the memory of that one then. New memory takes a tenth more processor time.
    """
    lists, before = lists_folder(filled.operator.tenant_id), 0
    while (kept := len(list(filled.ports.blobs.names(lists)))) > before:
        before = kept
        publication.publish(filled.ports, filled.operator)


def _flatness(each_id: dict[int, float]) -> Iterator[Row]:
    """What each identifier costs, against what it costs in the first list that is not small."""
    first = next((size for size in each_id if size >= _FLAT_FROM), None)
    for size, seconds in each_id.items():
        against, ratio = "", None
        if first is not None and size > first:
            against, ratio = f"of {first:,}", seconds / each_id[first]
        name = f"publication of {size:,}, each identifier"
        yield Row(name, seconds * 1e6, "µs", against, ratio, goal="flat" if ratio else "")


class Watched(OneByOne):
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
            self.read += len(each.names) if isinstance(each, ColumnPage) else 1
            yield each
