"""The Merkle tree, tiles, records and checkpoints of the sealed log."""

import base64
import hashlib
import json
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from functions.transparency_log import checkpoint, merkle
from functions.transparency_log.checkpoint import Checkpoint
from functions.transparency_log.head import APPENDED_MAX, LogHead
from functions.transparency_log.merkle import NOTHING, TileAddress
from shared.errors import DataCorrupt
from shared.model import seeds
from shared.model.audit import records
from shared.model.audit.witness_policy import NoteKey
from shared.model.items import Value
from tests.kit.sealed_log import root_by_path

# The inputs and roots of the reference tests of Certificate Transparency, of which RFC 6962 says
# what they must be (google/certificate-transparency, merkle_tree_test).
LEAVES = [
    *map(bytes.fromhex, ("", "00", "10", "2021", "3031", "40414243", "5051525354555657")),
    bytes.fromhex("606162636465666768696a6b6c6d6e6f"),
]
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]


def subtree_of(leaves: list[bytes]) -> merkle.Subtree:
    return lambda level, number: merkle.perfect(leaves[number << level : (number + 1) << level])


def defined(leaves: list[bytes]) -> bytes:
    """The definition of RFC 6962, 2.1, word for word."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    k = 1
    while k * 2 < len(leaves):
        k *= 2
    return hashlib.sha256(b"\x01" + defined(leaves[:k]) + defined(leaves[k:])).digest()


def test_roots_and_paths_are_those_of_the_reference() -> None:
    """LOG-4, F321a: Roots are those of the reference of RFC 6962, and paths lead to them."""
    hashed = [records.leaf(each) for each in LEAVES]
    for size, expected in enumerate(ROOTS, start=1):
        assert merkle.root(size, subtree_of(hashed)).hex() == expected
        assert NOTHING.append(hashed[:size])[0].root().hex() == expected
        for index in range(size):
            path = merkle.inclusion(index, size, subtree_of(hashed))
            root = root_by_path(hashed[index], index, size, path)
            assert root is not None
            assert root.hex() == expected
            assert root_by_path(hashed[index], index, size, [*path, root]) is None
    assert merkle.root(0, subtree_of([])) == NOTHING.root() == merkle.EMPTY


@pytest.mark.parametrize("size", [2, 3, 255, 256, 257, 511, 4097])
def test_the_edge_has_the_root_of_all_leaves(size: int) -> None:
    """LOG-4, F321b: However the leaves arrive, the edge has the root that RFC 6962 defines."""
    leaves = [records.leaf(each.to_bytes(2, "big")) for each in range(size)]
    edge, full = NOTHING, dict[TileAddress, bytes]()
    for start, end in pairwise(sorted({0, 1, size // 3, size // 2, size})):
        edge, more = edge.append(leaves[start:end])
        full |= more
    assert edge.root() == defined(leaves) == merkle.root(size, subtree_of(leaves))
    assert {each.number for each in full if each.level == 0} == set(range(size // 256))
    for place, tile in full.items():
        assert tile == b"".join(leaves[place.number * 256 : (place.number + 1) * 256])
    paths = (merkle.inclusion(each, size, subtree_of(leaves)) for each in (0, size - 1))
    for index, path in zip((0, size - 1), paths, strict=True):
        assert root_by_path(leaves[index], index, size, path) == edge.root()


@pytest.mark.slow
def test_levels_of_tiles_follow_each_other() -> None:
    """LOG-4, F321c: A tile of level 1 has the roots of 256 tiles of level 0."""
    leaves = [records.leaf(each.to_bytes(3, "big")) for each in range(65_537)]
    edge, full = NOTHING.append(leaves[:65_535])
    assert TileAddress(1, 0) not in full
    assert edge.root() == defined(leaves[:65_535])
    edge, full = edge.append(leaves[65_535:])
    tops = [merkle.perfect(leaves[each : each + 256]) for each in range(0, 65_536, 256)]
    assert full[TileAddress(1, 0)] == b"".join(tops)
    assert full.keys() == {TileAddress(0, 255), TileAddress(1, 0)}
    assert edge.root() == defined(leaves)


@pytest.mark.parametrize(
    ("place", "path"),
    [
        (TileAddress(0, 0), "0/000"),
        (TileAddress(1, 1234067), "1/x001/x234/067"),
        (TileAddress(None, 1000, 5), "entries/x001/000.p/5"),
    ],
)
def test_paths_are_those_of_the_specification(place: TileAddress, path: str) -> None:
    """LOG-6: The paths of tiles are those of C2SP tlog-tiles."""
    assert place.path == path
    assert TileAddress.parse(path) == place


@pytest.mark.parametrize(
    "path",
    [
        *("", "0", "0/1", "0/x000/001", "6/000", "0/../000", "0/000/"),
        *("0/001.p/0", "0/001.p/256", "0/001.p/257", "entries/001.p/999"),
    ],
)
def test_other_paths_are_refused(path: str) -> None:
    """LOG-6, F484a: A path that no tile has is refused, such as one of more than 256 hashes."""
    with pytest.raises(ValueError, match="not the path"):
        TileAddress.parse(path)


ITEM: dict[str, Value] = {
    "id": "svc_evt_01kbm9h2r5c8e1f4g7j0k3m6np",
    "timestamp": "2026-11-21T12:00:00Z",
    "expires": 1800000000,
    "details": {"reason": 'caf\u00e9 \u2028 \x01"', "n": 3, "none": None, "is": True},
}


def test_a_record_commits_to_the_line_of_its_entry() -> None:
    """LOG-2, F322a: A record has the identifier, the expiry and the hash of the entry's line."""
    line = (
        '{"details":{"is":true,"n":3,"none":null,"reason":"caf\u00e9 \u2028 \\u0001\\""},'
        '"expires":1800000000,"id":"svc_evt_01kbm9h2r5c8e1f4g7j0k3m6np",'
        '"timestamp":"2026-11-21T12:00:00Z"}'
    ).encode()
    assert records.line(ITEM) == line
    assert json.loads(line) == ITEM
    record = records.EntryCommitment.of(ITEM)
    assert record.digest == hashlib.sha256(line).digest()
    assert len(record.data) == records.SIZE
    assert records.EntryCommitment.parse(record.data) == record
    assert record.made_ms == int.from_bytes(record.data[:6], "big")
    for name, value in (("id", "svc_evt_1"), ("expires", None), ("expires", -1), ("details", b"")):
        with pytest.raises(DataCorrupt):
            records.EntryCommitment.of(ITEM | {name: value})
    with pytest.raises(DataCorrupt):
        records.EntryCommitment.parse(record.data[1:])


@pytest.mark.parametrize("value", [2**53, -(2**53), [2**53], {"a": b"x"}])
def test_an_entry_that_readers_would_change_is_refused(value: Value) -> None:
    """LOG-2, F322b: No entry has a number that another JSON reader would round."""
    records.check(ITEM)
    with pytest.raises((ValueError, TypeError), match="audit entry"):
        records.check(ITEM | {"details": {"value": value}})


def test_a_checkpoint_is_a_signed_note() -> None:
    """LOG-3, F323a: A checkpoint verifies with each of its keys, and with no other."""
    # The key and its identifier are those of the Go tests of signed notes (golang.org/x/mod).
    peter = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
    assert str(NoteKey.parse(peter)) == peter
    own, other = seeds.new()[0], seeds.new()[0]
    origin = checkpoint.origin("svc_tnt_1", 1)
    stated = Checkpoint(origin, 3, bytes(range(32)))
    note = stated.sign([own, other])
    assert Checkpoint.parse(note) == stated
    assert note.startswith(f"{origin}\n3\nAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n\n\u2014 ")
    publics = (base64.b64decode(seeds.public_key(each)) for each in (own, other, seeds.new()[0]))
    keys = [NoteKey(origin, each) for each in publics]
    assert [checkpoint.is_signed_by(note, each) for each in keys] == [True, True, False]
    altered = note.replace("\n3\n", "\n4\n", 1)
    assert not any(checkpoint.is_signed_by(altered, each) for each in keys)
    assert not checkpoint.is_signed_by(stated.text + "\n\u2014 " + origin + " !\n", keys[0])
    for broken in (note.replace("\n\n", "\n", 1), stated.text, note.replace("AAEC", "AA", 1)):
        with pytest.raises(ValueError):  # noqa: PT011 (Python's own texts)
            Checkpoint.parse(broken)
    with pytest.raises(ValueError, match="verifier key"):
        NoteKey.parse(peter.replace("c74f20a3", "c74f20a4"))


NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


def record_at(moment: datetime, number: int = 0) -> bytes:
    made = int(moment.timestamp() * 1000)
    return (made << 80 | number).to_bytes(16, "big") + bytes(40)


def test_the_head_fits_into_an_item_after_the_largest_pass() -> None:
    """LOG-5, F324a: A head with as many records as it can have is less than 400 KB."""
    head = LogHead.empty(1, NOW).append([record_at(NOW, each) for each in range(255)], NOW)
    head = head.drop_stored_records().append(
        [record_at(NOW, each) for each in range(APPENDED_MAX)], NOW
    )
    biggest = len(head.records) + 8 * 255 * 32 + 200 * 16 + 2000
    assert len(head.full_tiles()) == 2 * (4255 // 256)
    assert biggest < 390_000
    settled = head.drop_stored_records()
    assert (settled.stored, len(settled.unstored_records)) == (4096, 4255 - 4096)
    assert (
        settled.root == head.root == defined([records.leaf(each) for each in head.unstored_records])
    )
    assert LogHead.from_item(settled.to_item()) == settled


def test_the_head_says_where_the_entries_since_a_moment_are() -> None:
    """LOG-5, F324b: A part that the head leaves out has no entry of that time or later."""
    head, made = LogHead.empty(1, NOW), list[datetime]()
    moments = [timedelta(seconds=37 * each) for each in range(300)]
    # An entry of the future, and some that are late by hours.
    odd = [timedelta(days=200), timedelta(hours=-40), timedelta(days=-3), timedelta(days=-90)]
    for each, offset in enumerate([*moments[:150], *odd, *moments[150:]]):
        now = NOW + moments[min(each, 299)]
        made.append(NOW + offset)
        head = head.append([record_at(made[-1])], now)
    now = NOW + moments[-1]
    for bound in (*made[::10], made[-1] + timedelta(seconds=1), NOW - timedelta(days=100)):
        ms = int(bound.timestamp() * 1000)
        inside = {leaf for start, end in head.leaves_since(ms) for leaf in range(start, end)}
        assert inside >= {leaf for leaf, moment in enumerate(made) if moment >= bound}
    assert len(head.spans) < 40
    # What is new is found in few leaves, in spite of the entry of the future.
    recent = int((now - timedelta(minutes=1)).timestamp() * 1000)
    assert sum(end - start for start, end in head.leaves_since(recent)) < 10
    assert head.newest_ms(int(now.timestamp() * 1000)) == int(made[-1].timestamp() * 1000)
    assert head.late == 3
