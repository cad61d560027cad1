"""Ports of which a part is down, whatever is asked of it and however often."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from shared.ports.store import Change, Entry, Item, Key, Partition, Store, Value

# Says of a verb and a partition whether that call breaks.
Fails = Callable[[str, str], bool]


def on_authentication(verb: str, pk: str) -> bool:
    """The read that decides whether a key opens."""
    return pk.startswith("api-key#")


def behind_the_gate(verb: str, pk: str) -> bool:
    """Every read but that one."""
    return verb != "write" and not on_authentication(verb, pk)


@dataclass
class BreakingStore:
    """A store that raises `error` where `fails` says so, and else hands on what it is asked."""

    inner: Store
    error: BaseException
    fails: Fails

    def get(self, key: Key) -> Item | None:
        self._check("get", [key.pk])
        return self.inner.get(key)

    def get_many(self, keys: Iterable[Key]) -> dict[Key, Item]:
        keys = list(keys)
        self._check("get_many", [key.pk for key in keys])
        return self.inner.get_many(keys)

    def query(self, partition: Partition, **bounds: Any) -> Iterator[Entry]:
        self._check("query", [partition.pk])
        return self.inner.query(partition, **bounds)

    def count(self, partition: Partition, **asked: Any) -> int:
        self._check("count", [partition.pk])
        return self.inner.count(partition, **asked)

    def column(
        self, partition: Partition, attribute: str, *, after: str | None = None
    ) -> Iterator[list[tuple[str, Value]]]:
        self._check("column", [partition.pk])
        return self.inner.column(partition, attribute, after=after)

    def write(self, *changes: Change) -> None:
        self._check("write", [change.key.pk for change in changes])
        self.inner.write(*changes)

    def _check(self, verb: str, pks: list[str]) -> None:
        if any(self.fails(verb, pk) for pk in pks):
            raise self.error


class Down:
    """A port that raises `error` whatever is asked of it."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __getattr__(self, verb: str) -> Any:
        def raise_(*_args: Any, **_options: Any) -> None:
            raise self._error

        return raise_
