"""Introspection: check whether a token of the tenant's issuers is valid (TOKEN-4)."""

from collections.abc import Mapping
from typing import Any, Final

from shared.authorizer.formats import jwts
from shared.authorizer.formats.jwk_sets import KeySet, usable_keys
from shared.authorizer.formats.jwts import ParsedToken
from shared.authorizer.formats.token_kinds import TokenKind, TokenRefused
from shared.errors import DataCorrupt
from shared.model.callers import Caller, Scope
from shared.model.identities import providers as model
from shared.model.identities.providers import IdentityProvider, ProviderUsage
from shared.operations.base.operation import operation
from shared.operations.lists.verdicts import token_verdicts
from shared.ports import Ports

# Claims in the response, if the token has them. `cnf` has the key of a bound token (RFC 9449, 6.2).
_SHOWN: Final = ("iss", "sub", "aud", "jti", "iat", "exp", "cnf")


@operation(Scope.ADMIN, Scope.AUTHORIZER)
def introspect(ports: Ports, caller: Caller, *, token: str) -> dict[str, object] | None:
    """Return the claims of a valid token, or None for any other.

    Raises `DataCorrupt`, `Unavailable`: a fault is never reported as a valid token.
    """
    try:
        found = jwts.parse(token)
        warrant_ids = found.warrant_ids
    except TokenRefused:
        return None
    issuers, verdicts = ports.gather(
        lambda: _issuers(ports, caller.tenant_id),
        lambda: token_verdicts(ports, caller.tenant_id, warrant_ids),
    )
    is_good = any(_is_of(ports, each, found) for each in issuers)
    is_revoked = any(each.revoked for each in verdicts.values())
    if is_revoked or not is_good:
        return None
    return _describe(found.claims)


def _describe(claims: Mapping[str, Any]) -> dict[str, object]:
    """Return claims in the types of RFC 7662, 2.2: whole seconds, and `scope` as text."""
    shown = {name: claims[name] for name in _SHOWN if name in claims}
    shown |= {name: int(shown[name]) for name in ("iat", "exp") if name in shown}
    scope = claims.get("scope", claims.get("scp"))
    if isinstance(scope, list) and all(isinstance(each, str) for each in scope):
        scope = " ".join(scope)
    return shown | ({"scope": scope} if isinstance(scope, str) else {})


def _issuers(ports: Ports, tenant_id: str) -> list[IdentityProvider]:
    found = IdentityProvider.from_rows(ports.store.query(model.providers(tenant_id)))
    return [each for each in found if each.usage is ProviderUsage.VERIFY_ONLY]


def _is_of(ports: Ports, issuer: IdentityProvider, token: ParsedToken) -> bool:
    """Return whether an issuer signed a token for its audience, and it has not expired."""
    try:
        jwts.check_claims(
            token,
            TokenKind.ACCESS,
            issuer=issuer.issuer,
            audience=issuer.client_id or "",
            now=ports.now().timestamp(),
        )
        jwts.check_signature(token, _keys(issuer))
    except TokenRefused:
        return False
    return True


def _keys(issuer: IdentityProvider) -> KeySet:
    try:
        return usable_keys(issuer.jwks)
    except ValueError:
        raise DataCorrupt from None
