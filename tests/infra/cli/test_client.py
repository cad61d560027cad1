"""The client of `rescind`, and a service that is busy, broken, or another program.

test_connections.py has proxies and redirects.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from infra.cli.client import ApiClient
from infra.cli.errors import ApiError, BadResponse
from infra.cli.profiles import Profile
from tests.kit.receivers import Received, conversing

_Reply = tuple[int, dict[str, str], bytes]

_BUSY = b'{"error": {"code": "rate_limited", "message": "Wait."}}'


@contextmanager
def _client(
    folder: Path, *replies: _Reply, key: str = "k", renewal: str | None = None
) -> Iterator[tuple[ApiClient, list[Received], list[float]]]:
    """A client of a service that gives these replies, the requests, and the client's pauses."""
    waited: list[float] = []
    with conversing(*((_encode(*each),) for each in replies)) as service:
        profile = Profile(folder, f"http://127.0.0.1:{service.port}", key, renewal=renewal)
        with ApiClient(profile, wait=waited.append) as api:
            yield api, service.requests, waited


def _encode(status: int, headers: dict[str, str], body: bytes) -> bytes:
    fields = {**headers, "Content-Length": str(len(body))}
    lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in fields.items())]
    return "\r\n".join([*lines, "", ""]).encode() + body


def test_a_busy_service_is_asked_again(tmp_path: Path) -> None:
    """F421a: After 429 and 503 the client waits, and repeats the same Idempotency-Key."""
    busy: list[_Reply] = [(429, {"Retry-After": "3"}, _BUSY), (503, {}, _BUSY)]
    with _client(tmp_path, *busy, (201, {}, b"{}")) as (api, got, waited):
        assert api.post("/v1/revocations", {}) == {}
    assert waited == [3.0, 1.0]
    first, *again = [each.headers["idempotency-key"] for each in got]
    assert first
    assert again == [first, first]


def test_the_patience_ends(tmp_path: Path) -> None:
    """F421b: The client gives up after a minute of waiting, and says what the service said."""
    busy = (429, {"Retry-After": "86400"}, _BUSY)
    with (
        _client(tmp_path, busy) as (api, _, waited),
        pytest.raises(ApiError, match="Wait") as refused,
    ):
        api.post("/v1/revocations", {})
    assert (waited, refused.value.code) == ([30.0, 30.0], "rate_limited")


def test_a_sign_in_that_is_too_long_ago(tmp_path: Path) -> None:
    """F1225d: If an act needs a recent sign-in, the error has the command that signs in."""
    body = b'{"error": {"code": "reauthentication_required", "message": "Sign in again."}}'
    renewal = "rescind login --sso"
    with (
        _client(tmp_path, (401, {}, body), key="svc_session_x", renewal=renewal) as (api, *_),
        pytest.raises(ApiError, match=r"\nRun: rescind login --sso --reauthenticate$"),
    ):
        api.post("/v1/api-keys", {})


@pytest.mark.parametrize(
    ("status", "body"),
    [
        *((502, b"<html>"), (200, b"<html>"), (404, b"[]"), (307, b"")),
        *((200, b"[]"), (200, b""), (200, b"1")),
    ],
)
def test_another_program_is_not_the_service(tmp_path: Path, status: int, body: bytes) -> None:
    """F421c, F1614a: A response that has no object of this API is an error, never a result."""
    said = "address" if status == 200 else None
    with (
        _client(tmp_path, (status, {}, body)) as (api, *_),
        pytest.raises(BadResponse, match=said),
    ):
        api.get("/v1/whoami")


def test_no_error_has_a_credential_that_was_sent_back(tmp_path: Path) -> None:
    """F1614b: An error of the service is shown without the credential of the request."""
    body = b'{"error": {"code": "bad", "message": "Authorization: Bearer svc_SECRET"}}'
    reply = (400, {"X-Request-Id": "svc_SECRET"}, body)
    with (
        _client(tmp_path, reply, key="svc_SECRET") as (api, *_),
        pytest.raises(ApiError, match=r"Bearer [.]{3}") as refused,
    ):
        api.get("/v1/whoami")
    assert refused.value.request_id == "..."
