"""Paths and methods: what there is, and the answers where there is nothing."""

from typing import Any

import pytest

from tests.kit.api import Tenant
from tests.kit.asgi import Answer, bearer, send
from tests.kit.endpoints import ENDPOINTS, at, call_as_it_stands

METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"]
STRANGE = ["FOO", "get", "POST ", "M-SEARCH", "X" * 1000, "PROPFIND"]
PATHS = sorted({path for _, path in ENDPOINTS})
EACH_PATH = pytest.mark.parametrize("path", PATHS)
IDENTIFIER = "svc_ak_01m7yzmhg0ynzqw1fmh6whgvm5"

pytestmark = pytest.mark.usefixtures("refilled")


def ask(tenant: Tenant, method: str, target: str, **options: Any) -> Answer:
    headers = bearer(tenant.admin.secret)
    return send(tenant.admin.http.app, method, target, headers=headers, **options)


def own_methods(path: str) -> list[str]:
    """What a path allows: HEAD wherever GET is."""
    own = {method for method, its in ENDPOINTS if its == path}
    return sorted(own | ({"HEAD"} if "GET" in own else set()))


@EACH_PATH
def test_another_method_is_not_allowed(standing: Tenant, path: str) -> None:
    """API-10, F21b: A wrong method is answered with 405, and `Allow` lists the path's methods."""
    own = own_methods(path)
    for method in {*METHODS, *STRANGE}.difference(own):
        answer = ask(standing, method, at(path, IDENTIFIER))
        if answer.status_code == 404 and method in {"DELETE", "GET"}:
            # The path also reads as that of a resource, which is not there.
            continue
        assert (answer.status_code, method) == (405, method)
        assert answer.json()["error"]["code"] == "method_not_allowed"
        assert answer.headers["allow"] == ", ".join(own)
        assert "location" not in answer.headers


@pytest.mark.parametrize("key", [key for key in ENDPOINTS if key[0] == "GET"], ids=" ".join)
def test_head_is_served_wherever_get_is(standing: Tenant, key: tuple[str, str]) -> None:
    """API-2, F84a: HEAD returns the status and headers of GET, wherever GET is served."""
    target = ENDPOINTS[key].target(standing)
    # The list of keys changes when the calling key is used for the first time.
    ask(standing, "GET", target)
    get, head = (ask(standing, method, target) for method in ("GET", "HEAD"))
    assert get.status_code == head.status_code == 200
    assert get.content
    assert head.content == b""
    changing = ("x-request-id", "x-ratelimit-remaining", "x-ratelimit-reset")
    for name in (get.headers | head.headers).keys() - set(changing):
        assert get.headers[name] == head.headers[name], name


@pytest.mark.parametrize("target", ["/v1/tenant%2fsettings", "/v1/tenant%2Fsettings", "/v1%2Fkeys"])
def test_an_encoded_slash_separates_nothing(standing: Tenant, target: str) -> None:
    """F79b, S8: An encoded slash in a path separates nothing and leads to 404."""
    answer = ask(standing, "GET", target)
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")


UNKNOWN = [
    *["", "/", "*", "/v1", "/v1/", "/v2/api-keys", "/api-keys", "/v1/keyrings", "/V1/api-keys"],
    *["/v1/API-KEYS", "/v1/api_keys", "/v1/api-keys.json", "/v1/api-keys;x=1", "/v1/api-keys%20"],
    *["/v1/nothing", "/v1/revocations/srl/nothing", f"/v1/api-keys/{IDENTIFIER}/nothing"],
    # Slashes in excess.
    *["//v1/api-keys", "/v1//api-keys", "/v1/api-keys/", "/v1/api-keys//", "/v1/revocations/"],
    *["/v1/revocations/srl/", "/v1/revocations/srl/signed/", "/v1/revocations/check/"],
    *[f"/v1/api-keys/{IDENTIFIER}/", f"/v1/api-keys//{IDENTIFIER}", "/v1/api-keys/a/b/c"],
    # Paths that a server may not resolve.
    *[
        "/v1/./api-keys",
        "/v1/x/../api-keys",
        "/../v1/api-keys",
    ],
    *["/v1/api-keys%00", "/v1/api-keys%0D%0AX: y", "/v1/api-keys%23", "/v1/api-keys%3Flimit=1"],
    *["/v1%2Fapi%2Dkeys%2F", "/v1\\api-keys", "\\v1\\api-keys", "/v1/api-keys%FF"],
    *["http://testserver/v1/api-keys", "/" + "x" * 10_000, "/v1" * 1000],
    # What frameworks like to serve beside.
    *["/docs", "/redoc", "/openapi.json", "/docs/oauth2-redirect", "/metrics", "/health"],
    *["/favicon.ico", "/robots.txt", "/static/x", "/blobs/x", "/.well-known/x"],
]


@pytest.mark.parametrize("path", UNKNOWN, ids=lambda path: path[:40])
def test_an_unknown_path_is_not_found(standing: Tenant, path: str) -> None:
    """API-1, F21a: Every unknown path, trailing slashes included, is 404 without a redirect."""
    for method in ("GET", "POST", "FOO"):
        answer = ask(standing, method, path)
        assert answer.status_code == 404
        assert answer.json()["error"]["code"] == "not_found"
        assert {"location", "allow"}.isdisjoint(answer.headers)


def test_a_line_break_behind_an_action_does_not_act(tenant: Tenant) -> None:
    """F21: an action with a line break behind it is unknown, and is not done."""
    path = f"/v1/api-keys/{tenant.read_only.key_id}/revoke%0A"
    assert ask(tenant, "POST", path).status_code == 404
    assert tenant.read_only.get("/v1/api-keys").status_code == 200


@pytest.mark.parametrize("path", ["/nowhere", "/v1/api-keys/", "/"])
@pytest.mark.parametrize("method", METHODS)
def test_an_anonymous_caller_sees_no_difference_between_paths(
    standing: Tenant, path: str, method: str
) -> None:
    """API-6, F21: A caller without a valid key gets the same answer for known and unknown paths."""
    answers = [send(standing.admin.http.app, method, each) for each in (path, "/v1/api-keys")]
    assert answers[0].status_code == answers[1].status_code == 401
    assert answers[0].content == answers[1].content
    assert answers[0].json()["error"]["code"] == "unauthorized"


@pytest.mark.parametrize("path", PATHS)
def test_unknown_parameters_are_refused(standing: Tenant, path: str) -> None:
    """A parameter that the endpoint has not is 400, which names it beside those that it has."""
    for method in [each for each, its in ENDPOINTS if its == path]:
        target = ENDPOINTS[method, path].target(standing)
        joint = "&" if "?" in target else "?"
        answer = call_as_it_stands((method, path), standing.admin, f"{target}{joint}zq7mark=1")
        assert answer.status_code == 400
        assert answer.json()["error"]["code"] == "invalid_request"
        assert answer.json()["error"]["message"].startswith("query: unknown parameter zq7mark; ")
