"""Stored trust documents of a tenant (TRUST-16).

Blobs contain the documents and the signing keys. One item names the newest document, another
records a draft that awaits signatures of people.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Self

from shared.authorizer.formats.documents import SignedDocument
from shared.authorizer.formats.wire import HashReference
from shared.errors import DataCorrupt
from shared.model.items import Address, Table
from shared.model.records import SPARSE, Record

# Lifetime of a document signed by this service alone, and of a document that needs signatures of
# people.
LIFETIME: Final = timedelta(days=14)
LIFETIME_BY_HAND: Final = timedelta(days=180)

# Documents signed by this service alone are replaced at this age.
RENEWED_AFTER: Final = timedelta(days=1)

_DIGITS: Final = 20
_KEYS: Final = "keys"


@dataclass(frozen=True, slots=True)
class TrustHead(Record):
    """The newest trust document of a tenant. A blob contains it with its signatures.

    `sha256` is the hash (32 bytes) of its payload, and `pin` the pin of its roots. `turns` are the
    versions, in decimal digits, of the documents that changed the roots: the first document, and
    all documents that a client with an old pin must follow. `keys_sha256` is the hash (32 bytes) of
    the covered key bundle. It is empty if a restore lost the bundle. After a restore, the next
    document has at least the version `floor`.
    """

    version: int
    sha256: bytes
    pin: str
    issued_at: datetime
    expires_at: datetime
    turns: tuple[str, ...]
    keys_sha256: bytes
    floor: int = field(default=0, metadata=SPARSE)

    @classmethod
    def with_document(
        cls, previous: Self | None, signed_document: SignedDocument, *, keys_sha256: bytes
    ) -> Self:
        """Return the head after `previous` for the publication of this document."""
        document, sha256 = signed_document.document, signed_document.reference.sha256
        version, pin = document.version, document.roots.pin
        turns = previous.turns if previous else ()
        if previous is None or previous.pin != pin:
            turns = (*turns, str(version))
        issued_at, expires_at = document.issued_at, document.expires_at
        return cls(version, sha256, pin, issued_at, expires_at, turns, keys_sha256)

    @property
    def next_version(self) -> int:
        """The version of the next document."""
        return max(self.version + 1, self.floor)

    @property
    def reference(self) -> HashReference:
        """The reference of the document in a feed head."""
        return HashReference(self.sha256, self.version)

    @property
    def warns_at(self) -> datetime:
        """The start of the last third of the document's lifetime."""
        return self.expires_at - (self.expires_at - self.issued_at) / 3

    def versions_after(self, version: int) -> list[int]:
        """Return the versions that a client with `version`, or 0 without one, needs (TRUST-8)."""
        turns = (int(each) for each in self.turns)
        return [each for each in sorted({*turns, self.version}) if each > version]


def head_address(tenant_id: str) -> Address:
    """Return the address of the head of a tenant's trust documents."""
    return Address(Table.KEYS, tenant_id, "trust#head")


@dataclass(frozen=True, slots=True)
class PendingDraft(Record):
    """A draft that this service cannot sign, waiting `since` this time."""

    since: datetime


def waiting_address(tenant_id: str) -> Address:
    """Return the address of the pending draft. Without a draft, there is no item."""
    return Address(Table.KEYS, tenant_id, "trust#waits")


def folder(tenant_id: str) -> str:
    """Return the folder of a tenant's trust documents."""
    return f"trust/{tenant_id}"


def document_blob(tenant_id: str, version: int) -> str:
    """Return the name of the blob of the document with this version."""
    return f"{folder(tenant_id)}/{version:0{_DIGITS}d}"


def keys_folder(tenant_id: str) -> str:
    """Return the folder of a tenant's key bundles."""
    return f"{folder(tenant_id)}/{_KEYS}"


def keys_blob(tenant_id: str, sha256: bytes) -> str:
    """Return the name of the blob of the key bundle with this hash (32 bytes)."""
    return f"{keys_folder(tenant_id)}/{sha256.hex()}"


def version_of(blob: str) -> int | None:
    """Return the version of the document in this blob, or None for a key bundle.

    Raises `DataCorrupt` for other blobs.
    """
    above, _, name = blob.rpartition("/")
    if above.endswith(f"/{_KEYS}"):
        return None
    if len(name) != _DIGITS or not name.isdecimal():
        raise DataCorrupt("a blob in the folder of trust documents has an unexpected name")
    return int(name)
