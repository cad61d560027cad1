"""The state of a client: what it accepts, and what it refuses by which name."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from shared.authorizer import state as module
from shared.authorizer.answers import Answer, parse_answer
from shared.authorizer.formats import wire
from shared.authorizer.policy import NeedsBase, Reason, RefusedAnswer
from shared.authorizer.state import Position, State, advance, restore
from tests.authorizer.feeds import NOW, TRUSTED, Feed, public, sealed, signer

SECOND = timedelta(seconds=1)


def begun(feed: Feed) -> State:
    return advance(None, feed.answer(), base=feed.data, now=NOW, trusted=TRUSTED)


def refusal(state: State | None, answer: Answer, **others: Any) -> Reason:
    with pytest.raises(RefusedAnswer) as refused:
        advance(state, answer, **{"now": NOW, "trusted": TRUSTED, **others})
    return refused.value.reason


def held(state: State) -> set[str]:
    return state.revoked.ids()


@pytest.fixture
def feed() -> Feed:
    feed = Feed(ids={"svc_wrt_base-0001", "svc_wrt_base-0002"})
    feed.publish("svc_wrt_entry-0001")
    return feed


def test_a_newcomer_begins_with_the_base_that_is_named(feed: Feed) -> None:
    """F161a: A client without a state learns which list it needs, and holds the whole set."""
    with pytest.raises(NeedsBase, match="version 1") as needs:
        advance(None, feed.answer(), now=NOW, trusted=TRUSTED)
    assert needs.value.base == feed.base
    state = begun(feed)
    assert held(state) == feed.ids
    assert state.position == (1, feed.chain)
    assert (state.sequence, state.is_revoked("svc_wrt_entry-0001")) == (1, True)
    assert not state.is_revoked("svc_wrt_other-0001")


def test_entries_change_the_set_in_their_order(feed: Feed) -> None:
    """F161b: A client that follows the feed holds the set that its entries describe."""
    state = begun(feed)
    feed.publish("svc_wrt_entry-0002", removed=("svc_wrt_base-0001", "svc_wrt_entry-0001"))
    feed.publish("svc_wrt_base-0001", removed=("svc_wrt_entry-0002",))
    for after in (1, 0):
        state = advance(state, feed.answer(after), now=NOW, trusted=TRUSTED)
        assert held(state) == feed.ids
        assert state.position == (3, feed.chain)


def test_a_newer_head_of_the_same_sequence_renews_the_lifetime(feed: Feed) -> None:
    """F161c: A head of the same sequence that was issued later extends the client's lifetime."""
    state = begun(feed)
    later = NOW + timedelta(minutes=30)
    feed.publish_list()
    answer = feed.answer(1, issued_at=later, expires_at=later + timedelta(hours=1))
    newer = advance(state, answer, now=later, trusted=TRUSTED)
    assert newer.head.expires_at == later + timedelta(hours=1)
    assert newer.revoked is state.revoked


def test_expiry_has_no_tolerance(feed: Feed) -> None:
    """F162a: From the signed `ExpiresAt` on, a state is expired and an answer is refused."""
    state, end = begun(feed), feed.head().expires_at
    assert not state.is_expired(end - SECOND / 2)
    assert state.is_expired(end)
    assert refusal(state, feed.answer(1), now=end) == Reason.EXPIRED
    advance(state, feed.answer(1), now=end - SECOND / 2, trusted=TRUSTED)


def test_a_lifetime_is_at_most_seven_days(feed: Feed) -> None:
    """F162b: A head that ends before it begins, or lives for more than 7 days, is refused."""
    week = NOW + timedelta(days=7)
    advance(None, feed.answer(expires_at=week), base=feed.data, now=NOW, trusted=TRUSTED)
    for end in (NOW, NOW - SECOND, week + SECOND):
        assert refusal(None, feed.answer(expires_at=end)) == Reason.LIFETIME


def test_a_head_of_the_future_is_refused(feed: Feed) -> None:
    """F162c: A head that is issued more than 30 seconds ahead of the client's clock is refused."""
    answer = feed.answer(issued_at=NOW + 30 * SECOND)
    advance(None, answer, base=feed.data, now=NOW, trusted=TRUSTED)
    assert refusal(None, answer, now=NOW - SECOND / 10) == Reason.FUTURE


def test_only_trusted_signers_sign(feed: Feed) -> None:
    """F163a: A head is refused unless a trusted key signed it as the head of a feed."""
    good = feed.answer()
    assert refusal(None, sealed(good.payload, signer(2), good.entries)) == Reason.SIGNATURE
    unprefixed = replace(good, signature=feed.key.sign(good.payload))
    assert refusal(None, unprefixed) == Reason.SIGNATURE
    assert refusal(None, replace(good, payload=good.payload[:-1] + b"!")) == Reason.SIGNATURE
    assert refusal(None, replace(good, signature=b"short")) == Reason.SIGNATURE
    assert refusal(None, good, trusted=TRUSTED._replace(public_keys=())) == Reason.SIGNATURE


def test_any_of_the_trusted_keys_may_sign(feed: Feed) -> None:
    """F163b: A state says which of the trusted keys verified its head."""
    keys = (public(signer(2)), public(signer(1)))
    trusted = TRUSTED._replace(public_keys=keys)
    assert (
        advance(None, feed.answer(), base=feed.data, now=NOW, trusted=trusted).signed_by == keys[1]
    )


def test_a_feed_of_another_tenant_is_refused(feed: Feed) -> None:
    """F163c: A head of another tenant is refused, although the same key signed it."""
    other = Feed(tenant="svc_tnt_01KAJ3TMF00000000000GLOBEX")
    assert refusal(None, other.answer(), base=other.data) == Reason.TENANT
    assert refusal(begun(feed), other.answer(), base=other.data) == Reason.TENANT
    # The tenant is in the chain too: entries of one are no entries of another.
    assert Feed().chain != other.chain


def test_a_signed_head_that_is_malformed_is_refused(feed: Feed) -> None:
    """F163d: A signed payload that is not a head is refused."""
    assert refusal(None, sealed(b"\xa0", feed.key)) == Reason.MALFORMED


def test_a_state_never_goes_back(feed: Feed) -> None:
    """F164a: A head below the state, or below the saved floor, is refused."""
    old = feed.answer()
    feed.publish("svc_wrt_entry-0002")
    state = begun(feed)
    assert refusal(state, old) == Reason.ROLLBACK
    assert refusal(None, old, base=feed.data, floor=state.position) == Reason.ROLLBACK
    assert refusal(state, feed.answer(), floor=Position(3, feed.chain)) == Reason.ROLLBACK


def test_a_second_history_is_refused(feed: Feed) -> None:
    """F164b: Another chain at a sequence that was held, or that the floor names, is refused."""
    fork = Feed(ids={"svc_wrt_base-0001", "svc_wrt_base-0002"})
    fork.publish("svc_wrt_other-0001")
    state = begun(feed)
    assert refusal(state, fork.answer()) == Reason.EQUIVOCATION
    assert refusal(None, fork.answer(), floor=state.position) == Reason.EQUIVOCATION
    fork.publish("svc_wrt_entry-0002")
    assert refusal(state, fork.answer()) == Reason.CHAIN
    assert refusal(state, fork.answer(1)) == Reason.CHAIN
    assert refusal(None, fork.answer(), floor=state.position) == Reason.CHAIN


def test_a_fork_at_the_base_is_refused(feed: Feed) -> None:
    """F164c: A base at the sequence of the floor, but with another chain, is refused."""
    position = begun(feed).position
    fork = Feed()
    fork.publish("svc_wrt_other-0001")
    fork.publish_list()
    fork.publish("svc_wrt_other-0002")
    assert refusal(None, fork.answer(), floor=position) == Reason.CHAIN
    feed.publish_list()
    feed.publish("svc_wrt_entry-0002")
    newer = advance(None, feed.answer(), base=feed.data, now=NOW, trusted=TRUSTED, floor=position)
    assert held(newer) == feed.ids


def test_an_older_head_of_the_same_sequence_is_refused(feed: Feed) -> None:
    """F164d: A head of the same sequence that was issued earlier does not renew the lifetime."""
    state = begun(feed)
    assert refusal(state, feed.answer(issued_at=NOW - SECOND)) == Reason.REPLAY
    advance(state, feed.answer(), now=NOW, trusted=TRUSTED)
    feed.publish("svc_wrt_entry-0002")
    advance(state, feed.answer(issued_at=NOW - SECOND), now=NOW, trusted=TRUSTED)


def test_an_answer_that_leaves_entries_out_is_refused(feed: Feed) -> None:
    """F165a: An answer that lacks an entry is refused, wherever the entry is missing."""
    state = begun(feed)
    for name in ("svc_wrt_entry-0002", "svc_wrt_entry-0003", "svc_wrt_entry-0004"):
        feed.publish(name)
    good = feed.answer(1)
    assert len(good.entries) == 3
    for number in range(3):
        entries = good.entries[:number] + good.entries[number + 1 :]
        assert refusal(state, replace(good, entries=entries)) == Reason.GAP
    assert refusal(state, replace(good, entries=())) == Reason.GAP
    swapped = (good.entries[1], good.entries[0], good.entries[2])
    assert refusal(state, replace(good, entries=swapped)) == Reason.CHAIN
    repeated = (*good.entries, good.entries[2])
    assert refusal(state, replace(good, entries=repeated)) == Reason.CHAIN


def test_an_entry_is_read_only_if_the_chain_has_it(feed: Feed) -> None:
    """F165b: Entries that the head does not vouch for are never read."""
    state = begun(feed)
    feed.publish("svc_wrt_entry-0002")
    good = feed.answer(1)
    assert refusal(state, replace(good, entries=(b"\xff",))) == Reason.CHAIN
    before = replace(good, entries=(b"\xff", *good.entries))
    assert held(advance(state, before, now=NOW, trusted=TRUSTED)) == feed.ids


def test_entries_that_the_service_made_wrongly_are_refused(feed: Feed) -> None:
    """F165c: An entry of the chain that is malformed, or has another number, is refused."""
    wrong = {
        b"\xff": Reason.MALFORMED,
        wire.FeedEntry(7, ("svc_wrt_seven-0001",)).encode(): Reason.GAP,
    }
    for entry, reason in wrong.items():
        feed = Feed()
        state = begun(feed)
        feed.append(entry)
        assert refusal(state, feed.answer()) == reason
        assert refusal(None, feed.answer()) == reason


def test_a_head_without_its_entries_is_refused(feed: Feed) -> None:
    """F166a: A head that jumps forward without entries is refused, without work or memory."""
    state = begun(feed)
    assert refusal(state, feed.answer(sequence=2**53)) == Reason.GAP
    assert refusal(None, feed.answer(sequence=2**53)) == Reason.GAP


def test_a_base_moves_a_client_forward_by_a_bounded_step(feed: Feed) -> None:
    """F166b: With a base, the sequence grows by at most 2^32; a client without any is free."""
    state = begun(feed)
    for step, floor in ((2**32, None), (2**32 + 1, state.position)):
        far = Feed(sequence=1 + step, chain=b"c" * 32)
        if floor is None:
            advance(state, far.answer(), base=far.data, now=NOW, trusted=TRUSTED)
            continue
        assert refusal(state, far.answer(), base=far.data) == Reason.FAST_FORWARD
        assert refusal(None, far.answer(), floor=floor) == Reason.FAST_FORWARD
        advance(None, far.answer(), base=far.data, now=NOW, trusted=TRUSTED)


def test_a_client_that_was_away_continues_with_a_base(feed: Feed) -> None:
    """F166c: A client that misses entries that are gone continues with the newest base."""
    state = begun(feed)
    for number in range(2, 6):
        feed.publish(f"svc_wrt_entry-000{number}")
    feed.publish_list()
    feed.publish("svc_wrt_entry-0006")
    with pytest.raises(NeedsBase):
        advance(state, feed.answer(), now=NOW, trusted=TRUSTED)
    newer = advance(state, feed.answer(), base=feed.data, now=NOW, trusted=TRUSTED)
    assert held(newer) == feed.ids
    assert newer.origin_base == feed.base


def test_a_base_is_the_one_that_the_head_names(feed: Feed) -> None:
    """F166d: A base of another hash, version or count, or one that is too long, is refused."""
    wrong = {
        feed.data + b"!": Reason.HASH,
        feed.data + bytes(wire.base_size_max(feed.base)): Reason.TOO_LARGE,
    }
    for data, reason in wrong.items():
        assert refusal(None, feed.answer(), base=data) == reason
    other = replace(feed.base, version=2)
    assert refusal(None, feed.answer(base=other), base=feed.data) == Reason.VERSION
    other = replace(feed.base, count=3)
    assert refusal(None, feed.answer(base=other), base=feed.data) == Reason.MALFORMED


def test_a_break_is_passed_with_a_base_alone(feed: Feed) -> None:
    """F167a: A client stops before a break until a base covers it, and then continues there."""
    state = begun(feed)
    feed.publish()
    for answer in (feed.answer(1), feed.answer(0)):
        assert refusal(state, answer, base=feed.data) == Reason.BREAK
        assert refusal(None, feed.answer(0), base=feed.data) == Reason.BREAK
    feed.ids = {"svc_wrt_break-0001"}
    feed.publish_list()
    feed.publish("svc_wrt_entry-0003")
    with pytest.raises(NeedsBase):
        advance(state, feed.answer(1), now=NOW, trusted=TRUSTED)
    newer = advance(state, feed.answer(1), base=feed.data, now=NOW, trusted=TRUSTED)
    assert held(newer) == {"svc_wrt_break-0001", "svc_wrt_entry-0003"}
    feed.publish()
    assert refusal(newer, feed.answer(2)) == Reason.BREAK


def test_a_base_does_not_cover_the_break_right_after_it(feed: Feed) -> None:
    """F167: A break whose sequence is the next after that of the base is not passed."""
    state = begun(feed)
    feed.publish_list()
    feed.publish()
    assert refusal(state, feed.answer(1), base=feed.data) == Reason.BREAK


def test_a_restored_service_is_followed_over_its_break(feed: Feed) -> None:
    """F167b: After a restore, clients that were ahead of the backup continue with its next list."""
    backup = feed.branch()
    feed.publish("svc_wrt_entry-0002")
    state = begun(feed)
    backup.publish(leap=2**20)
    assert refusal(state, backup.answer(2)) == Reason.GAP
    backup.publish_list()
    newer = advance(state, backup.answer(2), base=backup.data, now=NOW, trusted=TRUSTED)
    assert held(newer) == backup.ids
    assert newer.sequence == 2 + 2**20


def test_a_state_is_restored_from_what_it_keeps(feed: Feed) -> None:
    """F168a: A state that was saved is restored by the same checks, also if it has expired."""
    data, state = feed.data, begun(feed)
    for number in range(2, 5):
        feed.publish(f"svc_wrt_entry-000{number}")
        feed.publish_list()
        state = advance(state, feed.answer(number - 1), now=NOW, trusted=TRUSTED)
    assert state.latest is not None
    assert state.origin_base.version == 1
    saved = parse_answer(state.origin.encode()), data, parse_answer(state.latest.encode())
    again = restore(*saved, trusted=TRUSTED, floor=state.position)
    assert again == state
    assert held(again) == feed.ids


def test_a_saved_state_below_the_floor_is_refused(feed: Feed) -> None:
    """F168b: A saved state that is older than the saved floor, or of another key, is refused."""
    state = begun(feed)
    assert state.latest is not None
    saved = state.origin, feed.data, state.latest
    with pytest.raises(RefusedAnswer, match="rollback"):
        restore(*saved, trusted=TRUSTED, floor=Position(2, feed.chain))
    trusted = TRUSTED._replace(public_keys=(public(signer(2)),))
    with pytest.raises(RefusedAnswer, match="signature"):
        restore(*saved, trusted=trusted, floor=state.position)


def test_what_a_state_keeps_is_bounded(feed: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
    """F168c: A state keeps entries to be restored with up to a limit, and then none."""
    state = begun(feed)
    feed.publish("svc_wrt_entry-0002")
    size = len(feed.entries[2])
    monkeypatch.setattr(module, "TRAIL_BYTES_MAX", 2 * size)
    state = advance(state, feed.answer(1), now=NOW, trusted=TRUSTED)
    for number, kept in ((3, 2), (4, None), (5, None)):
        feed.publish(f"svc_wrt_entry-000{number}")
        state = advance(state, feed.answer(0), now=NOW, trusted=TRUSTED)
        assert (state.latest and len(state.latest.entries)) == kept
        assert state.trail_bytes == (number - 1) * size
        assert held(state) == feed.ids


def test_what_is_saved_can_be_read_again() -> None:
    """F168d: A saved answer with as many small entries as a state keeps is not too large."""
    entry = wire.FeedEntry(2**53, ("svc_wrt_a",)).encode()
    entries = (entry,) * (module.TRAIL_BYTES_MAX // len(entry))
    answer = Answer(b"p" * 400, b"s" * 64, entries)
    assert parse_answer(answer.encode()) == answer
    assert len(entries) > 10_000
