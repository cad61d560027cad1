"""Text written by people: names and reasons (API-18)."""

import re
import unicodedata
from typing import Final

NAME_MAX: Final = 255
REASON_MAX: Final = 1024
LABEL_PATTERN: Final = "[a-z0-9-]{1,63}"

_LABEL: Final = re.compile(LABEL_PATTERN)
# Zero-width joiners. Scripts and emoji need them inside a word. Elsewhere they are invisible.
_JOINERS: Final = frozenset("\u200c\u200d")
# Controls, formats, surrogates, unassigned code points, line and paragraph separators.
_REFUSED: Final = frozenset({"Cc", "Cf", "Cs", "Cn", "Zl", "Zp"})
# Invisible letters and symbols: Hangul fillers, and the empty Braille pattern.
_BLANK: Final = frozenset("\u115f\u1160\u2800\u3164\uffa0")
_VISIBLE: Final = frozenset("LNPS")


def name(value: str) -> str:
    """Return the trimmed name. Raises `ValueError`, worded for the caller."""
    return _validate(value.strip(), most=NAME_MAX, breaks="")


def reason(value: str) -> str:
    """Return the trimmed reason, of one or more lines. Raises `ValueError` as `name` does."""
    return _validate(value.strip(), most=REASON_MAX, breaks="\n\t")


def label(value: str) -> str:
    """Return the name of a tenant, account or role. Raises `ValueError` if it is malformed."""
    if not _LABEL.fullmatch(value):
        raise ValueError("must be 1 to 63 lower-case letters, digits or '-'")
    return value


def _validate(text: str, *, most: int, breaks: str) -> str:
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
    """Return whether both neighbors belong to a word. A combining mark belongs to its letter."""
    around = text[address - 1 : address] + text[address + 1 : address + 2]
    return len(around) == 2 and all(  # noqa: PLR2004 (both sides)
        _is_visible(each) or unicodedata.category(each)[0] == "M" for each in around
    )
