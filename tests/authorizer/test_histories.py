"""Any history of a feed, and any answers that are made of its parts, beside a plain set."""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from shared.authorizer.answers import Answer, parse_answer
from shared.authorizer.policy import NeedsBase, RefusedAnswer
from shared.authorizer.state import State, advance
from tests.authorizer.feeds import HOUR, NOW, TRUSTED, Feed, sealed

_IDS = st.frozensets(st.sampled_from([f"svc_wrt_{number:010}" for number in range(8)]), max_size=4)
_SECOND = timedelta(seconds=1)

# What a service does next: an entry, a break with its list, a list, or a break alone.
_STEP = st.one_of(
    st.tuples(_IDS, _IDS),
    st.just("list"),
    st.tuples(st.just("break"), _IDS, st.sampled_from([0, 2**20])),
)


@dataclass
class History:
    """A feed with all that it ever signed, and the set at each sequence."""

    feed: Feed = field(default_factory=Feed)
    now: datetime = NOW
    answers: list[Answer] = field(default_factory=list)
    payloads: dict[bytes, bytes] = field(default_factory=dict)
    sets: dict[tuple[int, bytes], set[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._sign()

    def step(self, step: Any) -> None:
        self.now += _SECOND
        if step == "list":
            self.feed.publish_list()
        elif step[0] == "break":
            self.feed.publish(leap=step[2])
            self.feed.ids = set(step[1])
            self.feed.publish_list()
        else:
            revoked, removed = step
            if revoked or removed:
                self.feed.publish(*revoked, removed=tuple(removed - revoked))
        self._sign()

    def _sign(self) -> None:
        feed = self.feed
        self.payloads[feed.base.sha256] = feed.data
        self.sets[feed.sequence, feed.chain] = set(feed.ids)
        self.answers.append(self.answer(feed.base.sequence))

    def answer(self, after: int) -> Answer:
        return self.feed.answer(after, issued_at=self.now, expires_at=self.now + HOUR)

    def poll(self, state: State | None, answer: Answer) -> State | None:
        """The state after an answer: the one before if it is refused."""
        try:
            return advance(state, answer, now=self.now, trusted=TRUSTED)
        except NeedsBase as needs:
            data = self.payloads[needs.base.sha256]
            return advance(state, answer, base=data, now=self.now, trusted=TRUSTED)
        except RefusedAnswer:
            return state

    def is_true(self, state: State) -> bool:
        """Whether the feed had this set at the place where the state is."""
        return self.sets[state.position] == state.revoked.ids()


@settings(max_examples=60)
@given(st.lists(st.tuples(_STEP, st.booleans(), st.integers(0, 3)), max_size=12))
def test_a_client_holds_what_the_feed_says(steps: list[tuple[Any, bool, int]]) -> None:
    """F171a: At each poll of any history, client and service have the same set."""
    history, state = History(), None
    for step, polls, overlap in steps:
        history.step(step)
        if polls:
            after = max(state.sequence - overlap, 0) if state else history.feed.base.sequence
            state = history.poll(state, history.answer(after))
            assert state is not None
            assert state.position == (history.feed.sequence, history.feed.chain)
            assert state.revoked.ids() == history.feed.ids


@settings(max_examples=60)
@given(st.data())
def test_parts_of_answers_make_no_other_state(data: st.DataObject) -> None:
    """F171b: No mixture of old heads and entries gives a client a wrong state."""
    history = History()
    for step in data.draw(st.lists(_STEP, min_size=1, max_size=6)):
        history.step(step)
    entries = [*history.feed.entries.values(), b"", b"\xff"]
    state: State | None = None
    for _ in range(data.draw(st.integers(1, 6))):
        head = data.draw(st.sampled_from(history.answers))
        some = data.draw(st.lists(st.sampled_from(entries), max_size=4))
        given_entries = data.draw(st.sampled_from([head.entries, tuple(some)]))
        newer = history.poll(state, replace(head, entries=given_entries))
        assert newer is None or history.is_true(newer)
        if state is not None:
            assert newer is not None
            assert newer.sequence >= state.sequence
            assert (newer.sequence, newer.head.issued_at) >= (state.sequence, state.head.issued_at)
        state = newer


@settings(max_examples=150)
@given(st.data())
def test_a_mutated_answer_is_refused_or_equal(data: st.DataObject) -> None:
    """F171c: An answer that was altered is refused by a name, or changes nothing of the state."""
    history = History()
    history.step((frozenset({"svc_wrt_a"}), frozenset()))
    state = history.poll(None, history.answers[-1])
    history.step((frozenset({"svc_wrt_b"}), frozenset({"svc_wrt_a"})))
    good = history.answers[-1].encode()
    expected = advance(state, history.answers[-1], now=history.now, trusted=TRUSTED)
    start = data.draw(st.integers(0, len(good)))
    end = data.draw(st.integers(start, min(start + 4, len(good))))
    body = good[:start] + data.draw(st.binary(max_size=3)) + good[end:]
    for length in (len(body), start):
        try:
            newer = advance(state, parse_answer(body[:length]), now=history.now, trusted=TRUSTED)
        except RefusedAnswer:
            continue
        assert (newer.head, newer.revoked) == (expected.head, expected.revoked)


@settings(max_examples=100)
@given(st.binary(max_size=300), st.lists(st.binary(max_size=40), max_size=3))
def test_what_a_signer_signs_by_mistake_crashes_nobody(
    payload: bytes, entries: list[bytes]
) -> None:
    """F171d: A client reads or refuses whatever bytes a trusted key signed."""
    feed = Feed()
    state = advance(None, feed.answer(), base=feed.data, now=NOW, trusted=TRUSTED)
    for data in entries:
        feed.append(data)
    for answer in (sealed(payload, feed.key), feed.answer()):
        try:
            newer = advance(state, answer, now=NOW, trusted=TRUSTED)
        except RefusedAnswer:
            continue
        assert newer.sequence == feed.sequence
