"""Verification of JSON Web Tokens of other issuers (RFC 7515, 7519, 8725).

Sign-in, introspection, logout and `JwtGuard` share it, and therefore accept the same tokens. It
never uses a key that the token contains or names (`jwk`, `jku`, `x5c`, `x5u`). `parse` and
`check_claims` need no key, so callers run both before they fetch keys for `check_signature`.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from math import ceil
from typing import Any, Final

from joserfc.errors import JoseError
from joserfc.jwk import JWKRegistry
from joserfc.jws import JWSRegistry

from . import strict_json
from .jwk_sets import ALGORITHMS, KeySet, select_key
from .token_kinds import LEEWAY_SECONDS, RULES, KindRules, TokenFault, TokenKind, TokenRefused
from .tokens import MOMENT_MAX, token_id

TOKEN_MAX: Final = 16 * 1024
_SUBJECT_MAX: Final = 255
_PARTS, _PARTS_ENCRYPTED = 3, 5

# The kind of token that each claim identifies (TOKEN-1).
NAMING: Final = {"jti": "jwt", "sid": "jwt-session", "sub": "jwt-subject"}
_MATERIAL: Final = ("kty", "n", "e", "crv", "x", "y")
# The event of a logout token (OpenID Connect Back-Channel Logout 1.0, 2.4).
_LOGOUT: Final = "http://schemas.openid.net/event/backchannel-logout"


@dataclass(frozen=True, slots=True)
class ParsedToken:
    """A well-formed token. Neither its claims nor its signature are checked yet.

    `header_type` is `typ` in lower case without `application/`. `signed` contains the bytes that
    `signature` covers.
    """

    header_type: str
    algorithm: str
    kid: str
    claims: Mapping[str, Any]
    signed: bytes
    signature: bytes

    @property
    def digest(self) -> str:
        """SHA-256 of `signed` in hex. It does not depend on the signature."""
        return sha256(self.signed).hexdigest()

    @property
    def warrant_ids(self) -> list[str]:
        """Identifiers of the token, its session and its subject up to its `iat` (TOKEN-11).

        Raises `TokenRefused` if a claim has no identifier, or the token could not be revoked.
        """
        ids = {
            claim: identify(self.claims, claim)
            for claim in NAMING
            if self.claims.get(claim) is not None
        }
        if not ids or (self.claims.get("iat") is None and list(ids) == ["sub"]):
            message = "The token needs jti, sid, or sub and iat, so that it can be revoked."
            raise TokenRefused(TokenFault.IDENTIFIER, message)
        return [*ids.values()]


def parse(token: str) -> ParsedToken:
    """Return the parts of a well-formed token. Raises `TokenRefused`."""
    if len(token) > TOKEN_MAX:
        message = f"The token has more than {TOKEN_MAX} characters."
        raise TokenRefused(TokenFault.TOO_LARGE, message)
    parts = token.split(".")
    if len(parts) == _PARTS_ENCRYPTED:
        raise TokenRefused(TokenFault.NESTED, "The token is encrypted; send a signed JWT.")
    if len(parts) != _PARTS:
        raise _malformed_error()
    header, claims, signature = (_decode(each) for each in parts)
    members = _parse_object(header)
    if "crit" in members or "b64" in members:
        raise TokenRefused(TokenFault.CRITICAL, "The token requires an unknown extension.")
    if _media_type(members.get("cty", "")) in ("jwt", "jwe") or "enc" in members:
        raise TokenRefused(TokenFault.NESTED, "The token contains another token; send that one.")
    algorithm, kid = members.get("alg"), members.get("kid")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        allowed = ", ".join(ALGORITHMS)
        raise TokenRefused(TokenFault.ALGORITHM, f"The token's alg must be one of {allowed}.")
    if not isinstance(kid, str) or not kid:
        raise TokenRefused(TokenFault.UNKNOWN_KEY, "The token must name its key by kid.")
    return ParsedToken(
        header_type=_media_type(members.get("typ", "")),
        algorithm=algorithm,
        kid=kid,
        claims=_parse_object(claims),
        signed=token.rpartition(".")[0].encode(),
        signature=signature,
    )


def check_claims(
    token: ParsedToken,
    kind: TokenKind,
    *,
    issuer: str,
    audience: str,
    now: float,
    nonce: str | None = None,
) -> None:
    """Check everything except the signature. Raises `TokenRefused`.

    `now` is in seconds since the epoch. `nonce` is the nonce of the sign-in, if any.
    """
    rules, claims = RULES[kind], token.claims
    if token.header_type not in rules.header_types:
        raise TokenRefused(TokenFault.TYPE, f"The token is not {rules.name}: its typ differs.")
    if claims.get("iss") != issuer:
        raise TokenRefused(TokenFault.ISSUER, "The token has another issuer.")
    _check_purpose(claims, rules)
    _check_audience(claims, rules, audience)
    if "sub" in rules.required or (rules.is_revocable and "sub" in claims):
        identify(claims, "sub")
    if "jti" in rules.required and claims.get("jti") is None:
        raise TokenRefused(TokenFault.IDENTIFIER, "The token has no jti.")
    if rules.is_revocable:
        _ = token.warrant_ids
    _check_times(claims, rules, now)
    if nonce is not None and claims.get("nonce") != nonce:
        message = "The token is not for this sign-in: its nonce differs."
        raise TokenRefused(TokenFault.NONCE, message)
    if rules.has_person and claims.get("email") is not None and not is_email_verified(claims):
        raise TokenRefused(TokenFault.EMAIL, "The provider did not verify the e-mail address.")


def is_email_verified(claims: Mapping[str, Any], *, default: bool = True) -> bool:
    """Return whether the issuer verified the e-mail, or `default` without `email_verified`."""
    is_verified = claims.get("email_verified")
    # Some providers send a string.
    return default if is_verified is None else is_verified is True or is_verified == "true"


def check_signature(token: ParsedToken, keys: KeySet) -> None:
    """Check that the key with the token's `kid` signed the token. Raises `TokenRefused`."""
    if token.kid not in keys:
        raise TokenRefused(TokenFault.UNKNOWN_KEY, "The issuer has no key with the token's kid.")
    key = select_key(keys[token.kid], token.algorithm)
    if key is None:
        raise TokenRefused(TokenFault.KEY, "The issuer's key does not fit the token's alg.")
    # `jws.deserialize_compact` limits headers to 512 bytes, and accepts any key without a kid.
    algorithm = JWSRegistry.algorithms[token.algorithm]
    try:
        # Omits `alg`, `use` and `key_ops`: they are already checked, and the library accepts fewer
        # names.
        public = JWKRegistry.import_key({name: key[name] for name in _MATERIAL if name in key})
        algorithm.check_key(public)
        is_signed = algorithm.verify(token.signed, token.signature, public)
    except (JoseError, ValueError, TypeError):
        is_signed = False
    if not is_signed:
        raise TokenRefused(TokenFault.SIGNATURE, "The token's signature is wrong.")


def _malformed_error() -> TokenRefused:
    return TokenRefused(TokenFault.MALFORMED, "The token is not a well-formed signed JWT.")


def _decode(part: str) -> bytes:
    """Decode base64url, and reject other encodings of the same bytes."""
    try:
        data = urlsafe_b64decode(f"{part}{'=' * (-len(part) % 4)}")
    except ValueError:
        raise _malformed_error() from None
    if not data or urlsafe_b64encode(data).rstrip(b"=").decode() != part:
        raise _malformed_error()
    return data


def _parse_object(data: bytes) -> dict[str, Any]:
    try:
        members = strict_json.parse(data)
    except ValueError:
        raise _malformed_error() from None
    if not isinstance(members, dict):
        raise _malformed_error()
    return members


def _media_type(value: object) -> str:
    """Return a media type of a header, which may omit `application/` (RFC 7515, 4.1.9)."""
    return str(value).lower().removeprefix("application/")


def _check_purpose(claims: Mapping[str, Any], rules: KindRules) -> None:
    """Reject tokens of other kinds (RFC 8725, 3.11 and 3.12)."""
    for name in rules.forbidden:
        if name in claims:
            raise TokenRefused(TokenFault.TYPE, f"The token is not {rules.name}: it has {name}.")
    for name in ("typ", "token_use"):
        if name in claims and str(claims[name]).lower() not in rules.claim_types:
            message = f"The token is not {rules.name}: its claim {name} differs."
            raise TokenRefused(TokenFault.TYPE, message)
    if "events" in rules.required:
        events = claims.get("events")
        if not isinstance(events, dict) or not isinstance(events.get(_LOGOUT), dict):
            raise TokenRefused(TokenFault.TYPE, f"The token is not {rules.name}: see events.")
        if not identifiers(claims).keys() & {"sub", "sid"}:
            message = "The token has neither a usable sub nor a usable sid."
            raise TokenRefused(TokenFault.SUBJECT, message)


def _check_audience(claims: Mapping[str, Any], rules: KindRules, audience: str) -> None:
    audiences = claims.get("aud")
    audience_list = audiences if isinstance(audiences, list) else [audiences]
    if audience not in audience_list or not all(isinstance(each, str) for each in audience_list):
        raise TokenRefused(TokenFault.AUDIENCE, "The token has another audience.")
    if not rules.is_sole_audience:
        return
    authorized_party = claims.get("azp")
    if authorized_party != audience and (authorized_party is not None or len(audience_list) > 1):
        message = "The token was issued to another client; compare azp."
        raise TokenRefused(TokenFault.AUTHORIZED_PARTY, message)


def identifiers(claims: Mapping[str, Any]) -> dict[str, str]:
    """Return the warrant identifiers of a token by claim of `NAMING` (TOKEN-11).

    A claim without a valid identifier, for example a number, is treated as absent, because it could
    not be revoked.
    """
    warrant_ids = dict[str, str]()
    for claim in NAMING:
        with suppress(TokenRefused):
            warrant_ids[claim] = identify(claims, claim)
    return warrant_ids


def identify(claims: Mapping[str, Any], claim: str) -> str:
    """Return the warrant identifier of a token by a claim of `NAMING` (TOKEN-11).

    Raises `TokenRefused` if there is none.
    """
    issuer, value = claims.get("iss"), claims.get(claim)
    fault = TokenFault.SUBJECT if claim == "sub" else TokenFault.IDENTIFIER
    if not isinstance(issuer, str) or not isinstance(value, str):
        raise TokenRefused(fault, f"iss and {claim} must be text.")
    if claim == "sub" and len(value) > _SUBJECT_MAX:
        raise TokenRefused(fault, f"sub must have at most {_SUBJECT_MAX} characters.")
    issued_at = _time_of(claims, "iat")
    # Every cutoff applies to a token without iat. Fractions of a second round up.
    issued_before = 0 if issued_at is None else ceil(issued_at)
    try:
        return token_id(NAMING[claim], issuer, value, issued_before if claim == "sub" else None)
    except ValueError as error:
        raise TokenRefused(fault, f"{claim}: {error}.") from None


def _time_of(claims: Mapping[str, Any], name: str) -> float | None:
    """Return a time in seconds since the epoch, or None. Raises `TokenRefused`."""
    value: Any = claims.get(name)
    if value is None:
        return None
    # A bool is also an int.
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= MOMENT_MAX:
        raise _not_in_seconds(name)
    return float(value)


def _not_in_seconds(name: str) -> TokenRefused:
    return TokenRefused(TokenFault.TIMES, f"{name} must be in seconds since 1970.")


def _check_times(claims: Mapping[str, Any], rules: KindRules, now: float) -> None:
    times: dict[str, float] = {}
    for name in ("iat", "exp", "nbf", "auth_time"):
        value = _time_of(claims, name)
        if value is not None:
            times[name] = value
        elif name in rules.required:
            raise _not_in_seconds(name)
    expires_at = times.pop("exp", None)
    if any(each > now + LEEWAY_SECONDS for each in times.values()):
        message = "The token has a time in the future; compare the clocks."
        raise TokenRefused(TokenFault.FUTURE, message)
    if rules.age_max and times["iat"] <= now - rules.age_max:
        message = f"The token must be presented within {rules.age_max} seconds."
        raise TokenRefused(TokenFault.EXPIRED, message)
    if expires_at is None:
        return
    if expires_at <= now - rules.exp_leeway:
        raise TokenRefused(TokenFault.EXPIRED, "The token has expired.")
    if rules.lifetime_max and not 0 < expires_at - times["iat"] <= rules.lifetime_max:
        message = "The token must end within 24 hours after it was issued."
        raise TokenRefused(TokenFault.LIFETIME, message)
