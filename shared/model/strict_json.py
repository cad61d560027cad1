"""A JSON parser that is stricter than Python's (API-4).

It refuses repeated keys, NaN and Infinity, integers of more than 64 bits, lone surrogates, a byte
order mark, and any encoding but UTF-8.
"""

import json
from collections.abc import Iterable
from math import isfinite
from typing import Any, Final, NoReturn

# The length of the longest 64-bit integer. Longer text is refused before it is converted.
_DIGITS_MAX: Final = 20
_INTEGERS: Final = range(-(2**63), 2**64)


def parse(data: bytes) -> Any:
    """Return the value in `data`.

    Raises `ValueError` with a message that repeats nothing of the input.
    """
    try:
        value = _decode(data.decode("utf-8"))
        if b"\\u" in data:
            # UTF-8 has no lone surrogates, so only an escape can make one.
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeError:
        raise ValueError("must be UTF-8 without lone surrogates") from None
    except RecursionError:
        raise ValueError("must not be nested too deeply") from None
    except json.JSONDecodeError:
        raise ValueError("must be one JSON value and nothing else") from None
    return value


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


def _constant(_name: str) -> NoReturn:
    raise ValueError("must not contain NaN or Infinity")


_decode = json.JSONDecoder(
    object_pairs_hook=_unique,
    parse_int=_integer,
    parse_float=_number,
    parse_constant=_constant,
).decode
