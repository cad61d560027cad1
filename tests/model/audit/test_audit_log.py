"""Filters of audit entries (AUDIT-4)."""

from datetime import UTC, datetime, timedelta

import pytest

from shared.model.audit.audit_log import AuditAction, EntryFilters
from shared.ports.store import SEARCHED, Table

START = datetime(2026, 11, 21, 12, tzinfo=UTC)
END = START + timedelta(days=1)


@pytest.mark.parametrize("year", [1, 1969, 1970, 9998])
def test_bounds_at_the_ends_of_the_calendar(year: int) -> None:
    """Years without identifiers have bounds all the same."""
    filters = EntryFilters(datetime(year, 1, 1, tzinfo=UTC), datetime(year, 12, 31, tzinfo=UTC))
    assert filters.lower_bound <= filters.upper_bound
    assert (filters.lower_bound < EntryFilters(START, END).lower_bound) is (year < START.year)
    assert len(filters.lower_bound) == len(filters.upper_bound) == len("svc_evt_") + 10


def test_the_store_finds_entries_by_every_filter() -> None:
    """Each path of a filter is one by which the store finds entries of the table."""
    filters = EntryFilters(START, END, AuditAction.KEY_SIGN, *"abcdefg")
    # Entries about a warrant that are not sealed yet are found by its path, too.
    assert {*filters.values, "details.warrant_id"} == set(SEARCHED[Table.AUDIT])
