"""The Merkle tree of RFC 6962, over SHA-256: roots and proofs.

Functions that walk a tree take `subtree(level, number)`, which returns the root of the complete
subtree over the leaves `number * 2**level` up to `(number + 1) * 2**level`, 32 bytes.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Final, TypeAlias

EMPTY: Final = hashlib.sha256(b"").digest()
HASH_BYTES: Final = 32
_NODE: Final = b"\x01"

Subtree: TypeAlias = Callable[[int, int], bytes]


def node(left: bytes, right: bytes) -> bytes:
    """Return the hash of an inner node: SHA-256(0x01 || left || right)."""
    return hashlib.sha256(_NODE + left + right).digest()


def perfect(hashes: Sequence[bytes]) -> bytes:
    """Return the root over a number of hashes that is a power of two."""
    while len(hashes) > 1:
        hashes = [node(*pair) for pair in zip(hashes[::2], hashes[1::2], strict=True)]
    return hashes[0]


def join(roots: Iterable[bytes]) -> bytes:
    """Return the root over complete subtrees from left to right, each larger than the next one."""
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


def root_by_path(leaf: bytes, index: int, size: int, path: Sequence[bytes]) -> bytes | None:
    """Return the root that the path of a leaf leads to, or None if it has the wrong length.

    This is the verification of RFC 9162, 2.1.3.2.
    """
    last, found = size - 1, leaf
    for each in path:
        if last == 0:
            return None
        if index & 1 or index == last:
            found = node(each, found)
            while not index & 1 and index:
                index, last = index >> 1, last >> 1
        else:
            found = node(found, each)
        index, last = index >> 1, last >> 1
    return found if last == 0 else None


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
