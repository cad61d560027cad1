"""Text that people write: names and reasons (decisions 1, names and reasons)."""

import unicodedata
from typing import Final

NAME_MAX: Final = 255
REASON_MAX: Final = 1024


def name(value: str) -> str:
    """A trimmed name. Raises ValueError, fit for the caller, where it is not acceptable."""
    return _trimmed(value, most=NAME_MAX)


def reason(value: str) -> str:
    """A trimmed reason. Raises ValueError, fit for the caller, where it is not acceptable."""
    return _trimmed(value, most=REASON_MAX)


def _trimmed(value: str, *, most: int) -> str:
    trimmed = value.strip()
    if not 1 <= len(trimmed) <= most or any(_is_control(character) for character in trimmed):
        raise ValueError(f"must be 1 to {most} characters after trimming, no control characters")
    return trimmed


def _is_control(character: str) -> bool:
    # Cs: a lone surrogate is no text at all, and no store could hold it.
    return unicodedata.category(character) in {"Cc", "Cs"}
