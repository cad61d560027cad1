"""Argument checks shared by all adapters, so that all accept the same arguments.

A failed check is a bug in the calling code, so the exceptions are Python's built-in ones.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from shared.ports.store import (
    MOST_CHANGES,
    Change,
    Check,
    Expect,
    Expectation,
    Increment,
    Item,
    Put,
    Value,
    VersionIs,
)

_MOST_SECRET_BYTES = 4096
_MOST_SIGNED_BYTES = 4096

# No part begins with a dot. This excludes `..` and reserves such names for an adapter's own files.
_BLOB_NAME = re.compile(r"[a-z0-9_-][a-z0-9_.-]*(?:/[a-z0-9_-][a-z0-9_.-]*)*")


def check_write(changes: Sequence[Change]) -> None:
    """Check the changes of a write. Raises `ValueError`, or `TypeError` for the type of a value."""
    if not 0 < len(changes) <= MOST_CHANGES:
        raise ValueError(f"a write has 1 to {MOST_CHANGES} changes")
    if len({change.address for change in changes}) < len(changes):
        raise ValueError("a write changes each item once")
    for change in changes:
        match change:
            case Put(item=item):
                if "pk" in item or "sk" in item:
                    raise ValueError("an item must not contain its key")
                _check_values(item.values())
            case Increment(amounts=amounts, assign=assign):
                if not amounts or {"pk", "sk"} & {*amounts, *assign} or {*amounts} & {*assign}:
                    raise ValueError("an increment names attributes beside the key, each once")
                _check_values(assign.values())
            case Check(expect=Expect.ANYTHING):
                raise ValueError("a check requires a precondition")


def is_met(expect: Expectation, item: Item | None) -> bool:
    """Return whether an item, or its absence, fulfills a precondition."""
    match expect:
        case Expect.ANYTHING:
            return True
        case VersionIs(version=version):
            stored = None if item is None else item.get("version")
            return type(stored) is int and stored == version
    return (item is not None) == (expect is Expect.PRESENT)


def apply_increment(item: Item, change: Increment) -> dict[str, Value]:
    """Return the item after the increment. Raises `TypeError` if an attribute is not an integer."""
    sums = dict(item)
    for name, amount in change.amounts.items():
        number = sums.get(name, 0)
        if type(number) is not int:
            raise TypeError("only an integer is incremented")
        sums[name] = number + amount
    return sums | dict(change.assign)


def _check_values(values: Iterable[object]) -> None:
    """Check types. Some engines convert other types, or cannot store them."""
    for value in values:
        match value:
            case None | bool() | int() | str() | bytes():
                pass
            case list():
                _check_values(value)
            case dict():
                if not all(isinstance(name, str) for name in value):
                    raise TypeError("an item's maps have strings for keys")
                _check_values(value.values())
            case _:
                raise TypeError(f"an item cannot contain {type(value).__name__}")


def check_blob_name(name: str) -> None:
    """Raise `ValueError` unless `name` is a valid blob name."""
    if not _BLOB_NAME.fullmatch(name):
        raise ValueError("a blob's name has parts of a-z, 0-9, '-', '_' and '.', joined by '/'")


def check_secret(secret: bytes, context: Mapping[str, str]) -> None:
    """Raise `ValueError` unless the secret can be wrapped with this context."""
    if not 0 < len(secret) <= _MOST_SECRET_BYTES:
        raise ValueError(f"a secret has 1 to {_MOST_SECRET_BYTES} bytes")
    check_context(context)


def check_context(context: Mapping[str, str]) -> None:
    """Raise `ValueError` if the context is empty."""
    if not context:
        raise ValueError("a context has at least one pair")


def check_signed(data: bytes) -> None:
    """Raise `ValueError` unless the length is one that KMS, and so any root, can sign."""
    if not 0 < len(data) <= _MOST_SIGNED_BYTES:
        raise ValueError(f"a root signs 1 to {_MOST_SIGNED_BYTES} bytes")
