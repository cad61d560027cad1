"""Sign-ins: the providers of a tenant, and the exchange of codes and tokens for sessions.

A token is verified with the keys of its issuer.
"""

import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from shared import logs
from shared.authorizer.formats import jwts
from shared.authorizer.formats.jwts import ParsedToken
from shared.authorizer.formats.token_kinds import TokenFault, TokenKind, TokenRefused
from shared.errors import DataCorrupt, RateLimited, Unavailable
from shared.model import times
from shared.model.identifiers import IDENTITY_PROVIDER, is_identifier
from shared.model.identities import key_sets, people
from shared.model.identities import providers as model
from shared.model.identities.claims import (
    CodeFault,
    IdentityClaims,
    IssuerBinding,
    OAuthErrorCode,
    SignInRefused,
)
from shared.model.identities.providers import IdentityProvider, ProviderUsage
from shared.model.outbound import DeliveryOutcome
from shared.model.rate_limit import RATE_PER_SECOND, is_of_another_clock, microseconds
from shared.model.tenants import handle_address
from shared.operations.identities import issuers, provider_calls, tickets
from shared.operations.identities.admission import UnauthenticatedClient, admit
from shared.operations.identities.sessions import StartedSession
from shared.ports import Ports

_log = logging.getLogger(__name__)

CODE: Final = "authorization_code"
EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
TICKET: Final = "urn:rescind:grant-type:ticket"
ACCESS_TOKEN: Final = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 (a name)
_TOKEN_TYPES: Final = {
    "urn:ietf:params:oauth:token-type:jwt",
    "urn:ietf:params:oauth:token-type:id_token",
}
_KINDS: Final = {
    ProviderUsage.SIGN_IN: TokenKind.ID,
    ProviderUsage.WORKLOAD: TokenKind.PROGRAM,
    ProviderUsage.VERIFY_ONLY: TokenKind.ACCESS,
}
# The parameters of a code that the provider receives.
_SENT: Final = ("code", "code_verifier", "redirect_uri")
# How many codes a provider may receive in a second, or logouts it may send; twice as many at once.
_PER_SECOND: Final = 50
_COST: Final = RATE_PER_SECOND // _PER_SECOND
_HANDLE: Final = re.compile("[a-z0-9-]{1,63}")
_VERIFIER: Final = re.compile("[A-Za-z0-9._~-]{43,128}")
_LOOPBACK: Final = re.compile(r"http://(127\.0\.0\.1|\[::1\]|localhost):[0-9]{1,5}/[!-~]*")
_OPEN: Final = logs.fields(metrics={"RateLimitBypassed": 1})


def list_sign_in_providers(ports: Ports, handle: str) -> list[IdentityProvider]:
    """Return a tenant's providers of people, oldest first (IDENTITY-7).

    The result is empty for an unknown handle. Raises `Unavailable`.
    """
    item = ports.store.get(handle_address(handle)) if _HANDLE.fullmatch(handle) else None
    if item is None:
        return []
    rows = ports.store.query(model.providers(str(item["tenant_id"])))
    every = list(IdentityProvider.from_rows(rows))
    return [issuers.current(ports, each) for each in every if each.usage is ProviderUsage.SIGN_IN]


@dataclass(frozen=True, slots=True)
class SignInAttempt:
    """A session request with a valid form and token, checked without an outbound request.

    `provider` is None for a ticket. If `asks_provider` is true, `exchange_token` waits for the
    provider.
    """

    form: Mapping[str, str] = field(repr=False)
    provider: IdentityProvider | None
    asks_provider: bool

    @property
    def tenant_id(self) -> str:
        """The tenant of the provider; empty for a ticket."""
        return self.provider.tenant_id if self.provider else ""


def prepare(ports: Ports, form: Mapping[str, str]) -> SignInAttempt:
    """Check the parameters of a token or a ticket, without an outbound request (IDENTITY-7).

    A token is exchanged by RFC 8693, without the options of its section 2.1.
    Raises `SignInRefused`, `Unavailable`.
    """
    if _grant_type(form, EXCHANGE, TICKET) == TICKET:
        _require_field(form, "ticket")
        return SignInAttempt(form, None, asks_provider=False)
    provider = issuers.current(ports, _provider(ports, _require_field(form, "audience")))
    if form.get("requested_token_type", ACCESS_TOKEN) != ACCESS_TOKEN:
        _refuse(f"requested_token_type: must be {ACCESS_TOKEN} or omitted.")
    if "actor_token" in form or "actor_token_type" in form:
        _refuse("actor_token: is not supported; omit it.")
    if "resource" in form:
        message = "resource: is not supported; name the identity provider in audience."
        raise SignInRefused(OAuthErrorCode.INVALID_TARGET, message)
    if _require_field(form, "subject_token_type") not in _TOKEN_TYPES:
        _refuse("subject_token_type: must be the type of a jwt or an id_token (RFC 8693).")
    if not provider.exchanges_tokens:
        message = "audience: this identity provider does not exchange tokens; see token_exchange."
        raise SignInRefused(OAuthErrorCode.INVALID_TARGET, message)
    binding = _exchange_binding(provider)
    parsed, _ = _check_claims(ports, binding, _require_field(form, "subject_token"))
    return SignInAttempt(form, provider, asks_provider=not is_decided(ports, binding, parsed))


def prepare_code(ports: Ports, form: Mapping[str, str]) -> SignInAttempt:
    """Check the parameters of a code, without an outbound request.

    Raises the same errors as `prepare`.
    """
    _grant_type(form, CODE)
    provider = issuers.current(ports, _provider(ports, _require_field(form, "audience")))
    for name in (*_SENT, "nonce"):
        _require_field(form, name)
    if provider.client_id is None or provider.token_endpoint is None:
        message = "audience: this identity provider does not redeem codes; exchange a token."
        raise SignInRefused(OAuthErrorCode.INVALID_TARGET, message)
    if not _VERIFIER.fullmatch(form["code_verifier"]):
        _refuse("code_verifier: must be 43 to 128 characters (RFC 7636).")
    # The address names the provider, so a code is not sent to another provider (RFC 9207).
    redirect_uri = form["redirect_uri"]
    is_own = redirect_uri.endswith(f"/console/signed-in/{provider.id}")
    if not (_LOOPBACK.fullmatch(redirect_uri) if form.get("client") == "cli" else is_own):
        _refuse("redirect_uri: must be the page of this provider, or of this machine for the CLI.")
    return SignInAttempt(form, provider, asks_provider=True)


def _grant_type(form: Mapping[str, str], *supported: str) -> str:
    """Return the `grant_type`. Raises `SignInRefused` unless this path supports it."""
    grant_type = _require_field(form, "grant_type")
    if grant_type not in supported:
        message = f"grant_type: must be {' or '.join(supported)} at this path."
        raise SignInRefused(OAuthErrorCode.UNSUPPORTED, message)
    return grant_type


def exchange_token(
    ports: Ports, stranger: UnauthenticatedClient, attempt: SignInAttempt
) -> StartedSession:
    """Return a session for the code, token or ticket of an attempt (IDENTITY-7).

    Raises `SignInRefused`; `Unavailable` if the provider does not respond; `RateLimited` if it
    receives too many codes.
    """
    form, provider = attempt.form, attempt.provider
    if provider is None:
        return tickets.redeem(ports, stranger, form["ticket"])
    if form["grant_type"] != CODE:
        claims = verify_token(ports, _exchange_binding(provider), form["subject_token"])
        return admit(ports, provider, claims, stranger)
    own_client = provider.cli_client_id if form.get("client") == "cli" else None
    client_id = own_client or provider.client_id or ""
    secret, sealed = None, provider.sealed_client_secret
    if sealed is not None and not own_client:
        secret = ports.sealer.unseal(sealed, context=provider.seal_context).decode()
    take_allowance(ports, provider, "sign-ins")
    guarded = provider_calls.guard(ports, provider.tenant_id)
    token = exchange_code(guarded, provider.token_endpoint or "", form, client_id, secret)
    claims = verify_token(ports, bind(provider, client_id), token, nonce=form["nonce"])
    return admit(ports, provider, claims, stranger)


def _exchange_binding(provider: IdentityProvider) -> IssuerBinding:
    # A token that a program got for another service or another tenant has another audience.
    client_id = provider.cli_client_id or provider.client_id
    return bind(provider, client_id or provider.id)


def bind(provider: IdentityProvider, audience: str) -> IssuerBinding:
    """Return the binding for tokens of a provider with this audience."""
    return IssuerBinding(
        issuer=provider.issuer,
        audience=audience,
        jwks_uri=provider.jwks_uri or "",
        jwks=None if provider.jwks is None else json.dumps(provider.jwks),
        kind=_KINDS[provider.usage],
    )


def find_provider(ports: Ports, provider_id: str) -> IdentityProvider | None:
    """Return the provider with this identifier in any tenant, or None."""
    item = None
    if is_identifier(provider_id, kind=IDENTITY_PROVIDER):
        owner = ports.store.get(model.owner_address(provider_id))
        tenant_id = "" if owner is None else str(owner["tenant_id"])
        item = owner and ports.store.get(model.providers(tenant_id).address(provider_id))
    return IdentityProvider.from_item(item) if item else None


def _provider(ports: Ports, provider_id: str) -> IdentityProvider:
    provider = find_provider(ports, provider_id)
    if provider is None or provider.usage is ProviderUsage.VERIFY_ONLY:
        message = "audience: must be the identifier of an identity provider."
        raise SignInRefused(OAuthErrorCode.INVALID_TARGET, message)
    return provider


def take_allowance(ports: Ports, provider: IdentityProvider, purpose: str) -> None:
    """Take a request from the rate limit of a provider for a purpose.

    Raises `RateLimited` if there were too many. The request is allowed if the buckets do not
    respond, or another clock wrote this bucket (AUTH-10).
    """
    name, now = f"{provider.tenant_id}#{purpose}#{provider.id}", microseconds(ports.now())
    try:
        lease = ports.buckets.lease(name, _COST, now=now, least=_COST)
    except Unavailable:
        _log.exception("cannot read the rate limit; admitting the request without it", extra=_OPEN)
        return
    if not lease.granted and not is_of_another_clock(lease.full_at, now):
        raise RateLimited(retry_after=1)


def _require_field(form: Mapping[str, str], name: str) -> str:
    if not form.get(name):
        _refuse(f"{name}: is required.")
    return form[name]


def _refuse(message: str) -> None:
    raise SignInRefused(OAuthErrorCode.INVALID_REQUEST, message)


# The errors of RFC 6749 about the OAuth client instead of the code.
_OF_CLIENT: Final = frozenset({"invalid_client", "unauthorized_client"})


def verify_token(
    ports: Ports, binding: IssuerBinding, token: str, *, nonce: str | None = None
) -> IdentityClaims:
    """Return the claims of a JWT of the issuer for the audience.

    `nonce` is the nonce of the sign-in if a code was redeemed. Raises `SignInRefused`, or
    `Unavailable` if the keys of the issuer are unknown at present.
    """
    # Before the keys, which may have to be fetched: a wrong token must not delay other callers.
    parsed, claims = _check_claims(ports, binding, token, nonce=nonce)
    check_signature(ports, binding, parsed)
    return claims


def check_signature(ports: Ports, binding: IssuerBinding, token: ParsedToken) -> None:
    """Verify the signature with the keys of the issuer. Raises the errors of `verify_token`."""
    if binding.jwks is None:
        keys = issuers.keys_of(ports, binding.jwks_uri, token.kid)
    else:
        try:
            keys = key_sets.parse(binding.jwks)
        except ValueError:
            raise DataCorrupt from None
    try:
        jwts.check_signature(token, keys)
    except TokenRefused as refused:
        raise SignInRefused(refused.fault, str(refused)) from None


def is_decided(ports: Ports, binding: IssuerBinding, token: ParsedToken) -> bool:
    """Return whether this process can decide if the issuer has the key of a token (IDENTITY-10)."""
    return binding.jwks is not None or issuers.is_decided(ports, binding.jwks_uri, token.kid)


def _check_claims(
    ports: Ports, binding: IssuerBinding, token: str, *, nonce: str | None = None
) -> tuple[ParsedToken, IdentityClaims]:
    """Return a token and its claims, without a signature check. Raises `SignInRefused`."""
    kind, issuer, audience = binding.kind, binding.issuer, binding.audience
    now = ports.now().timestamp()
    try:
        parsed = jwts.parse(token)
        jwts.check_claims(parsed, kind, issuer=issuer, audience=audience, now=now, nonce=nonce)
    except TokenRefused as refused:
        raise SignInRefused(refused.fault, str(refused)) from None
    claims = parsed.claims
    signed_in_at, name = claims.get("auth_time"), claims.get("name")
    email = claims.get("email") if kind is TokenKind.ID else None
    if email is not None:
        try:
            email = people.email(email if isinstance(email, str) else "")
        except ValueError:
            message = "email must be one address, and not in the domain .svc."
            raise SignInRefused(TokenFault.EMAIL, message) from None
    return parsed, IdentityClaims(
        subject=claims["sub"],
        issued_at=times.from_seconds(int(claims["iat"])),
        expires_at=times.from_seconds(int(claims["exp"])),
        auth_time=None if signed_in_at is None else times.from_seconds(int(signed_in_at)),
        email=email,
        name=name if isinstance(name, str) else None,
        members=claims,
        digest=parsed.digest,
    )


def exchange_code(
    ports: Ports, endpoint: str, form: Mapping[str, str], client_id: str, client_secret: str | None
) -> str:
    """Return the unverified ID token for the code in a form (RFC 6749, RFC 7636).

    Raises `SignInRefused` if the provider refuses the code, `Unavailable` if it does not respond.
    """
    sent = {"grant_type": CODE} | {name: form[name] for name in _SENT}
    if client_secret is None:
        sent["client_id"] = client_id
    user = None if client_secret is None else (client_id, client_secret)
    answer = ports.outbound().ask(endpoint, sent, user=user)
    status = answer.status
    if (
        answer.outcome is not DeliveryOutcome.RESPONSE
        or status >= HTTPStatus.INTERNAL_SERVER_ERROR
        or status == HTTPStatus.TOO_MANY_REQUESTS
    ):
        raise Unavailable("The identity provider does not respond; try again later.")
    members = issuers.parse_object(answer.body) or {}
    token = members.get("id_token")
    if status == HTTPStatus.OK and isinstance(token, str):
        return token
    if status == HTTPStatus.UNAUTHORIZED or str(members.get("error")) in _OF_CLIENT:
        message = "The provider rejects the client; compare its id and secret."
        raise SignInRefused(CodeFault.CLIENT, message)
    if status == HTTPStatus.OK:
        message = "The provider returned no ID token; the sign-in requires the scope openid."
        raise SignInRefused(CodeFault.CODE, message)
    raise SignInRefused(CodeFault.CODE, "The provider rejects the code; sign in again.")
