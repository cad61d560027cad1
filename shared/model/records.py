"""Conversion between records and items, by the declared types of the fields."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, Field, fields
from datetime import datetime
from enum import StrEnum
from functools import cache
from types import NoneType
from typing import Any, Final, Self, get_args, get_origin, get_type_hints

from shared.errors import DataCorrupt
from shared.model import times
from shared.model.items import Item, ItemRow, Value

_Read = Callable[[Value], Any]
# For a field: its name, the types that are stored unchanged, the converter for other values, and
# the value if the item lacks it.
_Reader = tuple[str, frozenset[type], _Read, Value]
_PLAIN: Final = frozenset({str, int, bool, bytes})
_SPARSE: Final = "sparse"

# Metadata of a field that is omitted from items if it has its default. Fields that a later release
# adds have it too.
SPARSE: Final = {_SPARSE: True}


class Record:
    """A frozen dataclass that is stored as one item.

    A field is a string, integer, boolean, bytes, datetime, string enumeration, a tuple of strings,
    enumerations or maps, or a map. Items omit fields that are None.
    """

    __slots__ = ()

    def to_item(self) -> dict[str, Value]:
        """Return the item of the record, the inverse of `from_item`."""
        values = ((each, getattr(self, each.name)) for each in fields(self))  # type: ignore[arg-type]
        return {
            each.name: _encode_value(value)
            for each, value in values
            if value is not None and not (_SPARSE in each.metadata and value == _default(each))
        }

    @classmethod
    def from_item(cls, item: Item) -> Self:
        """Return the record of an item. Raises `DataCorrupt` if a field is missing or malformed."""
        values = [
            value if type(value := item.get(name, absent)) in as_stored else read(value)
            for name, as_stored, read, absent in _readers(cls)  # type: ignore[arg-type]
        ]
        return cls(*values)

    @classmethod
    def from_optional(cls, item: Item | None) -> Self | None:
        """Return the record of an item, or None without an item. Raises as `from_item` does."""
        return None if item is None else cls.from_item(item)

    @classmethod
    def from_rows(cls, rows: Iterable[ItemRow]) -> Iterator[Self]:
        """Yield the records of rows. Raises as `from_item` does."""
        return (cls.from_item(row.item) for row in rows)


def _encode_value(value: Any) -> Value:
    if isinstance(value, datetime):
        return times.format_utc(value)
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, tuple):
        return [_encode_value(member) for member in value]
    return value  # type: ignore[no-any-return]


def integer(item: Item, name: str) -> int:
    """Return the integer in `item` under `name`. Raises `DataCorrupt` if there is none."""
    value = item.get(name)
    if type(value) is not int:
        raise DataCorrupt(f"stored counter {name} is malformed")
    return value


def moment(value: Value, name: str) -> datetime | None:
    """Return the time stored under `name`, or None. Raises `DataCorrupt` for other values."""
    if value is None:
        return None
    try:
        return times.parse(_exactly(str, value))
    except (TypeError, ValueError):
        raise DataCorrupt(f"stored time {name} is malformed") from None


@cache
def _readers(record: type[Record]) -> list[_Reader]:
    hints = get_type_hints(record)
    return [
        (
            each.name,
            *_reader(hints[each.name], f"{record.__name__}.{each.name}"),
            _encode_value(_default(each)) if _SPARSE in each.metadata else None,
        )
        for each in fields(record)  # type: ignore[arg-type]
    ]


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _reader(declared_type: Any, where: str) -> tuple[frozenset[type], _Read]:
    accepted = [
        member for member in get_args(declared_type) or [declared_type] if member is not NoneType
    ]
    optional = NoneType in get_args(declared_type)
    kind = declared_type if get_origin(declared_type) in (tuple, dict) else accepted[0]
    as_stored = {kind} & _PLAIN | ({NoneType} if optional else set())
    convert = _converter(kind)

    def read(value: Value) -> Any:
        try:
            return convert(value)
        except (TypeError, ValueError):
            raise DataCorrupt(f"stored field {where} is malformed") from None

    return frozenset(as_stored), read


def _converter(kind: Any) -> Callable[[Any], Any]:
    if get_origin(kind) is tuple:
        member = _converter(get_args(kind)[0])
        return lambda value: tuple(member(each) for each in _exactly(list, value))
    if get_origin(kind) is dict:
        return lambda value: _exactly(dict, value)
    if kind is datetime:
        return lambda value: times.parse(_exactly(str, value))
    if issubclass(kind, StrEnum):
        return lambda value: kind(_exactly(str, value))
    return lambda value: _exactly(kind, value)


def _exactly(kind: type, value: Any) -> Any:
    # Not isinstance, because `bool` is a subclass of `int`, and True is not a number here.
    if type(value) is not kind:
        raise TypeError(kind.__name__)
    return value
