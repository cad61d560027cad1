"""The short-lived addresses that the local server gives to stored lists."""

import gzip
import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import httpx2
import pytest
from starlette.testclient import TestClient

from functions.console.files import SECURITY, Files
from functions.introspection import handler as introspection
from infra import data_folder
from infra.server import app
from infra.server.routers import ROUTERS
from shared.operations.operator import onboarding
from shared.ports import Ports
from shared.web.gate import PublicMiddleware
from shared.web.strangers import AnonymousLimiter
from tests.infra.folders import chosen
from tests.kit import identities, issuers
from tests.kit.asgi import EVERY_RESPONSE, Answer, bearer, send
from tests.kit.endpoints import at
from tests.kit.worlds import Clock

_DOCUMENTS = [
    *("/docs", "/openapi.json"),
    *("/docs/init.js", "/docs/swagger-ui.css", "/docs/swagger-ui-bundle.js"),
]
_BROWSER = [("Accept", "text/html")]
_NAME = "srl/tenant/list.json"
_BODY = b'{"payload":{},"srl":{}}'


@dataclass(frozen=True)
class Local:
    """The local application in this process, and the ports that it is on."""

    http: TestClient
    ports: Ports
    data: Path

    def address(self) -> str:
        """A fresh address of a stored blob."""
        self.ports.blobs.put(_NAME, _BODY)
        return self.ports.blobs.url(_NAME, ttl_seconds=60)


@pytest.fixture
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Local]:
    data_folder.prepare(tmp_path)
    app._ports.cache_clear()
    with chosen(data_folder.environment(tmp_path), monkeypatch) as ports:
        yield Local(TestClient(app.app), ports, tmp_path)
    app._ports.cache_clear()


def test_an_address_serves_the_blob_without_a_key(local: Local) -> None:
    """Whoever holds an address gets the stored bytes, as they are, with no further proof."""
    answer = local.http.get(local.address())
    assert (answer.status_code, answer.content) == (200, _BODY)
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("list.json", "lisu.json"),
        ("tenant/", "tenant/%2e%2e/tenant/"),
        ("srl/", "%2e/srl/"),
        ("expires=", "expires=9"),
        ("expires=", "expired="),
        ("signature=", "signature=0"),
        ("signature=", "signed="),
        ("signature=", "signature=%C3%A9"),
    ],
)
def test_an_altered_address_opens_nothing(local: Local, old: str, new: str) -> None:
    """A changed name, time or signature is answered as if nothing were there."""
    address = local.address()
    assert old in address
    _assert_error(local.http.get(address.replace(old, new)), 404, "not_found")


def test_a_blob_store_that_cannot_answer_is_said_to_be_unavailable(local: Local) -> None:
    """F26: a fault of the blob store is 503 with Retry-After, never "not found"."""
    address = local.address()
    (local.data / "blobs" / ".url-key").write_bytes(b"cut")
    answer = local.http.get(address)
    _assert_error(answer, 503, "unavailable")
    assert answer.headers["retry-after"] == "1"


@pytest.mark.slow_on("/docs")
@pytest.mark.parametrize("path", _DOCUMENTS)
def test_the_documents_need_no_key(local: Local, path: str) -> None:
    """Both documents, and what their page loads, are served to whoever asks on this machine."""
    answer = local.http.get(path)
    assert answer.status_code == 200
    head = local.http.head(path)
    assert (head.status_code, head.content) == (200, b"")
    same = local.http.get(path, headers={"If-None-Match": answer.headers["etag"]})
    assert (same.status_code, same.content) == (304, b"")
    for name in ("etag", "content-security-policy"):
        assert {head.headers[name], same.headers[name]} == {answer.headers[name]}


@pytest.mark.parametrize("path", _DOCUMENTS)
def test_the_documents_have_the_headers_of_the_console(local: Local, path: str) -> None:
    """F560a: The API document and its page run no inline script and are shown in no frame."""
    headers = local.http.get(path).headers
    for name, value in SECURITY.items():
        if name != "Content-Security-Policy":
            assert headers[name] == value
    policy = dict(each.split(" ", 1) for each in headers["content-security-policy"].split("; "))
    console = dict(each.split(" ", 1) for each in SECURITY["Content-Security-Policy"].split("; "))
    relaxed = {"img-src": "'self' data:"}
    assert policy == {name: console[name] for name in policy} | relaxed
    assert {"default-src", "script-src", "frame-ancestors", "base-uri"} <= set(policy)
    if path == "/docs":
        assert not re.search(r"<script>|<style|\bon\w+=|style=", local.http.get(path).text)


# Every path that needs no key, and what callers without one are refused with.
_KEYLESS = [
    *_DOCUMENTS,
    *sorted(Files().paths)[:2],
    "/console/none",
    "/healthz",
    "/readyz",
    "/blobs/srl/x?expires=1&signature=0",
    "/v1/sign-in?tenant=acme",
    "/v1/sign-in/code",
    "/v1/logout/svc_idp_0",
    "/v1/token",
    "/v1/leaked-keys",
    "/v1/keys",
    "/nowhere",
]


@pytest.mark.parametrize("path", _KEYLESS)
def test_a_stranger_has_one_bucket_for_all_paths(
    local: Local, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """AUTH-9, F560c: On each path that needs no key, a stranger gets 429 before any work."""
    limiter = AnonymousLimiter(Clock())
    monkeypatch.setattr(app, "_keyless", PublicMiddleware(limiter, tuple, SECURITY))
    monkeypatch.setattr(app._contract.gate, "_anonymous", limiter)  # type: ignore[attr-defined]
    at_work = Mock(side_effect=AssertionError("it works for a stranger without a token"))
    before = send(app.app, "GET", path, headers=_BROWSER)
    assert before.headers["x-ratelimit-limit"] == before.headers["x-ratelimit-remaining"] == "1000"
    holder = "203.0.113.1#health" if path in {"/healthz", "/readyz"} else "203.0.113.1"
    for _ in range(1999):
        limiter.take(holder)
    for name in ("_console", "_documents", "_sign_in", "_leaks"):
        monkeypatch.setattr(type(getattr(app, name)), "__call__", at_work)
    monkeypatch.setattr(app, "_blob", at_work)
    for method in ("GET", "HEAD"):
        refused = send(app.app, method, path, headers=_BROWSER)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert refused.headers["x-ratelimit-remaining"] == "0"
        assert {*EVERY_RESPONSE, "x-content-type-options"} <= set(refused.headers)
    assert send(app.app, "GET", path, headers=_BROWSER, peer="203.0.113.2").status_code != 429


def test_a_flood_hides_no_health(local: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    """F560d: An address whose other requests are refused can still ask for the health."""
    limiter = AnonymousLimiter(Clock())
    monkeypatch.setattr(app, "_keyless", PublicMiddleware(limiter, tuple, SECURITY))
    for _ in range(2000):
        limiter.take("203.0.113.1")
    assert send(app.app, "GET", "/docs").status_code == 429
    assert send(app.app, "GET", "/healthz").status_code == 200


_METHODS_OF_KEYLESS = {
    **dict.fromkeys(("/v1/token", "/v1/sign-in/code", "/v1/logout/svc_idp_0"), "POST"),
    "/v1/sign-in": "GET, HEAD",
    f"/v1/status-lists/svc_tsl_{'0' * 26}": "GET, HEAD, OPTIONS",
    "/v1/status-lists/jwks.json": "GET, HEAD, OPTIONS",
}


@pytest.mark.slow_on("GET")
@pytest.mark.parametrize("method", ["HEAD", "GET", "OPTIONS"])
@pytest.mark.parametrize("has_key", [True, False])
def test_every_path_answers_these_methods(local: Local, method: str, has_key: bool) -> None:
    """API-2, F2220a: No path fails at HEAD, GET or OPTIONS; 405 names what the path allows."""
    _, made = onboarding.create_tenant(local.ports, handle="globex")
    headers = bearer(made.secret) if has_key else []
    served: dict[str, set[str]] = {}
    for each in (route for router in (*ROUTERS, introspection.routes) for route in router.routes):
        methods = getattr(each, "methods", None) or {"POST"}
        served.setdefault(str(getattr(each, "path", "")), set()).update(methods)
    for path, methods in served.items():
        answer = send(app.app, method, at(path, "svc_x_0"), headers=headers)
        _check_method(answer, method, methods | ({"HEAD"} if "GET" in methods else set()), has_key)
    for path, allowed in _METHODS_OF_KEYLESS.items():
        answer = send(app.app, method, path, headers=headers)
        _check_method(answer, method, set(allowed.split(", ")), True)


def _check_method(answer: Answer, method: str, served: set[str], has_key: bool) -> None:
    assert answer.status_code < 500
    assert method != "HEAD" or answer.content == b""
    if not has_key:
        assert answer.status_code == 401
    elif method not in served:
        assert answer.status_code == 405
        assert set(answer.headers["allow"].split(", ")) == served


@pytest.mark.parametrize(
    "path", ["/v1%2Ftoken", "/v1/sign-in%2fcode", "/v1/status-lists%2Fjwks.json"]
)
def test_an_encoded_slash_separates_nothing_without_a_key(local: Local, path: str) -> None:
    """F2222b, S8: An encoded slash leads to no path that needs no key."""
    _assert_error(local.http.post(path), 404, "not_found")


def test_a_program_signs_in_and_calls(local: Local) -> None:
    """IDENTITY-7, F1154a: On one machine a token becomes a session, with which its owner calls."""
    settings, _ = onboarding.create_tenant(local.ports, handle="globex")
    operator = onboarding.operator(local.ports, handle="globex")
    public = issuers.public(issuers.key("ES256"), kid="k1")
    values: dict[str, Any] = {"jwks": {"keys": [public]}, "token_exchange": True}
    provider = identities.bound(local.ports, operator, **values)
    form = {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "audience": provider.id,
        "subject_token": identities.token(local.ports, "rescind"),
        "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
    }
    answer = local.http.post("/v1/token", data=form)
    assert {*EVERY_RESPONSE} <= set(answer.headers)
    key = {"Authorization": f"Bearer {answer.json()['access_token']}"}
    who = local.http.get("/v1/whoami", headers=key).json()
    assert (who["tenant_id"], who["identity"]) == (settings.tenant_id, "alice@example.com")
    assert local.http.delete("/v1/sessions/current", headers=key).status_code == 204
    assert local.http.get("/v1/whoami", headers=key).status_code == 401


def test_the_address_of_a_list_says_how_to_keep_it(local: Local) -> None:
    """F121c: A stored list at its local address has the validator and cache rule of the list."""
    body = gzip.compress(_BODY * 100)
    for suffix, data, encoding in (("json", _BODY, None), ("json.gz", body, "gzip")):
        sha256 = hashlib.sha256(data).hexdigest()
        name = f"srl/tenant/lists/000000000001-{sha256}.{suffix}"
        local.ports.blobs.put(name, data)
        address = local.ports.blobs.url(name, ttl_seconds=60)
        answer = local.http.get(address)
        assert answer.headers["etag"] == f'"{sha256}"'
        assert answer.headers["cache-control"] == "private, no-cache"
        assert answer.headers.get("content-encoding") == encoding
        assert answer.content == (gzip.decompress(data) if encoding else data)
        held = local.http.get(address, headers={"If-None-Match": answer.headers["etag"]})
        assert (held.status_code, held.content) == (304, b"")
        part = local.http.get(address, headers={"Range": "bytes=0-0", "Accept-Encoding": ""})
        assert (part.status_code, part.headers["content-length"]) == (206, "1")


def _assert_error(answer: httpx2.Response, status: int, code: str) -> None:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    body = json.loads(answer.content)
    assert set(body) == {"error"}
    assert set(body["error"]) == {"code", "message"}
    assert body["error"]["code"] == code
