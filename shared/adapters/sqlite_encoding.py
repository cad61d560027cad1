"""How the SQLite file encodes partitions and items: without what most of them repeat.

A partition is a letter for its table, and its key with each usual identifier as 17 bytes: one for
the text before it, and 128 bits.

An item is CBOR. One of the usual size is also compressed, with a dictionary of the names and
values that most items have, and with its own key, which many items repeat. A byte in front that no
map in CBOR begins with tells the two apart.
"""

import hashlib
import re
import zlib
from functools import lru_cache
from itertools import product
from typing import Final

import cbor2

from shared.model.identifiers import ULID
from shared.ports.store import Item, Table, Value

# The letters of a table: those of the index of the audit log by warrant differ from the others.
LETTERS: Final = {Table.KEYS: b"k", Table.REVOCATIONS: b"r", Table.AUDIT: b"ai"}
_INDEX: Final = "#audit-of#"

# A text before an identifier is named by its place. Stored keys can be read only with these.
_PREFIXES: Final = (
    b"svc_tnt_",
    b"#warrant#svc_wrt_",
    b"#audit-of#svc_wrt_",
    b"svc_wrt_",
    b"svc_key_",
    b"svc_rev_",
    b"svc_evt_",
    b"svc_ak_",
    b"svc_sa_",
    b"svc_whk_",
    b"svc_bat_",
    b"svc_azr_",
)
_FIRST: Final = 0x80
# A text by itself, too.
_PHRASES: Final = (b"#revoked#", b"#revocations")
_FIRST_PHRASE: Final = 0xC0
_NO_ASCII: Final = b"\xff"
_IDENTIFIER: Final = re.compile(
    b"(%s)(%s)|%s" % (b"|".join(_PREFIXES), ULID.encode(), b"|".join(_PHRASES))
)
_SHORT: Final = re.compile(rb"[\x80-\xbf].{16}|[\xc0-\xff]", re.DOTALL)
_DIGITS: Final = b"0123456789abcdefghjkmnpqrstvwxyz"
_TO_BASE_32: Final = bytes.maketrans(_DIGITS, b"0123456789abcdefghijklmnopqrstuv")
_PAIRS: Final = [bytes(pair) for pair in product(_DIGITS, repeat=2)]

# What an item in compressed form begins with. Another dictionary would get another byte.
COMPRESSED: Final = b"\x01"

# A condition of SQL for the items whose CBOR may contain some bytes. CBOR that is stored as it is
# begins with the byte of a map, which is greater. Most items of long columns are empty maps.
MAY_HAVE: Final = f"(item <> x'a0' AND (instr(item, ?) OR item < x'{COMPRESSED[0] + 1:02x}'))"

# Shorter ones gain little, except in the index, which has many. Longer ones are few, and most of
# their bytes are not in the dictionary.
_LENGTH_MIN: Final = 48
_LENGTH_MAX: Final = 1024
_WINDOW_BITS: Final = -11
_LEVEL: Final = 6
_MEMORY_LEVEL: Final = 2
# More than any item grows to.
_DECODED_MAX: Final = 2048

# Stored items can be read only with exactly this dictionary. What is most frequent is last, where
# it is the shortest to name.
_REST: Final = "0" * 23
_TIME: Final = "2026-12-01T00:00:00Z"
_DICTIONARY: Final = b"".join(
    map(
        cbor2.dumps,
        (
            {
                "digest": "",
                "tenant_id": "svc_tnt_01m" + _REST,
                "identity": "",
                "scopes": ["authorizer"],
            },
            {"request_count": 0, "last_used_at": _TIME, "type": "signing", "status": "active"},
            {
                "batch_id": "svc_bat_01m" + _REST,
                "said_to_end_at": _TIME,
                "action": "api_key.create",
            },
            {"key_id": "svc_key_01m" + _REST, "key_version": 1, "format": "raw", "ends_at": _TIME},
            {
                "warrant_id": "svc_wrt_01m" + _REST,
                "key_id": "svc_key_01m" + _REST,
                "signed_at": _TIME,
            },
            {"action": "key.sign", "action ": "revocation.delete", "created_at": "T00:00:00Z"},
            {
                "revocation_id": "svc_rev_01m" + _REST,
                "revoked_at": _TIME,
                "reason": "",
                "version": 2,
            },
            {
                "id": "svc_rev_01m" + _REST,
                "warrant_id": "svc_wrt_01m" + _REST,
                "reason": "",
                "created_at": _TIME,
                "created_by": "",
                "actor_key_id": "svc_ak_01m" + _REST,
                "created_by_name": "admin",
            },
            {
                "id": "svc_evt_01m" + _REST,
                "timestamp": _TIME,
                "actor": "@local.svc",
                "action": "revocation.create",
                "resource_id": "svc_rev_01m" + _REST,
                "result": "success",
                "source_ip": "127.0.0.1",
                "request_id": "0" * 16,
                "details": {"warrant_id": "svc_wrt_01m" + _REST, "reason": ""},
                "expires": 1829826397,
                "actor_key_id": "svc_ak_01m" + _REST,
                "actor_name": "admin",
            },
        ),
    )
)


# A write looks for the partitions of its items and sets them.
@lru_cache(maxsize=1024)
def partition(table: str, pk: str) -> bytes:
    """Return the key of a partition."""
    return letter(table, pk) + packed(pk)


# A write looks for the places of its items and sets them; so does a read for the checksums.
@lru_cache(maxsize=1024)
def place(table: str, pk: str) -> int:
    """Return the hash of a partition, a signed 64-bit integer, which is its key in `places`."""
    digest = hashlib.blake2b(named(table, pk), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def named(table: str, pk: str) -> bytes:
    """Return the text that names a partition, whatever its key in the file is."""
    return f"{table}\0{pk}\0".encode()


def partition_of(key: bytes) -> tuple[Table, str]:
    """Return the table and the partition key. Raises `ValueError` if the bytes are malformed."""
    for table, letters in LETTERS.items():
        if key[:1] and key[:1] in letters:
            return table, unpacked(key[1:])
    raise ValueError("a partition is malformed")


def letter(table: str, pk: str) -> bytes:
    """Return the letter of a partition: that of its table, or of the index by warrant."""
    is_index = table == Table.AUDIT and _INDEX in pk
    return LETTERS[Table(table)][is_index : is_index + 1]


def packed(text: str) -> bytes:
    """Return a text with its identifiers as bytes; bytewise order is kept only without any."""
    plain = text.encode()
    return _IDENTIFIER.sub(_short, plain) if plain.isascii() else _NO_ASCII + plain


def unpacked(value: bytes) -> str:
    """Return the text that was packed. Raises `ValueError` if the bytes are malformed."""
    if value.startswith(_NO_ASCII):
        return value[1:].decode()
    try:
        return _SHORT.sub(_long, value).decode()
    except IndexError as error:
        raise ValueError("a packed text is malformed") from error


def _short(found: re.Match[bytes]) -> bytes:
    if found[1] is None:
        return bytes([_FIRST_PHRASE + _PHRASES.index(found[0])])
    number = int(found[2].translate(_TO_BASE_32), 32)
    return bytes([_FIRST + _PREFIXES.index(found[1])]) + number.to_bytes(16, "big")


def _long(found: re.Match[bytes]) -> bytes:
    if found[0][0] >= _FIRST_PHRASE:
        return _PHRASES[found[0][0] - _FIRST_PHRASE]
    number = int.from_bytes(found[0][1:], "big")
    digits = b"".join([_PAIRS[number >> shift & 0x3FF] for shift in range(120, -1, -10)])
    return _PREFIXES[found[0][0] - _FIRST] + digits


def encoded(item: Item, pk: str, sk: str) -> bytes:
    """Return the bytes in which an item is stored under these keys."""
    plain = cbor2.dumps(dict(item))
    if not (_INDEX in pk or len(plain) >= _LENGTH_MIN) or len(plain) > _LENGTH_MAX:
        return plain
    packer = zlib.compressobj(
        _LEVEL,
        zlib.DEFLATED,
        _WINDOW_BITS,
        _MEMORY_LEVEL,
        zlib.Z_DEFAULT_STRATEGY,
        _known(pk, sk),
    )
    packed = COMPRESSED + packer.compress(plain) + packer.flush()
    return packed if len(packed) < len(plain) else plain


def plain(stored: bytes, pk: str, sk: str) -> bytes:
    """Return the CBOR of an item. Raises `ValueError` if the bytes are malformed."""
    if not stored.startswith(COMPRESSED):
        return stored
    try:
        unpacker = zlib.decompressobj(_WINDOW_BITS, _known(pk, sk))
        return unpacker.decompress(stored[1:], _DECODED_MAX)
    except zlib.error as error:
        raise ValueError("a compressed item is malformed") from error


def decoded(encoded_plain: bytes) -> dict[str, Value]:
    """Return the item of such CBOR. Raises `ValueError` if it is malformed."""
    try:
        found = cbor2.loads(encoded_plain)
    except cbor2.CBORDecodeError as error:
        raise ValueError("an item is malformed") from error
    if not isinstance(found, dict):
        raise ValueError("an item is no map")  # noqa: TRY004 (malformed bytes)
    return found


def _known(pk: str, sk: str) -> bytes:
    return _DICTIONARY + (pk + sk).encode()
