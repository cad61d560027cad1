"""Registrations and reports, signed with the identity keys of authorizers (TRUST-10)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, Self

from . import ed25519, wire
from .documents import NotTrusted, RootReason, decode_payload
from .members import HASH_BYTES, MalformedBytes, decode, encode, member, moment, number, table, text

# Maximum size of a payload in bytes.
PROOF_BYTES_MAX: Final = 4096

# Maximum age of a registration.
AGE_MAX: Final = timedelta(minutes=5)

_REGISTRATION_PREFIX: Final = b"rescind-register-v1\n"
_REPORT_PREFIX: Final = b"rescind-report-v1\n"


@dataclass(frozen=True, slots=True)
class SignedRegistration:
    """An authorizer's proof of possession of the private key of `public_key` (32 bytes)."""

    tenant_id: str
    name: str
    public_key: bytes
    issued_at: datetime

    def encode(self) -> bytes:
        """Return the payload: deterministic CBOR."""
        members = {
            "Tenant": self.tenant_id,
            "Name": self.name,
            "PublicKey": self.public_key,
            "IssuedAt": text(self.issued_at),
        }
        return encode(members)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Return the registration in a payload. Raises `MalformedBytes`."""
        members = decode(data)
        return cls(
            member(members, "Tenant", str),
            member(members, "Name", str),
            ed25519.key(members, "PublicKey"),
            moment(members, "IssuedAt"),
        )

    @staticmethod
    def signed_part(payload: bytes) -> bytes:
        """Return the bytes that the signature covers."""
        return _REGISTRATION_PREFIX + payload

    @classmethod
    def verify_and_decode(
        cls, payload: bytes, signature: bytes, *, tenant_id: str, now: datetime
    ) -> Self:
        """Return the registration after all checks. Raises `NotTrusted`."""
        _check_size(payload)
        proof = decode_payload(cls.decode, payload)
        _check_signed(cls.signed_part(payload), signature, proof.public_key)
        if proof.tenant_id != tenant_id:
            raise NotTrusted(RootReason.TENANT)
        if proof.issued_at > now + wire.FUTURE_MAX:
            raise NotTrusted(RootReason.FUTURE)
        if now - proof.issued_at > AGE_MAX:
            raise NotTrusted(RootReason.EXPIRED)
        return proof


@dataclass(frozen=True, slots=True)
class SignedReport:
    """An authorizer's signed report about its feed entry and its policy.

    `number` increases with each report, for example as milliseconds since 1970. `trust` is the
    version of the current trust document, or 0 without one. `chain` has 32 bytes, or none without a
    `sequence`. `refused` counts rejected responses by reason. `max_staleness` is in seconds.
    """

    tenant_id: str
    authorizer_id: str
    number: int
    trust: int
    sequence: int | None
    chain: bytes
    verified_at: datetime | None
    max_staleness: int | None
    fail_open: bool
    refused: Mapping[str, int] = field(default_factory=dict)

    def encode(self) -> bytes:
        """Return the payload: deterministic CBOR."""
        members = {
            "Tenant": self.tenant_id,
            "Id": self.authorizer_id,
            "Number": self.number,
            "Trust": self.trust,
            "Sequence": self.sequence,
            "Chain": self.chain,
            "VerifiedAt": None if self.verified_at is None else text(self.verified_at),
            "MaxStaleness": self.max_staleness,
            "FailOpen": self.fail_open,
            "Refused": self.refused,
        }
        return encode(members)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Return the report in a payload. Raises `MalformedBytes`."""
        members = decode(data)
        refused = table(members, "Refused")
        report = cls(
            member(members, "Tenant", str),
            member(members, "Id", str),
            number(members, "Number"),
            number(members, "Trust"),
            _or_nil(members, "Sequence", number),
            member(members, "Chain", bytes),
            _or_nil(members, "VerifiedAt", moment),
            _or_nil(members, "MaxStaleness", number),
            member(members, "FailOpen", bool),
            {reason: number(refused, reason) for reason in refused},
        )
        if len(report.chain) != (0 if report.sequence is None else HASH_BYTES):
            raise MalformedBytes("Chain must have 32 bytes, or none if Sequence is nil")
        return report

    @staticmethod
    def signed_part(payload: bytes) -> bytes:
        """Return the bytes that the signature covers."""
        return _REPORT_PREFIX + payload

    def check(self, *, tenant_id: str, authorizer_id: str, after: int) -> None:
        """Check the tenant and the authorizer, and that the number is higher than `after`.

        Raises `NotTrusted`.
        """
        if self.tenant_id != tenant_id:
            raise NotTrusted(RootReason.TENANT)
        if self.authorizer_id != authorizer_id:
            raise NotTrusted(RootReason.SIGNATURE)
        if self.number <= after:
            raise NotTrusted(RootReason.ROLLBACK)

    @classmethod
    def verify_and_decode(cls, payload: bytes, signature: bytes, *, public_key: bytes) -> Self:
        """Return the report, which this key must have signed. Call `check` next.

        Raises `NotTrusted`.
        """
        _check_size(payload)
        _check_signed(cls.signed_part(payload), signature, public_key)
        return decode_payload(cls.decode, payload)


def _check_size(payload: bytes) -> None:
    if len(payload) > PROOF_BYTES_MAX:
        raise NotTrusted(RootReason.TOO_LARGE)


def _check_signed(data: bytes, signature: bytes, public_key: bytes) -> None:
    if not ed25519.is_signed(data, signature, public_key=public_key):
        raise NotTrusted(RootReason.SIGNATURE)


def _or_nil(members: Mapping[str, Any], name: str, read: Callable[..., Any]) -> Any:
    if name not in members:
        raise MalformedBytes(f"{name} is missing")
    return None if members[name] is None else read(members, name)
