"""Keys that `JwtGuard` fetches from issuers on loopback."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any, Final

import pytest

from shared.authorizer import JwtGuard, TrustedIssuer, Verdict, issuer_keys
from tests.kit.issuers import key, public, signed
from tests.kit.waiting import soon

_ISSUER, _AUDIENCE = "https://as.example", "accounts"
_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86_400.0
_BOM: Final = b"\xef\xbb\xbf"


class _Issuer:
    """The key set of an issuer, and the number of requests for it."""

    def __init__(self) -> None:
        self.kids, self.fetched, self.status = ["a"], 0, 200
        self.url = ""
        self.padding = ""

    def body(self) -> bytes:
        keys: list[Any] = [public(key("ES256"), kid=each) for each in self.kids]
        keys.append({"kty": "AKP", "alg": "ML-DSA-44", "kid": "pq", "pub": "AAAA"})
        return _BOM + json.dumps({"keys": keys, "padding": self.padding}).encode()


@contextmanager
def _serve(issuer: _Issuer) -> Iterator[None]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuer.fetched += 1
            body = issuer.body()
            self.send_response(issuer.status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        issuer.url = f"http://127.0.0.1:{server.server_port}/keys"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield
        server.shutdown()


@pytest.fixture
def issuer() -> Iterator[_Issuer]:
    found = _Issuer()
    with _serve(found):
        yield found


class _Clock:
    """The clock of the keys. `advance` moves it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._ahead = 0.0
        monkeypatch.setattr(issuer_keys, "_now", lambda: time.monotonic() + self._ahead)

    def advance(self, seconds: float) -> None:
        self._ahead += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> _Clock:
    return _Clock(monkeypatch)


def _guard(*issuers: TrustedIssuer) -> JwtGuard:
    client: Any = SimpleNamespace(check=lambda _ids: Verdict.CLEAR)
    return JwtGuard(client, issuers)


def _decide(guard: JwtGuard, kid: str = "a", audience: str = _AUDIENCE) -> str:
    now = int(time.time())
    claims = {"iss": _ISSUER, "aud": audience, "exp": now + 300, "jti": "j"}
    token = signed({"alg": "ES256", "kid": kid}, claims, key("ES256"))
    return guard.decide(token).reason


def test_keys_are_fetched_once_an_hour(issuer: _Issuer, clock: _Clock) -> None:
    """F2002a, TOKEN-10: The first decision waits for the keys, which count for an hour."""
    guard = _guard(TrustedIssuer(_ISSUER, _AUDIENCE, jwks_uri=issuer.url))
    assert [_decide(guard) for _ in range(3)] == ["clear"] * 3
    assert issuer.fetched == 1
    clock.advance(_HOUR)
    assert _decide(guard) == "clear"
    soon(lambda: issuer.fetched == 2)


def test_a_new_key_is_accepted_within_a_minute(issuer: _Issuer, clock: _Clock) -> None:
    """F2002b, TOKEN-10: An unknown kid fetches the keys, at most once a minute."""
    guard = _guard(TrustedIssuer(_ISSUER, _AUDIENCE, jwks_uri=issuer.url))
    assert _decide(guard) == "clear"
    issuer.kids = ["b"]
    assert [_decide(guard, "b") for _ in range(3)] == ["signature"] * 3
    assert issuer.fetched == 1
    clock.advance(_MINUTE)
    soon(lambda: _decide(guard, "b") == "clear")
    assert issuer.fetched == 2
    assert _decide(guard, "a") == "signature"
    issuer.kids = []
    clock.advance(_HOUR)
    soon(lambda: _decide(guard, "b") == "signature")


@pytest.mark.parametrize("fault", ["down", "too large"])
def test_keys_count_for_a_day_without_the_issuer(
    issuer: _Issuer, clock: _Clock, fault: str
) -> None:
    """F2002c, TOKEN-10: If the issuer fails, keys count for a day, and then no token is allowed."""
    guard = _guard(TrustedIssuer(_ISSUER, _AUDIENCE, jwks_uri=issuer.url))
    assert _decide(guard) == "clear"
    if fault == "down":
        issuer.status = 503
    else:
        issuer.padding = "x" * (256 * 1024)
    clock.advance(_DAY - 10)
    assert _decide(guard) == "clear"
    soon(lambda: issuer.fetched == 2)
    clock.advance(10)
    assert _decide(guard) == "signature"
    issuer.status, issuer.padding = 200, ""
    clock.advance(_MINUTE)
    soon(lambda: _decide(guard) == "clear")


def test_wrong_issuers_are_refused() -> None:
    """F2002d: An issuer needs usable keys or a URL of HTTPS, and not both."""
    jwks: Any = {"keys": [public(key("ES256"), kid="a")]}
    for wrong in (
        TrustedIssuer(_ISSUER, _AUDIENCE),
        TrustedIssuer(_ISSUER, _AUDIENCE, jwks, "https://as.example/keys"),
        TrustedIssuer(_ISSUER, _AUDIENCE, {"keys": []}),
        TrustedIssuer(_ISSUER, _AUDIENCE, {"keys": [public(key("ES256"))]}),
        TrustedIssuer(_ISSUER, _AUDIENCE, {}),
        TrustedIssuer(_ISSUER, _AUDIENCE, jwks_uri="http://as.example/keys"),
        TrustedIssuer(_ISSUER, _AUDIENCE, jwks_uri="ftp://127.0.0.1/keys"),
    ):
        with pytest.raises(ValueError, match=r"must|needs|no key|https URL"):
            _guard(wrong)


def test_an_issuer_has_two_audiences() -> None:
    """F2002e: An issuer is trusted for each of its audiences, with the keys of each."""
    jwks: Any = {"keys": [public(key("ES256"), kid="a")]}
    guard = _guard(*(TrustedIssuer(_ISSUER, each, jwks) for each in ("accounts", "payments")))
    found = [_decide(guard, audience=each) for each in ("accounts", "payments", "others")]
    assert found == ["clear", "clear", "claims"]
