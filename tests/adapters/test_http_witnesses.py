"""Witnesses over HTTP: whatever they do, a request ends, and raises nothing (LOG-31)."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from shared.adapters.https import HttpWitnesses
from shared.model.audit.witnesses import BYTES_MAX
from shared.ports.outside import WitnessAnswer
from tests.kit.processes import free_port

PATIENCE = 0.5
NOTHING = WitnessAnswer(0)


@contextmanager
def answering(*parts: bytes, holds: bool = False) -> Iterator[str]:
    """A server that answers each request with these parts, and then may hold the connection."""
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with closing(connection):
                    while part := connection.recv(65536):
                        if part.endswith(b"note"):
                            break
                    try:
                        for each in parts:
                            connection.sendall(each)
                            ended.wait(0.1 if len(parts) > 2 else 0)
                    except OSError:
                        continue
                    if holds:
                        ended.wait(10)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            ended.set()
            # Closing alone does not wake who waits for a connection.
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def asked(*urls: str, patience: float = 30) -> list[WitnessAnswer]:
    return HttpWitnesses(patience).ask([(each, b"old 0\n\nnote") for each in urls])


def test_answers_come_in_order() -> None:
    """LOG-31, F809a: Each answer is that of its witness, with its status."""
    one = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none"
    two = b"HTTP/1.1 409 Conflict\r\nContent-Length: 2\r\n\r\n7\n"
    with answering(one) as first, answering(two) as second:
        assert asked(first, second, first) == [(200, b"one"), (409, b"7\n"), (200, b"one")]
    assert asked() == []


def test_a_redirect_is_not_followed() -> None:
    """LOG-31, F809b: A redirect is an answer, so no other server is asked."""
    elsewhere = b"HTTP/1.1 307 x\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"
    with answering(elsewhere) as url:
        assert asked(url) == [(307, b"")]


@pytest.mark.parametrize(
    "parts",
    [
        (),
        (b"HTTP/1.1 2",),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", b"half"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n", *[b"x"] * 90),
        (b"nothing of HTTP\r\n\r\n",),
        (b"HTTP/1.1 200 OK\r\n\r\n", bytes(BYTES_MAX + 1)),
    ],
)
@pytest.mark.parametrize("holds", [False, True])
def test_a_bad_answer_is_none(parts: tuple[bytes, ...], holds: bool) -> None:
    """LOG-31, F809c: An answer that is cut, slow, too long or no HTTP is none, soon."""
    with answering(*parts, holds=holds) as url:
        assert asked(url, patience=PATIENCE) == [NOTHING]


def test_a_server_that_is_not_there_is_none() -> None:
    """LOG-31, F809d: Without a server there is no answer."""
    urls = (f"http://127.0.0.1:{free_port()}", "http://nothing.invalid", "http://[")
    assert asked(*urls) == [NOTHING] * 3
