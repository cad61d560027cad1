"""The verified claims of a JWT of an identity provider."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from shared.authorizer.formats.token_kinds import TokenFault, TokenKind
from shared.errors import RescindError


class CodeFault(StrEnum):
    """Why a code, or a response of a provider, was rejected."""

    CODE = "code"
    CLIENT = "client"


class OAuthErrorCode(StrEnum):
    """Why a sign-in was rejected, in the words of RFC 6749 and RFC 8693."""

    INVALID_REQUEST = "invalid_request"
    INVALID_TARGET = "invalid_target"
    INVALID_GRANT = "invalid_grant"
    UNSUPPORTED = "unsupported_grant_type"
    DENIED = "access_denied"


class SignInRefused(RescindError):
    """The sign-in, or its token or code, was rejected. `reason` is the first failed check.

    The message may be shown to the unauthenticated client.
    """

    def __init__(self, reason: OAuthErrorCode | TokenFault | CodeFault, message: str) -> None:
        self.reason = reason
        super().__init__(message)

    @property
    def fault(self) -> OAuthErrorCode:
        """The error code for an OAuth client."""
        is_of_token = isinstance(self.reason, TokenFault | CodeFault)
        return OAuthErrorCode.INVALID_GRANT if is_of_token else OAuthErrorCode(self.reason)


@dataclass(frozen=True, slots=True)
class IssuerBinding:
    """The issuer and the audience of a tenant's provider.

    `audience` is the identifier of the client or the provider. `jwks` is the JSON Web Key Set as
    text, for an issuer with a fixed key set. `jwks_uri` is then unused.
    """

    issuer: str
    audience: str
    jwks_uri: str = ""
    jwks: str | None = None
    kind: TokenKind = TokenKind.ID


@dataclass(frozen=True, slots=True)
class ProviderMetadata:
    """The endpoints in an issuer's metadata, or None for missing endpoints."""

    authorization_endpoint: str | None
    device_authorization_endpoint: str | None
    token_endpoint: str | None
    jwks_uri: str


@dataclass(frozen=True, slots=True)
class IdentityClaims:
    """The claims of a token that passed all checks. `members` contains all parsed claims.

    `digest`, in hex, is equal for tokens with the same header and claims, regardless of the
    signature. Used tokens must be recorded by this digest, because a signature can have several
    encodings.
    """

    subject: str
    issued_at: datetime
    expires_at: datetime
    auth_time: datetime | None
    email: str | None
    name: str | None
    members: Mapping[str, Any]
    digest: str
