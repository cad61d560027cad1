"""The decision about JWTs of other issuers: real tokens, and a feed on loopback."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from shared.authorizer import AuthorizerClient, JwtGuard, TrustedIssuer, token_id
from tests.authorizer.clients import arguments
from tests.authorizer.service import Service
from tests.kit.issuers import encoded, key, public, signed
from tests.kit.waiting import soon

_ISSUER, _AUDIENCE = "https://as.example", "accounts"
_HEADER = {"alg": "ES256", "kid": "a", "typ": "at+jwt"}


def _issuer(*algorithms: str, name: str = _ISSUER) -> TrustedIssuer:
    keys: Any = [public(key(each), kid="a", alg=each) for each in algorithms]
    return TrustedIssuer(name, _AUDIENCE, {"keys": keys})


def _claims(**changes: Any) -> dict[str, Any]:
    now = int(time.time())
    usual = {"iss": _ISSUER, "aud": _AUDIENCE, "sub": "ann", "iat": now, "exp": now + 300}
    return {k: v for k, v in {**usual, "jti": "bad-1", **changes}.items() if v is not None}


def _token(header: dict[str, Any] | None = None, **changes: Any) -> str:
    return signed({**_HEADER, **(header or {})}, _claims(**changes), key("ES256"))


@pytest.fixture
def guard(service: Service) -> Iterator[JwtGuard]:
    with AuthorizerClient(service.url, **arguments(report=False)) as client:
        yield JwtGuard(client, [_issuer("ES256")])


def test_a_genuine_token_is_allowed_until_it_is_revoked(service: Service, guard: JwtGuard) -> None:
    """F1390a, TOKEN-1: A JWT of a trusted issuer is allowed until its `jti` is revoked."""
    decision = guard.decide_header(f"bearer {_token()}")
    assert (decision.is_allowed, decision.reason, decision.claims["sub"]) == (True, "clear", "ann")
    service.revoke(token_id("jwt", _ISSUER, "bad-1"))
    soon(lambda: guard.decide(_token()).reason == "revoked")
    assert guard.decide(_token()).claims == {}
    assert guard.decide(_token(jti="good-2")).is_allowed


def test_tokens_of_a_subject_and_a_session(service: Service, guard: JwtGuard) -> None:
    """F2401f, TOKEN-11: The guard refuses tokens by `jti`, by `sid`, and by `sub` with `iat`."""
    now = int(time.time())
    assert guard.decide(_token(jti=None, iat=now - 5)).is_allowed
    service.revoke(token_id("jwt-subject", _ISSUER, "ann", now - 5))
    soon(lambda: guard.decide(_token(iat=now - 5)).reason == "revoked")
    assert guard.decide(_token(iat=now - 5, jti=None)).reason == "revoked"
    assert guard.decide(_token(iat=None)).reason == "revoked"
    assert guard.decide(_token(iat=now - 4)).is_allowed
    assert guard.decide(_token(iat=now - 4.5)).is_allowed
    assert guard.decide(_token(iat=now - 5, sub=None)).is_allowed
    service.revoke(token_id("jwt-session", _ISSUER, "s-1"))
    soon(lambda: guard.decide(_token(sid="s-1")).reason == "revoked")
    assert guard.decide(_token(sid="s-2")).is_allowed


@pytest.mark.parametrize("algorithm", ["RS256", "PS256", "ES256", "ES384", "EdDSA"])
def test_each_algorithm_is_read(guard: JwtGuard, algorithm: str) -> None:
    """F1390b: The guard reads tokens of each algorithm, whose key has the same name."""
    header = {**_HEADER, "alg": algorithm}
    guard.replace_issuers([_issuer(algorithm)])
    assert guard.decide(signed(header, _claims(), key(algorithm), algorithm)).is_allowed
    guard.replace_issuers([_issuer("ES384" if algorithm == "ES256" else "ES256")])
    assert guard.decide(signed(header, _claims(), key(algorithm), algorithm)).reason == "signature"


def test_what_is_not_genuine_is_refused(guard: JwtGuard) -> None:
    """F1390c: The guard refuses each token that is forged, unfit, expired or of somebody else."""
    body, signature = _token().rsplit(".", 1)
    unsigned = f"{encoded({'alg': 'none', 'kid': 'a'})}.{encoded(_claims())}."
    reasons = {
        "": "missing",
        "a.b": "malformed",
        _token(iss="https://other.example"): "issuer",
        _token(iss=None): "issuer",
        unsigned: "malformed",
        f"{body}.{'A' * len(signature)}": "signature",
        _token({"kid": "b"}): "signature",
        _token({"crit": ["exp"]}): "signature",
        _token({"jwk": public(key("ES256", 1))}) + "A": "signature",
        _token(padding="x" * 17_000): "signature",
        _token({"typ": "secevent+jwt"}): "claims",
        _token(aud="others"): "claims",
        _token(jti=None, iat=None): "claims",
        _token(jti="a\nb"): "claims",
        _token(exp=None): "claims",
        _token(nbf=int(time.time()) + 600): "claims",
        _token(exp=int(time.time()) - 61): "expired",
    }
    assert {token: guard.decide(token).reason for token in reasons} == reasons
    assert guard.decide_header("Basic abc").reason == "missing"


def test_a_client_that_is_stale_allows_nothing(service: Service) -> None:
    """F1390d: Before the client has a state, a genuine token is refused as stale."""
    guard = JwtGuard(AuthorizerClient(service.url, **arguments(report=False)), [_issuer("ES256")])
    assert guard.decide(_token()).reason == "stale"
