"""What issuers publish, the codes that they take, and where the service looks for them."""

import json
from collections.abc import Callable
from dataclasses import replace
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs

import pytest

from shared.adapters.https import HttpsClient, HttpsSender
from shared.authorizer.formats.token_kinds import TokenFault
from shared.errors import InvalidRequest, Unavailable
from shared.model.identities.claims import CodeFault, SignInRefused
from shared.model.outbound import DeliveryOutcome, EventMessage
from shared.operations.identities import issuers, sign_in
from shared.ports import Ports
from tests.kit import identities
from tests.kit.issuers import ISSUER as KIT
from tests.kit.issuers import key, key_set, public
from tests.kit.receivers import HOST, Script, answer, receiving
from tests.kit.tenants import Tenant
from tests.kit.worlds import Clock

ISSUER = f"https://{HOST}"
PUBLISHED = {
    "issuer": ISSUER,
    "jwks_uri": f"{ISSUER}/keys",
    "token_endpoint": f"{ISSUER}:8443/token",
    "authorization_endpoint": f"{ISSUER}/authorize?a=b",
}


def _reaching(ports: Ports, outbound: HttpsClient) -> Ports:
    return replace(ports, outbound=lambda: outbound, sleep=lambda _: None)


def _discover(ports: Ports, script: Script, issuer: str = ISSUER) -> Any:
    with receiving(script) as receiver:
        found = issuers.discover(_reaching(ports, receiver.outbound()), issuer)
        assert receiver.requests[0].line == "GET /.well-known/openid-configuration HTTP/1.1"
    return found


def _redeem(ports: Ports, secret: str | None = "s3cret") -> str:
    page = "https://rescind.example/console/signed-in/a"
    form = {"code": "c", "code_verifier": "v", "redirect_uri": page, "nonce": "n"}
    return sign_in.exchange_code(ports, f"{ISSUER}/token", form, "console", secret)


def test_what_an_issuer_publishes(ports: Ports) -> None:
    """F1184a: An issuer is discovered by its document; an endpoint that it lacks is None."""
    found = _discover(ports, answer(200, json.dumps(PUBLISHED).encode()))
    assert (found.jwks_uri, found.token_endpoint) == (
        PUBLISHED["jwks_uri"],
        PUBLISHED["token_endpoint"],
    )
    assert found.authorization_endpoint == PUBLISHED["authorization_endpoint"]
    assert found.device_authorization_endpoint is None


def test_a_lenient_reading(ports: Ports) -> None:
    """F2001a: A byte order mark, repeated members, and a wrong optional address are accepted."""
    document = json.dumps({"device_authorization_endpoint": "https://a@hooks.example.com/"})[1:-1]
    body = json.dumps(PUBLISHED)[:-1] + f', "x": 1, "x": NaN, {document}}}'
    found = _discover(ports, answer(200, b"\xef\xbb\xbf" + body.encode()))
    assert found.jwks_uri == PUBLISHED["jwks_uri"]
    assert found.device_authorization_endpoint is None
    with pytest.raises(InvalidRequest):
        _discover(ports, answer(200, json.dumps(PUBLISHED).encode("utf-16")))


@pytest.mark.parametrize(
    "document",
    [
        PUBLISHED | {"issuer": f"{ISSUER}/"},
        PUBLISHED | {"issuer": "https://login.example.com/{tenantid}/v2.0"},
        PUBLISHED | {"jwks_uri": None},
        PUBLISHED | {"jwks_uri": "http://hooks.example.com/keys"},
        PUBLISHED | {"jwks_uri": "https://127.0.0.1/keys"},
        PUBLISHED | {"token_endpoint": "https://169.254.169.254/token"},
        PUBLISHED | {"token_endpoint": ["https://hooks.example.com/token"]},
        PUBLISHED | {"authorization_endpoint": "javascript:alert(1)"},
        [],
        "",
    ],
)
def test_what_is_no_issuer(ports: Ports, document: object) -> None:
    """F1184b: A document of another issuer, or one with an address that is none, is refused."""
    with pytest.raises(InvalidRequest):
        _discover(ports, answer(200, json.dumps(document).encode()))


def test_an_issuer_that_does_not_answer(ports: Ports) -> None:
    """F1184c: A failure of an issuer is an outage; a page that is not there is no issuer."""
    for status in (500, 503):
        with pytest.raises(Unavailable, match="does not respond"):
            _discover(ports, answer(status))
    for status, body in ((404, b"{}"), (302, b""), (200, b"<html>")):
        with pytest.raises(InvalidRequest):
            _discover(ports, answer(status, body, "Location: https://evil.example/"))


@pytest.mark.parametrize(
    "issuer",
    ["http://sso.example.com", f"{ISSUER}?a=b", f"{ISSUER}/#a", "https://10.0.0.1", "sso", ""],
)
def test_what_cannot_be_an_issuer(ports: Ports, issuer: str) -> None:
    """F1184d: An issuer is an https address with a DNS name, and has neither query nor fragment."""
    with pytest.raises(InvalidRequest, match="issuer"):
        issuers.discover(ports, issuer)


def test_a_code_is_redeemed(ports: Ports) -> None:
    """F1185a: A code is redeemed with its verifier, and the secret is in the header alone."""
    with receiving(answer(200, b'{"id_token": "a.b.c"}')) as receiver:
        reaching = _reaching(ports, receiver.outbound())
        assert _redeem(reaching) == "a.b.c"
        assert _redeem(reaching, None) == "a.b.c"
    confidential, anyone = receiver.requests
    assert confidential.line == "POST /token HTTP/1.1"
    assert "s3cret" not in confidential.body
    assert confidential.headers["authorization"] == "Basic Y29uc29sZTpzM2NyZXQ="
    assert "authorization" not in anyone.headers
    assert {name: values[0] for name, values in parse_qs(anyone.body).items()} == {
        "grant_type": "authorization_code",
        "code": "c",
        "code_verifier": "v",
        "redirect_uri": "https://rescind.example/console/signed-in/a",
        "client_id": "console",
    }


@pytest.mark.parametrize(
    ("status", "body", "fault"),
    [
        (400, b'{"error": "invalid_grant"}', CodeFault.CODE),
        (400, b'{"error": "invalid_client"}', CodeFault.CLIENT),
        (400, b'{"error": []}', CodeFault.CODE),
        (401, b"", CodeFault.CLIENT),
        (400, b'{"error": "invalid_grant", "id_token": "a.b.c"}', CodeFault.CODE),
        (200, b'{"access_token": "a"}', CodeFault.CODE),
        (200, b'{"id_token": 1}', CodeFault.CODE),
        (200, b"[]", CodeFault.CODE),
        (302, b"", CodeFault.CODE),
        (500, b'{"id_token": "a.b.c"}', None),
        (429, b"", None),
    ],
)
def test_a_code_that_is_refused(
    ports: Ports, status: int, body: bytes, fault: TokenFault | None
) -> None:
    """F1185b: A refused code, a refused client and a provider that fails are told apart."""
    with receiving(answer(status, body)) as receiver:
        reaching = _reaching(ports, receiver.outbound())
        if fault is None:
            with pytest.raises(Unavailable):
                _redeem(reaching)
            return
        with pytest.raises(SignInRefused) as refused:
            _redeem(reaching)
    assert refused.value.reason is fault


def test_keys_of_a_page_that_failed(ports: Ports) -> None:
    """F1183j: Keys in an answer that is no success are not used."""
    keys = key_set(public(key("ES256"), kid="a")).encode()
    with receiving(answer(HTTPStatus.INTERNAL_SERVER_ERROR, keys)) as receiver:
        reaching = _reaching(ports, receiver.outbound())
        with pytest.raises(Unavailable):
            issuers.keys_of(reaching, f"{ISSUER}/keys", "a")
    assert len(receiver.requests) == 1


def _keys(ports: Ports) -> object:
    return issuers.keys_of(ports, f"{ISSUER}/keys", "a")


# What asks at each of the three addresses, and what it says if the address is not allowed.
ASKS: dict[str, tuple[Callable[[Ports], object], type[Exception]]] = {
    "issuer": (lambda ports: issuers.discover(ports, ISSUER), InvalidRequest),
    "jwks_uri": (_keys, Unavailable),
    "token_endpoint": (_redeem, Unavailable),
}
NOT_ALLOWED = [
    ["127.0.0.1"],
    ["1.1.1.1", "127.0.0.1"],
    ["127.0.0.1", "1.1.1.1"],
    ["::ffff:127.0.0.1"],
    ["64:ff9b::7f00:1"],
    ["169.254.169.254"],
    ["fd00:ec2::254"],
    ["0.0.0.0"],
]


@pytest.mark.parametrize("addresses", NOT_ALLOWED)
@pytest.mark.parametrize("asks", [*ASKS, "webhook"])
def test_nothing_is_asked_of_what_is_not_public(
    ports: Ports, asks: str, addresses: list[str]
) -> None:
    """HOOK-6, F387d, F1186a: If any address of a name is not public, no connection is made."""
    with receiving(answer(200)) as receiver:
        if asks == "webhook":
            sender: HttpsSender = replace(receiver.sender(addresses), networks=())
            (sent,) = sender.send(f"{ISSUER}/", [EventMessage("a", {}, b"{}")])
            assert sent.outcome is DeliveryOutcome.BLOCKED
        else:
            ask, error = ASKS[asks]
            with pytest.raises(error):
                ask(_reaching(ports, replace(receiver.outbound(addresses), networks=())))
        assert receiver.connections == 0


@pytest.mark.parametrize("asks", ASKS)
def test_no_redirect_of_a_provider_is_followed(ports: Ports, asks: str) -> None:
    """F1186b: A redirect of a provider, to whatever address, is a failure and is not followed."""
    location = "Location: http://169.254.169.254/latest/meta-data/"
    for status in (301, 302, 303, 307, 308):
        with receiving(answer(status, b"", location)) as receiver:
            reaching = replace(_reaching(ports, receiver.outbound()), issuer_keys={})
            with pytest.raises((InvalidRequest, SignInRefused, Unavailable)):
                ASKS[asks][0](reaching)
            # The turn to fetch keys is free once a minute.
            assert receiver.connections == (status == 301 or asks != "jwks_uri")


def test_what_a_bound_issuer_publishes_later(ports: Ports, tenant: Tenant, clock: Clock) -> None:
    """F1315a: A day later, endpoints that moved are followed; one fetch a day serves all processes.

    While the issuer is down, or publishes what could not be bound, they stay as they were.
    """
    provider, outside = identities.bound_outside(ports, tenant.operator), identities.published()
    (where,) = (uri for uri in outside.documents if "well-known" in uri)
    before = str(outside.documents[where])
    outside.documents[where] = before.replace(f"{KIT}/token", f"{KIT}/moved")

    def token_endpoint() -> str | None:
        # As another process does each time.
        asking = replace(ports, outbound=lambda: outside, issuer_keys={})
        issuers.refresh(asking, provider)
        return issuers.current(asking, provider).token_endpoint

    assert (token_endpoint(), outside.asked) == (f"{KIT}/token", [])
    clock.advance(hours=24)
    outside.is_down = True
    assert token_endpoint() == f"{KIT}/token"
    outside.is_down = False
    clock.advance(minutes=1)
    assert [token_endpoint() for _ in range(3)] == [f"{KIT}/moved"] * 3
    assert len(outside.asked) == 2
    clock.advance(hours=24)
    for wrong in (
        "[]",
        before.replace(KIT, "https://other.example.com"),
        before.replace("s:", ":"),
    ):
        outside.documents[where] = wrong
        assert token_endpoint() in {f"{KIT}/moved", f"{KIT}/token"}
        clock.advance(hours=24)
