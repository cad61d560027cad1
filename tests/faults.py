"""Ports that break, or wait, exactly where a test says so."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from shared.ports import Ports
from shared.ports.store import Change, Entry, Item, Key, Partition

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


def raises(error: BaseException) -> Hook:
    """A hook that raises `error`."""

    def hook() -> None:
        raise error

    return hook


def scripted(ports: Ports, script: Script) -> Ports:
    """The same ports, with every call to them run by `script`."""
    return replace(
        ports,
        store=_Store(ports, script),
        blobs=_Blobs(ports, script),
        keys=_Keys(ports, script),
    )


def _nothing() -> None:
    pass


@dataclass
class _Store:
    _ports: Ports
    _script: Script

    def get(self, key: Key) -> Item | None:
        return self._script.run("get", lambda: self._ports.store.get(key))

    def get_many(self, keys: Iterable[Key]) -> dict[Key, Item]:
        return self._script.run("get_many", lambda: self._ports.store.get_many(keys))

    def query(
        self,
        partition: Partition,
        *,
        after: str | None = None,
        before: str | None = None,
        newest_first: bool = False,
        limit: int | None = None,
    ) -> Iterator[Entry]:
        def call() -> list[Entry]:
            store = self._ports.store
            bounds = {"after": after, "before": before}
            return list(store.query(partition, **bounds, newest_first=newest_first, limit=limit))

        return iter(self._script.run("query", call))

    def write(self, *changes: Change, token: str | None = None) -> None:
        self._script.run("write", lambda: self._ports.store.write(*changes, token=token))


@dataclass
class _Blobs:
    _ports: Ports
    _script: Script

    def put(self, name: str, data: bytes) -> None:
        self._script.run("put", lambda: self._ports.blobs.put(name, data))

    def get(self, name: str) -> bytes | None:
        return self._script.run("get_blob", lambda: self._ports.blobs.get(name))

    def url(self, name: str, *, ttl_seconds: int) -> str:
        return self._script.run("url", lambda: self._ports.blobs.url(name, ttl_seconds=ttl_seconds))


@dataclass
class _Keys:
    _ports: Ports
    _script: Script

    def wrap(self, secret: bytes, *, context: Mapping[str, str]) -> bytes:
        return self._script.run("wrap", lambda: self._ports.keys.wrap(secret, context=context))

    def unwrap(self, sealed: bytes, *, context: Mapping[str, str]) -> bytes:
        return self._script.run("unwrap", lambda: self._ports.keys.unwrap(sealed, context=context))
