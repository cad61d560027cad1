"""Content of an SRL: response body (SRL-1 to SRL-3), SRL state, and version record.

The SRL state contains data that the SRL lacks, for the next SRL and for a restore. It is stored
next to the SRL and signed by the same signer (OPS-8, docs/adr/14). It is a signed blob: the
signature (64 bytes), a prefix, and members in CBOR. The signature covers everything after it. The
prefix identifies the kind of blob, which cannot pass for another kind. It cannot pass for an SRL
either, because the payload of an SRL is a CBOR map.
"""

import base64
import json
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Final, Self

import cbor2
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from shared.authorizer.formats.ed25519 import SIGNATURE_BYTES
from shared.authorizer.formats.wire import Base, FeedEntry
from shared.errors import DataCorrupt, InvalidSrl, SrlReason
from shared.model import seeds, times
from shared.model.items import Address, Partition, Table
from shared.model.lists.head import SrlHead, version_prefix
from shared.model.lists.signers import SrlSigner
from shared.model.lists.tombstones import Tombstones
from shared.model.records import Record

# The fixed text between the parts of a response body.
_PAYLOAD: Final = b'{"payload":'

_IDS: Final = b'"RevokedIDs":['

_SIGNED: Final = b',"srl":{"Payload":"'

_SIGNATURE: Final = b'","Signature":"'

_END: Final = b'"}}'

# The major types of CBOR.
_TEXT: Final = 3
_ARRAY: Final = 4


@dataclass(frozen=True)
class Payload:
    """The content of an SRL (SRL-2). `revoked_ids` are distinct and sorted bytewise."""

    version: int
    issued_at: datetime
    expires_at: datetime
    revoked_ids: list[str]

    def members(self) -> dict[str, Any]:
        """Return the four members, with the names and in the order of SRL-2."""
        return {
            "Version": self.version,
            "IssuedAt": times.format_utc(self.issued_at),
            "ExpiresAt": times.format_utc(self.expires_at),
            "RevokedIDs": self.revoked_ids,
        }

    @cached_property
    def cbor(self) -> bytes:
        """The deterministic CBOR. The members already have the order of RFC 8949, 4.2.1."""
        ids = self.revoked_ids
        if len(sizes := set(map(len, ids))) == 1:
            # All identifiers have the same encoded prefix. The encoder would take three times as
            # long.
            head = _head(_TEXT, sizes.pop()).decode("latin-1")
            texts = head + head.join(ids)
            if texts.isascii():
                others = cbor2.dumps(self.members() | {"RevokedIDs": []}, canonical=True)[:-1]
                return others + _head(_ARRAY, len(ids)) + texts.encode()
        return cbor2.dumps(self.members(), canonical=True)

    @cached_property
    def encoded_text(self) -> bytes:
        """The deterministic CBOR in base64."""
        return base64.b64encode(self.cbor)

    @cached_property
    def body_prefix(self) -> list[bytes]:
        """The pieces of a response body before the signed part."""
        members = json.dumps(self.members() | {"RevokedIDs": []}, separators=(",", ":")).encode()
        before, after = members.split(b"[]")
        # Joined without an encoder, which would check each character. Identifiers need no escapes.
        ids = '","'.join(self.revoked_ids).encode()
        quote = b'"' if ids else b""
        return [_PAYLOAD + before + b"[" + quote, ids, quote + b"]" + after + _SIGNED]


def _head(major: int, size: int) -> bytes:
    """Return the first bytes of a text or an array in CBOR."""
    # They equal the encoding of a number, with another major type.
    head = cbor2.dumps(size)
    return bytes([major << 5 | head[0], *head[1:]])


def sign(payload: Payload, *, seed: bytes) -> bytes:
    """Return the response body for `payload`: content, encoding, and signature (SRL-3).

    `seed` is the 32 bytes of the Ed25519 private key.
    """
    signature = seeds.sign(payload.cbor, seed=seed).encode()
    return b"".join([*payload.body_prefix, payload.encoded_text, _SIGNATURE, signature, _END])


def pack(data: bytes) -> bytes:
    """Compress data with gzip. zlib takes four times as long for the same size."""
    # Imported here, because only publications need it and cold starts must be fast.
    from isal import igzip_lib  # noqa: PLC0415

    return igzip_lib.compress(data, 1, igzip_lib.COMP_GZIP)


def signature(body: bytes, *, shows: Payload) -> memoryview:
    """Return the signature, in base64, of a body that `sign` created.

    Raises `ValueError` if `sign` did not create `body` from the payload `shows`.
    """
    start = 0
    for piece in (*shows.body_prefix, shows.encoded_text, _SIGNATURE):
        if not body.startswith(piece, start):
            raise ValueError("it differs from the signed content")
        start += len(piece)
    if not body.endswith(_END):
        raise ValueError("it has data after the end")
    return memoryview(body)[start : -len(_END)]


def revoked_ids(body: bytes) -> list[str]:
    """Return the identifiers in a response body of this service."""
    # Extracted from the text, because parsing takes several times as long.
    start = body.index(_IDS) + len(_IDS)
    end = body.index(b"]", start)
    return str(memoryview(body)[start + 1 : end - 1], "ascii").split('","') if start < end else []


def issued_at(body: bytes) -> datetime:
    """Return `IssuedAt` of a response body. Raises `InvalidSrl` if it has none."""
    try:
        return times.parse(json.loads(body)["payload"]["IssuedAt"])
    except (KeyError, TypeError, ValueError):
        raise InvalidSrl(SrlReason.MALFORMED, "not a response of the SRL endpoint") from None


PREFIX: Final = b"rescind-srl-state-v1\n"
_RUN: Final = 1000


@dataclass(frozen=True, slots=True)
class RevokedSet:
    """The revoked warrants, distinct and sorted bytewise.

    `ends` has the known expiries by warrant, as RFC 3339 text in UTC. `signers` are the revoked
    signers with their warrants included.
    """

    revoked_ids: list[str] = field(default_factory=list)
    ends: Mapping[str, str] = field(default_factory=dict)
    signers: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        revoked_ids: Iterable[str],
        ends: Mapping[str, datetime | None],
        *,
        signers: tuple[str, ...],
    ) -> "RevokedSet":
        """Return the content for these distinct warrants, in any order."""
        return cls(sorted(revoked_ids), _texts(ends), signers)

    def apply(
        self,
        entries: Iterable[tuple[FeedEntry, Sequence[datetime | None]]],
        *,
        signers: tuple[str, ...],
    ) -> "RevokedSet":
        """Return the content after these feed entries, in order, with their expiries.

        The entries must not include a discontinuity.
        """
        revoked: dict[str, datetime | None] = {}
        removed: set[str] = set()
        for entry, ends in entries:
            for each in entry.removed:
                revoked.pop(each, None)
            removed.update(entry.removed)
            revoked.update(zip(entry.revoked, ends, strict=True))
        return self.update({*removed, *revoked}, revoked, signers=signers)

    def differences(self, other: "RevokedSet") -> set[str]:
        """Return the warrants that are listed here or in `other`, but not in both."""
        return self.missing(other.revoked_ids) | other.missing(self.revoked_ids)

    def update(
        self,
        looked_at: Collection[str],
        expiries: Mapping[str, datetime | None],
        *,
        signers: tuple[str, ...],
    ) -> "RevokedSet":
        """Return the content after an update of some warrants.

        Warrants in `looked_at` are listed if they are in `expiries`, and otherwise not. All other
        warrants are unchanged.
        """
        ids, before, start = list[str](), self.revoked_ids, 0
        # Ranges between two changes are copied without comparing identifiers.
        for each in sorted({*looked_at, *expiries}):
            end = bisect_left(before, each, start)
            ids += before[start:end]
            ids += [each] if each in expiries else []
            start = end + (before[end : end + 1] == [each])
        ids += before[start:]
        # Keeps the known expiries of the other warrants.
        ends = {each: at for each, at in self.ends.items() if each not in looked_at}
        return RevokedSet(ids, ends | _texts(expiries), signers)

    def missing(self, revoked_ids: Sequence[str]) -> set[str]:
        """Return the identifiers that are not listed here. Sorted input is fastest."""
        unseen: set[str] = set()
        if revoked_ids == self.revoked_ids:
            return unseen
        # Compares run by run. Nearly all runs are equal, which is faster than one large set.
        for start in range(0, len(revoked_ids), _RUN):
            run = revoked_ids[start : start + _RUN]
            low = bisect_left(self.revoked_ids, run[0])
            own = self.revoked_ids[low : bisect_right(self.revoked_ids, run[-1])]
            if run != own:
                unseen.update(set(run).difference(own))
        return {each for each in unseen if not self._has(each)}

    def _has(self, warrant_id: str) -> bool:
        address = bisect_left(self.revoked_ids, warrant_id)
        return self.revoked_ids[address : address + 1] == [warrant_id]

    def at(self, now: datetime, *, ttl: timedelta) -> "RevokedSet":
        """Return the content at `now`, a whole second, without warrants past retention (SRL-9)."""
        # Texts of whole seconds in UTC sort by time.
        limit = times.format_utc(now - ttl)
        gone = {each for each, at in self.ends.items() if at < limit}
        return self.update(gone, {}, signers=self.signers) if gone else self


def _texts(expiries: Mapping[str, datetime | None]) -> dict[str, str]:
    return {each: times.format_utc(at) for each, at in expiries.items() if at is not None}


_OWN: Final = frozenset(
    ("Tenant", "Version", "IssuedAt", "Ends", "Signers", "SrlSigners", "Tombstones", "Sequence")
)


@dataclass(frozen=True, slots=True)
class SrlState:
    """The state of one version of a tenant's SRL.

    `ends` has the known expiries of listed warrants, as RFC 3339 text in UTC. `signers` are the
    revoked signers with their warrants listed. `srl_signers` are the tenant's unarchived SRL
    signers, without seeds. The SRL covers the feed entries up to `sequence`. `added` are the
    members that capabilities add.
    """

    tenant_id: str
    version: int
    issued_at: datetime
    ends: Mapping[str, str] = field(default_factory=dict)
    signers: tuple[str, ...] = ()
    srl_signers: tuple[SrlSigner, ...] = ()
    tombstones: Tombstones = field(default_factory=Tombstones)
    sequence: int = 0
    added: Mapping[str, Any] = field(default_factory=dict)

    def sign(self, *, seed: bytes) -> bytes:
        """Return the blob: the Ed25519 signature (64 bytes), the prefix, the state as CBOR.

        The signature covers everything after it.
        """
        members: dict[str, Any] = {
            **self.added,
            "Tenant": self.tenant_id,
            "Version": self.version,
            "IssuedAt": times.format_utc(self.issued_at),
            "Ends": self.ends,
            "Signers": self.signers,
            "SrlSigners": [each.to_item() for each in self.srl_signers],
            "Tombstones": self.tombstones.members(),
            "Sequence": self.sequence,
        }
        return signed_blob(members, PREFIX, seed=seed)

    @classmethod
    def verify_and_decode(
        cls, blob: bytes, *, public_key: bytes, tenant_id: str, version: int
    ) -> "SrlState":
        """Return the state in a blob that `sign` created for this version of this tenant's SRL.

        Raises `BlobNotSigned` if the key did not sign it, and `DataCorrupt` if it is the state of
        another SRL.
        """
        signature, signed = blob[:SIGNATURE_BYTES], blob[SIGNATURE_BYTES:]
        try:
            Ed25519PublicKey.from_public_bytes(public_key).verify(signature, signed)
        except InvalidSignature:
            raise BlobNotSigned("a signed blob is not signed by a signer of this tenant") from None
        members = read_unverified_members(blob, PREFIX)
        try:
            state = cls(
                members["Tenant"],
                members["Version"],
                times.parse(members["IssuedAt"]),
                members["Ends"],
                tuple(members["Signers"]),
                tuple(map(SrlSigner.from_item, members["SrlSigners"])),
                Tombstones.of(members["Tombstones"]),
                int(members["Sequence"]),
                {name: members[name] for name in members.keys() - _OWN},
            )
        except (AttributeError, KeyError, TypeError, ValueError):
            raise DataCorrupt("an SRL state is malformed") from None
        if (state.tenant_id, state.version) != (tenant_id, version):
            raise DataCorrupt("a blob contains the state of another SRL")
        return state


def read_unverified_statements(blob: bytes) -> list[dict[str, str]]:
    """Return the succession statements in a state, without checking the state's signature.

    Each statement has a separate signature. Raises `DataCorrupt` if the blob is not a state.
    """
    found = read_unverified_members(blob, PREFIX).get("SrlSigners")
    signers = found if isinstance(found, list) else []
    return [each["statement"] for each in signers if isinstance(each, dict) and "statement" in each]


class BlobNotSigned(DataCorrupt):
    """The signature of a blob is missing, or was made by another key."""


def signed_blob(members: Mapping[str, Any], prefix: bytes, *, seed: bytes) -> bytes:
    """Return the blob of these members, signed with the seed (32 bytes)."""
    signed = prefix + cbor2.dumps(members, canonical=True)
    return seeds.signature(signed, seed=seed) + signed


def read_unverified_members(blob: bytes, prefix: bytes) -> dict[str, Any]:
    """Return the members without checking the signature. Raises `DataCorrupt`."""
    signed = blob[SIGNATURE_BYTES:]
    if not signed.startswith(prefix):
        raise DataCorrupt("a signed blob is in a folder for other content")
    try:
        members = cbor2.loads(signed[len(prefix) :])
    except (cbor2.CBORError, UnicodeError, RecursionError, ValueError):
        raise DataCorrupt("a signed blob is malformed") from None
    if not isinstance(members, dict):
        raise DataCorrupt("a signed blob is malformed")
    return members


# How long a record is kept after its issue. An SRL is valid for at most seven days.
KEPT: Final = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class SrlVersionRecord(Record):
    """A published SRL.

    `sha256` is the hash of its signed bytes, in hex. `added` and `removed` count the differences to
    the previous SRL, or are None if that SRL could not be read. The store deletes the record some
    time after `expires`, in seconds since the epoch.
    """

    version: int
    issued_at: datetime
    expires_at: datetime
    count: int
    key_id: str
    sha256: str
    expires: int
    added_count: int | None = None
    removed_count: int | None = None

    @classmethod
    def of(
        cls, head: SrlHead, base: Base, content: RevokedSet, previous: Sequence[str] | None
    ) -> Self:
        """Return the record of the SRL in `head`, which the feed has as `base`.

        `previous` contains the sorted warrants of the previous SRL, or is None if they are unknown.
        """
        added_count, removed_count = None, None
        if previous is not None:
            removed_count = len(content.missing(previous))
            added_count = head.count - len(previous) + removed_count
        return cls(
            head.version,
            head.issued_at,
            head.expires_at,
            head.count,
            head.key_id,
            base.sha256.hex(),
            int((head.issued_at + KEPT).timestamp()),
            added_count,
            removed_count,
        )


def versions(tenant_id: str) -> Partition:
    """Return the partition of a tenant's version records, in order of version."""
    return Partition(Table.KEYS, f"{tenant_id}#srl-versions")


def version_address(tenant_id: str, version: int) -> Address:
    """Return the address of the record of this version."""
    return versions(tenant_id).address(version_prefix(version))
