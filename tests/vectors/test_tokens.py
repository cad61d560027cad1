"""One file of tokens for each consumer: people, programs, introspection, logout, the guard."""

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest
from joserfc.jws import JWSRegistry

from shared.authorizer import JwtGuard, TrustedIssuer, Verdict
from shared.authorizer.formats import jwts
from shared.authorizer.formats.jwk_sets import usable_keys
from shared.authorizer.formats.token_kinds import TokenKind, TokenRefused
from shared.model.identities.claims import IssuerBinding, SignInRefused
from shared.model.identities.providers import ProviderUsage, public_keys
from shared.operations.identities import identity_providers, introspection, sign_in
from shared.operations.identities.identity_providers import ProviderChange
from shared.ports import Ports
from tests.kit.issuers import encoded, key, public
from tests.kit.tenants import Tenant

_ISSUER, _AUDIENCE = "https://sso.example.com", "console-client"
_VECTORS: Final = json.loads((Path(__file__).parent / "tokens.json").read_text(encoding="utf-8"))
_ES, _ED = key("ES256"), key("EdDSA")
_KEYS: Final[dict[str, dict[str, Any]]] = {
    "es": public(_ES, kid="es", alg="ES256", use="sig"),
    "ed": public(_ED, kid="ed"),
    "ed-named": public(_ED, kid="ed-named", alg="Ed25519"),
    "enc": public(_ES, kid="enc", use="enc"),
    "null-alg": public(_ES, kid="null-alg", alg=None, use=None),
}
_each_vector = pytest.mark.parametrize("vector", _VECTORS, ids=lambda each: each["name"])


def _encode_value(value: Any, now: int) -> str:
    """Return a claim as JSON: "+300" and "-30" are seconds from now, `$raw` is JSON itself."""
    if isinstance(value, dict) and "$raw" in value:
        return str(value["$raw"])
    if isinstance(value, str) and value[:1] in "+-" and value[1:].replace(".", "").isdigit():
        moved = now + float(value)
        return json.dumps(int(moved) if moved.is_integer() else moved)
    return json.dumps(value).replace('"AUD"', f'"{_AUDIENCE}"')


def _encode_token(vector: Any, now: int) -> str:
    """Return the token of a vector: the usual members, and the ones of the vector."""
    usual = {"iss": _ISSUER, "aud": _AUDIENCE, "sub": "ann", "iat": "+0", "exp": "+300"}
    usual |= {"jti": "good-1", "email": "ann@acme.example"}
    claims = {k: v for k, v in (usual | vector["claims"]).items() if v is not None}
    header = {"alg": "ES256", "kid": "es", "typ": "JWT"} | vector["header"]
    header = {k: v for k, v in header.items() if v is not None}
    body = ",".join(f"{json.dumps(k)}:{_encode_value(v, now)}" for k, v in claims.items())
    text = f"{encoded(header)}.{encoded('{' + body + '}')}"
    is_ed = str(header.get("alg")) in ("EdDSA", "Ed25519")
    model: Any = JWSRegistry.algorithms["EdDSA" if is_ed else "ES256"]
    return f"{text}.{encoded(model.sign(text.encode(), _ED if is_ed else _ES))}"


def _key_set(vector: Any) -> dict[str, Any]:
    """Return the key set of the issuer: the usual key, the named key, the ones of the vector."""
    more = [_KEYS["es"] if each == "$again" else each for each in vector.get("keys", [])]
    kid = vector["header"].get("kid")
    return {"keys": [_KEYS["es"], *([_KEYS[kid]] if kid in _KEYS else []), *more]}


def _verify_at_sign_in(ports: Ports, vector: Any, kind: TokenKind) -> str:
    """Return "ok", or the fault for which sign-in refuses the token."""
    binding = IssuerBinding(_ISSUER, _AUDIENCE, jwks=json.dumps(_key_set(vector)), kind=kind)
    try:
        sign_in.verify_token(ports, binding, _encode_token(vector, int(ports.now().timestamp())))
    except SignInRefused as refused:
        return str(refused.reason.value)
    return "ok"


@_each_vector
def test_people(ports: Ports, vector: Any) -> None:
    """F2000a, TOKEN-9: A person signs in by an ID token, and by no other kind."""
    assert _verify_at_sign_in(ports, vector, TokenKind.ID) == vector["person"]


@_each_vector
def test_programs(ports: Ports, vector: Any) -> None:
    """F2000b, TOKEN-9: A program signs in by the tokens of each family of programs."""
    assert _verify_at_sign_in(ports, vector, TokenKind.PROGRAM) == vector["program"]


@_each_vector
def test_introspection(ports: Ports, tenant: Tenant, vector: Any) -> None:
    """F2000c, TOKEN-4: Introspection calls an access token active, and no other kind."""
    keys = public_keys(_key_set(vector))
    change = ProviderChange(name="T", issuer=_ISSUER, client_id=_AUDIENCE, jwks=keys)
    identity_providers.create(
        ports, tenant.operator, usage=ProviderUsage.VERIFY_ONLY, change=change
    )
    token = _encode_token(vector, int(ports.now().timestamp()))
    found = introspection.introspect(ports, tenant.operator, token=token)
    assert (found is not None) == (vector["access"] == "ok")


class _Clear:
    def check(self, _ids: Any) -> Verdict:
        return Verdict.CLEAR


@_each_vector
def test_the_guard(vector: Any) -> None:
    """F2000d, TOKEN-9: `JwtGuard` allows the tokens that introspection calls active."""
    client: Any = _Clear()
    guard = JwtGuard(client, [TrustedIssuer(_ISSUER, _AUDIENCE, _key_set(vector))])
    decision = guard.decide(_encode_token(vector, int(time.time())))
    assert decision.is_allowed == (vector["access"] == "ok"), decision.reason


@_each_vector
def test_logout(vector: Any) -> None:
    """F2000e, TOKEN-9: A logout token is accepted as such, and no other kind."""
    now, found = 1_800_000_000, "ok"
    try:
        token = jwts.parse(_encode_token(vector, now))
        kind = TokenKind.LOGOUT
        jwts.check_claims(token, kind, issuer=_ISSUER, audience=_AUDIENCE, now=now)
        jwts.check_signature(token, usable_keys(_key_set(vector)))
    except TokenRefused as refused:
        found = refused.fault.value
    assert found == vector["logout"]


def test_each_kind_and_family_has_two_vectors() -> None:
    """F2000f: Each consumer accepts two tokens or more, and each family has two."""
    for consumer in ("person", "program", "access", "logout"):
        assert sum(each[consumer] == "ok" for each in _VECTORS) >= 2
    families = Counter(each["family"] for each in _VECTORS if "family" in each)
    assert set(families) == {
        "GitHub Actions",
        "GitLab",
        "Terraform Cloud",
        "Buildkite",
        "Google",
        "Kubernetes",
        "Keycloak",
        "Entra",
    }
    assert min(families.values()) >= 2
