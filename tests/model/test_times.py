"""Moments as RFC 3339 text (API-16, API-17)."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.model import times

MOMENTS = st.datetimes(datetime(1000, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001


@given(MOMENTS)
def test_what_is_written_is_read_again(moment: datetime) -> None:
    """The text of a moment is the moment, to the whole second, in UTC."""
    read = times.parse(times.text(moment))
    assert read == moment.replace(microsecond=0)
    assert read.utcoffset() == timedelta(0)


@given(MOMENTS)
def test_the_text_has_one_form(moment: datetime) -> None:
    """The text has four digits for the year, whole seconds and Z, and sorts as moments do."""
    text = times.text(moment)
    assert len(text) == len("2026-11-21T00:10:32Z")
    assert text.endswith("Z")
    assert times.text(times.parse(text)) == text


@pytest.mark.parametrize("year", [1, 99, 999])
def test_an_early_year_has_four_digits(year: int) -> None:
    """RFC 3339 writes every year with four digits, and such text is read again."""
    moment = datetime(year, 1, 1, tzinfo=UTC)
    assert times.text(moment) == f"{year:04}-01-01T00:00:00Z"
    assert times.parse(times.text(moment)) == moment


@given(MOMENTS, MOMENTS)
def test_text_sorts_as_moments_do(one: datetime, other: datetime) -> None:
    """Of two moments, the text of the later one is not the lesser."""
    earlier, later = sorted((one, other))
    assert times.text(earlier) <= times.text(later)


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Any text is a moment or a ValueError, never another error."""
    with suppress(ValueError):
        times.parse(text)


@given(MOMENTS)
def test_a_whole_moment_has_no_parts_of_a_second(moment: datetime) -> None:
    """`whole` cuts off what the text does not show."""
    whole = times.whole(moment)
    assert whole.microsecond == 0
    assert times.text(whole) == times.text(moment)
