"""The whole decision about a request with a JWT: its issuer signed it, and it is not revoked.

It needs `joserfc`, which `pip install rescind-authorizer[jwt]` brings.
"""

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from joserfc import jwt
from joserfc.errors import ExpiredTokenError, JoseError
from joserfc.jwk import KeySet, KeySetSerialization
from joserfc.jws import JWSRegistry

from .client import AuthorizerClient
from .formats.tokens import jwt_claims, token_id
from .status import Verdict

_ALGORITHMS: Final = ("RS256", "PS256", "ES256", "ES384", "EdDSA", "Ed25519")
_TOKEN_MAX: Final = 16 * 1024
_LEEWAY_SECONDS: Final = 60
_TYPES: Final = frozenset({"jwt", "at+jwt"})


def _registry() -> JWSRegistry:
    # Members that a header has beside those of the standards say nothing here.
    registry = JWSRegistry(algorithms=_ALGORITHMS, strict_check_header=False)
    # The library warns of EdDSA, because its name does not say the curve. The key says it.
    eddsa = copy.copy(registry.algorithms["EdDSA"])
    eddsa.security_warning = None
    registry.algorithms = {**registry.algorithms, "EdDSA": eddsa}
    return registry


_REGISTRY: Final = _registry()


@dataclass(frozen=True, slots=True)
class TrustedIssuer:
    """An issuer of JWTs for an audience, with its JSON Web Key Set. Each key needs a `kid`."""

    issuer: str
    audience: str
    jwks: KeySetSerialization


@dataclass(frozen=True, slots=True)
class JwtDecision:
    """Whether a request is allowed. `reason` is `clear`, or why not.

    Reasons are those of `Verdict`; `missing` without a token; `issuer` for one of somebody else;
    `expired`; `claims` without the audience, `exp` or `jti`; otherwise `signature`. `claims` are
    those of an allowed request.
    """

    is_allowed: bool
    reason: str
    claims: Mapping[str, Any] = field(default_factory=dict)


class JwtGuard:
    """Decides about JWTs of some issuers. Threads may share it."""

    def __init__(self, client: AuthorizerClient, issuers: Iterable[TrustedIssuer]) -> None:
        self._client = client
        self._issuers: Mapping[str, tuple[TrustedIssuer, KeySet]] = {}
        self.trust(issuers)

    def trust(self, issuers: Iterable[TrustedIssuer]) -> None:
        """Decide by these issuers from now on, as after a rotation of their keys."""
        self._issuers = {each.issuer: (each, KeySet.import_key_set(each.jwks)) for each in issuers}

    def decide(self, token: str) -> JwtDecision:
        """Return the decision about a token in compact form."""
        if not token:
            return JwtDecision(False, "missing")
        reason, claims = self._verified(token)
        if reason is not None:
            return JwtDecision(False, reason)
        try:
            revocable = token_id("jwt", claims["iss"], claims["jti"])
        except (TypeError, ValueError):
            return JwtDecision(False, "claims")
        verdict = self._client.check([revocable])
        is_clear = verdict is Verdict.CLEAR
        return JwtDecision(is_clear, verdict.value, claims if is_clear else {})

    def decide_header(self, value: str) -> JwtDecision:
        """Return the decision about the header `Authorization: Bearer …`."""
        scheme, _, token = value.partition(" ")
        return self.decide(token.strip() if scheme.lower() == "bearer" else "")

    def _verified(self, token: str) -> tuple[str | None, Mapping[str, Any]]:
        """Return why a token is refused, or None and its claims."""
        try:
            issuer, keys = self._issuers[jwt_claims(token)["iss"]]
        except (KeyError, TypeError, ValueError):
            return "issuer", {}
        if len(token) > _TOKEN_MAX:
            return "signature", {}
        try:
            found = jwt.decode(token, keys, registry=_REGISTRY)
        except (JoseError, ValueError, TypeError, RecursionError):
            return "signature", {}
        return _refusal(issuer, found), found.claims


def _refusal(issuer: TrustedIssuer, token: jwt.Token) -> str | None:
    """Return why the claims of a token whose signature is right are refused, None if not."""
    if str(token.header.get("typ", "JWT")).lower() not in _TYPES:
        return "claims"
    expected = jwt.JWTClaimsRegistry(
        leeway=_LEEWAY_SECONDS,
        iss={"essential": True, "value": issuer.issuer},
        aud={"essential": True, "value": issuer.audience},
        exp={"essential": True},
        jti={"essential": True},
    )
    try:
        expected.validate(token.claims)
    except ExpiredTokenError:
        return "expired"
    except JoseError:
        return "claims"
    return None
