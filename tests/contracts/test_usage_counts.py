"""What all usage counts promise (`shared.ports.token_buckets.UsageCounts`)."""

from datetime import UTC, datetime, timedelta
from typing import TypeAlias

import pytest

from shared.model import api_keys
from shared.model.api_keys import Usage
from shared.ports.store import Expect, Put, Store
from shared.ports.token_buckets import UsageCounts, UsageDelta

Counting: TypeAlias = tuple[UsageCounts, Store]

AT = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
PLACE = api_keys.usage("t1").address("svc_ak_1")


def begun(store: Store, usage: Usage) -> None:
    store.write(Put(PLACE, usage.to_item(), Expect.ABSENT))


def held(store: Store) -> Usage | None:
    item = store.get(PLACE)
    return None if item is None else Usage.from_item(item)


def test_counts_add_up(usage: Counting) -> None:
    """Each count is added, and the last use is that of the last count; the digest stays."""
    counts, store = usage
    begun(store, Usage(digest="d"))
    for number in range(3):
        last = AT + timedelta(seconds=number)
        counts.add(UsageDelta("t1", "svc_ak_1", number + 1, last))
    assert held(store) == Usage(6, AT + timedelta(seconds=2), "d")


@pytest.mark.parametrize("late", [False, True])
def test_a_deleted_key_stays_deleted(usage: Counting, late: bool) -> None:
    """F14: the count of a key that is not there makes no item, and does not fail."""
    counts, store = usage
    counts.add(UsageDelta("t1", "svc_ak_1", 3, AT, late=late))
    assert held(store) is None


@pytest.mark.parametrize(
    ("before", "after"),
    [(None, AT), (AT - timedelta(seconds=1), AT), (AT, AT), (AT + timedelta(days=1),) * 2],
)
def test_a_late_count_keeps_a_later_use(
    usage: Counting, before: datetime | None, after: datetime
) -> None:
    """A count that comes late is added, and sets the last use only if it knows a later one."""
    counts, store = usage
    begun(store, Usage(5, before))
    counts.add(UsageDelta("t1", "svc_ak_1", 2, AT, late=True))
    assert held(store) == Usage(7, after)


def test_a_clock_that_was_ahead_is_put_right(usage: Counting) -> None:
    """A count that is not late sets the last use, whatever a wrong clock wrote before."""
    counts, store = usage
    begun(store, Usage(5, AT + timedelta(days=1)))
    counts.add(UsageDelta("t1", "svc_ak_1", 2, AT))
    assert held(store) == Usage(7, AT)
