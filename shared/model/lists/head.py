"""The head: the item that says which list of a tenant is in force (SRL-15)."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from shared.errors import DataCorrupt
from shared.model import times
from shared.model.items import Address, Partition, Table
from shared.model.records import Record

MEDIA_TYPE: Final = "application/json"
BASE_MEDIA_TYPE: Final = "application/cbor"

# Clients ask again each time: a 304 costs little (SRL-17).
CACHE_CONTROL: Final = "private, no-cache"

_VERSION_DIGITS: Final = 12

# How the names of signed states end.
STATE_SUFFIX: Final = "cbor"


# More than the number of lists that one machine keeps.
HEADS_KEPT: Final = 32

# The shortest response body that is also stored in gzip. Below it, one more write to the bucket
# costs more than the bytes it saves.
PACKED_FROM: Final = 16 * 1024

# For how long after somebody asked for gzip lists are stored in it too, and how often that is
# noted.
_PACKED_FOR: Final = timedelta(days=3)
_NOTED_EVERY: Final = timedelta(days=1)


def lists_folder(tenant_id: str) -> str:
    """Return the folder of a tenant's lists."""
    return f"srl/{tenant_id}/lists"


def states_folder(tenant_id: str) -> str:
    """Return the folder of the signed states of a tenant's lists."""
    return f"srl/{tenant_id}/states"


def packed_folder(tenant_id: str) -> str:
    """Return the folder of the gzipped lists, apart from the lists so that none passes for one."""
    return f"srl/{tenant_id}/packed"


def bases_folder(tenant_id: str) -> str:
    """Return the folder of the payloads of lists in gzip, from which clients of the feed start."""
    return f"srl/{tenant_id}/bases"


def folders(tenant_id: str) -> tuple[str, ...]:
    """Return all folders that hold a blob for each version."""
    named = (lists_folder, states_folder, packed_folder, bases_folder)
    return tuple(folder(tenant_id) for folder in named)


def blob_name(folder: str, *, version: int, sha256: str, suffix: str = "json") -> str:
    """Return the name of a blob. It has the hash of the content, so it always means the same."""
    return f"{folder}/{version_prefix(version)}-{sha256}.{suffix}"


def version_prefix(version: int) -> str:
    """Return the start of the file names of a version. Those of earlier versions sort before it."""
    return f"{version:0{_VERSION_DIGITS}d}"


def sha256_of(blob: str) -> str:
    """Return the SHA-256 of the content, in hex, from the name of a blob."""
    return blob.rpartition("/")[2].rpartition("-")[2].partition(".")[0]


def version_of(blob: str) -> int:
    """Return the version from the name of a blob. Raises `DataCorrupt` if it has none."""
    try:
        return int(blob.rpartition("/")[2].partition("-")[0])
    except ValueError:
        raise DataCorrupt("a blob among a tenant's lists has another name than a list") from None


def media_type(name: str) -> str:
    """Return the media type of a blob with this name, in its content coding if it has one."""
    return BASE_MEDIA_TYPE if name.endswith((".cbor", ".cbor.gz")) else MEDIA_TYPE


def content_encoding(name: str) -> str | None:
    """Return the content coding of a blob with this name, or None."""
    return "gzip" if name.endswith(".gz") else None


@dataclass(frozen=True, slots=True)
class StoredBody:
    """A response body as it is stored. `size` is in bytes."""

    blob: str
    size: int

    @property
    def encoding(self) -> str | None:
        """Its content coding, or None."""
        return content_encoding(self.blob)

    @property
    def etag(self) -> str:
        """The strong validator, which depends on these bytes alone (SRL-16)."""
        return f'"{sha256_of(self.blob)}"'


@dataclass(frozen=True, slots=True)
class SrlHead(Record):
    """The list of a tenant that is in force: its blobs, and what it was made from.

    `changes` is the sum of the shards' change counters, read before the content: a later change may
    be missing from the list. `sha256` is the hash of the blob, in hex; `size` is in bytes. `state`
    is the blob of the signed state (`shared.model.lists.content`). `packed` is the blob of the same
    body in gzip, of `packed_size` bytes; short lists have none, and neither have those that are
    made after `packs_until`. The list covers the entries of the feed up to `sequence`; None if it
    does not follow from them. `base` is the blob of its payload in gzip, of `base_size`
    bytes; `payload_sha256` is the hash of the payload, in hex.
    """

    version: int
    issued_at: datetime
    expires_at: datetime
    count: int
    changes: int
    blob: str
    sha256: str
    size: int
    key_id: str
    state: str
    base: str
    base_size: int
    payload_sha256: str
    packed: str | None = None
    packed_size: int | None = None
    sequence: int | None = None
    packs_until: datetime | None = None

    def form(self, *, is_gzip: bool = False) -> StoredBody:
        """Return the body as it is stored: in gzip if `is_gzip` is true and there is such a blob.

        Raises `DataCorrupt` if the name of the blob does not match `sha256`.
        """
        if sha256_of(self.blob) != self.sha256:
            raise DataCorrupt(f"the head of version {self.version} contradicts itself")
        if is_gzip and self.packed is not None and self.packed_size is not None:
            return StoredBody(self.packed, self.packed_size)
        return StoredBody(self.blob, self.size)

    def is_gzip_wanted(self, now: datetime) -> bool:
        """Return whether the list that follows is stored in gzip too: somebody asked for it."""
        return self.packs_until is not None and now < self.packs_until

    def with_gzip_request(self, now: datetime) -> "SrlHead | None":
        """Return the head that notes that somebody asks for gzip now; None if it need not."""
        until = times.truncate_to_second(now + _PACKED_FOR)
        is_noted = self.packs_until is not None and until < self.packs_until + _NOTED_EVERY
        return None if is_noted or self.size < PACKED_FROM else replace(self, packs_until=until)

    def is_ahead(self, now: datetime) -> bool:
        """Return whether the list was issued in the future, by a clock that is wrong (SRL-5)."""
        return times.is_ahead(self.issued_at, now)

    def history_address(self, tenant_id: str) -> Address:
        """Return the address of this head's copy, which is kept for `HEADS_KEPT` more lists."""
        return history_address(tenant_id, self.version)


def heads_partition(tenant_id: str) -> Partition:
    """Return the partition of a tenant's head and the heads of its last `HEADS_KEPT` lists."""
    return Partition(Table.REVOCATIONS, f"{tenant_id}#srl")


def history_address(tenant_id: str, version: int) -> Address:
    """Return the address where the head of this version, or a later one, has its copy."""
    return heads_partition(tenant_id).address(f"{version % HEADS_KEPT:02d}")


def head_address(tenant_id: str) -> Address:
    """Return the address of the head of the list in force."""
    return heads_partition(tenant_id).address("head")
