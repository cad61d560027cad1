"""Verify a warrant offline, and look it up in a Signed Revocation List.

FILE has the `warrant` from the response of the sign endpoint, in base64 or decoded. The list is the
response of the SRL endpoint, saved to a file. Take both keys and the tenant's identifier from the
administrator of the tenant, not from the person who shows the warrant.

Exit codes: 0 holds, 1 not valid (warrant or list), 2 wrong usage, 3 revoked.
"""

import argparse
import base64
import binascii
import sys
from datetime import UTC, datetime

from infra import command_line
from shared.authorizer import warrants
from shared.authorizer.warrants import Claims, InvalidWarrant
from shared.errors import InvalidSrl
from shared.model import identifiers, times
from shared.model.srl.encoding import Payload
from shared.model.srl.verification import public_key_bytes, verify


def main() -> int:
    """Verify one warrant and return the exit code."""
    arguments = _arguments()
    try:
        warrant, listed = map(command_line.file_bytes, (arguments.file, arguments.list))
    except OSError as error:
        print(f"{error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    try:
        return _judge(warrant, listed, arguments)
    except InvalidWarrant as error:
        print(f"not valid ({error.reason}): {error}")
    except InvalidSrl as error:
        print(f"not valid (list, {error.reason}): {error}")
    return 1


def _judge(warrant: bytes, listed: bytes, arguments: argparse.Namespace) -> int:
    now = datetime.now(UTC)
    claims = warrants.verify(
        _message(warrant), public_keys=arguments.key, tenant_id=arguments.tenant, now=now
    )
    revoked = verify(
        listed, public_key=arguments.list_key, now=now, min_version=arguments.min_version
    )
    is_revoked = claims.warrant_id in revoked.revoked_ids
    print("revoked" if is_revoked else "holds")
    _show(claims, revoked)
    return 3 if is_revoked else 0


def _show(claims: Claims, listed: Payload) -> None:
    ends = "never" if claims.expires_at is None else times.text(claims.expires_at)
    print(f"warrant: {claims.warrant_id}")
    print(f"issuer:  {claims.tenant_id}")
    print(f"issued:  {times.text(claims.issued_at)}")
    print(f"expires: {ends}")
    print(f"list:    version {listed.version}, expires {times.text(listed.expires_at)}")
    text = _text(claims.payload)
    encoded = base64.b64encode(claims.payload).decode()
    print(f"payload (base64): {encoded}" if text is None else f"payload: {text}")


def _text(payload: bytes) -> str | None:
    """Return the payload as text, or None if a terminal cannot show all of it."""
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        return None
    return text if text.isprintable() else None


def _message(data: bytes) -> bytes:
    """Return the message in a file, which may have it in base64."""
    try:
        return binascii.a2b_base64(data.strip(), strict_mode=True)
    except ValueError:
        return data


def _arguments() -> argparse.Namespace:
    parser = command_line.parser("verify_warrant", __doc__)
    add, public_key = parser.add_argument, command_line.checked(public_key_bytes)
    add("file", metavar="FILE", help="the warrant; - for stdin")
    add("--tenant", type=_tenant, required=True, metavar="ID", help="who must have issued it")
    key = "public key of an issuer; give it once for each key that may sign"
    add("--key", type=public_key, action="append", required=True, metavar="BASE64", help=key)
    add("--list", required=True, metavar="FILE", help="the tenant's revocation list")
    list_key = "public key of the signer of the list"
    add("--list-key", type=public_key, required=True, metavar="BASE64", help=list_key)
    add("--min-version", type=int, default=1, metavar="N", help="reject lists below version N")
    return parser.parse_args()


def _tenant(value: str) -> str:
    if not identifiers.is_identifier(value, kind=identifiers.TENANT):
        raise argparse.ArgumentTypeError("a tenant's identifier is svc_tnt_ and 26 characters")
    return value


if __name__ == "__main__":
    sys.exit(main())
