"""The client of `rescind` beside a service that is busy, broken, or another."""

from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from infra.cli.client import ApiClient
from infra.cli.errors import ApiError, BadResponse, UsageError
from infra.cli.profiles import Profile

_BUSY = b'{"error": {"code": "rate_limited", "message": "Wait."}}'


@contextmanager
def _service(*answers: tuple[int, dict[str, str], bytes]) -> Iterator[tuple[str, list[Message]]]:
    """A service that gives these answers; its address, and the headers of each request it got."""
    left = list(answers)
    got: list[Message] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            got.append(self.headers)
            status, headers, body = left.pop(0)
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            self.do_POST()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", got
        finally:
            server.shutdown()


@contextmanager
def _client(
    folder: Path, *answers: tuple[int, dict[str, str], bytes], key: str = "k"
) -> Iterator[tuple[ApiClient, list[Message], list[float]]]:
    """A client of that service, the headers of its requests, and how long it waits."""
    waited: list[float] = []
    with (
        _service(*answers) as (url, got),
        ApiClient(Profile(folder, url, key), wait=waited.append) as api,
    ):
        yield api, got, waited


def test_a_busy_service_is_asked_again(tmp_path: Path) -> None:
    """F421a: After 429 and 503 the client waits, and repeats the same Idempotency-Key."""
    busy = [(429, {"Retry-After": "3"}, _BUSY), (503, {}, _BUSY)]
    with _client(tmp_path, *busy, (201, {}, b"{}")) as (api, got, waited):
        assert api.post("/v1/revocations", {}) == {}
    assert waited == [3.0, 1.0]
    first, *again = [each["Idempotency-Key"] for each in got]
    assert first
    assert again == [first, first]


def test_the_patience_ends(tmp_path: Path) -> None:
    """F421b: The client gives up after a minute of waiting, and says what the service said."""
    busy = (429, {"Retry-After": "86400"}, _BUSY)
    with (
        _client(tmp_path, busy, busy, busy, busy) as (api, _, waited),
        pytest.raises(ApiError, match="Wait") as refused,
    ):
        api.post("/v1/revocations", {})
    assert (waited, refused.value.code) == ([30.0, 30.0], "rate_limited")


def test_a_sign_in_that_is_too_long_ago(tmp_path: Path) -> None:
    """F1225d: If an act needs a recent sign-in, the command that signs in has the person type."""
    body = b'{"error": {"code": "reauthentication_required", "message": "Sign in again."}}'
    profile = Profile(tmp_path, "", "svc_session_x", renewal="rescind login --sso")
    with (
        _service((401, {}, body)) as (url, _),
        ApiClient(replace(profile, url=url)) as api,
        pytest.raises(ApiError, match=r"\nRun: rescind login --sso --reauthenticate$"),
    ):
        api.post("/v1/api-keys", {})


@pytest.mark.parametrize(
    "answer", [(502, {}, b"<html>"), (200, {}, b"<html>"), (404, {}, b"[]"), (307, {}, b"")]
)
def test_another_program_is_not_the_service(
    tmp_path: Path, answer: tuple[int, dict[str, str], bytes]
) -> None:
    """F421c: An answer that is not one of this API is an error, never a result."""
    with _client(tmp_path, answer) as (api, *_), pytest.raises(BadResponse):
        api.post("/v1/revocations", {})


def test_a_key_for_this_machine_goes_to_no_proxy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F506a: A proxy of the environment does not get the API key of a service on this machine."""
    with _service((201, {}, b"{}")) as (url, got), _service((502, {}, b"")) as (proxy, seen):
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy)
        with ApiClient(Profile(tmp_path, url, "svc_x")) as api:
            assert api.post("/v1/keys") == {}
    assert (len(got), seen) == (1, [])


def test_another_service_is_asked_by_the_proxy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F1540a: A proxy of the environment is used with its password, unless NO_PROXY has the host.

    One that is none of HTTP is an error.
    """
    elsewhere = Profile(tmp_path, "http://service.example", "svc_x")
    with _service((201, {}, b"{}")) as (proxy, got):
        for name in ("http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.replace("//", "//me:it%40@"))
        with ApiClient(elsewhere) as api:
            assert api.post("/v1/keys") == {}
        assert got[0]["Proxy-Authorization"] == f"Basic {b64encode(b'me:it@').decode()}"
        monkeypatch.setenv("no_proxy", "service.example")
        with ApiClient(elsewhere) as api, pytest.raises(BadResponse):
            api.post("/v1/keys")
        assert len(got) == 1
    monkeypatch.delenv("no_proxy")
    monkeypatch.setenv("http_proxy", "socks5://127.0.0.1:1")
    with ApiClient(elsewhere) as api, pytest.raises(UsageError, match="http_proxy does not name"):
        api.post("/v1/keys")


def test_another_host_gets_no_key(tmp_path: Path) -> None:
    """F1540b: Where a list is, the command follows, but the API key stays with the service."""
    with _service((200, {}, b"{}")) as (far, there):
        moved = (302, {"Location": f"{far.replace('127.0.0.1', 'localhost')}/list"}, b"")
        with _service(moved) as (url, here), ApiClient(Profile(tmp_path, url, "svc_x")) as api:
            assert api.send("GET", "/v1/revocations/srl/signed", follow=True).body == b"{}"
    assert here[0]["Authorization"] == "Bearer svc_x"
    assert there[0]["Authorization"] is None


@pytest.mark.parametrize("body", [b"[]", b"", b"1"])
def test_an_answer_that_is_no_object(tmp_path: Path, body: bytes) -> None:
    """F1614a: An answer without an object is an error, whatever its status is."""
    answer: tuple[int, dict[str, str], bytes] = (200, {}, body)
    with _client(tmp_path, answer) as (api, *_), pytest.raises(BadResponse, match="address"):
        api.get("/v1/whoami")


def test_no_error_has_a_credential_that_was_sent_back(tmp_path: Path) -> None:
    """F1614b: An error of the service is shown without the credential of the request."""
    body = b'{"error": {"code": "bad", "message": "Authorization: Bearer svc_SECRET"}}'
    with (
        _client(tmp_path, (400, {"X-Request-Id": "svc_SECRET"}, body), key="svc_SECRET") as (
            api,
            *_,
        ),
        pytest.raises(ApiError, match=r"Bearer [.]{3}") as refused,
    ):
        api.get("/v1/whoami")
    assert refused.value.request_id == "..."
