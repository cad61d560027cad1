"""Reading of members in deterministic CBOR (RFC 8949, 4.2.1), and base64 in JSON.

Readers ignore unknown members. They reject bytes that another encoder would have written
differently.
"""

import base64
import json
import re
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from io import BytesIO
from operator import lt
from typing import Any, Final, NoReturn

import cbor2

# The highest sequence and version: the largest integer that every JSON parser represents exactly.
NUMBER_MAX: Final = 2**53

# Maximum nesting of CBOR values, and of JSON.
NESTING_MAX: Final = 16
JSON_NESTING_MAX: Final = 64

HASH_BYTES: Final = 32
# The types that a format may use (docs/spec/feed.md). Larger integers need a tag.
_KINDS: Final = frozenset({bool, bytes, dict, int, list, str, type(None)})
_INT_MAX: Final = 2**64
# Longer JSON integers become floating-point numbers, as in the other clients.
_INT_CHARACTERS: Final = 17
# Strings and brackets of JSON. A bracket in a string does not nest.
_BRACKETS: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)
# Later versions of Python accept 24:00:00 as the next day. No other parser does.
_TIME: Final = re.compile(r"\d{4}-\d{2}-\d{2}T(?!24)\d{2}:\d{2}:\d{2}Z", re.ASCII)


class MalformedBytes(ValueError):
    """The bytes are not in the wire format."""


def encode(members: Mapping[str, Any]) -> bytes:
    """Return the deterministic CBOR of a map."""
    return cbor2.dumps(members, canonical=True)


def decode(data: bytes) -> dict[str, Any]:
    """Return the map in `data`. Raises `MalformedBytes`, also if another encoder would differ."""
    members = decode_lenient(data)
    _check_values([members])
    try:
        canonical = cbor2.dumps(members, canonical=True)
    except (cbor2.CBORError, ValueError, TypeError, OverflowError, RecursionError):
        raise MalformedBytes("not deterministic CBOR") from None
    if canonical != data:
        raise MalformedBytes("not deterministic CBOR")
    return members


def _check_values(values: Collection[Any]) -> None:
    """Raise `MalformedBytes` for a value outside the formats, for example a tag or a float."""
    types = {*map(type, values)}
    if not types <= _KINDS:
        raise MalformedBytes("not a value of the format")
    if int in types and any(
        type(each) is int and not -_INT_MAX <= each < _INT_MAX for each in values
    ):
        raise MalformedBytes("not a number of the format")
    for each in values if types & {dict, list} else ():
        if type(each) is dict:
            _check_values(with_texts(each, "a member").values())
        elif type(each) is list:
            _check_values(each)


def decode_lenient(data: bytes) -> dict[str, Any]:
    """Return the map in `data`, in any encoding. Raises `MalformedBytes`."""
    try:
        members = cbor2.loads(data, max_depth=NESTING_MAX)
    # A tag with unusable content raises errors of many types.
    except Exception:  # noqa: BLE001
        raise MalformedBytes("not CBOR") from None
    if not isinstance(members, dict):
        raise MalformedBytes("not a CBOR map")
    return members


def unambiguous(data: bytes) -> dict[str, Any]:
    """Return the map in `data`, without repeated members at any level. Raises `MalformedBytes`."""
    stream = BytesIO(data)
    decoder = cbor2.CBORDecoder(
        stream, max_depth=NESTING_MAX, allow_duplicate_keys=False, allow_indefinite=False
    )
    try:
        members = decoder.decode()
    except Exception:  # noqa: BLE001 - as above
        raise MalformedBytes("not CBOR in which each member comes once") from None
    if not isinstance(members, dict) or stream.tell() != len(data):
        raise MalformedBytes("not a CBOR map alone")
    return with_texts(members, "the content")


def member(members: Mapping[str, Any], name: str, kind: type[Any]) -> Any:
    """Return the member `name`, which must have exactly this type. Raises `MalformedBytes`."""
    value = members.get(name)
    if type(value) is not kind:
        raise MalformedBytes(f"{name} must be of type {kind.__name__}")
    return value


def items(members: Mapping[str, Any], name: str, kind: type[Any]) -> list[Any]:
    """Return the list in the member `name`. All items must have this type.

    Raises `MalformedBytes`.
    """
    values: list[Any] = member(members, name, list)
    if not {*map(type, values)} <= {kind}:
        raise MalformedBytes(f"{name} must be a list of type {kind.__name__}")
    return values


def table(members: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the map with string keys in the member `name`. Raises `MalformedBytes`."""
    return with_texts(member(members, name, dict), name)


def tables(members: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the maps with string keys in the list `name`. Raises `MalformedBytes`."""
    return [with_texts(each, name) for each in items(members, name, dict)]


def with_texts(members: dict[Any, Any], name: str) -> dict[str, Any]:
    """Return a map, which must have string keys. Raises `MalformedBytes`."""
    if not {*map(type, members)} <= {str}:
        raise MalformedBytes(f"{name} must be a map whose keys are texts")
    return members


def number(members: Mapping[str, Any], name: str) -> int:
    """Return the number from 0 to 2^53 in the member `name`. Raises `MalformedBytes`."""
    value: int = member(members, name, int)
    if not 0 <= value <= NUMBER_MAX:
        raise MalformedBytes(f"{name} must be between 0 and 2^53")
    return value


def digest(members: Mapping[str, Any], name: str) -> bytes:
    """Return the hash (32 bytes) in the member `name`. Raises `MalformedBytes`."""
    value: bytes = member(members, name, bytes)
    if len(value) != HASH_BYTES:
        raise MalformedBytes(f"{name} must have 32 bytes")
    return value


def texts(members: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """Return the unique texts in `name`, sorted by their UTF-8. Raises `MalformedBytes`."""
    return rising(items(members, name, str), name)


def rising(values: Iterable[Any], name: str) -> tuple[Any, ...]:
    """Return the values, which must be sorted and unique. Raises `MalformedBytes`."""
    ordered = tuple(values)
    if not all(map(lt, ordered, ordered[1:])):
        raise MalformedBytes(f"{name} is not sorted, or has a value twice")
    return ordered


def moment(members: Mapping[str, Any], name: str) -> datetime:
    """Return the time in the member `name`. Raises `MalformedBytes`."""
    value: str = member(members, name, str)
    if not _TIME.fullmatch(value):
        raise MalformedBytes(f"{name} must be a time such as 2026-11-21T00:10:32Z")
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        raise MalformedBytes(f"{name} is not a time") from None


def text(moment: datetime) -> str:
    """Return `moment` in its wire form: UTC, whole seconds, `Z`."""
    return moment.astimezone(UTC).isoformat()[: len("2026-11-21T00:10:32")] + "Z"


def parse_json(data: bytes) -> Any:
    """Parse JSON in UTF-8. Raises `ValueError`, also for excessive nesting."""
    depth = 0
    for match in _BRACKETS.finditer(data):
        depth += {b"[": 1, b"{": 1, b"]": -1, b"}": -1}.get(match[0], 0)
        if depth > JSON_NESTING_MAX:
            raise ValueError("the JSON is nested too deep")
    return json.loads(data.decode(), parse_constant=_refuse_constant, parse_int=_parse_integer)


def _parse_integer(text: str) -> int | float:
    return int(text) if len(text) <= _INT_CHARACTERS else float(text)


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def from_base64(value: object) -> bytes:
    """Decode padded base64 of the standard alphabet, in its canonical form.

    Raises `TypeError` or `ValueError`.
    """
    if type(value) is not str:
        raise TypeError("base64 must be a text")
    data = base64.b64decode(value)
    # The decoder ignores unused bits and characters outside the alphabet.
    if to_base64(data) != value:
        raise ValueError("it must be base64 as an encoder writes it")
    return data


def to_base64(data: bytes) -> str:
    """Return padded base64 of the standard alphabet."""
    return base64.b64encode(data).decode()
