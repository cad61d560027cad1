"""Back-channel logout: a provider ends sessions and revokes its issuer's tokens (TOKEN-12).

It follows OpenID Connect Back-Channel Logout 1.0. The caller needs no credential, because the
provider signs the logout token.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from shared.authorizer.formats import jwts
from shared.authorizer.formats.jwts import ParsedToken
from shared.authorizer.formats.token_kinds import TokenFault, TokenKind, TokenRefused
from shared.errors import NotFound, RateLimited
from shared.model import times
from shared.model.callers import Caller
from shared.model.identities import people, sessions
from shared.model.identities.claims import IssuerBinding, OAuthErrorCode, SignInRefused
from shared.model.identities.providers import TOKEN_SECONDS, IdentityProvider, ProviderUsage
from shared.model.identities.sessions import SessionRecord
from shared.model.items import Item
from shared.operations.base import tenants
from shared.operations.changes import revocation_changes, revocations
from shared.operations.identities import issuers, sign_in
from shared.operations.identities import people as people_operations
from shared.operations.identities import sessions as session_operations
from shared.operations.identities.admission import UnauthenticatedClient
from shared.ports import Ports
from shared.ports.store import Expect, Put

# A logout token is at most five minutes old, and may be a minute ahead.
_REPEATABLE: Final = timedelta(minutes=10)
# An unknown key is looked up again after this time.
_KEYS_SECONDS: Final = 60


@dataclass(frozen=True, slots=True)
class LogoutAttempt:
    """A logout token that passed all checks except the signature, without a request.

    If `asks_provider` is true, `end` waits for the keys of the provider.
    """

    provider: IdentityProvider
    binding: IssuerBinding
    token: ParsedToken
    asks_provider: bool

    @property
    def tenant_id(self) -> str:
        """The tenant of the provider."""
        return self.provider.tenant_id


def prepare(ports: Ports, provider_id: str, form: Mapping[str, str]) -> LogoutAttempt:
    """Check a logout token without a request. Raises `SignInRefused`, `Unavailable`."""
    stored = sign_in.find_provider(ports, provider_id)
    if stored is None or stored.usage is not ProviderUsage.SIGN_IN:
        message = "The URL must name an identity provider for people."
        raise SignInRefused(OAuthErrorCode.INVALID_TARGET, message)
    if not form.get("logout_token"):
        raise SignInRefused(OAuthErrorCode.INVALID_REQUEST, "logout_token: is required.")
    provider, now = issuers.current(ports, stored), ports.now().timestamp()
    try:
        token = jwts.parse(form["logout_token"])
        # Each OAuth client has separate sessions at the provider.
        aud, cli = token.claims.get("aud"), provider.cli_client_id
        is_of_cli = cli is not None and (aud == cli or (isinstance(aud, list) and cli in aud))
        binding = sign_in.bind(provider, (cli if is_of_cli else provider.client_id) or "")
        kind, issuer = TokenKind.LOGOUT, provider.issuer
        jwts.check_claims(token, kind, issuer=issuer, audience=binding.audience, now=now)
    except TokenRefused as refused:
        raise SignInRefused(refused.fault, str(refused)) from None
    return LogoutAttempt(provider, binding, token, not sign_in.is_decided(ports, binding, token))


def end(ports: Ports, stranger: UnauthenticatedClient, attempt: LogoutAttempt) -> None:
    """Revoke the session or the subject of a logout token, and end its sessions in the service.

    A token counts once. The next call with the same token completes an interrupted one. Raises
    `SignInRefused`, `RateLimited` and `Unavailable`. `RateLimited` is raised if the provider sends
    too many tokens, or if the issuer may have added the key after its keys were read.
    """
    provider, claims = attempt.provider, attempt.token.claims
    try:
        sign_in.check_signature(ports, attempt.binding, attempt.token)
    except SignInRefused as refused:
        read_at = issuers.fetched_at(ports, attempt.binding.jwks_uri)
        is_unknown = refused.reason is TokenFault.UNKNOWN_KEY
        if not is_unknown or read_at is None or read_at.timestamp() >= claims["iat"]:
            raise
        raise RateLimited(retry_after=_KEYS_SECONDS) from None
    note_at = sessions.used_token_address(attempt.token.digest)
    if ports.store.get(note_at) is not None:
        return
    sign_in.take_allowance(ports, provider, "logouts")
    handle = tenants.settings(ports, provider.tenant_id).handle
    inside = Caller.inside(provider.tenant_id, name=provider.id, handle=handle)
    caller = replace(
        inside,
        source_ip=stranger.source_ip,
        request_id=stranger.request_id,
        name=provider.name,
    )
    names, issued_at = jwts.identifiers(claims), times.from_seconds(int(claims["iat"]))
    claim = "sid" if "sid" in names else "sub"
    lasts = revocation_changes.longest_lifetime(ports, provider.tenant_id, provider.issuer)
    revocations.create(
        ports,
        caller,
        warrant_id=names[claim],
        reason=f"Logout at {provider.name}",
        issuer=provider.issuer,
        token_value=claims[claim],
        # Users could otherwise fill the SRL. A repeated call results in the same expiry.
        warrant_expires_at=issued_at + max(timedelta(seconds=lasts or TOKEN_SECONDS), _REPEATABLE),
    )
    _end_sessions(ports, caller, attempt, names)
    # Written last, so that a repeated call completes an interrupted one.
    expires = int((issued_at + _REPEATABLE).timestamp())
    note: Item = {"tenant_id": provider.tenant_id, "expires": expires}
    ports.store.write(Put(note_at, note, Expect.ANYTHING))


def _end_sessions(
    ports: Ports, caller: Caller, attempt: LogoutAttempt, names: Mapping[str, str]
) -> None:
    """End the sessions of a logout token. `names` are its identifiers by claim.

    A session with an unknown `sid` ends with any session of the person.
    """
    provider, tenant_id, warrant_id = attempt.provider, caller.tenant_id, names.get("sid")
    person = None
    if "sub" in names:
        subject = attempt.token.claims["sub"]
        person = ports.store.get(people.subject_address(tenant_id, provider.id, subject))
    if warrant_id is None:
        if person is not None:
            people_operations.sign_out(ports, caller, person_id=str(person["id"]))
        return
    # The provider may use several subjects for one person within one of its sessions.
    owners = [sessions.sign_in_name(provider.id, warrant_id)]
    owners += [str(person["id"])] if person else []
    for owner in owners:
        rows = ports.store.query(sessions.sessions_of(tenant_id, owner))
        for each in SessionRecord.from_rows(rows):
            if each.provider_session in (None, warrant_id):
                with suppress(NotFound):
                    session_operations.delete(ports, caller, session_id=each.id)
