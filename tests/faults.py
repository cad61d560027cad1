"""Ports that break, or wait, exactly where a test says so."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, TypeVar

from shared.adapters.sqlite_usage import SqliteUsage
from shared.errors import Unavailable
from shared.ports import Ports
from shared.ports.store import Change, Entry, Item, Key, Partition, Value
from shared.ports.token_buckets import Lease
from tests.worlds import Clock

R = TypeVar("R")
Hook = Callable[[], object]


class Crash(BaseException):
    """The process dies here: no `except Exception` may survive it."""


@dataclass
class Script:
    """What happens around each call to a port, by its number from 0.

    `before` runs ahead of the call, `after` once it took effect and its answer is on the way; a
    hook that raises loses the call, or the answer.
    """

    before: dict[int, Hook] = field(default_factory=dict)
    after: dict[int, Hook] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)

    def run(self, name: str, call: Callable[[], R]) -> R:
        number = len(self.calls)
        self.calls.append(name)
        self.before.get(number, _nothing)()
        result = call()
        self.after.get(number, _nothing)()
        return result


class Kind(StrEnum):
    """What may go wrong around a call."""

    FAIL_BEFORE = "fail before"
    FAIL_AFTER = "fail after"
    THROTTLE = "throttle"
    DELAY = "delay"
    CRASH_BEFORE = "crash before"
    CRASH_AFTER = "crash after"


_LATE: Final = (Kind.FAIL_AFTER, Kind.CRASH_AFTER)
# How long a port is retried before it gives up, and how long a process may be paused (F07).
_SECONDS: Final = {Kind.THROTTLE: 10, Kind.DELAY: 60}


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong at one call: of this verb, with this number among its like."""

    kind: Kind
    verb: str
    number: int = 0

    def __str__(self) -> str:
        return f"{self.kind} {self.verb}"


@dataclass
class Storm:
    """Faults at the calls of one request after another; `struck` are those that met their call."""

    clock: Clock
    struck: list[Fault] = field(default_factory=list)
    _faults: tuple[Fault, ...] = ()
    _calls: Counter[str] = field(default_factory=Counter)

    def begin(self, faults: Iterable[Fault]) -> None:
        """Forget what was; these are the faults of the calls from now on."""
        self._faults = tuple(faults)
        self._calls.clear()
        self.struck.clear()

    def run(self, name: str, call: Callable[[], R]) -> R:
        number = self._calls[name]
        self._calls[name] += 1
        due = [each for each in self._faults if (each.verb, each.number) == (name, number)]
        self._strike(each for each in due if each.kind not in _LATE)
        result = call()
        self._strike(each for each in due if each.kind in _LATE)
        return result

    def _strike(self, faults: Iterable[Fault]) -> None:
        for fault in faults:
            self.struck.append(fault)
            self.clock.advance(seconds=_SECONDS.get(fault.kind, 0))
            if fault.kind in (Kind.CRASH_BEFORE, Kind.CRASH_AFTER):
                raise Crash
            if fault.kind is not Kind.DELAY:
                raise Unavailable(str(fault))


def raises(error: BaseException) -> Hook:
    """A hook that raises `error`."""

    def hook() -> None:
        raise error

    return hook


def scripted(ports: Ports, script: Script | Storm) -> Ports:
    """The same ports, run by `script`; not what each request counts, which would upset it."""
    return replace(
        ports,
        store=_Store(ports, script),
        blobs=_Blobs(ports, script),
        keys=_Keys(ports, script),
    )


def stormy(ports: Ports, storm: Storm) -> Ports:
    """The same ports, all of them in `storm`."""
    caught = scripted(ports, storm)
    return replace(caught, buckets=_Buckets(ports, storm), usage=SqliteUsage(caught.store))


def _nothing() -> None:
    pass


@dataclass
class _Store:
    _ports: Ports
    _script: Script | Storm

    def get(self, key: Key) -> Item | None:
        return self._script.run("get", lambda: self._ports.store.get(key))

    def get_many(self, keys: Iterable[Key]) -> dict[Key, Item]:
        return self._script.run("get_many", lambda: self._ports.store.get_many(keys))

    def query(self, partition: Partition, **options: Any) -> Iterator[Entry]:
        store = self._ports.store
        return iter(self._script.run("query", lambda: list(store.query(partition, **options))))

    def count(self, partition: Partition, **asked: Any) -> int:
        return self._script.run("count", lambda: self._ports.store.count(partition, **asked))

    def column(self, *asked: Any, **bounds: Any) -> Iterator[list[tuple[str, Value]]]:
        store = self._ports.store
        return iter(self._script.run("column", lambda: list(store.column(*asked, **bounds))))

    def write(self, *changes: Change) -> None:
        self._script.run("write", lambda: self._ports.store.write(*changes))


@dataclass
class _Blobs:
    _ports: Ports
    _script: Script | Storm

    def put(self, name: str, data: bytes) -> None:
        self._script.run("put", lambda: self._ports.blobs.put(name, data))

    def get(self, name: str) -> bytes | None:
        return self._script.run("get_blob", lambda: self._ports.blobs.get(name))

    def file(self, name: str, *, sha256: str) -> Path | None:
        return self._script.run("file", lambda: self._ports.blobs.file(name, sha256=sha256))

    def names(self, folder: str) -> Iterator[str]:
        found = self._script.run("names", lambda: list(self._ports.blobs.names(folder)))
        return iter(found)

    def discard(self, folder: str, *, before: str, older_than_seconds: float | None = None) -> None:
        # No step of a script: whether it fails changes no outcome, and has tests of its own.
        self._ports.blobs.discard(folder, before=before, older_than_seconds=older_than_seconds)

    def url(self, name: str, *, ttl_seconds: int) -> str:
        return self._script.run("url", lambda: self._ports.blobs.url(name, ttl_seconds=ttl_seconds))


@dataclass
class _Keys:
    _ports: Ports
    _script: Script | Storm

    def wrap(self, secret: bytes, *, context: Mapping[str, str]) -> bytes:
        return self._script.run("wrap", lambda: self._ports.keys.wrap(secret, context=context))

    def unwrap(self, sealed: bytes, *, context: Mapping[str, str]) -> bytes:
        return self._script.run("unwrap", lambda: self._ports.keys.unwrap(sealed, context=context))


@dataclass
class _Buckets:
    _ports: Ports
    _script: Script | Storm

    def lease(self, name: str, tokens: int, *, now: int, reserve: int = 0) -> Lease:
        lease = self._ports.buckets.lease
        return self._script.run("lease", lambda: lease(name, tokens, now=now, reserve=reserve))
