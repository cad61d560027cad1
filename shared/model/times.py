"""Moments: RFC 3339 text outside, aware UTC datetimes inside (API-16, API-17)."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

_RFC3339 = re.compile(
    r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:[0-5]\d(\.\d+)?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)",
    re.ASCII,
)
_SECONDS: Final = len("2026-11-21T00:10:32")

# How far one clock may be ahead of another before what it stamped counts as from the future.
CLOCK_TOLERANCE: Final = timedelta(minutes=5)


def text(moment: datetime) -> str:
    """`moment` in UTC as `2026-11-21T00:10:32Z`, parts of a second cut off."""
    # Not strftime: it does not pad the years before 1000.
    return moment.astimezone(UTC).isoformat()[:_SECONDS] + "Z"


def whole(moment: datetime) -> datetime:
    """`moment` with parts of a second cut off."""
    return moment.replace(microsecond=0)


def has_passed(moment: datetime | None, now: datetime) -> bool:
    """Whether there is such a moment and it has come; one that is None never does."""
    return moment is not None and moment <= now


def is_ahead(moment: datetime, now: datetime) -> bool:
    """Whether `moment` is so far in the future that the clock that gave it must be wrong."""
    return moment > now + CLOCK_TOLERANCE


def parse(value: str) -> datetime:
    """The moment that a caller wrote, in UTC, parts of a second cut off.

    Raises ValueError, with a message fit for the caller, for anything but RFC 3339 with seconds and
    an offset; a leap second is refused too.
    """
    if not _RFC3339.fullmatch(value):
        raise ValueError(_ALLOWED)
    try:
        return datetime.fromisoformat(value.upper()).astimezone(UTC).replace(microsecond=0)
    except (ValueError, OverflowError):
        raise ValueError(_ALLOWED) from None


_ALLOWED = "must be an RFC 3339 timestamp with seconds and an offset, such as 2026-11-21T00:10:32Z"
