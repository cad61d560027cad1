"""What a publication decides, without a world: from facts alone."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from shared.authorizer.formats import wire
from shared.authorizer.formats.wire import Base, FeedEntry
from shared.errors import DataCorrupt
from shared.model import times
from shared.model.feed import LEAP, FeedHead
from shared.model.items import Address
from shared.model.lists import schedule
from shared.model.lists.content import SrlState
from shared.model.lists.head import SrlHead
from shared.model.lists.schedule import IN_FLIGHT_MAX, OutboxMark
from shared.model.lists.signers import SrlSigner, SrlSignerStatus
from shared.model.lists.tombstones import Tombstones
from shared.model.tenants import TenantSettings
from shared.operations.base.counters import ChangeTotals
from shared.operations.lists import decisions
from shared.operations.lists.decisions import (
    PendingEntry,
    PendingMarks,
    PreviousSrl,
    PublicationFacts,
    SrlIssue,
)

NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
TENANT = "svc_tnt_a"
CHAIN = b"c" * 32

LISTED = SrlHead(
    version=7,
    issued_at=NOW,
    expires_at=NOW + HOUR,
    count=1,
    changes=5,
    blob="b",
    sha256="s",
    size=1,
    key_id="svc_key_a",
    state="t",
    base="p",
    base_size=1,
    payload_sha256="00" * 32,
    sequence=3,
)


def newest(sequence: int = 3, *, version: int = 7, covers: int = 3, broke_at: int = 0) -> FeedHead:
    base = Base(version, covers, CHAIN, bytes(32), 1)
    told = wire.SignedHead(TENANT, sequence, CHAIN, NOW, NOW + HOUR, base)
    return FeedHead(told.encode(), b"", LISTED.key_id, broke_at)


FACTS = PublicationFacts(
    TenantSettings(TENANT, "acme", "acme", 3600, 365, NOW),
    LISTED,
    SrlSigner(LISTED.key_id, TENANT, "", SrlSignerStatus.ACTIVE, NOW, None),
    newest(),
    PendingMarks(NOW, {}, is_complete=True, signers={}),
    totals=lambda: ChangeTotals(5, 0),
)
STATE = SrlState(TENANT, 7, NOW, {"svc_wrt_b": times.format_utc(NOW)}, ("svc_key_b",))
PRIOR = PreviousSrl(["svc_wrt_a", "svc_wrt_b"], STATE, [])


def damaged() -> ChangeTotals:
    raise DataCorrupt("a counter")


def told(
    sequence: int, revoked: str = "", removed: str = "", end: datetime | None = None
) -> PendingEntry:
    ids = tuple(revoked.split())
    return PendingEntry(FeedEntry(sequence, ids, tuple(removed.split())), [end for _ in ids])


@pytest.mark.parametrize(
    ("facts", "after", "due"),
    [
        (FACTS, timedelta(0), False),
        (FACTS, HOUR / 2 - timedelta(seconds=1), False),
        (FACTS, HOUR / 2, True),
        (FACTS, -HOUR, True),
        (replace(FACTS, feed_head=None), timedelta(0), True),
        (replace(FACTS, feed_head=newest(4)), timedelta(0), True),
        (replace(FACTS, feed_head=newest(version=6)), timedelta(0), True),
        (replace(FACTS, totals=lambda: ChangeTotals(6, 0)), timedelta(0), True),
        (replace(FACTS, totals=damaged, feed_head=newest(4)), timedelta(0), True),
    ],
    ids=[
        "nothing new",
        "before its half",
        "at its half",
        "a clock",
        "no feed",
        "an entry",
        "another base",
        "a change",
        "an entry beside a damaged counter",
    ],
)
def test_a_list_is_due(facts: PublicationFacts, after: timedelta, due: bool) -> None:
    """SRL-11: By half of its lifetime, a wrong clock, the feed or a counter; else not."""
    assert decisions.is_srl_due(facts, NOW + after) is due


def test_a_damaged_counter_decides_nothing() -> None:
    """SRL-11: If only the counters can say whether a list is due, they must be right."""
    with pytest.raises(DataCorrupt):
        decisions.is_srl_due(replace(FACTS, totals=damaged), NOW)


@pytest.mark.parametrize(
    ("address", "seen", "anew"),
    [
        (schedule.keys_mark_address(TENANT), IN_FLIGHT_MAX, True),
        (schedule.keys_mark_address(TENANT), IN_FLIGHT_MAX / 2, False),
        (schedule.keys_mark_address(TENANT), None, False),
        (schedule.mark_address(TENANT, "svc_wrt_a"), IN_FLIGHT_MAX, False),
    ],
)
def test_keys_are_looked_at_again(address: Address, seen: timedelta | None, anew: bool) -> None:
    """SRL-12: A change of keys that was in flight is found once it must be visible."""
    mark = OutboxMark(1, seen_at=None if seen is None else NOW - seen)
    facts = replace(FACTS, tenant_marks=lambda: {address: mark})
    assert decisions.needs_full_comparison(facts, NOW) is anew


@pytest.mark.parametrize(
    ("now", "issued_at"),
    [
        (NOW + HOUR, NOW + HOUR),
        (NOW + timedelta(microseconds=1), NOW),
        (NOW - timedelta(minutes=1), NOW),
        (NOW - HOUR, NOW - HOUR),
    ],
)
def test_times_of_issue_do_not_go_back(now: datetime, issued_at: datetime) -> None:
    """SRL-5: Unless the list in force was issued in the future."""
    made = decisions.next_issue(FACTS, now)
    assert made == SrlIssue(8, issued_at, FACTS.settings.srl_ttl)
    assert made.expires_at - made.issued_at == made.issued_at - made.listed_since == made.lifetime


def test_a_version_exceeds_all_that_were_published() -> None:
    """OPS-3: After a restore, of this list and of those that are known."""
    assert [decisions.next_issue(FACTS, NOW, lower_bound=each).version for each in (0, 7, 50)] == [
        8,
        8,
        51,
    ]


@pytest.mark.parametrize(
    ("change", "compared"),
    [
        ({}, False),
        ({"version": decisions.COMPARED_EVERY}, True),
        ({"lifetime": 2 * HOUR}, True),
        ({"issued_at": NOW - HOUR}, True),
    ],
)
def test_some_lists_are_compared(change: dict[str, object], compared: bool) -> None:
    """SRL-12: Each hundredth, and each that may have to list a warrant again."""
    made = SrlIssue(8, NOW, HOUR)._replace(**change)  # type: ignore[arg-type]
    assert decisions.is_comparison_due(LISTED, made) is compared


def test_an_entry_says_of_each_what_it_is() -> None:
    """FEED-4, SRL-9: Revoked, or removed: not revoked any more, or over for a lifetime."""
    past, soon = NOW - FACTS.settings.srl_ttl - timedelta(seconds=1), NOW + HOUR
    ends = {"svc_wrt_d": soon, "svc_wrt_b": None, "svc_wrt_c": past}
    said = decisions.next_entry(FACTS, ["svc_wrt_a", *ends], ends, NOW)
    entry = FeedEntry(4, ("svc_wrt_b", "svc_wrt_d"), ("svc_wrt_a", "svc_wrt_c"))
    assert said == PendingEntry(entry, [None, soon])


def test_nothing_follows_from_a_list_without_a_sequence() -> None:
    """FEED-7: The next entry is then a break, and one is enough."""
    behind = replace(FACTS, srl_head=replace(LISTED, sequence=None))
    assert decisions.next_entry(behind, ["svc_wrt_a"], {}, NOW) == PendingEntry(FeedEntry(4), [])
    broken = replace(behind, feed_head=newest(4, broke_at=4))
    assert decisions.next_entry(broken, ["svc_wrt_a"], {}, NOW) == told(5, removed="svc_wrt_a")


def test_a_restored_feed_goes_on_far_above() -> None:
    """FEED-7: Above its own entries, and above those that are known."""
    assert [decisions.next_sequence(FACTS, each) for each in (None, 1, 9)] == [
        4,
        3 + LEAP,
        9 + LEAP,
    ]
    with pytest.raises(DataCorrupt):
        decisions.next_sequence(replace(FACTS, feed_head=None))


@pytest.mark.parametrize(
    ("entries", "gone"),
    [
        ([], ["svc_wrt_b"]),
        ([told(4, "svc_wrt_b")], []),
        ([told(4, "svc_wrt_b", end=NOW + 2 * HOUR)], []),
        ([told(4, removed="svc_wrt_b")], []),
        ([told(4, "svc_wrt_c", end=NOW)], ["svc_wrt_b", "svc_wrt_c"]),
        ([told(4, "svc_wrt_c", end=NOW), told(5, removed="svc_wrt_c")], ["svc_wrt_b"]),
        ([told(4)], []),
    ],
)
def test_warrants_leave_that_ended(entries: list[PendingEntry], gone: list[str]) -> None:
    """SRL-9: By the end that was stated last; none leave a list that does not follow."""
    made = SrlIssue(8, NOW + HOUR + timedelta(seconds=1), HOUR)
    assert decisions.expired_ids(PRIOR._replace(entries=entries), made) == gone


def test_a_list_follows_from_the_one_in_force() -> None:
    """SRL-12: It is what the entries make of it, and covers the feed up to its head."""
    facts = replace(FACTS, feed_head=newest(5))
    entries = [told(4, "svc_wrt_c"), told(5, "svc_wrt_d", "svc_wrt_a")]
    plan = decisions.plan_from_feed(facts, PRIOR._replace(entries=entries), NOW)
    assert plan is not None
    assert plan.content.revoked_ids == ["svc_wrt_b", "svc_wrt_c", "svc_wrt_d"]
    assert plan.content.signers == STATE.signers
    assert (plan.sequence, plan.chain, plan.is_exact) == (5, CHAIN, True)
    ended = ("svc_key_c",), Tombstones(9)
    plan = decisions.plan_from_feed(
        facts, PRIOR._replace(entries=entries, signers_and_tombstones=ended), NOW
    )
    assert plan is not None
    assert (plan.content.signers, plan.tombstones) == ended


@pytest.mark.parametrize(
    ("facts", "prior"),
    [
        (replace(FACTS, feed_head=None), PRIOR),
        (FACTS, PRIOR._replace(revoked_ids=None)),
        (FACTS, PRIOR._replace(state=None)),
        (FACTS, PRIOR._replace(entries=None)),
        (FACTS, PRIOR._replace(entries=[told(4, "svc_wrt_c"), told(5)])),
    ],
    ids=["no feed", "no list", "no state", "no entries", "a break"],
)
def test_a_list_that_cannot_follow(facts: PublicationFacts, prior: PreviousSrl) -> None:
    """SRL-12: All records are read then."""
    assert decisions.plan_from_feed(facts, prior, NOW) is None


@pytest.mark.parametrize(
    ("feed", "above", "left", "sequence"),
    [
        (lambda: newest(5), 90, 80, 5),
        (lambda: None, None, None, 3 + LEAP),
        (lambda: None, 90, 4, 90 + LEAP),
        (lambda: None, 1, 40, 40 + LEAP),
    ],
)
def test_a_list_from_all_records_covers_the_feed(
    feed: Callable[[], FeedHead | None], above: int | None, left: int | None, sequence: int
) -> None:
    """FEED-7: Up to its head; a feed that begins does so above what there may have been."""
    found = decisions.initial_position(replace(FACTS, feed_head=feed()), above, left)
    assert found == (sequence, CHAIN if feed() else wire.first_chain(TENANT))


def test_the_first_list_begins_the_feed() -> None:
    """FEED-1: Where nothing was published before."""
    new = replace(FACTS, feed_head=None, srl_head=replace(LISTED, sequence=None))
    assert decisions.initial_position(new, None, None) == (0, wire.first_chain(TENANT))
