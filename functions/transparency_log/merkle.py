"""The Merkle tree of RFC 6962, over SHA-256: roots and proofs.

Functions that walk a tree take `subtree(level, number)`, which returns the root of the complete
subtree over the leaves `number * 2**level` up to `(number + 1) * 2**level`, 32 bytes.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Final, NamedTuple, Self, TypeAlias

from shared.model.audit import records

EMPTY: Final = hashlib.sha256(b"").digest()
HASH_BYTES: Final = 32
_NODE: Final = b"\x01"

Subtree: TypeAlias = Callable[[int, int], bytes]


WIDTH: Final = 256
BUNDLES: Final = "entries"
_WIDTH_BITS: Final = 8
_LENGTH: Final = records.SIZE.to_bytes(2, "big")
_PATH: Final = re.compile(
    r"(?P<level>[0-5]|entries)/(?P<groups>(?:x[0-9]{3}/){0,4})(?P<last>[0-9]{3})"
    r"(?:\.p/(?P<width>[1-9][0-9]{0,2}))?",
    re.ASCII,
)


def node(left: bytes, right: bytes) -> bytes:
    """Return the hash of an inner node: SHA-256(0x01 || left || right)."""
    return hashlib.sha256(_NODE + left + right).digest()


def perfect(hashes: Sequence[bytes]) -> bytes:
    """Return the root over a number of hashes that is a power of two."""
    while len(hashes) > 1:
        hashes = [node(*pair) for pair in zip(hashes[::2], hashes[1::2], strict=True)]
    return hashes[0]


def join(roots: Iterable[bytes]) -> bytes:
    """Return the root over complete subtrees from left to right, in descending size."""
    found = list(roots)
    if not found:
        return EMPTY
    return reduce(lambda right, left: node(left, right), reversed(found))


def root(size: int, subtree: Subtree) -> bytes:
    """Return the root of the tree over the first `size` leaves."""
    return _range(0, size, subtree)


def inclusion(index: int, size: int, subtree: Subtree) -> list[bytes]:
    """Return the path of the leaf `index` in the tree of `size` leaves (RFC 6962, 2.1.1)."""
    start, end, path = 0, size, list[bytes]()
    while end - start > 1:
        middle = start + _split(end - start)
        if index < middle:
            path.append(_range(middle, end, subtree))
            end = middle
        else:
            path.append(_range(start, middle, subtree))
            start = middle
    return path[::-1]


def consistency(prior: int, size: int, subtree: Subtree) -> list[bytes]:
    """Return the proof that a tree of `size` leaves extends a tree of `prior` (RFC 6962, 2.1.2).

    It is empty if `prior` is 0 or `size`.
    """
    start, end, path = 0, size, list[bytes]()
    while 0 < prior < end:
        middle = start + _split(end - start)
        if prior <= middle:
            path.append(_range(middle, end, subtree))
            end = middle
        else:
            path.append(_range(start, middle, subtree))
            start = middle
    if start:
        path.append(_range(start, end, subtree))
    return path[::-1]


def extends(prior: int, prior_root: bytes, size: int, root: bytes, path: Sequence[bytes]) -> bool:
    """Return whether the proof shows that a tree extends the earlier one (RFC 9162, 2.1.4.2).

    The trees have `prior` and `size` leaves, and these roots. Each tree extends the empty one.
    """
    if prior in (0, size):
        return not path and (prior_root == root or not prior)
    if not 0 < prior < size or not path:
        return False
    hashes = [prior_root, *path] if prior.bit_count() == 1 else [*path]
    # The number of ones at the end of `prior - 1`.
    shift = (~(prior - 1) & prior).bit_length() - 1
    first, last = prior - 1 >> shift, size - 1 >> shift
    old = new = hashes[0]
    for each in hashes[1:]:
        if not last:
            return False
        if first & 1 or first == last:
            old, new = node(each, old), node(each, new)
            while first and not first & 1:
                first, last = first >> 1, last >> 1
        else:
            new = node(new, each)
        first, last = first >> 1, last >> 1
    return (old, new, last) == (prior_root, root, 0)


def _split(size: int) -> int:
    """Return the largest power of two that is less than `size`."""
    return 1 << (size - 1).bit_length() - 1


def _range(start: int, end: int, subtree: Subtree) -> bytes:
    """Return the root over the leaves from `start` to `end`, in a tree that is cut at `start`."""
    roots = []
    while start < end:
        level = (end - start).bit_length() - 1
        roots.append(subtree(level, start >> level))
        start += 1 << level
    return join(roots)


class TileAddress(NamedTuple):
    """Address of a tile or bundle: `level` is None for a bundle, `width` its number of items."""

    level: int | None
    number: int
    width: int = WIDTH

    @classmethod
    def parse(cls, path: str) -> Self:
        """Return the address for a value of `path`. Raises `ValueError` for other paths."""
        found = _PATH.fullmatch(path)
        if found is None:
            raise ValueError("not the path of a tile")
        number = int(found["groups"].replace("x", "").replace("/", "") + found["last"])
        level = None if found["level"] == BUNDLES else int(found["level"])
        place = cls(level, number, int(found["width"] or WIDTH))
        if place.path != path or place.width > WIDTH:
            raise ValueError("not the path of a tile")
        return place

    @property
    def path(self) -> str:
        """The path below `tile/`, for example `0/x001/x234/067` or `entries/000.p/5`."""
        digits = str(self.number).zfill(-(-len(str(self.number)) // 3) * 3)
        groups = [digits[start : start + 3] for start in range(0, len(digits), 3)]
        name = "/".join([*(f"x{each}" for each in groups[:-1]), groups[-1]])
        part = "" if self.width == WIDTH else f".p/{self.width}"
        return f"{BUNDLES if self.level is None else self.level}/{name}{part}"


class TreeFrontier(NamedTuple):
    """The right edge of a tree of `size` leaves: the hashes of each level's partial tile."""

    size: int
    levels: tuple[tuple[bytes, ...], ...]

    def root(self) -> bytes:
        """Return the root of the tree."""
        roots: list[bytes] = []
        for hashes in reversed(self.levels):
            start = 0
            for bit in range(_WIDTH_BITS - 1, -1, -1):
                if len(hashes) >> bit & 1:
                    roots.append(perfect(hashes[start : start + (1 << bit)]))
                    start += 1 << bit
        return join(roots)

    def append(self, leaves: Sequence[bytes]) -> tuple["TreeFrontier", dict[TileAddress, bytes]]:
        """Return the edge after these leaf hashes, and the tiles that became full."""
        full: dict[TileAddress, bytes] = {}
        levels, arriving, level = [list(each) for each in self.levels], list(leaves), 0
        while arriving:
            if level == len(levels):
                levels.append([])
            first = count(level + 1, self.size)
            hashes, ready = levels[level] + arriving, list[bytes]()
            for start in range(0, len(hashes) - WIDTH + 1, WIDTH):
                tile = hashes[start : start + WIDTH]
                full[TileAddress(level, first + start // WIDTH)] = b"".join(tile)
                ready.append(perfect(tile))
            levels[level] = hashes[len(ready) * WIDTH :]
            arriving, level = ready, level + 1
        return TreeFrontier(self.size + len(leaves), tuple(map(tuple, levels))), full


NOTHING: Final = TreeFrontier(0, ())


def bundle(data: Sequence[bytes]) -> bytes:
    """Return the bundle of these records, of 56 bytes each."""
    return b"".join(_LENGTH + each for each in data)


def parse_bundle(data: bytes) -> list[bytes] | None:
    """Return the records in a bundle, or None if it is malformed."""
    size = len(_LENGTH) + records.SIZE
    parts = [data[start : start + size] for start in range(0, len(data), size)]
    if any(len(each) != size or not each.startswith(_LENGTH) for each in parts):
        return None
    return [each[len(_LENGTH) :] for each in parts]


def hashes(data: bytes) -> list[bytes]:
    """Return the hashes in a tile, of 32 bytes each."""
    return [data[start : start + HASH_BYTES] for start in range(0, len(data), HASH_BYTES)]


def holding(level: int, number: int) -> tuple[TileAddress, int]:
    """Return the full tile that determines a complete subtree, and the first of its hashes.

    The subtree is number `number` among the subtrees of 2**`level` leaves. Its root is the root
    over 2**(`level` % 8) hashes of the tile.
    """
    height = level % _WIDTH_BITS
    first = number << height
    return TileAddress(level // _WIDTH_BITS, first // WIDTH), first % WIDTH


def count(level: int, size: int) -> int:
    """Return how many hashes of this level a tree of `size` leaves has."""
    return size >> _WIDTH_BITS * level
