"""Verification of registrations and reports signed by authorizers (TRUST-10, FLEET-27)."""

from dataclasses import replace
from datetime import datetime
from typing import Final

from functions.authorizers.records import (
    Authorizer,
    AuthorizerDescription,
    Heartbeat,
    RefusedReport,
    SignedStatement,
    are_reasons,
)
from shared.authorizer.formats.documents import NotTrusted, RootReason
from shared.authorizer.formats.members import from_base64
from shared.authorizer.formats.proofs import SignedRegistration, SignedReport
from shared.errors import InvalidRequest
from shared.model import times

# The remedy for each reason of a rejected registration.
_REGISTRATION: Final = {
    RootReason.TOO_LARGE: "its payload must have at most 4,096 bytes.",
    RootReason.MALFORMED: "its payload must be a registration in deterministic CBOR.",
    RootReason.TENANT: "it names another tenant; check the tenant of the authorizer.",
    RootReason.SIGNATURE: "the key that it names must sign it.",
}


def verify_registration(
    description: AuthorizerDescription, statement: SignedStatement, *, tenant_id: str, now: datetime
) -> AuthorizerDescription:
    """Return the description with the proven key.

    Raises `InvalidRequest` if the statement has another name, tenant or time, or is not signed.
    """
    try:
        proof = SignedRegistration.verify_and_decode(
            *_bytes(statement), tenant_id=tenant_id, now=now
        )
    except NotTrusted as refused:
        why = _REGISTRATION.get(refused.reason) or (
            "the clock is wrong, or the proof is more than five minutes old; the time is"
            f" {times.format_utc(now)}."
        )
        raise InvalidRequest(f"proof: {refused.reason}: {why}") from None
    if proof.name != description.name:
        raise InvalidRequest("proof: it must have the name of the registration.")
    return replace(description, public_key=proof.public_key.hex(), key_verified=True)


def verify_heartbeat(
    beat: Heartbeat, previous: Authorizer, *, tenant_id: str
) -> Heartbeat | RefusedReport:
    """Return the verified heartbeat of `previous`, or the reason of its rejection.

    For an authorizer with a proven key, only signed content is accepted.
    """
    if beat.signed is None:
        return RefusedReport.UNSIGNED if previous.key_verified else beat
    if not previous.key_verified:
        return RefusedReport.KEY_UNVERIFIED
    try:
        report = SignedReport.verify_and_decode(
            *_bytes(beat.signed), public_key=previous.verified_key
        )
        report.check(tenant_id=tenant_id, authorizer_id=previous.id, after=previous.number)
    except NotTrusted as refused:
        return RefusedReport(refused.reason.value)
    if not are_reasons(report.refused):
        return RefusedReport.MALFORMED
    return Heartbeat(
        report.sequence,
        report.chain.hex(),
        report.verified_at,
        report.max_staleness,
        report.fail_open,
        report.refused,
        beat.seen_at,
        number=report.number,
        trust=report.trust,
    )


def _bytes(statement: SignedStatement) -> tuple[bytes, bytes]:
    """Return the payload and the signature. Raises `NotTrusted`: `MALFORMED`, `SIGNATURE`."""
    try:
        payload = from_base64(statement.payload)
    except ValueError:
        raise NotTrusted(RootReason.MALFORMED) from None
    try:
        signature = from_base64(statement.signature)
    except ValueError:
        raise NotTrusted(RootReason.SIGNATURE) from None
    return payload, signature
