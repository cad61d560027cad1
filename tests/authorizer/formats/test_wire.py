"""The wire format of the feed: what is written, and what is read."""

import hashlib
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta, timezone
from typing import Any

import cbor2
import pytest

from shared.authorizer.formats import wire
from shared.authorizer.formats.wire import Base, FeedEntry, SignedHead
from tests.authorizer.feeds import ENTRY, NOW, TENANT, payload_of

_BASE = Base(3, 8, b"b" * 32, b"h" * 32, 2)
_HEAD = SignedHead(TENANT, 9, b"c" * 32, NOW, NOW + timedelta(hours=1), _BASE)


def _encoded(members: object) -> bytes:
    return cbor2.dumps(members, canonical=True)


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
    assert cbor2.loads(_HEAD.encode()) == {
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


def _base_of(data: bytes, **changes: Any) -> Base:
    return Base(3, 8, b"b" * 32, hashlib.sha256(data).digest(), changes.pop("count", 2))


def test_the_size_of_a_base_is_bounded_by_its_count() -> None:
    """F170c: The longest list of a count fits the bound, and not much more."""
    for count in (0, 1, 1000):
        ids = {f"{number:072}" for number in range(count)}
        data = payload_of(ids, 2**53)
        base = replace(_base_of(data, count=count), version=2**53)
        assert len(wire.base_ids(data, base)) == count
        assert wire.base_size_max(base) == 80 * (count + 2)
    whole = {"Version": 3, "RevokedIDs": ["svc_wrt_a"], "New": ""}
    whole["New"] = "x" * (3 * 80 - len(_encoded(whole)) - 1)
    for more, error in (("", None), ("x", wire.BaseTooLarge)):
        data = _encoded(whole | {"New": f"{whole['New']}{more}"})
        assert len(data) == 3 * 80 + len(more)
        with pytest.raises(error) if error else nullcontext():
            assert wire.base_ids(data, _base_of(data, count=1)) == ["svc_wrt_a"]
