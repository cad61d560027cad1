"""Tiles and bundles: how the sealed log is stored and served (C2SP tlog-tiles, LOG-4).

A tile of level L has up to 256 hashes, each the root over 256**L leaves. A bundle has the records
of a tile of level 0, each after its length in two bytes.
"""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple, Self

from shared.model.sealed_log import merkle, records
from shared.model.sealed_log.merkle import HASH_BYTES

WIDTH: Final = 256
BUNDLES: Final = "entries"
_WIDTH_BITS: Final = 8
_LENGTH: Final = records.SIZE.to_bytes(2, "big")
_PATH: Final = re.compile(
    r"(?P<level>[0-5]|entries)/(?P<groups>(?:x[0-9]{3}/){0,4})(?P<last>[0-9]{3})"
    r"(?:\.p/(?P<width>[1-9][0-9]{0,2}))?",
    re.ASCII,
)


class Place(NamedTuple):
    """Which tile or bundle: `level` is None for a bundle, `width` counts its hashes or records."""

    level: int | None
    number: int
    width: int = WIDTH

    @classmethod
    def parse(cls, path: str) -> Self:
        """Return the place of a path that `path` returns. Raises `ValueError` for any other."""
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
        """The path below `tile/`, such as `0/x001/x234/067` or `entries/000.p/5`."""
        digits = str(self.number).zfill(-(-len(str(self.number)) // 3) * 3)
        groups = [digits[start : start + 3] for start in range(0, len(digits), 3)]
        name = "/".join([*(f"x{each}" for each in groups[:-1]), groups[-1]])
        part = "" if self.width == WIDTH else f".p/{self.width}"
        return f"{BUNDLES if self.level is None else self.level}/{name}{part}"


class Edge(NamedTuple):
    """The right edge of a tree of `size` leaves: the hashes of the partial tile of each level."""

    size: int
    levels: tuple[tuple[bytes, ...], ...]

    def root(self) -> bytes:
        """Return the root of the tree."""
        roots: list[bytes] = []
        for hashes in reversed(self.levels):
            start = 0
            for bit in range(_WIDTH_BITS - 1, -1, -1):
                if len(hashes) >> bit & 1:
                    roots.append(merkle.perfect(hashes[start : start + (1 << bit)]))
                    start += 1 << bit
        return merkle.join(roots)

    def extended(self, leaves: Sequence[bytes]) -> tuple["Edge", dict[Place, bytes]]:
        """Return the edge after these leaf hashes, and the tiles that became full."""
        full: dict[Place, bytes] = {}
        levels, arriving, level = [list(each) for each in self.levels], list(leaves), 0
        while arriving:
            if level == len(levels):
                levels.append([])
            first = count(level + 1, self.size)
            hashes, ready = levels[level] + arriving, list[bytes]()
            for start in range(0, len(hashes) - WIDTH + 1, WIDTH):
                tile = hashes[start : start + WIDTH]
                full[Place(level, first + start // WIDTH)] = b"".join(tile)
                ready.append(merkle.perfect(tile))
            levels[level] = hashes[len(ready) * WIDTH :]
            arriving, level = ready, level + 1
        return Edge(self.size + len(leaves), tuple(map(tuple, levels))), full


NOTHING: Final = Edge(0, ())


def bundle(data: Sequence[bytes]) -> bytes:
    """Return the bundle of these records, of 56 bytes each."""
    return b"".join(_LENGTH + each for each in data)


def unbundled(data: bytes) -> list[bytes] | None:
    """Return the records in a bundle, or None if it is malformed."""
    size = len(_LENGTH) + records.SIZE
    parts = [data[start : start + size] for start in range(0, len(data), size)]
    if any(len(each) != size or not each.startswith(_LENGTH) for each in parts):
        return None
    return [each[len(_LENGTH) :] for each in parts]


def hashes(data: bytes) -> list[bytes]:
    """Return the hashes in a tile, of 32 bytes each."""
    return [data[start : start + HASH_BYTES] for start in range(0, len(data), HASH_BYTES)]


def holding(level: int, number: int) -> tuple[Place, int]:
    """Return the full tile that determines a complete subtree, and the first of its hashes.

    The subtree has 2**`level` leaves and is the `number`-th of its kind. Its root is that over
    2**(`level` % 8) hashes of the tile.
    """
    height = level % _WIDTH_BITS
    first = number << height
    return Place(level // _WIDTH_BITS, first // WIDTH), first % WIDTH


def count(level: int, size: int) -> int:
    """Return how many hashes of this level a tree of `size` leaves has."""
    return size >> _WIDTH_BITS * level
