"""JSON Web Tokens (RFC 7519): which are accepted from an issuer, and what they say.

A key that the token itself names or contains (`jwk`, `jku`, `x5c`, `x5u`) is never used.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Final

from joserfc.errors import JoseError
from joserfc.jwk import JWKRegistry
from joserfc.jws import JWSRegistry

from shared.model import text, times
from shared.model.identities import people
from shared.model.identities.claims import IdentityClaims, IssuerBinding, SignInRefused, TokenFault
from shared.model.identities.key_sets import ALGORITHMS, KeySet, fitting

# The characters of a token.
TOKEN_MAX: Final = 16 * 1024
_SUBJECT_MAX: Final = 255
_TYPES: Final = frozenset({"jwt", "at+jwt"})
_LEEWAY: Final = timedelta(seconds=60)
_LIFETIME_MAX: Final = timedelta(hours=24)
_PARTS, _PARTS_ENCRYPTED = 3, 5


@dataclass(frozen=True, slots=True)
class UncheckedToken:
    """A token in the right form, whose signature is not checked yet."""

    algorithm: str
    kid: str
    members: Mapping[str, Any]
    signed: bytes
    signature: bytes


def parsed(token: str) -> UncheckedToken:
    """Return a token in the right form. Raises `SignInRefused`."""
    if len(token) > TOKEN_MAX:
        raise SignInRefused(
            TokenFault.TOO_LARGE, f"The token has more than {TOKEN_MAX} characters."
        )
    parts = token.split(".")
    if len(parts) == _PARTS_ENCRYPTED:
        raise SignInRefused(TokenFault.NESTED, "The token is encrypted; send a signed JWT.")
    if len(parts) != _PARTS:
        raise _malformed()
    header, members, signature = (_decoded(each) for each in parts)
    algorithm, kid = _headed(_object(header))
    signed = token.rpartition(".")[0].encode()
    return UncheckedToken(algorithm, kid, _object(members), signed, signature)


def check_signature(token: UncheckedToken, keys: KeySet) -> None:
    """Raise `SignInRefused` unless the key of this `kid` has signed the token."""
    if token.kid not in keys:
        raise SignInRefused(TokenFault.UNKNOWN_KEY, "The issuer has no key of the token's kid.")
    key = fitting(keys[token.kid], token.algorithm)
    if key is None:
        raise SignInRefused(TokenFault.KEY, "The issuer's key is not for the token's alg.")
    if not _is_signed(token, key):
        raise SignInRefused(TokenFault.SIGNATURE, "The token's signature is not of its issuer.")


def claimed(
    token: UncheckedToken, binding: IssuerBinding, now: datetime, *, nonce: str | None
) -> IdentityClaims:
    """Return the claims of a token whose signature was checked. Raises `SignInRefused`."""
    said = token.members
    if said.get("iss") != binding.issuer:
        raise SignInRefused(TokenFault.ISSUER, "The token is of another issuer.")
    audience = _audience(said, binding)
    subject = said.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= _SUBJECT_MAX:
        raise SignInRefused(TokenFault.SUBJECT, f"sub must have 1 to {_SUBJECT_MAX} characters.")
    issued_at, expires_at, auth_time = _times(said, now)
    if nonce is not None and said.get("nonce") != nonce:
        raise SignInRefused(
            TokenFault.NONCE, "The token is not for this sign-in: its nonce differs."
        )
    return IdentityClaims(
        issuer=binding.issuer,
        subject=subject,
        audience=audience,
        issued_at=issued_at,
        expires_at=expires_at,
        auth_time=auth_time,
        nonce=_text(said, "nonce"),
        email=_email(said),
        name=_text(said, "name"),
        members=said,
        digest=sha256(token.signed).hexdigest(),
    )


def name(token: UncheckedToken) -> tuple[str, str]:
    """Return `iss` and `jti`. Raises `SignInRefused` if it lacks one."""
    issuer, number = token.members.get("iss"), token.members.get("jti")
    if not isinstance(issuer, str) or not isinstance(number, str):
        raise _malformed()
    return issuer, number


def check_access(token: UncheckedToken, audience: str, now: datetime) -> None:
    """Raise `SignInRefused` unless a token is for the audience, and is good at this moment.

    It may live longer than one to sign in, and have other audiences beside this one.
    """
    said = token.members
    found = said.get("aud")
    if audience not in (found if isinstance(found, list) else [found]):
        raise SignInRefused(TokenFault.AUDIENCE, "The token is for another audience.")
    expires_at = _moment(said, "exp")
    begins = [_moment(said, each) for each in ("iat", "nbf")]
    if expires_at is None or expires_at <= now:
        raise SignInRefused(TokenFault.EXPIRED, "The token has expired.")
    if any(each and each > now + _LEEWAY for each in begins):
        raise SignInRefused(TokenFault.FUTURE, "The token is of the future; compare the clocks.")


def _malformed() -> SignInRefused:
    return SignInRefused(TokenFault.MALFORMED, "The token is not a well-formed signed JWT.")


def _decoded(part: str) -> bytes:
    """Return the bytes of base64url. Another spelling of the same bytes is refused."""
    try:
        found = urlsafe_b64decode(f"{part}{'=' * (-len(part) % 4)}")
    except ValueError:
        raise _malformed() from None
    if not found or urlsafe_b64encode(found).rstrip(b"=").decode() != part:
        raise _malformed()
    return found


def _object(data: bytes) -> dict[str, Any]:
    try:
        found = text.parse(data)
    except ValueError:
        raise _malformed() from None
    if not isinstance(found, dict):
        raise _malformed()
    return found


def _headed(header: Mapping[str, Any]) -> tuple[str, str]:
    """Return `alg` and `kid`. Raises `SignInRefused`."""
    if "crit" in header or "b64" in header:
        raise SignInRefused(TokenFault.CRITICAL, "The token's header needs an unknown extension.")
    if "cty" in header or "enc" in header:
        raise SignInRefused(TokenFault.NESTED, "The token holds another one; send that.")
    if str(header.get("typ", "JWT")).lower() not in _TYPES:
        raise SignInRefused(TokenFault.TYPE, "The token is no JWT: its typ differs.")
    algorithm, kid = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        allowed = ", ".join(ALGORITHMS)
        raise SignInRefused(TokenFault.ALGORITHM, f"The token's alg must be one of {allowed}.")
    if not isinstance(kid, str) or not kid:
        raise SignInRefused(TokenFault.UNKNOWN_KEY, "The token must name its key by kid.")
    return algorithm, kid


def _is_signed(token: UncheckedToken, key: Mapping[str, Any]) -> bool:
    # Not `jws.deserialize_compact`, which warns of EdDSA: its key is of Ed25519 here.
    algorithm = JWSRegistry.algorithms[token.algorithm]
    try:
        public = JWKRegistry.import_key({**key})
        algorithm.check_key(public)
        return algorithm.verify(token.signed, token.signature, public)
    except (JoseError, ValueError, TypeError):
        return False


def _audience(said: Mapping[str, Any], binding: IssuerBinding) -> tuple[str, ...]:
    found = said.get("aud")
    audience = found if isinstance(found, list) else [found]
    if binding.audience not in audience or not all(isinstance(each, str) for each in audience):
        raise SignInRefused(TokenFault.AUDIENCE, "The token is for another audience.")
    if len(audience) > 1 and said.get("azp") != binding.audience:
        raise SignInRefused(
            TokenFault.AUTHORIZED_PARTY, "The token has several audiences, and azp is another one."
        )
    return tuple(audience)


def _times(said: Mapping[str, Any], now: datetime) -> tuple[datetime, datetime, datetime | None]:
    """Return `iat`, `exp` and `auth_time`. Raises `SignInRefused`."""
    issued_at, expires_at = _moment(said, "iat"), _moment(said, "exp")
    auth_time, begins_at = _moment(said, "auth_time"), _moment(said, "nbf")
    if issued_at is None or expires_at is None:
        raise SignInRefused(TokenFault.TIMES, "The token must have iat and exp.")
    if expires_at <= now - _LEEWAY:
        raise SignInRefused(TokenFault.EXPIRED, "The token has expired.")
    if any(each and each > now + _LEEWAY for each in (issued_at, auth_time, begins_at)):
        raise SignInRefused(TokenFault.FUTURE, "The token is of the future; compare the clocks.")
    if not timedelta(0) < expires_at - issued_at <= _LIFETIME_MAX:
        raise SignInRefused(TokenFault.LIFETIME, "The token must live for at most 24 hours.")
    return issued_at, expires_at, auth_time


def _moment(said: Mapping[str, Any], name: str) -> datetime | None:
    value = said.get(name)
    if value is None:
        return None
    try:
        if type(value) not in (int, float) or value < 0:
            raise ValueError
        return times.from_seconds(int(value))
    except (ValueError, OverflowError):
        raise SignInRefused(TokenFault.TIMES, f"{name} must be in seconds since 1970.") from None


def _email(said: Mapping[str, Any]) -> str | None:
    """Return `email`, if there is one. Raises `SignInRefused` if it cannot be that of a person."""
    email, is_verified = said.get("email"), said.get("email_verified")
    # Some providers write text.
    if is_verified is not None and is_verified is not True and is_verified != "true":
        raise SignInRefused(TokenFault.EMAIL, "The provider did not verify the e-mail address.")
    if email is None:
        return None
    try:
        return people.email(email if isinstance(email, str) else "")
    except ValueError:
        raise SignInRefused(
            TokenFault.EMAIL, "email must be one address, and not of .svc."
        ) from None


def _text(said: Mapping[str, Any], name: str) -> str | None:
    value = said.get(name)
    return value if isinstance(value, str) else None
