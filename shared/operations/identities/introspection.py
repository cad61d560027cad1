"""Introspection: check whether a token of the tenant's issuers is valid (TOKEN-4)."""

from typing import Final

from shared.authorizer.formats import jwts
from shared.authorizer.formats.jwk_sets import usable_keys
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

    Claims have the types of RFC 7662, 2.2: whole seconds, and `scope` as text. Raises
    `DataCorrupt`, `Unavailable`: a fault is never reported as a valid token.
    """
    try:
        parsed = jwts.parse(token)
        warrant_ids = parsed.warrant_ids
    except TokenRefused:
        return None
    providers, verdicts = ports.gather(
        lambda: [*IdentityProvider.from_rows(ports.store.query(model.providers(caller.tenant_id)))],
        lambda: token_verdicts(ports, caller.tenant_id, warrant_ids),
    )
    issuers = [each for each in providers if each.usage is ProviderUsage.VERIFY_ONLY]
    is_good = any(_is_valid(ports, each, parsed) for each in issuers)
    is_revoked = any(each.revoked for each in verdicts.values())
    if is_revoked or not is_good:
        return None
    claims = parsed.claims
    response = {name: claims[name] for name in _SHOWN if name in claims}
    response |= {name: int(response[name]) for name in ("iat", "exp") if name in response}
    scope = claims.get("scope", claims.get("scp"))
    if isinstance(scope, list) and all(isinstance(each, str) for each in scope):
        scope = " ".join(scope)
    return response | ({"scope": scope} if isinstance(scope, str) else {})


def _is_valid(ports: Ports, issuer: IdentityProvider, token: ParsedToken) -> bool:
    """Return whether an issuer signed a token for its audience, and it has not expired."""
    audience, now = issuer.client_id or "", ports.now().timestamp()
    try:
        jwts.check_claims(token, TokenKind.ACCESS, issuer=issuer.issuer, audience=audience, now=now)
        jwts.check_signature(token, usable_keys(issuer.jwks))
    except TokenRefused:
        return False
    except ValueError:
        raise DataCorrupt from None
    return True
