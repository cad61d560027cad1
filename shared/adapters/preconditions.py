"""What every adapter asks of its caller, so that none is more lenient than the next.

Whoever breaks one of these rules has a fault in the code: the errors are Python's own.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from shared.ports.store import MOST_CHANGES, Change, Check, Expect, Increment, Put

_MOST_SECRET_BYTES = 4096

# A part never begins with a dot: no `..`, and room for an adapter's own files.
_BLOB_NAME = re.compile(r"[a-z0-9_-][a-z0-9_.-]*(?:/[a-z0-9_-][a-z0-9_.-]*)*")


def check_write(changes: Sequence[Change]) -> None:
    """Refuse what no store could apply. Raises `ValueError`, `TypeError` for a value's type."""
    if not 0 < len(changes) <= MOST_CHANGES:
        raise ValueError(f"a write has 1 to {MOST_CHANGES} changes")
    if len({change.address for change in changes}) < len(changes):
        raise ValueError("a write changes each item once")
    for change in changes:
        _check_change(change)


def _check_change(change: Change) -> None:
    match change:
        case Put(item=item):
            if "pk" in item or "sk" in item:
                raise ValueError("an item does not repeat its key")
            _check_values(item.values())
        case Increment(amounts=amounts, assign=assign):
            if not amounts or {"pk", "sk"} & {*amounts, *assign} or {*amounts} & {*assign}:
                raise ValueError("an increment names attributes beside the key, each once")
            _check_values(assign.values())
        case Check(expect=Expect.ANYTHING):
            raise ValueError("a check expects something")


def _check_values(values: Iterable[object]) -> None:
    """Engines read other types back as something else, or not at all."""
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
                raise TypeError(f"an item cannot hold {type(value).__name__}")


def check_blob_name(name: str) -> None:
    """Refuse what is no blob's name. Raises `ValueError`."""
    if not _BLOB_NAME.fullmatch(name):
        raise ValueError("a blob's name has parts of a-z, 0-9, '-', '_' and '.', joined by '/'")


def check_secret(secret: bytes, context: Mapping[str, str]) -> None:
    """Refuse what no wrapper could seal. Raises `ValueError`."""
    if not 0 < len(secret) <= _MOST_SECRET_BYTES:
        raise ValueError(f"a secret has 1 to {_MOST_SECRET_BYTES} bytes")
    check_context(context)


def check_context(context: Mapping[str, str]) -> None:
    """Refuse to seal or open what is bound to nothing. Raises `ValueError`."""
    if not context:
        raise ValueError("a context has at least one pair")
