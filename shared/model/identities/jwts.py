"""Claims of a token of an identity provider."""

from datetime import datetime
from typing import Any

from shared.authorizer.formats import jwts
from shared.authorizer.formats.jwts import ParsedToken
from shared.authorizer.formats.token_kinds import TokenFault, TokenKind
from shared.model import times
from shared.model.identities import people
from shared.model.identities.claims import IdentityClaims, IssuerBinding, SignInRefused


def check_claims(
    token: ParsedToken, binding: IssuerBinding, now: datetime, *, nonce: str | None
) -> IdentityClaims:
    """Check everything except the signature, and return the claims.

    Raises `TokenRefused`, or `SignInRefused` for an e-mail that no person can have.
    """
    jwts.check_claims(
        token,
        binding.kind,
        issuer=binding.issuer,
        audience=binding.audience,
        now=now.timestamp(),
        nonce=nonce,
    )
    said, audience = token.claims, token.claims["aud"]
    is_person = binding.kind is TokenKind.ID
    signed_in_at = said.get("auth_time")
    return IdentityClaims(
        issuer=binding.issuer,
        subject=said["sub"],
        audience=tuple(audience) if isinstance(audience, list) else (audience,),
        issued_at=times.from_seconds(int(said["iat"])),
        expires_at=times.from_seconds(int(said["exp"])),
        auth_time=None if signed_in_at is None else times.from_seconds(int(signed_in_at)),
        nonce=_text(said, "nonce"),
        email=_email(said) if is_person else None,
        name=_text(said, "name"),
        members=said,
        digest=token.digest,
    )


def _email(said: Any) -> str | None:
    if said.get("email") is None:
        return None
    try:
        return people.email(said["email"] if isinstance(said["email"], str) else "")
    except ValueError:
        raise SignInRefused(
            TokenFault.EMAIL, "email must be one address, and not of .svc."
        ) from None


def _text(said: Any, name: str) -> str | None:
    value = said.get(name)
    return value if isinstance(value, str) else None
