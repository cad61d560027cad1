"""Warrants of the format `cose`: their claims and their verification (WARRANT-1, WARRANT-9).

They are COSE_Sign1 messages signed with Ed25519 (RFC 9052, docs/adr/07). The checks do not include
revocation, for which a verifier uses the SRL or the feed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final

import cbor2

from . import ed25519, ids, wire

_TAG: Final = 18
_ALGORITHM: Final = 1
_CONTENT_TYPE: Final = 3
_KEY_ID: Final = 4
_EDDSA: Final = -8

_CONTEXT: Final = "Signature1"


@dataclass(frozen=True, slots=True)
class CoseMessage:
    """The unverified parts of a COSE_Sign1 message.

    `protected` and `payload` are encoded CBOR. `signature` has 64 bytes if this service created it.
    """

    protected: bytes
    payload: bytes
    signature: bytes

    @property
    def signed_bytes(self) -> bytes:
        """The bytes that the signature covers: the Sig_structure of RFC 9052, section 4.4."""
        return cbor2.dumps([_CONTEXT, self.protected, b"", self.payload], canonical=True)

    def encode(self) -> bytes:
        """Return the message with its tag, in the deterministic encoding (RFC 8949, 4.2.1)."""
        parts = [self.protected, {}, self.payload, self.signature]
        return cbor2.dumps(cbor2.CBORTag(_TAG, parts), canonical=True)


def header(*, key_id: bytes, content_type: int) -> bytes:
    """Return an encoded protected header: algorithm EdDSA, content type, and key identifier.

    `content_type` is a number of the registry of CoAP content formats.
    """
    fields = {_ALGORITHM: _EDDSA, _CONTENT_TYPE: content_type, _KEY_ID: key_id}
    return cbor2.dumps(fields, canonical=True)


def parse(data: bytes) -> CoseMessage:
    """Return the parts of a tagged COSE_Sign1 message that has no unprotected header.

    Raises `ValueError` for any other bytes, also if the encoding is not deterministic.
    """
    match decode(data):
        case cbor2.CBORTag(value=[bytes(protected), Mapping(), bytes(payload), bytes(signature)]):
            message = CoseMessage(protected, payload, signature)
        case _:
            raise ValueError("a tagged COSE_Sign1 message is expected")
    # Re-encoding also checks the tag and the empty unprotected header.
    if message.encode() != data:
        raise ValueError("deterministic encoding, without unprotected headers, is expected")
    return message


def key_id_of(protected_header: bytes, *, content_type: int) -> bytes:
    """Return the key identifier in an encoded header of `header`.

    Raises `ValueError` if the header has another algorithm, another content type or other fields.
    """
    fields = decode(protected_header)
    key_id = fields.get(_KEY_ID) if isinstance(fields, Mapping) else None
    if not isinstance(key_id, bytes):
        raise ValueError("a protected header with a key identifier is expected")  # noqa: TRY004
    if header(key_id=key_id, content_type=content_type) != protected_header:
        raise ValueError(
            f"the algorithm EdDSA, the content type {content_type} and no other field are expected"
        )
    return key_id


def decode(data: bytes) -> Any:
    """Return the CBOR item at the start of `data`. Raises `ValueError` if there is none."""
    try:
        return cbor2.loads(data)
    except (cbor2.CBORError, RecursionError, TypeError, UnicodeError) as error:
        raise ValueError("CBOR is expected") from error


# application/cwt in the registry of CoAP content formats.
CONTENT_TYPE: Final = 61

# How far the clock of the service may be ahead of the verifier's clock.
CLOCK_TOLERANCE: Final = timedelta(minutes=5)

# Claim numbers (RFC 8392, section 3.1). Numbers below -65536 are for private use (section 9.1).
_ISSUER: Final = 1
_EXPIRES_AT: Final = 4
_ISSUED_AT: Final = 6
_ID: Final = 7
_PAYLOAD: Final = -65537


class WarrantReason(StrEnum):
    """Why a warrant must not be accepted: the first failed check, in this order.

    Programs compare these values, so they do not change (WARRANT-9).
    """

    MALFORMED = "malformed"
    HEADER = "header"
    SIGNATURE = "signature"
    CLAIMS = "claims"
    ISSUER = "issuer"
    FUTURE = "future"
    TIMES = "times"
    EXPIRED = "expired"


class InvalidWarrant(Exception):
    """The warrant must not be accepted. `reason` is the first failed check."""

    def __init__(self, reason: StrEnum, message: str) -> None:
        self.reason = reason
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Claims:
    """The claims of a warrant. Times are whole seconds in UTC. `payload` is the caller's bytes."""

    tenant_id: str
    warrant_id: str
    issued_at: datetime
    expires_at: datetime | None
    payload: bytes

    def encode(self) -> bytes:
        """Return the CWT claims set, in the deterministic encoding of RFC 8949, section 4.2.1."""
        claims: dict[int, str | int | bytes] = {
            _ISSUER: self.tenant_id,
            _ISSUED_AT: _seconds(self.issued_at),
            _ID: self.warrant_id.encode(),
            _PAYLOAD: self.payload,
        }
        if self.expires_at is not None:
            claims[_EXPIRES_AT] = _seconds(self.expires_at)
        return cbor2.dumps(claims, canonical=True)

    @classmethod
    def decode(cls, data: bytes) -> "Claims":
        """Return the claims in the output of `encode`. Raises `ValueError` for other bytes."""
        claims = decode(data)
        if not isinstance(claims, Mapping):
            raise ValueError("a map of claims is expected")  # noqa: TRY004
        decoded = cls(
            tenant_id=_claim(claims, _ISSUER, str),
            warrant_id=ids.warrant_id(_claim(claims, _ID, bytes).decode("ascii")),
            issued_at=_moment(claims, _ISSUED_AT),
            expires_at=_moment(claims, _EXPIRES_AT) if _EXPIRES_AT in claims else None,
            payload=_claim(claims, _PAYLOAD, bytes),
        )
        # A difference means other claims, repeated claims, or another encoding.
        if decoded.encode() != data:
            raise ValueError("deterministic encoding and no other claims are expected")
        return decoded


def verify(
    warrant: bytes, *, public_keys: Iterable[bytes], tenant_id: str, now: datetime
) -> Claims:
    """Verify a warrant, and return its claims (WARRANT-9).

    `warrant` is the COSE_Sign1 message. `public_keys` are raw Ed25519 keys of 32 bytes. Any of them
    may have signed the message, for this tenant. Raises `InvalidWarrant`.
    """
    message, _ = parse_warrant(warrant)
    return signed_claims(message, public_keys, tenant_id=tenant_id, now=now)


def parse_warrant(warrant: bytes) -> tuple[CoseMessage, bytes]:
    """Return the message of a warrant and the key identifier in its header, both unverified.

    Raises `InvalidWarrant`.
    """
    try:
        message = parse(warrant)
    except ValueError as error:
        raise InvalidWarrant(WarrantReason.MALFORMED, f"not a warrant: {error}") from None
    try:
        return message, key_id_of(message.protected, content_type=CONTENT_TYPE)
    except ValueError as error:
        raise InvalidWarrant(
            WarrantReason.HEADER, f"not a warrant of this service: {error}"
        ) from None


def signed_claims(
    message: CoseMessage, public_keys: Iterable[bytes], *, tenant_id: str, now: datetime
) -> Claims:
    """Return the claims of a parsed message after all further checks. Raises `InvalidWarrant`."""
    # The key identifier in the header proves no signer, so each key is tried.
    data = message.signed_bytes
    if not any(ed25519.is_signed(data, message.signature, public_key=key) for key in public_keys):
        raise InvalidWarrant(WarrantReason.SIGNATURE, "none of the given keys made the signature")
    try:
        claims = Claims.decode(message.payload)
    except ValueError as error:
        raise InvalidWarrant(
            WarrantReason.CLAIMS, f"the signed claims are not a warrant: {error}"
        ) from None
    if claims.tenant_id != tenant_id:
        raise InvalidWarrant(WarrantReason.ISSUER, "another tenant issued the warrant")
    if claims.issued_at > now + CLOCK_TOLERANCE:
        issued = wire.text(claims.issued_at)
        raise InvalidWarrant(WarrantReason.FUTURE, f"issued in the future, at {issued}")
    if claims.expires_at is not None:
        if claims.expires_at <= claims.issued_at:
            raise InvalidWarrant(WarrantReason.TIMES, "exp is not after iat")
        if claims.expires_at <= now:
            expired = wire.text(claims.expires_at)
            raise InvalidWarrant(WarrantReason.EXPIRED, f"expired at {expired}")
    return claims


def _seconds(moment: datetime) -> int:
    return int(moment.timestamp())


def _claim(claims: Mapping[Any, Any], number: int, kind: type) -> Any:
    value = claims.get(number)
    if type(value) is not kind:
        raise ValueError(f"claim {number} of type {kind.__name__} is expected")
    return value


def _moment(claims: Mapping[Any, Any], number: int) -> datetime:
    try:
        return datetime.fromtimestamp(_claim(claims, number, int), UTC)
    except (OverflowError, OSError):
        raise ValueError(f"claim {number} is out of range") from None
