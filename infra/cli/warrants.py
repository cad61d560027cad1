"""`rescind warrants`: sign warrants, and verify them offline."""

import base64
import binascii
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated

from infra.cli.client import segment
from infra.cli.commands import ApiSession, command, local_command, noun
from infra.cli.errors import ExitCode, Expires, argument, drop_missing, option, public_keys
from infra.cli.inputs import read_bytes, read_document
from infra.cli.output import Output
from infra.cli.signing_keys import KeyId
from shared.authorizer.formats import warrants
from shared.authorizer.formats.warrants import InvalidWarrant
from shared.errors import InvalidSrl
from shared.model import identifiers, times
from shared.model.lists.verification import verify


def _tenant(value: str) -> str:
    if not identifiers.is_identifier(value, kind=identifiers.TENANT):
        raise ValueError("a tenant identifier is svc_tnt_ and 26 characters")
    return value


WarrantFile = Annotated[str, argument("FILE", "Warrant; - is standard input.")]
PayloadFile = Annotated[str, argument("FILE", "Payload; - is standard input.")]
Tenant = Annotated[str, option("--tenant", "Tenant that issued the warrant.", "ID", _tenant)]
Keys = Annotated[
    list[bytes], public_keys("--key", "Public key of an accepted signing key; may be repeated.")
]
ListFile = Annotated[str, option("--list", "Saved SRL.", "FILE")]
ListKey = Annotated[bytes, public_keys("--list-key", "Public key of the SRL signer.")]
MinVersion = Annotated[int, option("--min-version", "Reject SRLs below version N.", "N", min=1)]
WarrantId = Annotated[
    str | None, option("--id", "Identifier of the warrant (default: generated).", "WARRANT")
]

app = noun("Sign warrants, and verify them offline.")


@command(
    app, "sign", example="rescind warrants sign svc_key_01J… grant.json --id svc_wrt_laptop-17"
)
def sign(
    session: ApiSession,
    key: KeyId,
    file: PayloadFile,
    id_: WarrantId = None,
    expires_at: Expires = None,
) -> None:
    """Sign a payload as a warrant, and print the warrant in base64."""
    payload = base64.b64encode(read_bytes(file)).decode()
    body = drop_missing({"payload": payload, "warrant_id": id_, "expires_at": expires_at})
    signed = session.api.post(f"/v1/keys/{segment(key)}/sign", body)
    session.out.print_message(f"Signed {signed['warrant_id']}.")
    session.out.show(signed, signed["warrant"])


@local_command(
    app,
    "verify",
    example="rescind warrants verify warrant.b64 --tenant svc_tnt_01m82jefwnq7vvd3nkdt4rmwny "
    "--key OYZHPVyI3WtPY8N0GCwRyA7uqtBoIhu6pjM+BBbGRxo= --list srl.json "
    "--list-key zjxsvKsuUKzMupNW2SWSIoeAYGLSFm3cf3z8ESHuajM=",
)
def verify_(
    out: Output,
    file: WarrantFile,
    tenant: Tenant,
    key: Keys,
    list_: ListFile,
    list_key: ListKey,
    min_version: MinVersion = 1,
) -> int:
    """Verify a warrant offline, and check it against a Signed Revocation List.

    FILE contains the warrant, in base64 or binary. Get both keys and the tenant identifier from the
    administrator of the tenant, not from the person who shows the warrant.

    Exit codes: 0 valid, 1 not valid (warrant or list), 2 wrong usage, 3 revoked.
    """
    message = read_document(file)
    with suppress(ValueError):
        message = binascii.a2b_base64(message.strip(), strict_mode=True)
    body, now = read_document(list_), datetime.now(UTC)
    try:
        claims = warrants.verify(message, public_keys=key, tenant_id=tenant, now=now)
        listed = verify(body, public_key=list_key, now=now, min_version=min_version)
    except InvalidWarrant as error:
        return _print_refusal(out, str(error.reason), str(error), "")
    except InvalidSrl as error:
        return _print_refusal(out, str(error.reason), str(error), "SRL, ")
    is_revoked = claims.warrant_id in listed.revoked_ids
    document = {
        "valid": True,
        "revoked": is_revoked,
        "warrant_id": claims.warrant_id,
        "tenant_id": claims.tenant_id,
        "issued_at": times.format_utc(claims.issued_at),
        "expires_at": None if claims.expires_at is None else times.format_utc(claims.expires_at),
        "srl_version": listed.version,
        "srl_expires_at": times.format_utc(listed.expires_at),
        "payload": base64.b64encode(claims.payload).decode(),
    }
    text = claims.payload.decode(errors="replace")
    # A terminal must show all of the payload.
    is_text = text.isprintable() and text.encode() == claims.payload
    lines = [
        "revoked" if is_revoked else "valid",
        f"warrant: {claims.warrant_id}",
        f"issuer:  {claims.tenant_id}",
        f"issued:  {document['issued_at']}",
        f"expires: {document['expires_at'] or 'never'}",
        f"SRL:     version {listed.version}, expires {document['srl_expires_at']}",
        f"payload: {text}" if is_text else f"payload (base64): {document['payload']}",
    ]
    out.show(document, "\n".join(lines))
    return ExitCode.REVOKED if is_revoked else ExitCode.DONE


def _print_refusal(out: Output, reason: str, message: str, of: str) -> int:
    document = {"valid": False, "reason": reason, "message": message}
    out.show(document, f"not valid ({of}{reason}): {message}")
    return ExitCode.FAILED
