"""Text that people write: names and reasons (API-18)."""

import json
import unicodedata
from collections.abc import Iterable
from math import isfinite
from typing import Any, Final, NoReturn

NAME_MAX: Final = 255
REASON_MAX: Final = 1024

# Zero-width joiners. Scripts and emoji need them inside a word. Elsewhere they are invisible.
_JOINERS: Final = frozenset("\u200c\u200d")
# Controls, formats, surrogates, unassigned code points, line and paragraph separators.
_REFUSED: Final = frozenset({"Cc", "Cf", "Cs", "Cn", "Zl", "Zp"})
# Letters and symbols that are invisible: fillers of Hangul, and the empty Braille pattern.
_BLANK: Final = frozenset("\u115f\u1160\u2800\u3164\uffa0")
_VISIBLE: Final = frozenset("LNPS")


# The length of the longest 64-bit integer. Longer text is refused before it is converted.
_DIGITS_MAX: Final = 20
_INTEGERS: Final = range(-(2**63), 2**64)


def name(value: str) -> str:
    """Return the trimmed name. Raises `ValueError`, for the caller, if it is not allowed."""
    return _checked(value.strip(), most=NAME_MAX, breaks="")


def reason(value: str) -> str:
    """Return the trimmed reason, of one or more lines. Raises `ValueError` as `name` does."""
    return _checked(value.strip(), most=REASON_MAX, breaks="\n\t")


def _checked(text: str, *, most: int, breaks: str) -> str:
    if not 1 <= len(text) <= most or not any(map(_is_visible, text)):
        raise ValueError(f"must be 1 to {most} characters after trimming, one of them visible")
    for address, character in enumerate(text):
        if unicodedata.category(character) not in _REFUSED or character in breaks:
            continue
        if not (character in _JOINERS and _is_within_word(text, address)):
            raise ValueError("must not contain control, format or unassigned characters")
    return text


def _is_visible(character: str) -> bool:
    return unicodedata.category(character)[0] in _VISIBLE and character not in _BLANK


def _is_within_word(text: str, address: int) -> bool:
    """Return whether both neighbours belong to a word. A combining mark belongs to its letter."""
    around = text[address - 1 : address] + text[address + 1 : address + 2]
    return len(around) == 2 and all(  # noqa: PLR2004 (both sides)
        _is_visible(each) or unicodedata.category(each)[0] == "M" for each in around
    )


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
