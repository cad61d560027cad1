"""Warrant identifiers of tokens of other issuers (TOKEN-1).

An identifier is not a proof. Verify the token first, and then check it for revocation.
"""

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, Final

TOKEN_PART_MAX: Final = 1024

_PREFIX: Final = "rescind-token-v1"
# Pattern and description of issuer and value for each kind. Each token has exactly one spelling,
# because another spelling would have another identifier.
_FORMS: Final[Mapping[str, tuple[re.Pattern[str], str]]] = {
    "jwt": (re.compile("[^\n]+\n[^\n]+"), "its iss and its jti"),
    "jwt-session": (re.compile("[^\n]+\n[^\n]+"), "its iss and its sid"),
    "jwt-subject": (re.compile("[^\n]+\n[^\n]+"), "its iss and its sub"),
    "biscuit": (re.compile("\n([0-9a-f]{2})+"), "empty, and a revocation id in lower-case hex"),
    "ucan": (re.compile("\nb[a-z2-7]+"), "empty, and a CIDv1 in lower-case base32"),
    "x509": (
        re.compile("[0-9a-f]{64}\n[1-9a-f][0-9a-f]*"),
        "the SHA-256 of the issuer's DER name and the serial number, in lower-case hex",
    ),
    "other": (re.compile("[^\n]*\n[^\n]+"), "a text, and one that is not empty"),
}
_CONTROL: Final = re.compile("[\x00-\x1f]")
TOKEN_KINDS: Final = tuple(_FORMS)
# Shorter words in identifiers, which have at most 72 bytes.
_WORDS: Final = {"jwt-session": "sid", "jwt-subject": "sub"}
# The last second of the year 9999, as for the times of tokens.
MOMENT_MAX: Final = 253_402_300_799


def token_id(kind: str, issuer: str, value: str, issued_before: int | None = None) -> str:
    """Return the warrant identifier of a token. Raises `ValueError`, worded for the caller.

    `issuer` and `value` are texts of at most 1,024 bytes each, in the form of their kind. Only
    `jwt-subject` has `issued_before`, in whole seconds since the epoch. The identifier then covers
    all tokens of the subject with `iat` at or before it, or without `iat`.
    """
    if kind not in _FORMS:
        raise ValueError(f"kind must be one of {', '.join(_FORMS)}")
    parts = [_part("issuer", issuer), _part("value", value)]
    pattern, description = _FORMS[kind]
    if not pattern.fullmatch(f"{issuer}\n{value}"):
        raise ValueError(f"issuer and value of the kind {kind} must be {description}")
    if (kind == "jwt-subject") is (issued_before is None):
        raise ValueError("issued_before is required with the kind jwt-subject, and with no other")
    if issued_before is not None and not 0 <= issued_before <= MOMENT_MAX:
        raise ValueError(f"issued_before must be 0 to {MOMENT_MAX} seconds since the epoch")
    digest = hashlib.sha256(b"\n".join([_PREFIX.encode(), kind.encode(), *parts])).digest()
    text = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    suffix = "" if issued_before is None else f"-{issued_before:012d}"
    return f"svc_wrt_{_WORDS.get(kind, kind)}-{text}{suffix}"


def jwt_id(token: str) -> str:
    """Return the warrant identifier of a JWT without checking its signature.

    Raises `ValueError` if it is not a JWT, or lacks `iss` or `jti`.
    """
    claims = jwt_claims(token)
    issuer, value = claims.get("iss"), claims.get("jti")
    if not isinstance(issuer, str) or not isinstance(value, str):
        raise ValueError(  # noqa: TRY004
            "has no iss or no jti: revoke its subject (--subject) or its session (--session)"
        )
    return token_id("jwt", issuer, value)


def jwt_claims(token: str) -> Mapping[str, Any]:
    """Return the claims of a JWT without checking its signature.

    Raises `ValueError` if it is not a JWT in compact form.
    """
    parts = token.strip().split(".")
    try:
        if len(parts) != len(("header", "claims", "signature")):
            raise ValueError
        claims = json.loads(base64.b64decode(f"{parts[1]}==", altchars=b"-_"))
    except (ValueError, RecursionError):
        raise ValueError("is not a signed JWT in compact form") from None
    if not isinstance(claims, dict):
        raise ValueError("is not a signed JWT in compact form")  # noqa: TRY004
    return claims


def _part(name: str, text: str) -> bytes:
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name} must be Unicode") from None
    if len(data) > TOKEN_PART_MAX or _CONTROL.search(text):
        raise ValueError(
            f"{name} must have at most {TOKEN_PART_MAX} bytes, and no control characters"
        )
    return data
