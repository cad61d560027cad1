"""A feed as a service publishes it, small and in memory: what clients are tested with."""

import copy
import hashlib
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import cbor2
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from shared.authorizer.answers import FeedResponse
from shared.authorizer.formats import wire
from shared.authorizer.state import FeedState, StaticVerifier, advance

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
TENANT = "svc_tnt_01KAJ3TMF0000000000000ACME"

# The entry that docs/spec/feed.md shows.
ENTRY = wire.FeedEntry(7, ("svc_wrt_b", "svc_wrt_c"), ("svc_wrt_a",))


def signer(number: int = 1) -> Ed25519PrivateKey:
    """The key of this number, always the same."""
    return Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32)


def public(key: Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes_raw()


TRUSTED = StaticVerifier(TENANT, (public(signer()),))


def payload_of(ids: set[str], version: int) -> bytes:
    """The payload of a list with these identifiers."""
    members = {
        "Version": version,
        "IssuedAt": "2026-11-21T11:00:00Z",
        "ExpiresAt": "2026-11-21T13:00:00Z",
        "RevokedIDs": sorted(ids),
    }
    return cbor2.dumps(members, canonical=True)


def sealed(payload: bytes, key: Ed25519PrivateKey, entries: tuple[bytes, ...] = ()) -> FeedResponse:
    """An answer with this payload, signed."""
    return FeedResponse(payload, key.sign(wire.signed_part(payload)), entries)


@dataclass
class Feed:
    """The feed of a tenant: its entries, its newest list, and the set that both describe."""

    tenant: str = TENANT
    key: Ed25519PrivateKey = field(default_factory=signer)
    ids: set[str] = field(default_factory=set)
    entries: dict[int, bytes] = field(default_factory=dict)
    sequence: int = 0
    chain: bytes = b""
    version: int = 0
    base: wire.Base = field(init=False)
    payloads: dict[int, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.chain = self.chain or wire.first_chain(self.tenant)
        self.publish_list()

    def branch(self) -> "Feed":
        """A feed with the same past, which goes its own way from now on."""
        branch = copy.copy(self)
        branch.ids, branch.entries = set(self.ids), dict(self.entries)
        branch.payloads = dict(self.payloads)
        return branch

    def publish(self, *revoked: str, removed: tuple[str, ...] = (), leap: int = 0) -> None:
        """Publish an entry, a break if it is empty; `leap` numbers are left out before it."""
        self.sequence += 1 + leap
        entry = wire.FeedEntry(
            self.sequence, tuple(sorted(revoked)), tuple(sorted(removed))
        ).encode()
        self._chain(entry)
        self.ids = (self.ids | set(revoked)) - set(removed)

    def append(self, entry: bytes) -> None:
        """Append the bytes of the next entry, whatever they are."""
        self.sequence += 1
        self._chain(entry)

    def _chain(self, entry: bytes) -> None:
        self.entries[self.sequence] = entry
        self.chain = wire.next_chain(self.chain, entry)

    def publish_list(self) -> None:
        """Publish a list of the set: it is the base from now on."""
        self.version += 1
        data = payload_of(self.ids, self.version)
        self.payloads[self.version] = data
        digest = hashlib.sha256(data).digest()
        self.base = wire.Base(self.version, self.sequence, self.chain, digest, len(self.ids))

    @property
    def data(self) -> bytes:
        """The payload of the newest list."""
        return self.payloads[self.version]

    def head(self, issued_at: datetime = NOW, lifetime: timedelta = HOUR) -> wire.SignedHead:
        """The head, issued now."""
        expires_at = issued_at + lifetime
        return wire.SignedHead(
            self.tenant, self.sequence, self.chain, issued_at, expires_at, self.base
        )

    def answer(self, after: int | None = None, **changes: Any) -> FeedResponse:
        """The answer to a poll; `changes` are those of the head."""
        after = self.base.sequence if after is None else after
        entries = tuple(data for number, data in self.entries.items() if number > after)
        return sealed(replace(self.head(), **changes).encode(), self.key, entries)


def begun_with(data: bytes, count: int) -> tuple[Feed, FeedState]:
    """A feed whose base is the list `data` of so many warrants, and a client that has begun."""
    feed = Feed()
    feed.base = wire.Base(1, 0, feed.chain, hashlib.sha256(data).digest(), count)
    return feed, advance(None, feed.answer(), base=data, now=NOW, verifier=TRUSTED)
