"""Moments as RFC 3339 text (API-16, API-17)."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta

from hypothesis import example, given
from hypothesis import strategies as st

from shared.model import times

MOMENTS = st.datetimes(datetime(1000, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001


@given(MOMENTS)
@example(datetime(1, 1, 1, tzinfo=UTC))
@example(datetime(999, 12, 31, tzinfo=UTC))
def test_what_is_written_is_read_again(moment: datetime) -> None:
    """The text of a moment has four digits for the year, whole seconds and Z, and is read again."""
    text, whole = times.format_utc(moment), times.truncate_to_second(moment)
    read = times.parse(text)
    assert read == whole == moment.replace(microsecond=0) == times.parse(f"{text[:-1]}.9Z")
    assert read.utcoffset() == timedelta(0)
    assert times.format_utc(whole) == text
    assert text.startswith(f"{moment.year:04}-")
    assert text.endswith("Z")
    assert len(text) == len("2026-11-21T00:10:32Z")


@given(MOMENTS, MOMENTS)
def test_text_sorts_as_moments_do(one: datetime, other: datetime) -> None:
    """Of two moments, the text of the later one is not the lesser."""
    earlier, later = sorted((one, other))
    assert times.format_utc(earlier) <= times.format_utc(later)


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Any text is a moment or a ValueError, never another error."""
    with suppress(ValueError):
        times.parse(text)
