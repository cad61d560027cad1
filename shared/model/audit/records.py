"""Records: leaves of the transparency log, each a commitment to one audit entry (LOG-2).

A record contains the identifier of the entry, its expiry and the SHA-256 of its line. It reveals no
other data of the entry, and therefore remains when the entry is deleted.
"""

import hashlib
import json
from collections.abc import Iterable
from datetime import datetime
from typing import Final, NamedTuple, Self

from shared.errors import DataCorrupt
from shared.model import times
from shared.model.identifiers import AUDIT_ENTRY, decode_base32, encode_base32, is_identifier
from shared.model.items import Item, Value
from shared.model.records import integer

SIZE: Final = 56
_ULID_BYTES: Final = 16
_EXPIRES_BYTES: Final = 8
_ULID_DIGITS: Final = 26
_RANDOM_BITS: Final = 80
# The prefix of the hash of a leaf (RFC 6962, section 2.1).
_LEAF: Final = b"\x00"
# Above this, parsers that read JSON numbers as floating point lose digits (RFC 8785).
_MOST_INTEGER: Final = 2**53


class EntryCommitment(NamedTuple):
    """The commitment to one audit entry.

    `expires` is in seconds since the epoch. `digest` is the SHA-256 of the entry's line, 32 bytes.
    """

    id: str
    expires: int
    digest: bytes

    @classmethod
    def of(cls, item: Item) -> Self:
        """Return the record of a stored entry. Raises `DataCorrupt`."""
        entry_id = item.get("id")
        if not isinstance(entry_id, str) or not is_identifier(entry_id, kind=AUDIT_ENTRY):
            raise DataCorrupt("an audit entry has no identifier")
        expires = integer(item, "expires")
        if not 0 <= expires < 2 ** (8 * _EXPIRES_BYTES):
            raise DataCorrupt(f"the expiry of the audit entry {entry_id} is malformed")
        return cls(entry_id, expires, hashlib.sha256(line(item)).digest())

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Return the record in 56 bytes. Raises `DataCorrupt`."""
        if len(data) != SIZE:
            raise DataCorrupt("a record of the transparency log has a wrong length")
        ulid, rest = data[:_ULID_BYTES], data[_ULID_BYTES:]
        return cls(
            identifier(ulid), int.from_bytes(rest[:_EXPIRES_BYTES], "big"), rest[_EXPIRES_BYTES:]
        )

    @property
    def data(self) -> bytes:
        """The 56 bytes: ULID (16), expiry (8), digest (32), integers in network byte order."""
        return ulid_of(self.id) + self.expires.to_bytes(_EXPIRES_BYTES, "big") + self.digest

    @property
    def made_ms(self) -> int:
        """The creation time of the entry, in milliseconds since the epoch."""
        return milliseconds(ulid_of(self.id))


def line(item: Item) -> bytes:
    """Return the line of an entry: its item in canonical JSON (RFC 8785).

    Members are sorted, without white space between tokens. Raises `DataCorrupt` if the item cannot
    be encoded as JSON.
    """
    try:
        text = json.dumps(dict(item), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        return text.encode()
    except (TypeError, ValueError):
        raise DataCorrupt("an audit entry cannot be written as JSON") from None


def check(item: Item) -> None:
    """Raise `ValueError` or `TypeError` unless every JSON parser reads the line identically."""
    _check(dict(item))
    line(item)


def leaf(data: bytes) -> bytes:
    """Return the hash of the leaf with these bytes: SHA-256(0x00 || data)."""
    return hashlib.sha256(_LEAF + data).digest()


def split(data: bytes) -> list[bytes]:
    """Split joined records of 56 bytes each."""
    return [data[start : start + SIZE] for start in range(0, len(data), SIZE)]


def ulids(data: bytes) -> Iterable[bytes]:
    """Yield the ULID (16 bytes) of each of several joined records."""
    return (data[start : start + _ULID_BYTES] for start in range(0, len(data), SIZE))


def ulid_of(entry_id: str) -> bytes:
    """Return the 16 bytes of the ULID in the identifier of an entry."""
    return decode_base32(entry_id[-_ULID_DIGITS:]).to_bytes(_ULID_BYTES, "big")


def identifier(ulid: bytes) -> str:
    """Return the identifier of the entry with this ULID (16 bytes)."""
    return f"svc_{AUDIT_ENTRY}_" + encode_base32(int.from_bytes(ulid, "big"), _ULID_DIGITS)


def milliseconds(ulid: bytes) -> int:
    """Return the time in a ULID (16 bytes), in milliseconds since the epoch."""
    return int.from_bytes(ulid, "big") >> _RANDOM_BITS


def moment(entry_id: str) -> datetime:
    """Return the time in the identifier of an entry, in whole seconds. Raises `DataCorrupt`."""
    try:
        return times.from_seconds(milliseconds(ulid_of(entry_id)) // 1000)
    except (OverflowError, ValueError):
        raise DataCorrupt("the identifier of an audit entry has no time") from None


def _check(value: Value) -> None:
    if isinstance(value, list):
        for each in value:
            _check(each)
    elif isinstance(value, dict):
        _check(list(value.values()))
    elif isinstance(value, bytes):
        raise TypeError("an audit entry must not contain bytes, because JSON has none")
    elif isinstance(value, int) and abs(value) >= _MOST_INTEGER:
        raise ValueError("a number in an audit entry must be less than 2^53")
