"""SRL head: the item that names a tenant's current SRL (SRL-15)."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from shared.errors import DataCorrupt
from shared.model import times
from shared.model.items import Address, Partition, Table
from shared.model.records import Record

MEDIA_TYPE: Final = "application/json"
BASE_MEDIA_TYPE: Final = "application/cbor"

# Clients revalidate each time, because a 304 costs little (SRL-17).
CACHE_CONTROL: Final = "private, no-cache"

_VERSION_DIGITS: Final = 12

# The file name suffix of signed states.
STATE_SUFFIX: Final = "cbor"


# More than the number of SRLs that one machine keeps.
HEADS_KEPT: Final = 32

# The shortest response body that is also stored in gzip. Below this size, the additional write to
# the bucket costs more than the bytes saved.
PACKED_FROM: Final = 16 * 1024

# How long SRLs are also stored in gzip after a request for gzip, and how often the request is
# recorded.
_PACKED_FOR: Final = timedelta(days=3)
_NOTED_EVERY: Final = timedelta(days=1)


def lists_folder(tenant_id: str) -> str:
    """Return the folder of a tenant's SRLs."""
    return f"srl/{tenant_id}/lists"


def states_folder(tenant_id: str) -> str:
    """Return the folder of the signed states of a tenant's SRLs."""
    return f"srl/{tenant_id}/states"


def packed_folder(tenant_id: str) -> str:
    """Return the folder of gzipped SRLs, separate from the SRLs.

    A gzipped blob therefore cannot pass for an SRL.
    """
    return f"srl/{tenant_id}/packed"


def bases_folder(tenant_id: str) -> str:
    """Return the folder of gzipped SRL payloads, the bases of feed clients."""
    return f"srl/{tenant_id}/bases"


def folders(tenant_id: str) -> tuple[str, ...]:
    """Return all folders that hold a blob for each version."""
    named = (lists_folder, states_folder, packed_folder, bases_folder)
    return tuple(folder(tenant_id) for folder in named)


def blob_name(folder: str, *, version: int, sha256: str, suffix: str = "json") -> str:
    """Return the name of a blob. The content hash in the name makes the blob immutable."""
    return f"{folder}/{version_prefix(version)}-{sha256}.{suffix}"


def version_prefix(version: int) -> str:
    """Return the file name prefix of a version. Earlier versions sort before it."""
    return f"{version:0{_VERSION_DIGITS}d}"


def sha256_of(blob: str) -> str:
    """Return the SHA-256 of the content, in hex, from the name of a blob."""
    return blob.rpartition("/")[2].rpartition("-")[2].partition(".")[0]


def version_of(blob: str) -> int:
    """Return the version from the name of a blob. Raises `DataCorrupt` if it has none."""
    try:
        return int(blob.rpartition("/")[2].partition("-")[0])
    except ValueError:
        raise DataCorrupt("a blob in the folder of SRLs has an unexpected name") from None


def media_type(name: str) -> str:
    """Return the media type of a blob with this name, regardless of its content coding."""
    return BASE_MEDIA_TYPE if name.endswith((".cbor", ".cbor.gz")) else MEDIA_TYPE


def content_encoding(name: str) -> str | None:
    """Return the content coding of a blob with this name, or None."""
    return "gzip" if name.endswith(".gz") else None


@dataclass(frozen=True, slots=True)
class StoredBody:
    """A stored response body. `size` is in bytes."""

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
    """The current SRL of a tenant: its blobs and its inputs.

    `changes` is the sum of the shards' change counters, read before the content. Later changes may
    be missing from the SRL. `sha256` is the hash of the blob, in hex, and `size` its size in bytes.
    `state` is the blob of the SRL state (`shared.model.lists.content`). `packed` is the blob of the
    same body in gzip, of `packed_size` bytes. It is None for short SRLs, and for SRLs created after
    `packs_until`. The SRL covers the feed entries up to `sequence`, or None if it is not derived
    from them. `base` is the blob of its gzipped payload, of `base_size` bytes. `payload_sha256` is
    the hash of the payload, in hex.
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
        """Return the stored body, in gzip if `is_gzip` is true and there is such a blob.

        Raises `DataCorrupt` if the name of the blob does not match `sha256`.
        """
        if sha256_of(self.blob) != self.sha256:
            raise DataCorrupt(f"the SRL head of version {self.version} is inconsistent")
        if is_gzip and self.packed is not None and self.packed_size is not None:
            return StoredBody(self.packed, self.packed_size)
        return StoredBody(self.blob, self.size)

    def is_gzip_wanted(self, now: datetime) -> bool:
        """Return whether the next SRL is also stored in gzip, because a client requested it."""
        return self.packs_until is not None and now < self.packs_until

    def with_gzip_request(self, now: datetime) -> "SrlHead | None":
        """Return the head with a recorded request for gzip, or None if the record is recent."""
        until = times.truncate_to_second(now + _PACKED_FOR)
        is_noted = self.packs_until is not None and until < self.packs_until + _NOTED_EVERY
        return None if is_noted or self.size < PACKED_FROM else replace(self, packs_until=until)

    def is_ahead(self, now: datetime) -> bool:
        """Return whether the SRL was issued in the future, by a wrong clock (SRL-5)."""
        return times.is_ahead(self.issued_at, now)

    def history_address(self, tenant_id: str) -> Address:
        """Return the address of this head's copy, which is kept for `HEADS_KEPT` more SRLs."""
        return history_address(tenant_id, self.version)


def heads_partition(tenant_id: str) -> Partition:
    """Return the partition of a tenant's SRL head and the heads of its last `HEADS_KEPT` SRLs."""
    return Partition(Table.REVOCATIONS, f"{tenant_id}#srl")


def history_address(tenant_id: str, version: int) -> Address:
    """Return the address for the copy of the head of this version, or of a later one."""
    return heads_partition(tenant_id).address(f"{version % HEADS_KEPT:02d}")


def head_address(tenant_id: str) -> Address:
    """Return the address of the head of the current SRL."""
    return heads_partition(tenant_id).address("head")
