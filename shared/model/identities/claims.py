"""The claims of a JWT of an identity provider, after all checks."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from shared.authorizer.formats.token_kinds import TokenFault, TokenKind
from shared.errors import RescindError


class CodeFault(StrEnum):
    """Why a code, or an answer of a provider, is refused."""

    CODE = "code"
    CLIENT = "client"


class OAuthErrorCode(StrEnum):
    """Why a sign-in is refused, in the words of RFC 6749 and RFC 8693."""

    INVALID_REQUEST = "invalid_request"
    INVALID_TARGET = "invalid_target"
    INVALID_GRANT = "invalid_grant"
    UNSUPPORTED = "unsupported_grant_type"
    DENIED = "access_denied"


class SignInRefused(RescindError):
    """The sign-in, or its token or code, is refused; `reason` is the first check that failed.

    The message may be shown to whoever tried.
    """

    def __init__(self, reason: OAuthErrorCode | TokenFault | CodeFault, message: str) -> None:
        self.reason = reason
        super().__init__(message)

    @property
    def fault(self) -> OAuthErrorCode:
        """The reason for a client of OAuth."""
        is_of_token = isinstance(self.reason, TokenFault | CodeFault)
        return OAuthErrorCode.INVALID_GRANT if is_of_token else OAuthErrorCode(self.reason)


@dataclass(frozen=True, slots=True)
class IssuerBinding:
    """The issuer and the audience of a tenant's provider.

    `audience` is the client's identifier or that of the provider. `jwks` is the JSON Web Key Set
    itself, as text, for an issuer whose keys are not fetched; then `jwks_uri` is not used.
    """

    issuer: str
    audience: str
    jwks_uri: str = ""
    jwks: str | None = None
    kind: TokenKind = TokenKind.ID


@dataclass(frozen=True, slots=True)
class ProviderMetadata:
    """The endpoints that an issuer publishes about itself; None if it has none of this kind."""

    authorization_endpoint: str | None
    device_authorization_endpoint: str | None
    token_endpoint: str | None
    jwks_uri: str


@dataclass(frozen=True, slots=True)
class IdentityClaims:
    """The claims of a token that passed all checks. `members` has all of them, as parsed.

    `digest` is the same for each token with these claims and this header, in hex: a token whose
    signature was written in another way is the same one. Note this as used, not the token's text.
    """

    subject: str
    issued_at: datetime
    expires_at: datetime
    auth_time: datetime | None
    email: str | None
    name: str | None
    members: Mapping[str, Any]
    digest: str
