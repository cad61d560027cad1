"""Set of revoked warrants in a client: large, with frequent small changes."""

import re
from array import array
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field
from io import BytesIO
from itertools import accumulate, chain, islice, repeat
from operator import and_, or_, sub
from typing import Final, NamedTuple, Self

import cbor2

from . import wire
from .cutoffs import Cutoffs, change_cutoffs, select_cutoffs
from .members import MalformedBytes, decode, rising

# Number of changes after which they are merged into a copy of the large set.
_FOLD_AT: Final = 16_384

# Approximate number of bytes of text decoded at once.
_PART: Final = 64 * 1024

# Minimum number of slots per text. A lookup then usually ends at a free slot.
_ROOM: Final = 3

WARRANT_ID_PATTERN: Final = "svc_wrt_[A-Za-z0-9_-]{1,64}"
_WARRANT_ID: Final = re.compile(WARRANT_ID_PATTERN)

_MEMBER: Final = cbor2.dumps("RevokedIDs")
_TEXTS: Final = 0x60
_SHORT: Final = 24
# The size of a text by the byte before it. A longer text may have such a byte too.
_SIZES: Final = (*range(_TEXTS), *range(_SHORT))
_SIZE_MAX: Final = wire.ID_BYTES_MAX

# The hash bits that fit fast integer arithmetic.
_MARKS: Final = (1 << 30) - 1

_NONE: Final[Set[str]] = frozenset()


class _NonCanonicalText(Exception):
    """The texts are not in the encoding of deterministic CBOR."""


class _TextRun(NamedTuple):
    """Consecutive texts of a list, and the offsets of their begin and end.

    `sizes` contains their distinct numbers of characters.
    """

    begin: int
    end: int
    texts: list[str]
    sizes: set[int]


class CompactIds:
    """An immutable set of texts that needs little more memory than the texts.

    `cutoffs` contains its subject cutoffs, only with `sorted_once`.

    `_table` is read by lookups: `places`, `data`, `mask`, `tags`, `offsets`. `data` has the texts
    in CBOR. `places` is a hash table, and 0 marks a free slot. A text is in the slot given by its
    hash and `mask`, or in the next free one. The slot has the offset of the text's first byte,
    masked by `offsets`, and the remaining hash bits, masked by `tags`. Most lookups therefore
    compare the text with at most one other text.

    Raises `_NonCanonicalText` if the CBOR is not deterministic, or a text has more than 72 bytes.
    With `sorted_once`, raises `MalformedBytes` if the texts are unsorted or repeated.
    """

    __slots__ = ("_table", "begin", "count", "cutoffs", "end")

    def __init__(self, data: bytes, begin: int, count: int, *, sorted_once: bool = False) -> None:
        self.begin, self.count = begin, count
        size = 1 << (_ROOM * count).bit_length()
        tags = (-1 << len(data).bit_length()) & _MARKS
        places, mask = array("I", [0]) * size, size - 1
        self._table = places, data, mask, tags, ~tags & 0xFFFF_FFFF
        self.end, previous, cutoff_ids = begin, list[str](), list[str]()
        for part in _parts(data, begin, count):
            if sorted_once:
                rising([*previous, *part.texts], "RevokedIDs")
                previous = part.texts[-1:]
                cutoff_ids += select_cutoffs(part.texts)
            marks = [each & _MARKS for each in map(hash, part.texts)]
            tagged = map(or_, _offsets(part), map(and_, marks, repeat(tags)))
            # Inlined, because it runs for millions of texts.
            for place, at in zip(tagged, map(and_, marks, repeat(mask)), strict=True):
                while places[at]:
                    at = (at + 1) & mask  # noqa: PLW2901
                places[at] = place
            self.end = part.end
        self.cutoffs = change_cutoffs({}, additions=cutoff_ids)

    @classmethod
    def of(cls, parts: Iterable[Iterable[str]]) -> Self:
        """Return the set of all texts in `parts`, which must be distinct."""
        count, file = 0, BytesIO()
        file.write(b"\0")
        for texts in map(list, parts):
            count += len(texts)
            file.write(cbor2.dumps(texts)[len(_list_head(len(texts))) :])
        return cls(file.getvalue(), 1, count)

    def __contains__(self, text: str) -> bool:
        return self.has_any((text,))

    def has_any(
        self, texts: Iterable[str], additions: Set[str] = _NONE, removals: Set[str] = _NONE
    ) -> bool:
        """Return whether any text is in `additions`, or in this set but not in `removals`.

        Raises `TypeError` if an item is not a `str`.
        """
        places, data, mask, tags, offsets = self._table
        # Every check runs this loop, so it avoids function calls.
        for text in texts:
            if type(text) is not str:
                raise TypeError("an identifier is a text")
            mark = hash(text) & _MARKS
            at = mark & mask
            while place := places[at]:
                if not (place ^ mark) & tags:
                    begin = place & offsets
                    found = data[begin : begin + _SIZES[data[begin - 1]]]
                    # A list never contains text that is not valid Unicode.
                    if found == text.encode("utf-8", "surrogatepass"):
                        if text not in removals:
                            return True
                        break
                at = (at + 1) & mask
            if text in additions:
                return True
        return False

    def __len__(self) -> int:
        return self.count

    def parts(self) -> Iterator[list[str]]:
        """Return the texts, a few thousand at a time."""
        return (part.texts for part in _parts(self._table[1], self.begin, self.count))


@dataclass(frozen=True, slots=True)
class RevokedIds:
    """Identifiers of revoked warrants. Immutable: `apply` returns another set.

    `added` is disjoint from `whole`, and `removed` is a subset of it. A change copies only these
    two. `cutoffs` contains the subject cutoffs of the whole set.
    """

    whole: CompactIds
    added: Set[str] = frozenset()
    removed: Set[str] = frozenset()
    cutoffs: Cutoffs = field(default_factory=dict)

    def __contains__(self, warrant_id: str) -> bool:
        return self.whole.has_any((warrant_id,), self.added, self.removed)

    def __len__(self) -> int:
        return len(self.whole) + len(self.added) - len(self.removed)

    def ids(self) -> set[str]:
        """Return the identifiers in a new set."""
        return set(chain.from_iterable(self.parts()))

    def apply(self, entries: Iterable[wire.FeedEntry]) -> Self:
        """Return the set after `entries`, in their order, in time proportional to their size."""
        added, removed, times = set(self.added), set(self.removed), self.cutoffs
        for entry in entries:
            added.difference_update(entry.removed)
            removed.update(each for each in entry.removed if each in self.whole)
            removed.difference_update(entry.revoked)
            added.update(each for each in entry.revoked if each not in self.whole)
            times = change_cutoffs(times, additions=entry.revoked, removals=entry.removed)
        changed = type(self)(self.whole, added, removed, times)
        return changed if len(added) + len(removed) <= _FOLD_AT else changed.compact()

    def compact(self) -> Self:
        """Return an equal set with all changes merged into the large set."""
        return type(self)(CompactIds.of(self.parts()), cutoffs=self.cutoffs)

    def parts(self) -> Iterator[Iterable[str]]:
        """Return the identifiers, a few thousand at a time."""
        for texts in self.whole.parts():
            yield [each for each in texts if each not in self.removed]
        yield self.added


def of_base(data: bytes, base: wire.Base) -> RevokedIds:
    """Return the revoked set of an SRL payload, which must match `base`.

    The set keeps a reference to `data`. Raises the errors of `wire.base_ids`.
    """
    wire.check_base(data, base)
    try:
        whole = _in_place(data, base)
        return RevokedIds(whole, cutoffs=whole.cutoffs)
    except _NonCanonicalText:
        ids = wire.base_ids(data, base)
        times = change_cutoffs({}, additions=select_cutoffs(ids))
        return RevokedIds(CompactIds.of([ids]), cutoffs=times)


def is_warrant_id(value: str) -> bool:
    """Return whether `value` is a warrant identifier, which callers choose (API-15)."""
    return _WARRANT_ID.fullmatch(value) is not None


def warrant_id(value: str) -> str:
    """Return `value`, which must be a warrant identifier.

    Raises `ValueError` with a message for the caller.
    """
    if not is_warrant_id(value):
        raise ValueError("must be svc_wrt_ followed by 1 to 64 letters, digits, '_' or '-'")
    return value


def _in_place(data: bytes, base: wire.Base) -> CompactIds:
    """Return the set of an SRL payload without copying its texts.

    Raises `_NonCanonicalText` if all texts must be decoded at once, or `BaseVersionMismatch`.
    """
    head = _list_head(base.count)
    offset = data.find(_MEMBER) + len(_MEMBER)
    # Each text has at least one byte, regardless of the count in the feed head.
    if not data.startswith(head, offset) or base.count > len(data):
        raise _NonCanonicalText
    try:
        ids = CompactIds(data, offset + len(head), base.count, sorted_once=True)
        # The other members are decoded as usual, with an empty list in place of the long one.
        members = decode(data[:offset] + _list_head(0) + data[ids.end :])
    except MalformedBytes:
        raise _NonCanonicalText from None
    if members.get("RevokedIDs") != [] or data.find(_MEMBER, ids.end) >= 0:
        raise _NonCanonicalText
    wire.check_version(members, base)
    return ids


def _parts(data: bytes, begin: int, count: int) -> Iterator[_TextRun]:
    """Yield `count` texts from offset `begin` in parts, to keep few in memory.

    A part ends where a text appears to begin. If that guess is wrong, the part cannot be decoded,
    and the rest becomes the last part. Raises `_NonCanonicalText`.
    """
    while count:
        part = _next_part(data, begin, count) or _rest(data, begin, count)
        begin, count = part.end, count - len(part.texts)
        yield part


def _next_part(data: bytes, begin: int, count: int) -> _TextRun | None:
    next_text = data.find(b"svc_wrt_", begin + _PART)
    if next_text < 0:
        return None
    end = next_text - (1 if data[next_text - 1] >= _TEXTS else 2)
    try:
        texts = cbor2.loads(b"\x9f" + data[begin:end] + b"\xff")
        part = _TextRun(begin, end, texts, {*map(str.__len__, texts)})
    except Exception:  # noqa: BLE001 - a tag may raise errors of many kinds
        return None
    return part if len(texts) <= count else None


def _rest(data: bytes, begin: int, count: int) -> _TextRun:
    head = _list_head(count)
    file = BytesIO(head + data[begin:])
    try:
        texts = cbor2.CBORDecoder(file).decode()
        return _TextRun(begin, begin + file.tell() - len(head), texts, {*map(str.__len__, texts)})
    except Exception:  # noqa: BLE001 - as above
        raise _NonCanonicalText from None


def _offsets(part: _TextRun) -> Iterable[int]:
    """Return the offset of each text's first byte, by the sizes of deterministic CBOR.

    Raises `_NonCanonicalText`.
    """
    size = part.end - part.begin
    text_size, remainder = divmod(size, len(part.texts))
    if not remainder and _SHORT + 2 <= text_size <= _SIZE_MAX + 2 and part.sizes == {text_size - 2}:
        return range(part.begin + 2, part.end + 2, text_size)
    sizes = [len(each) for each in part.texts]
    if sum(_steps(sizes)) != size:
        # Some texts have more bytes than characters.
        sizes = [len(each.encode()) for each in part.texts]
    if sum(_steps(sizes)) != size or max(sizes) > _SIZE_MAX:
        raise _NonCanonicalText
    ends = islice(accumulate(_steps(sizes), initial=part.begin), 1, None)
    return map(sub, ends, sizes)


def _steps(sizes: list[int]) -> list[int]:
    """Return the encoded CBOR sizes of texts with these sizes."""
    return [each + (1 if each < _SHORT else 2) for each in sizes]


def _list_head(count: int) -> bytes:
    head = bytearray(cbor2.dumps(count))
    head[0] |= 0x80
    return bytes(head)
