"""What a relay keeps of the feed, and for how long."""

from dataclasses import replace

import pytest

from shared.authorizer.answers import ANSWER_BYTES_MAX, FeedResponse, parse_answer
from shared.authorizer.policy import BaseRequired
from shared.authorizer.relay import held as module
from shared.authorizer.relay.held import CachedFeed, EntryLog
from shared.authorizer.state import FeedPosition, FeedState, advance
from tests.authorizer.feeds import NOW, TRUSTED, Feed


def state_of(feed: Feed, before: FeedState | None, answer: FeedResponse) -> FeedState:
    try:
        return advance(before, answer, now=NOW, verifier=TRUSTED)
    except BaseRequired as needs:
        data = feed.payloads[needs.base.version]
        return advance(before, answer, base=data, now=NOW, verifier=TRUSTED)


def follow(feed: Feed, number: int, before: CachedFeed | None = None) -> CachedFeed:
    """What is held after so many more entries, each in an answer of its own."""
    held, state = before, state_of(feed, None, feed.answer())
    held = CachedFeed.of(state, feed.answer(), held)
    for _ in range(number):
        feed.publish(f"svc_wrt_{feed.sequence}")
        answer = feed.answer(feed.sequence - 1)
        state = state_of(feed, state, answer)
        held = CachedFeed.of(state, answer, held)
    return held


def entries_after(held: CachedFeed, after: int | None) -> tuple[bytes, ...]:
    return parse_answer(held.answer(after)).entries


def test_entries_of_several_answers_are_joined() -> None:
    """F305a: A relay answers with all entries since the one that a client has, or since the base.

    They are kept beyond the base, for clients that are behind it.
    """
    feed = Feed()
    held = follow(feed, 3)
    feed.publish_list()
    held = follow(feed, 2, held)
    entries = tuple(feed.entries.values())
    assert entries_after(held, 0) == entries
    assert entries_after(held, 2) == entries[2:]
    assert entries_after(held, None) == entries[3:]
    assert entries_after(held, 5) == ()


def test_entries_that_do_not_follow_are_not_joined() -> None:
    """F305b: After a gap, what is kept begins at the base again."""
    feed = Feed()
    held = follow(feed, 2)
    feed.publish("svc_wrt_x", leap=100)
    feed.publish_list()
    held = follow(feed, 1, held)
    assert entries_after(held, 1) == (feed.entries[104],)
    other = EntryLog(FeedPosition(0, b""), FeedPosition(103, bytes(32)))
    assert other.to(feed.answer(), FeedPosition(104, feed.chain)) is None
    assert EntryLog.of(replace(feed.answer(), entries=()), feed.head()).entries == ()


@pytest.mark.parametrize(("name", "most"), [("_ENTRIES_MAX", 5), ("_WEIGHT_MAX", 5 * 43)])
def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch, name: str, most: int) -> None:
    """FLEET-24, F305c: A relay keeps the newest entries, bounded in number and in bytes."""
    monkeypatch.setattr(module, name, most)
    feed = Feed()
    held = follow(feed, 8)
    assert held.trail.start.sequence == 3
    assert entries_after(held, 3) == tuple(feed.entries.values())[3:]
    # What is left still continues with the right chain.
    held = follow(feed, 1, held)
    assert len(held.trail.entries) == 5
    # Those who are older begin at the base, once there is a list.
    feed.publish_list()
    held = follow(feed, 1, held)
    assert entries_after(held, 1) == (feed.entries[10],)


def test_all_that_is_kept_fits_into_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """F305d: The largest answer of a relay is not too large, and few answers are kept encoded."""
    feed = Feed()
    feed.append(b"x")
    trail = EntryLog.of(feed.answer(), feed.head())
    entries = tuple(bytes([size % 256]) * 50_000 for size in range(100))
    trail = replace(trail, entries=entries).trim()
    held = CachedFeed(replace(feed.head(), sequence=100), b"p" * 400, b"s" * 64, trail)
    first = held.trail.start.sequence
    assert ANSWER_BYTES_MAX - 100_000 < len(held.answer(first)) <= ANSWER_BYTES_MAX
    monkeypatch.setattr(module, "_ENCODED_MAX", ANSWER_BYTES_MAX)
    for after in range(first, first + 10):
        held.answer(after)
    assert sum(map(len, held._encoded.values())) <= ANSWER_BYTES_MAX
