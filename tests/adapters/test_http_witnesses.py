"""Witnesses over HTTP: each request ends, and raises nothing (LOG-31).

tests/test_outbound_http.py has responses that are slow, ambiguous or not HTTP.
"""

from collections.abc import Sequence

import pytest

from shared.adapters.https import HttpWitnesses
from shared.ports.outside import WITNESS_BYTES_MAX, WitnessAnswer
from tests.kit.processes import free_port
from tests.kit.receivers import Receiver, conversing

NOTHING = WitnessAnswer(0)


def asked(*witnesses: Receiver | str) -> list[WitnessAnswer]:
    urls = (
        each if isinstance(each, str) else f"http://127.0.0.1:{each.port}" for each in witnesses
    )
    return HttpWitnesses(30).ask([(each, b"old 0\n\nnote") for each in urls])


def test_answers_come_in_order() -> None:
    """LOG-31, F809a: Each answer is that of its witness, with its status."""
    one = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none"
    two = b"HTTP/1.1 409 Conflict\r\nContent-Length: 2\r\n\r\n7\n"
    with conversing((one,)) as first, conversing((two,)) as second:
        assert asked(first, second, first) == [(200, b"one"), (409, b"7\n"), (200, b"one")]
    assert asked() == []


def test_a_redirect_is_not_followed() -> None:
    """LOG-31, F809b: A redirect is an answer, so no other server is asked."""
    elsewhere = b"HTTP/1.1 307 x\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"
    with conversing((elsewhere,)) as witness:
        assert asked(witness) == [(307, b"")]


@pytest.mark.parametrize(
    "parts",
    [
        (b"",),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", b"half", b""),
        (b"HTTP/1.1 200 OK\r\n\r\n", bytes(WITNESS_BYTES_MAX + 1), b""),
    ],
)
def test_a_bad_answer_is_none(parts: Sequence[bytes]) -> None:
    """LOG-31, F809c: An answer that is cut or too long is none."""
    with conversing(parts) as witness:
        assert asked(witness) == [NOTHING]


def test_a_server_that_is_not_there_is_none() -> None:
    """LOG-31, F809d: Without a server there is no answer."""
    urls = (f"http://127.0.0.1:{free_port()}", "http://nothing.invalid", "http://[")
    assert asked(*urls) == [NOTHING] * 3
