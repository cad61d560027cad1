"""Tokens of identity providers: checked against the keys of their issuer, and got for a code."""

from http import HTTPStatus
from typing import Any, Final

from shared.errors import Corrupt, Unavailable
from shared.model import text
from shared.model.identities import jwts, key_sets
from shared.model.identities.claims import IdentityClaims, IssuerBinding, SignInRefused, TokenFault
from shared.model.identities.key_sets import KeySet
from shared.model.webhooks.deliveries import DeliveryOutcome
from shared.operations.identities import issuers
from shared.ports import Ports

# The errors of RFC 6749 that are about the client, and not about the code.
_OF_CLIENT: Final = frozenset({"invalid_client", "unauthorized_client"})


def checked(
    ports: Ports, binding: IssuerBinding, token: str, *, nonce: str | None = None
) -> IdentityClaims:
    """Return the claims of a JWT of the issuer for the audience.

    `nonce` is that of the sign-in if a code was redeemed. Raises `SignInRefused`, or `Unavailable`
    if the keys of the issuer cannot be known now.
    """
    found = jwts.parsed(token)
    jwts.check_signature(found, _keys(ports, binding, found.kid))
    return jwts.claimed(found, binding, ports.now(), nonce=nonce)


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
    """Return the ID token, not yet checked, for an authorization code (RFC 6749, RFC 7636).

    Raises `SignInRefused` if the provider refuses the code, `Unavailable` if it does not answer.
    """
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "code_verifier": verifier,
        "redirect_uri": redirect_uri,
    }
    if client_secret is None:
        form["client_id"] = client_id
    user = None if client_secret is None else (client_id, client_secret)
    answer = ports.outbound().ask(binding.token_endpoint, form, user=user)
    status = answer.status
    if (
        answer.outcome is not DeliveryOutcome.ANSWERED
        or status >= HTTPStatus.INTERNAL_SERVER_ERROR
        or status == HTTPStatus.TOO_MANY_REQUESTS
    ):
        raise Unavailable("The identity provider does not answer; try again later.")
    return _id_token(status, _members(answer.body))


def _keys(ports: Ports, binding: IssuerBinding, kid: str) -> KeySet:
    if binding.jwks is None:
        return issuers.keys_of(ports, binding.jwks_uri, kid)
    try:
        return key_sets.parse(binding.jwks)
    except ValueError:
        raise Corrupt from None


def _members(body: bytes) -> dict[str, Any]:
    try:
        found = text.parse(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _id_token(status: int, members: dict[str, Any]) -> str:
    token = members.get("id_token")
    if status == HTTPStatus.OK and isinstance(token, str):
        return token
    if status == HTTPStatus.UNAUTHORIZED or members.get("error") in _OF_CLIENT:
        raise SignInRefused(
            TokenFault.CLIENT, "The provider refuses the client; compare its id and secret."
        )
    if status == HTTPStatus.OK:
        raise SignInRefused(
            TokenFault.CODE, "The provider gave no ID token; the sign-in needs the scope openid."
        )
    raise SignInRefused(TokenFault.CODE, "The provider refuses the code; sign in again.")
