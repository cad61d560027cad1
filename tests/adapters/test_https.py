"""The client of identity providers, and answers that it must not read (HOOK-6).

tests/test_outbound_http.py has responses that are slow, ambiguous or not HTTP.
"""

from dataclasses import replace
from ipaddress import IPv4Network
from urllib.parse import parse_qs

import pytest

from shared.adapters.https import HttpsClient
from shared.authorizer.http1 import ERROR_BYTES_MAX
from shared.model.outbound import DeliveryOutcome
from shared.ports.outside import OUTBOUND_ANSWER_MAX, OutboundAnswer
from tests.kit.receivers import HOST, answer, receiving

URL = f"https://{HOST}/keys?a=b"
NO_ANSWER = OutboundAnswer(DeliveryOutcome.NO_RESPONSE)
REFUSED = OutboundAnswer(DeliveryOutcome.BLOCKED)


def test_an_address_is_read() -> None:
    """F1181a: A URL is read by one GET, and its answer is whole, whatever the status."""
    error, document = b"x" * ERROR_BYTES_MAX, b"x" * OUTBOUND_ANSWER_MAX
    with receiving(answer(404, error)) as receiver:
        found = receiver.outbound().ask(URL)
    assert found == OutboundAnswer(DeliveryOutcome.RESPONSE, 404, error)
    with receiving(answer(200, document)) as receiver:
        found = receiver.outbound().ask(URL)
    assert found == OutboundAnswer(DeliveryOutcome.RESPONSE, 200, document)
    (request,) = receiver.requests
    assert (request.line, request.body) == ("GET /keys?a=b HTTP/1.1", "")
    assert request.headers == {
        "host": HOST,
        "accept": "application/json",
        "accept-encoding": "identity",
        "connection": "close",
    }


def test_a_form_is_posted() -> None:
    """F1181b: A form is posted with the name and the secret of the client, each encoded."""
    form = {"grant_type": "authorization_code", "code": "a+b&c=ü"}
    with receiving(answer(200)) as receiver:
        assert receiver.outbound().ask(URL, form, user=("a:b", "c d%")).status == 200
    (request,) = receiver.requests
    assert request.line == "POST /keys?a=b HTTP/1.1"
    assert request.headers["content-type"] == "application/x-www-form-urlencoded"
    assert request.headers["authorization"] == "Basic YSUzQWI6YytkJTI1"
    assert {name: values[0] for name, values in parse_qs(request.body).items()} == form


@pytest.mark.parametrize(("status", "limit"), [(200, OUTBOUND_ANSWER_MAX), (404, ERROR_BYTES_MAX)])
def test_an_answer_that_is_none(status: int, limit: int) -> None:
    """F1181c: An answer that is too long is none, and no part of it is used."""
    with receiving(answer(status, b"x" * (limit + 1))) as receiver:
        assert receiver.outbound().ask(URL) == NO_ANSWER
    assert len(receiver.requests) == 1


def test_other_ports_are_of_the_operator() -> None:
    """F1180a: Another port than 443 is connected to in the networks of the operator alone."""
    with receiving(answer(204)) as receiver:
        url = f"https://{HOST}:{receiver.port}/"
        asks = replace(receiver.outbound(), port=1)
        assert asks.ask(url).status == 204
        assert receiver.requests[0].headers["host"] == f"{HOST}:{receiver.port}"
        for addresses in (["1.1.1.1"], ["127.0.0.1", "1.1.1.1"]):
            assert replace(receiver.outbound(addresses), port=1).ask(url) == REFUSED
        elsewhere = replace(asks, networks=(IPv4Network("10.0.0.0/8"),))
        assert elsewhere.ask(url) == REFUSED
        assert receiver.connections == 1


def test_what_is_no_address() -> None:
    """What cannot be an address is no answer, and nothing is raised."""
    for url in ("https://", "https://a..b/", "https://a.example:99999/", f"https://{HOST}:x/"):
        assert HttpsClient(resolve=lambda name: [name]).ask(url) == NO_ANSWER
