"""Trust document of a tenant: its service keys, signed by its roots (TRUST-6).

`documents` adds the signatures, and `following` decides which document a client accepts.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple, Self

from . import ed25519
from .members import (
    MalformedBytes,
    decode,
    digest,
    encode,
    member,
    moment,
    number,
    rising,
    table,
    tables,
    text,
    texts,
)
from .wire import FeedPosition

ROOTS_MAX: Final = 8
SIGNERS_MAX: Final = 256

_ROOTS_PREFIX: Final = b"rescind-roots-v1\n"


class KeyUse(StrEnum):
    """The uses of a signer that this release supports. A document may name others."""

    LISTS = "lists"
    NATIVE = "native"
    LOG = "log"
    STATUS = "status"


@dataclass(frozen=True, slots=True)
class RootSet:
    """Root keys (32 bytes each, sorted), and the number of required signatures."""

    keys: tuple[bytes, ...]
    threshold: int

    @property
    def pin(self) -> str:
        """The pin of these roots: 64 hexadecimal digits in lower case."""
        return hashlib.sha256(_ROOTS_PREFIX + encode(self.members())).hexdigest()

    def members(self) -> dict[str, Any]:
        """Return the member `Roots` of a document."""
        return {"Keys": sorted(self.keys), "Threshold": self.threshold}

    @classmethod
    def of(cls, members: Mapping[str, Any]) -> Self:
        """Return the roots in the member `Roots` of a document. Raises `MalformedBytes`."""
        roots = cls(ed25519.keys(members, "Keys"), number(members, "Threshold"))
        if not 1 <= roots.threshold <= len(roots.keys) <= ROOTS_MAX:
            raise MalformedBytes(
                f"Roots must have 1 to {ROOTS_MAX} keys, and a threshold of 1 to these"
            )
        # An unknown member might change the meaning of the roots, so it must not be ignored.
        if len(members) != len(roots.members()):
            raise MalformedBytes("Roots must have no other member")
        return roots


class DocumentSigner(NamedTuple):
    """A key (32 bytes) that a document names, and its sorted uses."""

    key: bytes
    uses: tuple[str, ...]


class LogAnchor(NamedTuple):
    """The checkpoint of the transparency log that a document or journal record names (LOG-3)."""

    origin: str
    size: int
    root: bytes

    def members(self) -> dict[str, Any]:
        """Return the member `Log`."""
        return {"Origin": self.origin, "Size": self.size, "Root": self.root}

    @classmethod
    def among(cls, members: Mapping[str, Any]) -> Self | None:
        """Return the anchor in the member `Log`, or None. Raises `MalformedBytes`."""
        if "Log" not in members:
            return None
        log = table(members, "Log")
        return cls(member(log, "Origin", str), number(log, "Size"), digest(log, "Root"))


class Witnesses(NamedTuple):
    """Sorted verifier keys of the log's witnesses (C2SP signed-note), and the quorum."""

    keys: tuple[str, ...]
    quorum: int


@dataclass(frozen=True, slots=True)
class TrustDocument:
    """The keys that sign for a tenant, until the next version of the document.

    `feed` is the end of the feed, and `log` the end of the transparency log, when the document was
    created. `signing_keys` is the hash (32 bytes) that covers the signing keys of that time
    (TRUST-15).
    """

    tenant_id: str
    version: int
    issued_at: datetime
    expires_at: datetime
    roots: RootSet
    signers: tuple[DocumentSigner, ...]
    feed: FeedPosition
    log: LogAnchor | None = None
    witnesses: Witnesses | None = None
    signing_keys: bytes | None = None

    def keys_for_use(self, use: str) -> tuple[bytes, ...]:
        """Return the keys for this use."""
        return tuple(each.key for each in self.signers if use in each.uses)

    def encode(self) -> bytes:
        """Return the payload: deterministic CBOR."""
        members: dict[str, Any] = {
            "Tenant": self.tenant_id,
            "Version": self.version,
            "IssuedAt": text(self.issued_at),
            "ExpiresAt": text(self.expires_at),
            "Roots": self.roots.members(),
            "Signers": [{"Key": key, "Uses": sorted(uses)} for key, uses in sorted(self.signers)],
            "Feed": {"Sequence": self.feed.sequence, "Chain": self.feed.chain},
        }
        if self.log is not None:
            members["Log"] = self.log.members()
        if self.witnesses is not None:
            names, quorum = self.witnesses
            members["Witnesses"] = {"Keys": sorted(names), "Quorum": quorum}
        if self.signing_keys is not None:
            members["SigningKeys"] = self.signing_keys
        return encode(members)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Return the document in a payload. Raises `MalformedBytes`."""
        members = decode(data)
        feed, witnesses = table(members, "Feed"), None
        if "Witnesses" in members:
            fields = table(members, "Witnesses")
            witnesses = Witnesses(texts(fields, "Keys"), number(fields, "Quorum"))
            if witnesses.quorum > len(witnesses.keys):
                raise MalformedBytes("Quorum must be at most the number of witnesses")
        items = tables(members, "Signers")
        if len(items) > SIGNERS_MAX:
            raise MalformedBytes(f"Signers must be at most {SIGNERS_MAX}")
        signers = tuple(
            DocumentSigner(ed25519.key(each, "Key"), texts(each, "Uses")) for each in items
        )
        if not all(each.uses for each in signers):
            raise MalformedBytes("Uses must be one text or more")
        rising((each.key for each in signers), "Signers")
        document = cls(
            member(members, "Tenant", str),
            number(members, "Version"),
            moment(members, "IssuedAt"),
            moment(members, "ExpiresAt"),
            RootSet.of(table(members, "Roots")),
            signers,
            FeedPosition(number(feed, "Sequence"), digest(feed, "Chain")),
            LogAnchor.among(members),
            witnesses,
            digest(members, "SigningKeys") if "SigningKeys" in members else None,
        )
        if document.version < 1:
            raise MalformedBytes("Version must be 1 or more")
        if not {*document.roots.keys}.isdisjoint(each.key for each in document.signers):
            raise MalformedBytes("a root signs nothing but documents")
        return document
