"""The head: which list of a tenant is in force, and what it was made from (SRL-1)."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from shared.errors import Corrupt
from shared.model import times
from shared.model.items import Address, Partition, Table
from shared.model.records import Record
from shared.model.srl.blobs import content_encoding, sha256_of

# How lists and their states are made. Those without a number have no signed state, and left
# warrants out by ends that nobody had signed.
FORMAT: Final = 2

# More than the lists that one machine keeps.
HEADS_KEPT: Final = 32


@dataclass(frozen=True, slots=True)
class Form:
    """A response body as it is stored: which blob, of how many bytes, in which content coding."""

    blob: str
    size: int

    @property
    def encoding(self) -> str | None:
        """Its content coding; None if it has none."""
        return content_encoding(self.blob)

    @property
    def etag(self) -> str:
        """A strong validator that depends on these bytes alone (RFC 9110 8.8.3)."""
        return f'"{sha256_of(self.blob)}"'


@dataclass(frozen=True, slots=True)
class Head(Record):
    """The published list of a tenant: which blob it is, and what it was made from.

    `changes` is the sum of the shards' change counters, read before the list was: whatever moved
    them since is not surely in it. `sha256` is of the blob, in hex; `size` is its bytes. `state` is
    the blob of what the list itself does not tell (`srl_state`). `format` is how list and state
    were made: the next list follows only from one of the present `FORMAT`. `packed` is the blob of
    the same body in gzip and `packed_size` its bytes; short lists have none.
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
    state: str | None = None
    format: int | None = None
    packed: str | None = None
    packed_size: int | None = None

    def form(self, *, packed: bool = False) -> Form:
        """The body as it is stored, in gzip if `packed` and if it is stored so.

        Raises `Corrupt` if the head contradicts itself.
        """
        if sha256_of(self.blob) != self.sha256:
            raise Corrupt(f"the head of version {self.version} contradicts itself")
        if packed and self.packed is not None and self.packed_size is not None:
            return Form(self.packed, self.packed_size)
        return Form(self.blob, self.size)

    def is_ahead(self, now: datetime) -> bool:
        """Whether it was issued in the future, by a clock that is wrong (SRL-5)."""
        return times.is_ahead(self.issued_at, now)

    def history_address(self, tenant_id: str) -> Address:
        """Where this version is remembered until `HEADS_KEPT` others have followed."""
        return publications(tenant_id).address(f"{self.version % HEADS_KEPT:02d}")


def publications(tenant_id: str) -> Partition:
    """The head of a tenant, and the heads of its last `HEADS_KEPT` lists in any order.

    The heads that the first edition stored are there too, until they are migrated.
    """
    return Partition(Table.REVOCATIONS, f"{tenant_id}#srl")


def head_address(tenant_id: str) -> Address:
    """Where the pointer to the published list is stored."""
    return publications(tenant_id).address("head")
