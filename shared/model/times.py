"""Times: RFC 3339 text outside, aware UTC datetimes inside (API-16, API-17)."""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

_RFC3339 = re.compile(
    r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:[0-5]\d(\.\d+)?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)",
    re.ASCII,
)
_SECONDS: Final = len("2026-11-21T00:10:32")

# How far a clock may be ahead. A later time stamp counts as from the future.
CLOCK_TOLERANCE: Final = timedelta(minutes=5)


def format_utc(moment: datetime) -> str:
    """Return `moment` in UTC as `2026-11-21T00:10:32Z`, without fractions of a second."""
    # Not strftime, which does not pad years before 1000.
    return moment.astimezone(UTC).isoformat()[:_SECONDS] + "Z"


def from_seconds(seconds: int) -> datetime:
    """Return the time `seconds` after the start of 1970, in UTC.

    Raises `OverflowError` or `ValueError` if it is out of range.
    """
    return datetime.fromtimestamp(seconds, UTC)


def truncate_to_second(moment: datetime) -> datetime:
    """Return `moment` without fractions of a second."""
    return moment.replace(microsecond=0)


def midnight(moment: datetime) -> datetime:
    """Return the start of the day of `moment`, in UTC."""
    return moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def has_passed(moment: datetime | None, now: datetime) -> bool:
    """Return whether `moment` has been reached at `now`; False if it is None."""
    return moment is not None and moment <= now


def is_ahead(moment: datetime, now: datetime) -> bool:
    """Return whether `moment` is more than `CLOCK_TOLERANCE` after `now`, due to a wrong clock."""
    return moment > now + CLOCK_TOLERANCE


# A publication parses thousands of times, and most of them are the same few seconds.
@lru_cache(maxsize=256)
def parse(value: str) -> datetime:
    """Parse a caller's time, in UTC, without fractions of a second.

    Raises `ValueError`, with a message for the caller, unless the text is RFC 3339 with seconds and
    an offset. Leap seconds are rejected.
    """
    if not _RFC3339.fullmatch(value):
        raise ValueError(_ALLOWED)
    try:
        moment = datetime.fromisoformat(value.upper())
        # Stored times need no conversion, and a publication parses thousands.
        is_inside = moment.tzinfo is UTC and not moment.microsecond
        return moment if is_inside else moment.astimezone(UTC).replace(microsecond=0)
    except (ValueError, OverflowError):
        raise ValueError(_ALLOWED) from None


_ALLOWED = "must be an RFC 3339 timestamp with seconds and an offset, such as 2026-11-21T00:10:32Z"
