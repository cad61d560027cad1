"""Kinds of JSON Web Tokens of other issuers, and the rules of each kind (TOKEN-9)."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

LEEWAY_SECONDS: Final = 60
_DAY: Final = 86_400


class TokenKind(StrEnum):
    """The purpose of a presented token."""

    ID = "id"
    PROGRAM = "program"
    ACCESS = "access"
    LOGOUT = "logout"


class TokenFault(StrEnum):
    """The first check that a token fails."""

    TOO_LARGE = "too_large"
    MALFORMED = "malformed"
    NESTED = "nested"
    TYPE = "type"
    CRITICAL = "critical"
    ALGORITHM = "algorithm"
    UNKNOWN_KEY = "unknown_key"
    KEY = "key"
    SIGNATURE = "signature"
    ISSUER = "issuer"
    AUDIENCE = "audience"
    AUTHORIZED_PARTY = "authorized_party"
    SUBJECT = "subject"
    IDENTIFIER = "identifier"
    TIMES = "times"
    EXPIRED = "expired"
    FUTURE = "future"
    LIFETIME = "lifetime"
    NONCE = "nonce"
    EMAIL = "email"


class TokenRefused(ValueError):
    """A check of a token failed. The message may be shown to the caller."""

    def __init__(self, fault: TokenFault, message: str) -> None:
        self.fault = fault
        super().__init__(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class KindRules:
    """Rules of a kind of token.

    `header_types` are the accepted values of `typ` in the header, "" if it is absent. `claim_types`
    are the accepted values of the claims `typ` (Keycloak) and `token_use` (Cognito), if present. A
    token that `is_revocable` needs `jti`, `sid`, or `sub` and `iat` (TOKEN-11). `lifetime_max`
    limits `exp` minus `iat`, `age_max` the time since `iat`, both in seconds.
    """

    name: str
    header_types: frozenset[str]
    claim_types: frozenset[str]
    required: tuple[str, ...] = ("iss", "aud", "exp")
    forbidden: tuple[str, ...] = ("events",)
    is_sole_audience: bool = False
    has_person: bool = False
    is_revocable: bool = False
    lifetime_max: int | None = None
    age_max: int | None = None
    exp_leeway: int = LEEWAY_SECONDS


_PLAIN: Final = frozenset({"", "jwt"})
RULES: Final[Mapping[TokenKind, KindRules]] = {
    TokenKind.ID: KindRules(
        name="an ID token",
        header_types=_PLAIN,
        claim_types=frozenset({"id"}),
        required=("iss", "aud", "exp", "iat", "sub"),
        forbidden=("events", "scope", "scp"),
        is_sole_audience=True,
        has_person=True,
        lifetime_max=_DAY,
    ),
    TokenKind.PROGRAM: KindRules(
        name="a program's token",
        header_types=_PLAIN | {"at+jwt"},
        claim_types=frozenset({"bearer", "access", "id"}),
        required=("iss", "aud", "exp", "iat", "sub"),
        lifetime_max=_DAY,
    ),
    TokenKind.ACCESS: KindRules(
        name="an access token",
        header_types=_PLAIN | {"at+jwt"},
        claim_types=frozenset({"bearer", "access"}),
        required=("iss", "aud", "exp"),
        forbidden=("events", "at_hash", "c_hash"),
        is_revocable=True,
        # Introspection shows `exp`, and must not report an expired token as active (RFC 7662, 2.2).
        exp_leeway=0,
    ),
    TokenKind.LOGOUT: KindRules(
        name="a logout token",
        header_types=_PLAIN | {"logout+jwt"},
        claim_types=frozenset({"logout"}),
        required=("iss", "aud", "iat", "jti", "events"),
        forbidden=("nonce",),
        age_max=300,
    ),
}
