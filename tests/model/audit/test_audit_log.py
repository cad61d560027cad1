"""Which entries are meant, and where they are (AUDIT-4)."""

from datetime import UTC, datetime, timedelta

import pytest

from shared.model.audit.audit_log import SHARDS, Action, EntryFilters, months
from shared.ports.store import SEARCHED, Table
from shared.wiring import identifiers

START = datetime(2026, 11, 21, 12, tzinfo=UTC)
END = START + timedelta(days=1)


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        ("2026-11-21", "2026-11-21", ["2026-11"]),
        ("2026-11-01", "2026-11-30T23:59:59", ["2026-11"]),
        ("2026-11-30T23:59:59", "2026-12-01", ["2026-12", "2026-11"]),
        ("2025-12-31", "2026-03-31", ["2026-03", "2026-02", "2026-01", "2025-12"]),
        ("2026-12-01", "2026-11-30", []),
        ("2026-01-01", "2025-12-31", []),
    ],
)
def test_the_months_of_a_window(start: str, end: str, expected: list[str]) -> None:
    """Every month that the window touches, newest first, each once."""
    window = EntryFilters(moment(start), moment(end))
    assert [name for name, _ in months("T", window)] == expected


def test_ten_years_of_months() -> None:
    """No month is left out on the way, whatever its length."""
    window = EntryFilters(moment("2016-01-31"), moment("2025-12-31"))
    assert len({each.pk for _, month in months("T", window) for each in month}) == 120 * SHARDS


def test_the_bounds_of_a_window() -> None:
    """Both ends are included: an identifier of any millisecond of their seconds is inside."""
    filters = EntryFilters(START, END)
    new_id = identifiers(lambda: START)
    for moment_, meant in [
        (START - timedelta(milliseconds=1), False),
        (START, True),
        (END, True),
        (END + timedelta(milliseconds=999), True),
        (END + timedelta(seconds=1), False),
    ]:
        assert (filters.after < new_id("evt", at=moment_) < filters.before) is meant


@pytest.mark.parametrize("year", [1, 1969, 1970, 9998])
def test_bounds_at_the_ends_of_the_calendar(year: int) -> None:
    """Years without identifiers have bounds all the same."""
    filters = EntryFilters(datetime(year, 1, 1, tzinfo=UTC), datetime(year, 12, 31, tzinfo=UTC))
    assert filters.after <= filters.before
    assert len(filters.after) == len(filters.before) == len("svc_evt_") + 10


def test_only_what_is_given_is_looked_for() -> None:
    """Each filter is a value at the path of its attribute; the empty text is a value too."""
    assert EntryFilters(START, END).values == {}
    filters = EntryFilters(START, END, action=Action.KEY_SIGN, actor="", batch_id="svc_bat_a")
    assert filters.values == {"action": "key.sign", "actor": "", "details.batch_id": "svc_bat_a"}
    filters = EntryFilters(START, END, actor_key_id="svc_ak_a", resource_id="svc_key_a")
    assert filters.values == {"actor_key_id": "svc_ak_a", "resource_id": "svc_key_a"}


def test_the_store_finds_entries_by_every_filter() -> None:
    """Each path of a filter is one by which the store finds entries of the table."""
    filters = EntryFilters(START, END, Action.KEY_SIGN, *"abcdefg")
    # Entries about a warrant that are not sealed yet are found by its path, too.
    assert {*filters.values, "details.warrant_id"} == set(SEARCHED[Table.AUDIT])
