"""The set of revoked warrants, beside a plain set."""

import hashlib

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.authorizer.formats import ids as module
from shared.authorizer.formats import wire
from shared.authorizer.formats.ids import CompactIds, RevokedIds, of_base
from shared.authorizer.formats.wire import FeedEntry

_IDS = st.frozensets(st.sampled_from([f"svc_wrt_{number:010}" for number in range(12)]))
# With the prefix of eight, up to the longest identifier.
_SIZES = (*range(40), 63, 64)
_NAMES = st.one_of(
    st.builds(lambda size: "svc_wrt_" + "s" * size, st.sampled_from(_SIZES)),
    st.builds(lambda number: f"svc_wrt_svc_wrt_x{number}", st.integers(0, 999)),
    st.text(max_size=15),
)


@pytest.fixture(autouse=True, params=[7, module._MARKS], ids=["collisions", "usual"])
def _folded_early(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    monkeypatch.setattr(module, "_FOLD_AT", 4)
    monkeypatch.setattr(module, "_PART", 40)
    monkeypatch.setattr(module, "_MARKS", request.param)


def _held(members: dict[str, object], count: int, *, canonical: bool = True) -> RevokedIds:
    data = cbor2.dumps(members, canonical=canonical)
    sha256 = hashlib.sha256(data).digest()
    return of_base(data, wire.Base(1, 0, b"", sha256, count))


@given(st.frozensets(_NAMES, max_size=30))
def test_a_base_is_held_as_it_is(names: frozenset[str]) -> None:
    """F1355c: Any texts of a base are held, and no others, also what begins like one of them."""
    members = {"Version": 1, "RevokedIDs": sorted(names), "ZZ": ["svc_wrt_no"], "Later-than-it": 1}
    held = _held(members, len(names))
    assert held.ids() == names
    assert len(held) == len(names)
    others = (
        {each[:-1] for each in names} | {each + "x" for each in names} | {"svc_wrt_no", "\ud800"}
    )
    assert {each for each in names | others if each in held} == names
    with pytest.raises(TypeError, match="an identifier is a text"):
        _ = b"svc_wrt_" in held  # type: ignore[operator]


@given(st.frozensets(_NAMES, min_size=1, max_size=9))
def test_a_base_in_another_form_is_refused(names: frozenset[str]) -> None:
    """F1355a: A base that an encoder of deterministic CBOR would write differently is malformed.

    These are longer headers, no stated length, and members in another order. A second list of the
    same name, inside another member, makes no difference.
    """
    ids = sorted(names)
    texts = [cbor2.dumps(each) for each in ids]
    longer = [b"\x7a" + len(each.encode()).to_bytes(4, "big") + each.encode() for each in ids]
    size = bytes((0x80 + len(ids),))
    listed = {
        size + b"".join(texts): True,
        size + b"".join(longer): False,
        b"\x9f" + b"".join(texts) + b"\xff": False,
        b"\x98" + bytes((len(ids),)) + b"".join(texts): False,
    }
    for each, is_whole in listed.items():
        data = b"\xa2" + cbor2.dumps("Version") + b"\x01" + cbor2.dumps("RevokedIDs") + each
        base = wire.Base(1, 0, b"", hashlib.sha256(data).digest(), len(ids))
        if is_whole:
            assert of_base(data, base).ids() == names
        else:
            with pytest.raises(wire.MalformedBytes):
                of_base(data, base)
    members = {"A": {"RevokedIDs": ["svc_wrt_other"] * len(ids)}, "Version": 1, "RevokedIDs": ids}
    assert _held(members, len(ids)).ids() == names
    with pytest.raises(wire.MalformedBytes):
        _held(dict(reversed(members.items())), len(ids), canonical=False)


@pytest.mark.parametrize(
    "ids",
    [
        ["svc_wrt_b", "svc_wrt_a"],
        ["svc_wrt_a", "svc_wrt_a"],
        [f"svc_wrt_{number:02}" for number in (*range(30), 29)],
        [f"svc_wrt_{number:02}" for number in (*range(5, 30), 4)],
        ["\U00010000", "\uffff"],
        ["s" * 73],
        ["é" * 37],
        [b"svc_wrt_a"],
        [1],
    ],
)
def test_a_base_of_other_identifiers_is_refused(ids: list[object]) -> None:
    """F1605a: A base with identifiers that are not sorted, repeated or too long is malformed."""
    with pytest.raises(wire.MalformedBytes):
        _held({"Version": 1, "RevokedIDs": ids}, len(ids))
    # The same list where another member hides where it begins.
    with pytest.raises(wire.MalformedBytes):
        _held({"A": "RevokedIDs", "Version": 1, "RevokedIDs": ids}, len(ids))


def test_a_base_that_is_not_what_the_head_says() -> None:
    """F1355b: A number that no payload can have reserves no memory; an empty list hides none."""
    many = 2**40
    data = cbor2.dumps({"Version": 1}) + b"jRevokedIDs\x9b" + many.to_bytes(8, "big")
    base = wire.Base(1, 0, b"", hashlib.sha256(data).digest(), many)
    with pytest.raises(wire.MalformedBytes):
        of_base(data, base)
    for members in ({"A": {"RevokedIDs": ["svc_wrt_a"]}, "RevokedIDs": []}, {"RevokedIDs": [1]}):
        with pytest.raises(wire.MalformedBytes):
            _held({"Version": 1, **members}, 1, canonical=False)
    with pytest.raises(wire.BaseVersionMismatch):
        _held({"Version": 2, "RevokedIDs": ["svc_wrt_a"]}, 1)


@pytest.mark.slow
@given(_IDS, st.lists(st.tuples(_IDS, _IDS), max_size=8))
def test_the_set_is_what_entries_say(
    base: frozenset[str], changes: list[tuple[frozenset[str], frozenset[str]]]
) -> None:
    """F161b: After any entries, the client's set is the base with their changes."""
    kept, plain = RevokedIds(CompactIds.of([base])), set(base)
    for named, removed in changes:
        before, had, revoked = kept, set(plain), named - removed
        kept = kept.apply([FeedEntry(1, tuple(sorted(revoked)), tuple(sorted(removed)))])
        plain = (plain | revoked) - removed
        assert kept.ids() == plain
        assert len(kept) == len(plain)
        assert {each for each in plain | base if each in kept} == plain
        assert before.ids() == had
        assert len(kept.added) + len(kept.removed) <= 4


def test_changes_are_folded_only_if_they_are_many() -> None:
    """F161: The large set is copied once for many changes."""
    base = RevokedIds(CompactIds.of([["svc_wrt_0000000000"]]))
    few = base.apply([FeedEntry(1, ("a", "b", "c"), ("svc_wrt_0000000000",))])
    assert few.whole is base.whole
    many = few.apply([FeedEntry(2, ("d",))])
    assert many.ids() == {"a", "b", "c", "d"}
    assert not many.added | many.removed
