"""The set of revoked warrants that a client holds: large, and changed a little at a time."""

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

# How many changes are kept beside the large set before they are folded into a copy of it.
_FOLD_AT: Final = 16_384

# About how many bytes of texts are decoded at once.
_PART: Final = 64 * 1024

# How many places a set has for each text at least: a look mostly finds a free one, and ends there.
_ROOM: Final = 3

WARRANT_ID_PATTERN: Final = "svc_wrt_[A-Za-z0-9_-]{1,64}"
_WARRANT_ID: Final = re.compile(WARRANT_ID_PATTERN)

_MEMBER: Final = cbor2.dumps("RevokedIDs")
_TEXTS: Final = 0x60
_SHORT: Final = 24
# The size of a text, by the byte before it. A longer text may have one of these bytes, too.
_SIZES: Final = (*range(_TEXTS), *range(_SHORT))
_SIZE_MAX: Final = wire.ID_BYTES_MAX

# As much of a hash as is quick to calculate with.
_MARKS: Final = (1 << 30) - 1

_NONE: Final[Set[str]] = frozenset()


class _NonCanonicalText(Exception):
    """Texts that are not encoded as an encoder of deterministic CBOR does."""


class _TextRun(NamedTuple):
    """Texts that follow each other in a list, and where the first begins and the last ends.

    `sizes` are their numbers of characters, each once.
    """

    begin: int
    end: int
    texts: list[str]
    sizes: set[int]


class CompactIds:
    """A set of texts that never changes, whose size is little more than theirs.

    `cutoffs` are the subject cutoffs in it, with `sorted_once` only.

    `_table` is what a look reads: `places`, `data`, `mask`, `tags`, `offsets`. `data` has the texts
    in CBOR, and `places` is a hash table, in which 0 is none; a text is at the place that its hash
    and `mask` say, or in the next one that was free. There is the offset of its first byte, by
    `offsets`, and as much of its hash as has room beside that, by `tags`. So a look mostly compares
    the text with no other. Raises `_NonCanonicalText` if the CBOR is not deterministic, or a text
    has more than 72 bytes; with `sorted_once`, `MalformedBytes` if the texts are not sorted, or one
    comes twice.
    """

    __slots__ = ("_table", "begin", "count", "cutoffs", "end")

    def __init__(self, data: bytes, begin: int, count: int, *, sorted_once: bool = False) -> None:
        self.begin, self.count = begin, count
        size = 1 << (_ROOM * count).bit_length()
        tags = (-1 << len(data).bit_length()) & _MARKS
        self._table = array("I", [0]) * size, data, size - 1, tags, ~tags & 0xFFFF_FFFF
        self.end, last, found = begin, list[str](), list[str]()
        for part in _parts(data, begin, count):
            if sorted_once:
                rising([*last, *part.texts], "RevokedIDs")
                last = part.texts[-1:]
                found += select_cutoffs(part.texts)
            self._append_part(part)
            self.end = part.end
        self.cutoffs = change_cutoffs({}, additions=found)

    @classmethod
    def of(cls, parts: Iterable[Iterable[str]]) -> Self:
        """Return the set of all texts in `parts`, which has each text once."""
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
        """Return whether one of `texts` is in `additions`, or in this set but not in `removals`.

        Raises `TypeError` if one is no text.
        """
        places, data, mask, tags, offsets = self._table
        # A decision is little else: it calls nothing that it need not.
        for text in texts:
            if type(text) is not str:
                raise TypeError("an identifier is a text")
            mark = hash(text) & _MARKS
            at = mark & mask
            while place := places[at]:
                if not (place ^ mark) & tags:
                    begin = place & offsets
                    found = data[begin : begin + _SIZES[data[begin - 1]]]
                    # No list has a text that is no Unicode.
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

    def _append_part(self, part: _TextRun) -> None:
        places, _, mask, tags, _ = self._table
        marks = [each & _MARKS for each in map(hash, part.texts)]
        tagged = map(or_, _offsets(part), map(and_, marks, repeat(tags)))
        # Written out, since a million texts pass here.
        for place, at in zip(tagged, map(and_, marks, repeat(mask)), strict=True):
            while places[at]:
                at = (at + 1) & mask  # noqa: PLW2901
            places[at] = place


@dataclass(frozen=True, slots=True)
class RevokedIds:
    """The identifiers of revoked warrants. It never changes: `apply` returns another set.

    `added` are not in `whole`, and `removed` are, so that a change copies only these two.
    `cutoffs` are the subject cutoffs of all.
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
        """Return the set after `entries`, in their order. It takes time in proportion to them."""
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
        """Return the same set, with nothing beside the large one."""
        return type(self)(CompactIds.of(self.parts()), cutoffs=self.cutoffs)

    def parts(self) -> Iterator[Iterable[str]]:
        """Return the identifiers, a few thousand at a time."""
        for texts in self.whole.parts():
            yield [each for each in texts if each not in self.removed]
        yield self.added


def of_base(data: bytes, base: wire.Base) -> RevokedIds:
    """Return the set in the payload of a list, which must be the one that `base` names.

    It keeps `data`. Raises as `wire.base_ids` does.
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
    """Return whether `value` is a warrant identifier. Callers choose these themselves (API-15)."""
    return _WARRANT_ID.fullmatch(value) is not None


def warrant_id(value: str) -> str:
    """Return `value`. Raises `ValueError`, for the caller, if it is no warrant identifier."""
    if not is_warrant_id(value):
        raise ValueError("must be svc_wrt_ followed by 1 to 64 letters, digits, '_' or '-'")
    return value


def _in_place(data: bytes, base: wire.Base) -> CompactIds:
    """Return the set in the payload of a list, without another copy of its texts.

    Raises `_NonCanonicalText` if that needs them all at once; `BaseVersionMismatch`.
    """
    head = _list_head(base.count)
    at = data.find(_MEMBER) + len(_MEMBER)
    # Each text has a byte at least, whatever the head claims.
    if not data.startswith(head, at) or base.count > len(data):
        raise _NonCanonicalText
    try:
        found = CompactIds(data, at + len(head), base.count, sorted_once=True)
        # Whatever else it has is read as usual, with an empty list in place of the long one.
        rest = decode(data[:at] + _list_head(0) + data[found.end :])
    except MalformedBytes:
        raise _NonCanonicalText from None
    if rest.get("RevokedIDs") != [] or data.find(_MEMBER, found.end) >= 0:
        raise _NonCanonicalText
    wire.check_version(rest, base)
    return found


def _parts(data: bytes, begin: int, count: int) -> Iterator[_TextRun]:
    """Return `count` texts from `begin` on, in parts, so that few are in memory at once.

    A part ends where a text seems to begin. If it does not, the part cannot be decoded, and the
    rest is the last part. Raises `_NonCanonicalText`.
    """
    while count:
        part = _next_part(data, begin, count) or _rest(data, begin, count)
        begin, count = part.end, count - len(part.texts)
        yield part


def _next_part(data: bytes, begin: int, count: int) -> _TextRun | None:
    found = data.find(b"svc_wrt_", begin + _PART)
    if found < 0:
        return None
    end = found - (1 if data[found - 1] >= _TEXTS else 2)
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
    """Return where the first byte of each text is, by the sizes of deterministic CBOR.

    Raises `_NonCanonicalText`.
    """
    size = part.end - part.begin
    alike, left = divmod(size, len(part.texts))
    if not left and _SHORT + 2 <= alike <= _SIZE_MAX + 2 and part.sizes == {alike - 2}:
        return range(part.begin + 2, part.end + 2, alike)
    sizes = [len(each) for each in part.texts]
    if sum(_steps(sizes)) != size:
        # Some have more bytes than characters.
        sizes = [len(each.encode()) for each in part.texts]
    if sum(_steps(sizes)) != size or max(sizes) > _SIZE_MAX:
        raise _NonCanonicalText
    ends = islice(accumulate(_steps(sizes), initial=part.begin), 1, None)
    return map(sub, ends, sizes)


def _steps(sizes: list[int]) -> list[int]:
    """Return how many bytes the CBOR of texts of such sizes has."""
    return [each + (1 if each < _SHORT else 2) for each in sizes]


def _list_head(count: int) -> bytes:
    head = bytearray(cbor2.dumps(count))
    head[0] |= 0x80
    return bytes(head)
