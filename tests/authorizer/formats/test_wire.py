"""The wire format of the feed: what is written, and what is read."""

import hashlib
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta, timezone
from typing import Any

import cbor2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.authorizer.formats import wire
from shared.authorizer.formats.wire import Base, FeedEntry, Malformed, SignedHead
from tests.authorizer.feeds import ENTRY, NOW, TENANT, payload_of

_BASE = Base(3, 8, b"b" * 32, b"h" * 32, 2)
_HEAD = SignedHead(TENANT, 9, b"c" * 32, NOW, NOW + timedelta(hours=1), _BASE)
_TEXTS = st.sets(st.text(min_size=1, max_size=4))
_ANY = st.one_of(st.none(), st.booleans(), st.text(max_size=3), st.binary(max_size=33))
_CBOR = st.recursive(
    st.one_of(_ANY, st.integers(-1, 2**65), st.floats()),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(max_size=3), inner)),
)


def _encoded(members: object) -> bytes:
    return cbor2.dumps(members, canonical=True)


def _members(part: FeedEntry | SignedHead) -> dict[str, Any]:
    members: dict[str, Any] = cbor2.loads(part.encode())
    return members


def test_the_bytes_never_change() -> None:
    """F170a: An entry, a break and a chain have the bytes that docs/spec/feed.md shows."""
    assert ENTRY.encode().hex() == (
        "a36752656d6f76656481697376635f7772745f61"
        "675265766f6b656482697376635f7772745f62697376635f7772745f63"
        "6853657175656e636507"
    )
    assert FeedEntry(8).encode().hex() == "a16853657175656e636508"
    first = wire.first_chain("svc_tnt_acme")
    assert first == hashlib.sha256(b"rescind-feed-v1\nsvc_tnt_acme").digest()
    digest = hashlib.sha256(ENTRY.encode()).digest()
    assert wire.next_chain(first, ENTRY.encode()) == hashlib.sha256(first + digest).digest()
    assert wire.signed_part(b"payload") == b"rescind-feed-head-v1\npayload"


def test_a_head_has_the_members_that_the_page_lists() -> None:
    """F170b: A head names tenant, place, times and base, and is read as it was written."""
    assert _members(_HEAD) == {
        "Tenant": TENANT,
        "Sequence": 9,
        "Chain": b"c" * 32,
        "IssuedAt": "2026-11-21T12:00:00Z",
        "ExpiresAt": "2026-11-21T13:00:00Z",
        "Base": {
            "Version": 3,
            "Sequence": 8,
            "Chain": b"b" * 32,
            "SHA256": b"h" * 32,
            "Count": 2,
        },
    }
    assert SignedHead.decode(_HEAD.encode()) == _HEAD
    east = NOW.astimezone(timezone(timedelta(hours=9)))
    assert replace(_HEAD, issued_at=east).encode() == _HEAD.encode()


@given(st.integers(0, 2**53), _TEXTS, _TEXTS)
def test_an_entry_is_read_as_it_was_written(
    sequence: int, revoked: set[str], removed: set[str]
) -> None:
    """F170c: An entry is read as it was written, and only an entry without changes is a break."""
    by_bytes = [tuple(sorted(ids, key=str.encode)) for ids in (revoked, removed - revoked)]
    entry = FeedEntry(sequence, *by_bytes)
    assert FeedEntry.decode(entry.encode()) == entry
    assert entry.is_break == (not any(by_bytes))


@pytest.mark.parametrize(
    "data",
    [
        "a26141d81c806853657175656e636508",  # a tag that an encoder would leave out
        "a26141d81c81d81d006853657175656e636508",  # an array in itself
        "a26141f7f76853657175656e636508",
        "a2" + "6141" + "81" * 2000 + "80" + "6853657175656e636508",
    ],
    ids=lambda data: data[:40],
)
def test_other_encodings_are_malformed(data: str) -> None:
    """F170d: What a decoder of CBOR would resolve, or fail at, is refused.

    The other forms of malformed entries, heads and bases are cases of tests/conformance.
    """
    with pytest.raises(Malformed):
        FeedEntry.decode(bytes.fromhex(data))


@settings(max_examples=40)
@given(_CBOR, st.binary(max_size=40))
def test_no_bytes_crash_a_reader(value: object, data: bytes) -> None:
    """F170e: A client reads or refuses any bytes."""
    members = _members(_HEAD)
    tries = [data, _encoded(value), *(_encoded({**members, name: value}) for name in members)]
    for each in tries:
        for kind in (FeedEntry, SignedHead):
            try:
                again = kind.decode(each)
            except Malformed:
                continue
            assert again.sequence <= 2**53


def _base_of(data: bytes, **changes: Any) -> Base:
    return Base(3, 8, b"b" * 32, hashlib.sha256(data).digest(), changes.pop("count", 2))


def test_a_base_is_read_if_it_is_what_the_head_says() -> None:
    """F170f: The identifiers of a list are read if size, hash, version and count are as signed."""
    data = payload_of({"svc_wrt_b", "svc_wrt_a"}, 3)
    assert wire.base_ids(data, _base_of(data)) == ["svc_wrt_a", "svc_wrt_b"]
    refused = {
        payload_of({"svc_wrt_a", "svc_wrt_b"}, 2): wire.OtherVersion,
        payload_of({"svc_wrt_a"}, 3): Malformed,
        _encoded({"Version": 3, "RevokedIDs": "ab"}): Malformed,
        _encoded({"Version": 3, "RevokedIDs": ["a", 1]}): Malformed,
        _encoded([]): Malformed,
        b"\xff": Malformed,
        b"": Malformed,
        bytes(4 * 80 + 1): wire.TooLong,
    }
    for other, error in refused.items():
        with pytest.raises(error) as raised:
            wire.base_ids(other, _base_of(other))
        assert type(raised.value) is error
    with pytest.raises(wire.OtherHash):
        wire.base_ids(data + b" ", _base_of(data))


def test_the_size_of_a_base_is_bounded_by_its_count() -> None:
    """F170g: The longest list of a count fits the bound, and not much more."""
    for count in (0, 1, 1000):
        ids = {f"{number:072}" for number in range(count)}
        data = payload_of(ids, 2**53)
        base = replace(_base_of(data, count=count), version=2**53)
        assert len(wire.base_ids(data, base)) == count
        assert wire.base_size_max(base) == 80 * (count + 2)
    whole = {"Version": 3, "RevokedIDs": ["svc_wrt_a"], "New": ""}
    whole["New"] = "x" * (3 * 80 - len(_encoded(whole)) - 1)
    for more, error in (("", None), ("x", wire.TooLong)):
        data = _encoded(whole | {"New": f"{whole['New']}{more}"})
        assert len(data) == 3 * 80 + len(more)
        with pytest.raises(error) if error else nullcontext():
            assert wire.base_ids(data, _base_of(data, count=1)) == ["svc_wrt_a"]
