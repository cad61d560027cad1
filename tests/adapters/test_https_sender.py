"""The sender of webhooks, and receivers that fail (HOOK-6, HOOK-7).

tests/test_outbound_http.py has responses that are slow, ambiguous or not HTTP.
"""

import socket
import ssl
import threading
import zlib
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from shared import settings
from shared.adapters import https
from shared.adapters.https import HttpsSender
from shared.errors import InvalidSettings
from shared.model.outbound import DeliveryOutcome, DeliveryResponse, EventMessage
from tests.kit.receivers import HOST, Received, answer, raw, receiving, trusting

URL = f"https://{HOST}/hooks/a?token=b"
MESSAGE = EventMessage("svc_evt_a", {"webhook-id": "svc_evt_a", "X-A": "b"}, b'{"type":"t"}')
OK = answer(200)


def send(sender: HttpsSender, url: str = URL) -> DeliveryResponse:
    (found,) = sender.send(url, [MESSAGE])
    return found


def test_a_message_arrives() -> None:
    """HOOK-7: A message is one POST to the path of the URL, with its headers and its body."""
    with receiving(answer(204)) as receiver:
        found = send(receiver.sender())
    assert (found.outcome, found.status, found.body) == (DeliveryOutcome.RESPONSE, 204, "")
    (request,) = receiver.requests
    assert request.line == "POST /hooks/a?token=b HTTP/1.1"
    assert request.headers == {
        "host": HOST,
        "accept-encoding": "identity",
        "content-length": "12",
        "webhook-id": "svc_evt_a",
        "x-a": "b",
        "connection": "close",
    }
    assert request.body == '{"type":"t"}'


def test_eight_are_sent_at_a_time() -> None:
    """HOOK-8: Up to eight messages are on their way at a time, and answers keep their order."""
    changed, under_way, most = threading.Condition(), 0, 0

    def waits_for_eight(request: Received, connection: socket.socket) -> None:
        nonlocal under_way, most
        with changed:
            under_way += 1
            most = max(most, under_way)
            changed.notify_all()
            changed.wait_for(lambda: most >= 8, timeout=60)
            under_way -= 1
        answer(200, request.body.encode())(request, connection)

    messages = [replace(MESSAGE, body=str(number).encode()) for number in range(9)]
    with receiving(waits_for_eight) as receiver:
        answers = receiver.sender(patience=120).send(URL, messages)
    assert [each.body for each in answers] == [str(number) for number in range(9)]
    assert most == 8


def test_a_receiver_that_is_not_there() -> None:
    """F388b: A refused connection, and one that never speaks TLS, are no answer."""
    with raw(lambda connection: connection.close()) as receiver:
        refused = receiver.sender()
        assert send(refused).outcome is DeliveryOutcome.NO_RESPONSE
    assert send(refused).outcome is DeliveryOutcome.NO_RESPONSE

    def mute(connection: socket.socket) -> None:
        connection.settimeout(None)
        while connection.recv(4096):
            pass

    with raw(mute) as receiver:
        assert send(receiver.sender(patience=0.3)).outcome is DeliveryOutcome.NO_RESPONSE


def test_a_long_answer_is_cut() -> None:
    """F388c: Of an answer without an end, or one that unpacks to much, 1 KiB is kept."""

    def endless(_request: Received, connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 500 No\r\n\r\n")
        while True:
            connection.sendall(b"x" * 65_536)

    packed = zlib.compress(b"\0" * 2**20, wbits=31)
    with receiving(endless) as receiver:
        found = send(receiver.sender())
        assert (found.status, set(found.body)) == (500, {"x"})
        assert 0 < len(found.body) <= 1024
    with receiving(answer(200, packed, "Content-Encoding: gzip")) as receiver:
        found = send(receiver.sender())
        assert (found.status, found.body) == (200, "\0" * 1024)


def test_no_redirect_is_followed() -> None:
    """F388d: A redirect, to whatever address, is an answer like any other."""
    location = "Location: http://169.254.169.254/latest/meta-data/"
    for status in (301, 302, 303, 307, 308):
        with receiving(answer(status, b"", location)) as receiver:
            assert send(receiver.sender()).status == status
            assert receiver.connections == 1


def test_no_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """F388e: Proxies in the environment are not used."""
    for name in ("https_proxy", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with receiving(OK) as receiver:
        assert send(receiver.sender()).status == 200


def test_a_certificate_must_be_valid() -> None:
    """F388f: A certificate that expired, is for another name or of unknown make is no answer."""
    with receiving(OK, expired=True) as receiver:
        sender = replace(receiver.sender(), context=trusting(HOST, expired=True))
        assert send(sender).outcome is DeliveryOutcome.NO_RESPONSE
    with receiving(OK, host="other.example.com") as receiver:
        sender = replace(receiver.sender(), context=trusting("other.example.com"))
        assert send(sender).outcome is DeliveryOutcome.NO_RESPONSE
        assert send(sender, "https://other.example.com/").status == 200
    with receiving(OK) as receiver:
        sender = replace(receiver.sender(), context=ssl.create_default_context())
        assert send(sender).outcome is DeliveryOutcome.NO_RESPONSE
        assert receiver.requests == []


def test_a_name_is_checked_each_time() -> None:
    """F387e: A name that resolves to a private address at the next attempt is refused then."""
    answers = [["127.0.0.1"], ["10.0.0.1"]]
    with receiving(OK) as receiver:
        sender = replace(receiver.sender(), resolve=lambda _: answers.pop(0))
        assert [send(sender).outcome for _ in range(2)] == [
            DeliveryOutcome.RESPONSE,
            DeliveryOutcome.BLOCKED,
        ]
        assert receiver.connections == 1


def _fails(_name: str) -> list[str]:
    raise socket.gaierror


def _hangs(_name: str) -> list[str]:
    threading.Event().wait()
    return ["127.0.0.1"]


@pytest.mark.parametrize("resolve", [_fails, _hangs, lambda _: []])
def test_a_name_that_does_not_resolve(resolve: Callable[[str], list[str]]) -> None:
    """F387f: A name that does not resolve, or not in time, is no answer."""
    with receiving(OK) as receiver:
        sender = replace(receiver.sender(patience=0.2), resolve=resolve)
        assert send(sender).outcome is DeliveryOutcome.NO_RESPONSE
        assert receiver.connections == 0


def test_the_second_address_is_tried() -> None:
    """F387g: If no connection to the first address of a name is made, the next one is tried."""
    with receiving(OK) as receiver:
        # Nobody listens at that address.
        assert send(receiver.sender(["127.9.9.9", "127.0.0.1"])).status == 200


def test_names_are_resolved_by_the_system() -> None:
    """What looks like a name and is an address in another notation resolves, and is refused."""
    for name in ("localhost", "127.1", "0x7f.1", "2130706433"):
        assert "127.0.0.1" in https.resolve(name)
        assert send(HttpsSender(), f"https://{name}/").outcome is DeliveryOutcome.BLOCKED


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("Retry-After: 17", 17),
        ("Retry-After: 1000000000", 3600),
        ("Retry-After: " + "9" * 5000, 3600),
        ("Retry-After: -5", None),
        ("Retry-After: soon", None),
        ("Retry-After: Wed, 99 Foo 2026 99:99:99 GMT", None),
        ("Retry-After: Thu, 01 Jan 1970 00:00:00 GMT", 0),
        ("Retry-After: Fri, 31 Dec 9999 23:59:59 GMT", 3600),
        ("A: b", None),
    ],
)
def test_a_pause_that_a_receiver_asks_for(header: str, seconds: int | None) -> None:
    """F388g: A `Retry-After` that cannot be read is none, and a long one is an hour."""
    with receiving(answer(429, b"", header)) as receiver:
        assert send(receiver.sender()).retry_after == seconds


def test_a_pause_until_a_moment() -> None:
    """A date is the time until then."""
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=1800), usegmt=True)
    with receiving(answer(503, b"", f"Retry-After: {later}")) as receiver:
        found = send(receiver.sender()).retry_after
    assert found is not None
    assert 1600 <= found <= 1800


def test_networks_of_the_operator() -> None:
    """HOOK-6: `RESCIND_OUTBOUND_ALLOWED_NETWORKS` has networks; other values stop the start."""
    allowed = settings.outbound_networks(
        {"RESCIND_OUTBOUND_ALLOWED_NETWORKS": "10.2.0.0/16, fd00::/8"}
    )
    assert [str(each) for each in allowed] == ["10.2.0.0/16", "fd00::/8"]
    assert settings.outbound_networks({}) == ()
    with pytest.raises(InvalidSettings, match="RESCIND_OUTBOUND_ALLOWED_NETWORKS is not valid"):
        settings.outbound_networks({"RESCIND_OUTBOUND_ALLOWED_NETWORKS": "intranet"})
