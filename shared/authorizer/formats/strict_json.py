"""JSON (RFC 8259): strict for callers, lenient for documents of other services."""

import json
from collections.abc import Iterable
from math import isfinite
from typing import Any, Final, NoReturn

# The length of the longest 64-bit integer. Longer text is rejected before conversion.
_DIGITS_MAX: Final = 20
_INTEGERS: Final = range(-(2**63), 2**64)


def parse(data: bytes) -> Any:
    """Return the value in `data`: UTF-8 without repeated members, NaN or large integers.

    Raises `ValueError`. The message never quotes the input.
    """
    try:
        value = _decode(data.decode("utf-8"))
        if b"\\u" in data:
            # In valid UTF-8, only an escape can produce a lone surrogate.
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeError:
        raise ValueError("must be UTF-8 without lone surrogates") from None
    except RecursionError:
        raise ValueError("must not be nested too deeply") from None
    except json.JSONDecodeError:
        raise ValueError("must be one JSON value and nothing else") from None
    return value


def parse_foreign(data: bytes) -> Any:
    """Return the value in a document of a foreign service.

    Skips a byte order mark (RFC 8259, 8.1). The last of repeated members wins, as in most parsers.
    Raises `ValueError`.
    """
    try:
        return json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        raise ValueError("must be JSON in UTF-8") from None


def _unique(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    pairs = list(pairs)
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("must not repeat a key within an object")
    return members


def _integer(digits: str) -> int:
    if len(digits) > _DIGITS_MAX or int(digits) not in _INTEGERS:
        raise ValueError("must not contain an integer of more than 64 bits")
    return int(digits)


def _number(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError("must not contain a number that is out of range")
    return number


def _refuse_constant(_name: str) -> NoReturn:
    raise ValueError("must not contain NaN or Infinity")


_decode = json.JSONDecoder(
    object_pairs_hook=_unique,
    parse_int=_integer,
    parse_float=_number,
    parse_constant=_refuse_constant,
).decode
