"""Tokens of identity providers: checked against the keys of their issuer, and got for a code."""

from shared.model.identities.claims import Claims, IssuerBinding
from shared.ports import Ports


def checked(
    ports: Ports, binding: IssuerBinding, token: str, *, nonce: str | None = None
) -> Claims:
    """Return the claims of a JWT. Raises `TokenRefused`, `Unavailable`."""
    raise NotImplementedError


def redeemed(  # noqa: PLR0913 (those of the request)
    ports: Ports,
    binding: IssuerBinding,
    *,
    code: str,
    verifier: str,
    redirect_uri: str,
    client_id: str,
    client_secret: str | None,
) -> str:
    """Return the ID token for an authorization code. Raises `TokenRefused`, `Unavailable`."""
    raise NotImplementedError
