"""What the service signs: a warrant as a signed CWT, or the bytes of a caller's own format.

A warrant is a COSE_Sign1 message (RFC 9052) over a CWT claims set (RFC 8392). Its signed bytes name
its tenant, the identifier under which a verifier looks it up, and its end (WARRANT-1,
docs/adr/0022).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

import cbor2

from shared.model import cose, identifiers
from shared.model.cose import Message

# application/cwt in the registry of CoAP content formats.
CONTENT_TYPE: Final = 61

# Claim numbers (RFC 8392, section 3.1). Those below -65536 are for private use (section 9.1).
_ISSUER: Final = 1
_EXPIRES_AT: Final = 4
_ISSUED_AT: Final = 6
_ID: Final = 7
PAYLOAD: Final = -65537

_LIST_MEMBER: Final = "RevokedIDs"
# The prefix of what the service signs beside lists and warrants (shared/model/srl/statements.py).
_OWN_PREFIX: Final = b"rescind-"


class Format(StrEnum):
    """How a warrant is signed: as a message with identifier and times, or only its payload."""

    COSE = "cose"
    RAW = "raw"


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
            PAYLOAD: self.payload,
        }
        if self.expires_at is not None:
            claims[_EXPIRES_AT] = _seconds(self.expires_at)
        return cbor2.dumps(claims, canonical=True)

    @classmethod
    def decode(cls, data: bytes) -> "Claims":
        """Return the claims in bytes that `encode` made. Raises `ValueError` for other bytes."""
        claims = cose.decode(data)
        if not isinstance(claims, Mapping):
            raise ValueError("a map of claims is expected")  # noqa: TRY004
        decoded = cls(
            tenant_id=_claim(claims, _ISSUER, str),
            warrant_id=identifiers.warrant_id(_claim(claims, _ID, bytes).decode("ascii")),
            issued_at=_moment(claims, _ISSUED_AT),
            expires_at=_moment(claims, _EXPIRES_AT) if _EXPIRES_AT in claims else None,
            payload=_claim(claims, PAYLOAD, bytes),
        )
        # A difference means other claims, repeated claims, or another encoding.
        if decoded.encode() != data:
            raise ValueError("deterministic encoding and no other claims are expected")
        return decoded


def sign(claims: Claims, *, key_id: str, key_version: int, seed: bytes) -> Message:
    """Return the signed warrant. `kid` is `<key identifier>#<version>` in ASCII."""
    kid = f"{key_id}#{key_version}".encode()
    protected = cose.header(key_id=kid, content_type=CONTENT_TYPE)
    return cose.sign(protected, claims.encode(), seed=seed)


def is_reserved(payload: bytes) -> bool:
    """Return whether `payload`, signed unchanged, could pass for what only the service signs.

    That is a list, a COSE message, or bytes with the service's own prefix. Bytes that only begin
    with such a CBOR item count too (WARRANT-3).
    """
    if payload.startswith(_OWN_PREFIX):
        return True
    try:
        item = cose.decode(payload)
    except ValueError:
        return False
    return cose.is_cose(item) or _is_list(item)


def _is_list(item: Any) -> bool:
    if isinstance(item, cbor2.CBORTag):
        return _is_list(item.value)
    return isinstance(item, Mapping) and _LIST_MEMBER in item


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
