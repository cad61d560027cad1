"""The checks of a warrant, without revocation: for that, a verifier uses the list (WARRANT-9)."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from shared.errors import InvalidWarrant, WarrantReason
from shared.model import cose, seeds, times
from shared.model.warrant_format import CONTENT_TYPE, Claims

# How far the clock of the service may be ahead of the verifier's clock.
CLOCK_TOLERANCE: Final = timedelta(minutes=5)


def verify(
    warrant: bytes, *, public_keys: Iterable[bytes], tenant_id: str, now: datetime
) -> Claims:
    """Return the claims of a warrant after every check has passed (WARRANT-9).

    `warrant` is the COSE_Sign1 message. `public_keys` are raw Ed25519 keys of 32 bytes: one of them
    must have signed the message, for this tenant. Raises `InvalidWarrant`.
    """
    try:
        message = cose.parse(warrant)
    except ValueError as error:
        raise InvalidWarrant(WarrantReason.MALFORMED, f"not a warrant: {error}") from None
    try:
        cose.key_id_of(message.protected, content_type=CONTENT_TYPE)
    except ValueError as error:
        raise InvalidWarrant(
            WarrantReason.HEADER, f"not a warrant of this service: {error}"
        ) from None
    _check_signature(message, public_keys)
    try:
        claims = Claims.decode(message.payload)
    except ValueError as error:
        raise InvalidWarrant(
            WarrantReason.CLAIMS, f"the signed claims are not a warrant: {error}"
        ) from None
    _check(claims, tenant_id, now)
    return claims


def _check_signature(message: cose.Message, public_keys: Iterable[bytes]) -> None:
    # The key identifier in the header proves nothing, so each key is tried.
    signed = message.signed
    if not any(seeds.is_signed(signed, message.signature, public_key=key) for key in public_keys):
        raise InvalidWarrant(WarrantReason.SIGNATURE, "none of the given keys made the signature")


def _check(claims: Claims, tenant_id: str, now: datetime) -> None:
    if claims.tenant_id != tenant_id:
        raise InvalidWarrant(WarrantReason.ISSUER, "another tenant issued the warrant")
    if claims.issued_at > now + CLOCK_TOLERANCE:
        issued = times.text(claims.issued_at)
        raise InvalidWarrant(WarrantReason.FUTURE, f"issued in the future, at {issued}")
    if claims.expires_at is None:
        return
    if claims.expires_at <= claims.issued_at:
        raise InvalidWarrant(WarrantReason.TIMES, "exp is not after iat")
    if claims.expires_at <= now:
        raise InvalidWarrant(WarrantReason.EXPIRED, f"expired at {times.text(claims.expires_at)}")
