"""What a list is made of, compared with what another was made of."""

from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from shared.authorizer.formats.wire import FeedEntry
from shared.model.lists import content as srl_content
from shared.model.lists.content import RevokedSet

_NAMES = st.lists(st.sampled_from([f"svc_wrt_{number:02}" for number in range(40)]))


@given(ours=_NAMES, theirs=_NAMES, run=st.integers(1, 9))
def test_what_is_missing(ours: list[str], theirs: list[str], run: int) -> None:
    """Those of any list that are not revoked here, wherever its runs end and however it is sorted.

    A damaged list may be in any order.
    """
    content = RevokedSet.of(set(ours), {}, signers=())
    with mock.patch.object(srl_content, "_RUN", run):
        for previous in (theirs, sorted(theirs)):
            assert content.missing(previous) == set(theirs) - set(ours)


@given(before=_NAMES, looked_at=_NAMES, revoked=_NAMES)
def test_what_changes(before: list[str], looked_at: list[str], revoked: list[str]) -> None:
    """What was looked at is listed if it is revoked; all else stays; each once, in order."""
    content = RevokedSet.of(set(before), {}, signers=())
    changed = content.update(looked_at, dict.fromkeys(revoked), signers=())
    assert changed.revoked_ids == sorted(set(before) - set(looked_at) | set(revoked))


@given(before=_NAMES, stated=st.lists(st.tuples(_NAMES, _NAMES), max_size=5))
def test_what_entries_state(before: list[str], stated: list[tuple[list[str], list[str]]]) -> None:
    """After entries of the feed, the last one that names a warrant says whether it is listed."""
    listed, entries = set(before), list[tuple[FeedEntry, list[None]]]()
    for number, (revoked, removed) in enumerate(stated, 1):
        gone = set(removed) - set(revoked)
        listed = listed - gone | set(revoked)
        entry = FeedEntry(number, tuple(sorted(set(revoked))), tuple(sorted(gone)))
        entries.append((entry, [None] * len(entry.revoked)))
    content = RevokedSet.of(set(before), {}, signers=()).apply(entries, signers=())
    assert content.revoked_ids == sorted(listed)


@given(ours=_NAMES, theirs=_NAMES)
def test_what_differs(ours: list[str], theirs: list[str]) -> None:
    """Those that are on one of two lists, and not on the other."""
    one, two = (RevokedSet.of(set(each), {}, signers=()) for each in (ours, theirs))
    assert one.differences(two) == set(ours) ^ set(theirs)
