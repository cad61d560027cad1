"""The state of a client: what it keeps, and how it is restored.

What it accepts, and what it refuses by which name, is in the cases of tests/conformance.
"""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.authorizer import state as module
from shared.authorizer.answers import FeedResponse, parse_answer
from shared.authorizer.formats import wire
from shared.authorizer.policy import ResponseRejectedError
from shared.authorizer.state import FeedPosition, FeedState, advance, restore
from tests.authorizer.feeds import NOW, TRUSTED, Feed, public, sealed, signer


def begun(feed: Feed) -> FeedState:
    return advance(None, feed.answer(), base=feed.data, now=NOW, verifier=TRUSTED)


def held(state: FeedState) -> set[str]:
    return state.revoked.ids()


@pytest.fixture
def feed() -> Feed:
    feed = Feed(ids={"svc_wrt_base-0001", "svc_wrt_base-0002"})
    feed.publish("svc_wrt_entry-0001")
    return feed


def test_a_state_is_restored_from_what_it_keeps(feed: Feed) -> None:
    """F168a: A state that was saved is restored by the same checks, also if it has expired."""
    data, state = feed.data, begun(feed)
    for number in range(2, 5):
        feed.publish(f"svc_wrt_entry-000{number}")
        feed.publish_list()
        state = advance(state, feed.answer(number - 1), now=NOW, verifier=TRUSTED)
    assert state.latest is not None
    assert state.origin_base.version == 1
    saved = parse_answer(state.origin.encode()), data, parse_answer(state.latest.encode())
    again = restore(*saved, verifier=TRUSTED, saved_position=state.position)
    assert replace(again, revoked=state.revoked) == state
    assert held(again) == feed.ids


def test_a_saved_state_below_the_saved_position_is_refused(feed: Feed) -> None:
    """F168b: A saved state that is older than the saved position, or of another key, is refused."""
    state = begun(feed)
    assert state.latest is not None
    saved = state.origin, feed.data, state.latest
    with pytest.raises(ResponseRejectedError, match="rollback"):
        restore(*saved, verifier=TRUSTED, saved_position=FeedPosition(2, feed.chain))
    trusted = TRUSTED._replace(public_keys=(public(signer(2)),))
    with pytest.raises(ResponseRejectedError, match="signature"):
        restore(*saved, verifier=trusted, saved_position=state.position)


def test_what_a_state_keeps_is_bounded(feed: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
    """F168c: A state keeps entries to be restored with up to a limit, and then none."""
    state = begun(feed)
    feed.publish("svc_wrt_entry-0002")
    size = len(feed.entries[2])
    monkeypatch.setattr(module, "TRAIL_BYTES_MAX", 2 * size)
    state = advance(state, feed.answer(1), now=NOW, verifier=TRUSTED)
    for number, kept in ((3, 2), (4, None), (5, None)):
        feed.publish(f"svc_wrt_entry-000{number}")
        state = advance(state, feed.answer(0), now=NOW, verifier=TRUSTED)
        assert (state.latest and len(state.latest.entries)) == kept
        assert state.trail_bytes == (number - 1) * size
        assert held(state) == feed.ids


def test_what_is_saved_can_be_read_again() -> None:
    """F168d: A saved answer with as many small entries as a state keeps is not too large."""
    entry = wire.FeedEntry(2**53, ("svc_wrt_a",)).encode()
    entries = (entry,) * (module.TRAIL_BYTES_MAX // len(entry))
    answer = FeedResponse(b"p" * 400, b"s" * 64, entries)
    assert parse_answer(answer.encode()) == answer
    assert len(entries) > 10_000


@settings(max_examples=100)
@given(st.binary(max_size=300), st.lists(st.binary(max_size=40), max_size=3))
def test_what_a_signer_signs_by_mistake_crashes_nobody(
    payload: bytes, entries: list[bytes]
) -> None:
    """F171d: A client reads or refuses whatever bytes a trusted key signed."""
    feed = Feed()
    state = begun(feed)
    for data in entries:
        feed.append(data)
    for answer in (sealed(payload, feed.key), feed.answer()):
        try:
            newer = advance(state, answer, now=NOW, verifier=TRUSTED)
        except ResponseRejectedError:
            continue
        assert newer.sequence == feed.sequence
