"""The set of revoked warrants, beside a plain set."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.authorizer.formats import ids as module
from shared.authorizer.formats.ids import RevokedIds
from shared.authorizer.formats.wire import FeedEntry

_IDS = st.frozensets(st.sampled_from([f"svc_wrt_{number:010}" for number in range(12)]))


@pytest.fixture(autouse=True)
def _folded_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FOLD_AT", 4)


@given(_IDS, st.lists(st.tuples(_IDS, _IDS), max_size=8))
def test_the_set_is_what_entries_say(
    base: frozenset[str], changes: list[tuple[frozenset[str], frozenset[str]]]
) -> None:
    """F161b: After any entries, the client's set is the base with their changes."""
    kept, plain = RevokedIds(base), set(base)
    for named, removed in changes:
        before, had, revoked = kept, set(plain), named - removed
        kept = kept.after([FeedEntry(1, tuple(sorted(revoked)), tuple(sorted(removed)))])
        plain = (plain | revoked) - removed
        assert kept.ids() == plain
        assert len(kept) == len(plain)
        assert {each for each in plain | base if each in kept} == plain
        assert before.ids() == had
        assert len(kept.added) + len(kept.removed) <= 4


def test_changes_are_folded_only_if_they_are_many() -> None:
    """F161: The large set is copied once for many changes."""
    base = RevokedIds(frozenset({"svc_wrt_0000000000"}))
    few = base.after([FeedEntry(1, ("a", "b", "c"), ("svc_wrt_0000000000",))])
    assert few.whole is base.whole
    many = few.after([FeedEntry(2, ("d",))])
    assert many == RevokedIds({"a", "b", "c", "d"})
