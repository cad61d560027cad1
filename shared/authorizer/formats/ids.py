"""The set of revoked warrants that a client holds: large, and changed a little at a time."""

import re
from array import array
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass
from io import BytesIO
from itertools import accumulate, chain, repeat
from operator import and_
from typing import Final, NamedTuple, Self

import cbor2

from . import wire
from .members import Malformed, loaded

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
_BYTE: Final = 256
# The CBOR before a text, by its size in bytes.
_HEADS: Final = tuple(cbor2.dumps("." * size)[: -size or None] for size in range(_BYTE))


class _OtherForm(Exception):
    """Texts that are not encoded as an encoder of deterministic CBOR does."""


class _Part(NamedTuple):
    """Texts that follow each other in a list, and where the first begins and the last ends.

    `sizes` are their numbers of characters, each once.
    """

    begin: int
    end: int
    texts: list[str]
    sizes: set[int]


class CompactIds:
    """A set of texts that never changes, whose size is little more than theirs.

    `data` has the texts in CBOR, from the offset `begin` on. `places` is a hash table of their
    offsets, in which 0 is none; a text is at the place that its hash and `mask` say, or in the next
    one that was free. Raises `_OtherForm` if the CBOR is not deterministic.
    """

    __slots__ = ("begin", "count", "data", "end", "mask", "places")

    def __init__(self, data: bytes, begin: int, count: int) -> None:
        self.data, self.begin, self.count = data, begin, count
        size = 1 << (_ROOM * count).bit_length()
        self.mask = size - 1
        self.places = array("I", [0]) * size
        self.end = begin
        for part in _parts(data, begin, count):
            self._put(part)
            self.end = part.end

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
        places, mask = self.places, self.mask
        at = hash(text) & mask
        place = places[at]
        if not place:
            return False
        encoded, is_there = _encoded(text), self.data.startswith
        while place:
            if is_there(encoded, place):
                return True
            at = (at + 1) & mask
            place = places[at]
        return False

    def __len__(self) -> int:
        return self.count

    def parts(self) -> Iterator[list[str]]:
        """Return the texts, a few thousand at a time."""
        return (part.texts for part in _parts(self.data, self.begin, self.count))

    def _put(self, part: _Part) -> None:
        places, mask = self.places, self.mask
        slots = map(and_, map(hash, part.texts), repeat(mask))
        # Written out, since a million texts pass here.
        for place, at in zip(_offsets(part), slots, strict=True):
            while places[at]:
                at = (at + 1) & mask  # noqa: PLW2901
            places[at] = place


@dataclass(frozen=True, slots=True)
class RevokedIds:
    """The identifiers of revoked warrants. It never changes: `after` returns another set.

    `added` are not in `whole`, and `removed` are, so that a change copies only these two.
    """

    whole: CompactIds
    added: Set[str] = frozenset()
    removed: Set[str] = frozenset()

    def __contains__(self, warrant_id: str) -> bool:
        if warrant_id in self.whole:
            return warrant_id not in self.removed
        return warrant_id in self.added

    def __len__(self) -> int:
        return len(self.whole) + len(self.added) - len(self.removed)

    def ids(self) -> set[str]:
        """Return the identifiers in a new set."""
        return set(chain.from_iterable(self.parts()))

    def after(self, entries: Iterable[wire.FeedEntry]) -> Self:
        """Return the set after `entries`, in their order. It takes time in proportion to them."""
        added, removed = set(self.added), set(self.removed)
        for entry in entries:
            added.difference_update(entry.removed)
            removed.update(each for each in entry.removed if each in self.whole)
            removed.difference_update(entry.revoked)
            added.update(each for each in entry.revoked if each not in self.whole)
        changed = type(self)(self.whole, added, removed)
        if len(added) + len(removed) <= _FOLD_AT:
            return changed
        return type(self)(CompactIds.of(changed.parts()))

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
    except _OtherForm:
        whole = CompactIds.of([wire.base_ids(data, base)])
    return RevokedIds(whole)


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

    Raises `_OtherForm` if that needs them all at once; `OtherVersion`.
    """
    head = _list_head(base.count)
    at = data.find(_MEMBER) + len(_MEMBER)
    # Each text has a byte at least, whatever the head claims.
    if not data.startswith(head, at) or base.count > len(data):
        raise _OtherForm
    found = CompactIds(data, at + len(head), base.count)
    # Whatever else it has is read as usual, with an empty list in place of the long one.
    try:
        rest = loaded(data[:at] + _list_head(0) + data[found.end :])
    except Malformed:
        raise _OtherForm from None
    if rest.get("RevokedIDs") != [] or data.find(_MEMBER, found.end) >= 0:
        raise _OtherForm
    wire.check_version(rest, base)
    return found


def _parts(data: bytes, begin: int, count: int) -> Iterator[_Part]:
    """Return `count` texts from `begin` on, in parts, so that few are in memory at once.

    A part ends where a text seems to begin. If it does not, the part cannot be decoded, and the
    rest is the last part. Raises `_OtherForm`.
    """
    while count:
        part = _next_part(data, begin, count) or _rest(data, begin, count)
        begin, count = part.end, count - len(part.texts)
        yield part


def _next_part(data: bytes, begin: int, count: int) -> _Part | None:
    found = data.find(b"svc_wrt_", begin + _PART)
    if found < 0:
        return None
    end = found - (1 if data[found - 1] >= _TEXTS else 2)
    try:
        texts = cbor2.loads(b"\x9f" + data[begin:end] + b"\xff")
        part = _Part(begin, end, texts, {*map(str.__len__, texts)})
    except Exception:  # noqa: BLE001 - a tag may raise errors of many kinds
        return None
    return part if len(texts) <= count else None


def _rest(data: bytes, begin: int, count: int) -> _Part:
    head = _list_head(count)
    file = BytesIO(head + data[begin:])
    try:
        texts = cbor2.CBORDecoder(file).decode()
        return _Part(begin, begin + file.tell() - len(head), texts, {*map(str.__len__, texts)})
    except Exception:  # noqa: BLE001 - as above
        raise _OtherForm from None


def _offsets(part: _Part) -> Iterable[int]:
    """Return where each text begins, by the sizes of deterministic CBOR. Raises `_OtherForm`."""
    size = part.end - part.begin
    alike, left = divmod(size, len(part.texts))
    if not left and alike >= _SHORT + 2 and part.sizes == {alike - 2}:
        return range(part.begin, part.end, alike)
    steps = [len(each) + (1 if len(each) < _SHORT else 2) for each in part.texts]
    if sum(steps) != size:
        # Some have more bytes than characters.
        steps = [len(_encoded(each)) for each in part.texts]
    if sum(steps) != size:
        raise _OtherForm
    del steps[-1]
    return accumulate(steps, initial=part.begin)


def _encoded(text: str) -> bytes:
    """Return the CBOR of a text, also of one that is no Unicode."""
    try:
        data = text.encode()
        return _HEADS[len(data)] + data
    except UnicodeEncodeError:
        # No text of CBOR is so.
        return b"\xff"
    except IndexError:
        return cbor2.dumps(text)


def _list_head(count: int) -> bytes:
    head = bytearray(cbor2.dumps(count))
    head[0] |= 0x80
    return bytes(head)
