"""The local server against callers that hold it up or speak another HTTP, as a real process."""

import json
import re
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx2
import pytest

from tests.kit import framing, sockets
from tests.kit.processes import HOST, LocalServer, local_server

_OPEN_FILES = 256


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    """A server that may open few files."""
    data = tmp_path_factory.mktemp("sockets") / "data"
    with local_server(data, open_files=_OPEN_FILES) as server:
        yield server


@pytest.fixture
def said(server: LocalServer) -> "Iterator[_Said]":
    """What the server prints from here on; it may be no traceback."""
    yield _Said(server.output)
    text = server.output.read_text()
    assert "Traceback" not in text
    assert "CRITICAL" not in text


class _Said:
    """The lines that a server printed since a moment, without those of answered requests."""

    def __init__(self, output: Path) -> None:
        self._output, self._from = output, output.stat().st_size

    def now(self) -> list[str]:
        lines = self._output.read_text()[self._from :].splitlines()
        return [line for line in lines if '"message": "request"' not in line]


def test_no_answer_waits_for_the_acknowledgement_of_its_head(tmp_path: Path) -> None:
    """F113a: Connections of the local server have TCP_NODELAY, with several workers too."""
    with local_server(tmp_path / "data", workers=2) as server, _connected(server) as caller:
        caller.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert caller.recv(10_000).startswith(b"HTTP/1.1 401 ")
        with sockets.accepted(caller, server.serving()) as other_end:
            assert other_end.getpeername() == caller.getsockname()
            assert other_end.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.slow
def test_idle_connections_stop_nothing(server: LocalServer, said: _Said) -> None:
    """F76a, S8: 300 idle connections do not stop a server that may open 256 files."""
    with ExitStack() as stack:
        # The server admits some of them only after a second.
        callers = stack.enter_context(ThreadPoolExecutor(max_workers=50))
        for idle in callers.map(lambda _: _connected(server), range(300)):
            stack.enter_context(idle)
            idle.sendall(b"GET /v1/x HTTP/1.1\r\nHost: x\r\nX-a: ")
        for _ in range(5):
            _probe(server)
            time.sleep(0.3)
        headers = {"Authorization": f"Bearer {server.admin_key}"}
        with httpx2.Client(base_url=server.url, headers=headers) as http:
            assert http.post("/v1/revocations/srl/regenerate").status_code == 200
            assert http.get("/v1/revocations/srl").status_code == 200
    _probe(server)
    assert len(said.now()) < 20


_ADMIN = "Authorization: Bearer {key}\r\n"
_POST = "POST /v1/revocations HTTP/1.1\r\nHost: x\r\n"


@pytest.mark.parametrize("request_", framing.REFUSED.values(), ids=framing.REFUSED)
def test_a_request_with_two_readings_is_refused(
    server: LocalServer, said: _Said, request_: str
) -> None:
    """F79a, API-24, S8: The server refuses a request that a proxy might read in another way."""
    post = f"{_POST}{_ADMIN}".replace("{key}", server.admin_key)
    answer = sockets.read_all(HOST, server.port, framing.sent(request_, post))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    error = json.loads(body)["error"]
    assert (set(error), error["code"]) == ({"code", "message"}, "invalid_request")
    headers = head.decode().lower()
    for line in (
        "connection: close",
        "content-type: application/json",
        "cache-control: no-store",
        "x-content-type-options: nosniff",
        "x-ratelimit-limit: 1000",
    ):
        assert f"\r\n{line}" in headers
    assert re.search(r"\r\nx-request-id: [0-9a-f]{16}(\r\n|$)", headers)
    assert said.now() == []


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_stalled_body_does_not_hold_up_a_stop(tmp_path: Path, workers: int) -> None:
    """F77a, S8: One Ctrl-C stops the server although callers stall their bodies."""
    with local_server(tmp_path / "data", workers=workers) as server, ExitStack() as stack:
        for _ in range(5):
            caller = stack.enter_context(_connected(server))
            head = f"{_POST}{_ADMIN}Content-Length: 100\r\n\r\nx"
            caller.sendall(head.replace("{key}", server.admin_key).encode())
        time.sleep(0.3)
        assert server.interrupt() == 0
        said = server.output.read_text()
    assert said.endswith(f"Stopped; the data is in {server.data}\n")
    assert "Traceback" not in said
    assert "ERROR" not in said


@pytest.mark.slow_on("/v1/oauth/introspect")
@pytest.mark.parametrize("path", ["/v1/token", "/v1/revocations", "/v1/oauth/introspect"])
def test_a_client_that_leaves_is_no_fault(tmp_path: Path, path: str) -> None:
    """F1937b: A client that disconnects while it sends a body leaves one line in the log at most.

    The line names the outcome, and is no error.
    """
    with local_server(tmp_path / "data") as server:
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\n{_ADMIN}Content-Type: application/json\r\n"
        head = head.replace("{key}", server.admin_key) + "Content-Length: 100\r\n\r\n{"
        with _connected(server) as caller:
            caller.sendall(head.encode())
            # The request has begun, because another one is answered.
            _probe(server)
        assert server.interrupt() == 0
        said = server.output.read_text()
    for word in ("CRITICAL", "ERROR", "Traceback", "ClientDisconnect"):
        assert word not in said
    assert len([line for line in said.splitlines() if "client_disconnected" in line]) <= 1


def _connected(server: LocalServer) -> socket.socket:
    return socket.create_connection((HOST, server.port), timeout=60)


def _probe(server: LocalServer) -> None:
    """An anonymous caller gets an answer on a new connection before it gives up."""
    answer = sockets.read_all(
        HOST, server.port, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    )
    assert answer.startswith(b"HTTP/1.1 401 "), answer
