"""Complete decision about a request with a JWT: its issuer signed it, and it is not revoked.

Requires `joserfc`, which `pip install rescind-authorizer[jwt]` installs.
"""

import ssl
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from .client import AuthorizerClient
from .formats import jwts
from .formats.token_kinds import TokenFault, TokenKind, TokenRefused
from .issuer_keys import FetchedKeys, StaticKeys
from .status import Verdict

_REASONS: Final = {
    TokenFault.ISSUER: "issuer",
    TokenFault.MALFORMED: "malformed",
    TokenFault.EXPIRED: "expired",
} | dict.fromkeys(
    (
        TokenFault.TOO_LARGE,
        TokenFault.NESTED,
        TokenFault.CRITICAL,
        TokenFault.ALGORITHM,
        TokenFault.UNKNOWN_KEY,
        TokenFault.KEY,
        TokenFault.SIGNATURE,
    ),
    "signature",
)


@dataclass(frozen=True, slots=True)
class TrustedIssuer:
    """An issuer of access tokens for an audience.

    Its keys are the JSON Web Key Set `jwks`, or are fetched from `jwks_uri`. Each key needs a
    `kid`.
    """

    issuer: str
    audience: str
    jwks: Mapping[str, Any] | None = None
    jwks_uri: str | None = None


@dataclass(frozen=True, slots=True)
class JwtDecision:
    """Decision about a request. `reason` is `clear`, or the reason of a refusal.

    Reasons are the values of `Verdict`; `missing` without a token; `malformed`; `issuer` for an
    unknown issuer; `expired`; `signature` for a wrong key, algorithm or signature; and `claims` for
    all other checks. `claims` are empty unless the request is allowed.
    """

    is_allowed: bool
    reason: str
    claims: Mapping[str, Any] = field(default_factory=dict)


class JwtGuard:
    """Decides about JWTs of configured issuers. Threads may share it.

    `context` verifies the certificates of issuers at `jwks_uri`. Raises `ValueError` unless each
    issuer has either usable keys or the address of its keys.
    """

    def __init__(
        self,
        client: AuthorizerClient,
        issuers: Iterable[TrustedIssuer],
        *,
        context: ssl.SSLContext | None = None,
    ) -> None:
        self._client, self._context = client, context
        self._issuers: Mapping[str, list[tuple[TrustedIssuer, StaticKeys | FetchedKeys]]] = {}
        self.replace_issuers(issuers)

    def replace_issuers(self, issuers: Iterable[TrustedIssuer]) -> None:
        """Replace the issuers. An issuer may have several audiences. Raises `ValueError`."""
        issuers_by_name: dict[str, list[tuple[TrustedIssuer, StaticKeys | FetchedKeys]]] = {}
        for each in issuers:
            if each.jwks is not None and each.jwks_uri is None:
                keys: StaticKeys | FetchedKeys = StaticKeys(each.jwks)
            elif each.jwks_uri is not None and each.jwks is None:
                keys = FetchedKeys(each.jwks_uri, self._context)
            else:
                raise ValueError(f"the issuer {each.issuer} needs either jwks or jwks_uri")
            issuers_by_name.setdefault(each.issuer, []).append((each, keys))
        self._issuers = issuers_by_name

    def decide(self, token: str) -> JwtDecision:
        """Return the decision about a token in compact form."""
        if not token:
            return JwtDecision(False, "missing")
        try:
            parsed = jwts.parse(token)
        except TokenRefused as refused:
            return JwtDecision(False, _REASONS.get(refused.fault, "claims"))
        name, reason = parsed.claims.get("iss"), "issuer"
        for issuer, keys in self._issuers.get(name, ()) if isinstance(name, str) else ():
            try:
                jwts.check_claims(
                    parsed,
                    TokenKind.ACCESS,
                    issuer=issuer.issuer,
                    audience=issuer.audience,
                    now=time.time(),
                )
                jwts.check_signature(parsed, keys.find(parsed.kid))
            except TokenRefused as refused:
                # Another audience of the issuer may give a more specific reason.
                if refused.fault is not TokenFault.AUDIENCE or reason == "issuer":
                    reason = _REASONS.get(refused.fault, "claims")
                continue
            verdict = self._client.check(parsed.warrant_ids)
            is_clear = verdict is Verdict.CLEAR
            return JwtDecision(is_clear, verdict.value, parsed.claims if is_clear else {})
        return JwtDecision(False, reason)

    def decide_header(self, value: str) -> JwtDecision:
        """Return the decision about the header `Authorization: Bearer …`."""
        scheme, _, token = value.partition(" ")
        return self.decide(token.strip() if scheme.lower() == "bearer" else "")
