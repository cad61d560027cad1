"""Unmodified authorizers of `tenuo` behind a relay."""

import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import cbor2
import pytest

from shared.authorizer.relay import fleet, native, reports
from tests.authorizer.feeds import public, signer
from tests.authorizer.relay.relays import Running, running
from tests.authorizer.service import Response, Service
from tests.kit.waiting import soon

LIST = "/compat/tenuo/v1/revocations/srl/signed"
ROOT = "/compat/tenuo/v1/authorizers"
ID = "svc_azr_01kaj3tmf00000000000000001"
HEX = "0123456789abcdef" * 2
IDS = [f"tnu_wrt_{HEX}", "svc_wrt_b"]


def signed(ids: list[str], version: int, key: int = 7, **changes: Any) -> bytes:
    """The response with a native list."""
    pair = signer(key)
    payload = {"revoked_ids": ids, "version": version, "issued_at": "2026-11-21T12:00:00Z"}
    payload |= {"issuer": [1, public(pair)]}
    signature = pair.sign(b"tenuo-warrant-v1tenuo-srl-v1" + cbor2.dumps(payload))
    data = cbor2.dumps({"payload": payload | changes, "signature": [1, signature]})
    return json.dumps({"srl": base64.b64encode(data).decode(), "version": version}).encode()


@pytest.fixture
def answers() -> dict[str, Response]:
    """What the service answers at each path."""
    return {LIST: Response(signed(IDS, 2))}


@pytest.fixture
def service(service: Service, answers: dict[str, Response]) -> Service:
    service.revoke(f"svc_wrt_{HEX}", "svc_wrt_b")
    service.instead = answers.get
    return service


@pytest.fixture
def relay(service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    monkeypatch.setattr(native, "_PAUSE", 0.01)
    monkeypatch.setattr(reports, "_PAUSE", 0.05)
    with running(service, tmp_path) as relay:
        soon(lambda: relay.holds(1))
        yield relay


def asked(service: Service) -> int:
    return sum(path == LIST for path, _ in service.asked)


def test_the_native_list_is_repeated(
    service: Service, relay: Running, answers: dict[str, Response]
) -> None:
    """FLEET-26, F308a: A relay repeats the native list of the newest entry, and reads each once."""
    assert [relay.get(LIST).body for _ in range(3)] == [signed(IDS, 2)] * 3
    assert asked(service) == 1
    answers[LIST] = Response(signed([*IDS, "svc_wrt_c"], 3))
    service.revoke("svc_wrt_c")
    soon(lambda: relay.holds(2))
    assert relay.get(LIST).body == signed([*IDS, "svc_wrt_c"], 3)
    assert asked(service) == 2


WRONG = {
    "lacks one": signed(IDS[:1], 2),
    "has another": signed([IDS[0], "svc_wrt_c"], 2),
    "has one more": signed([*IDS, "svc_wrt_c"], 2),
    "older": signed(IDS, 1),
    "newer": signed(IDS, 9),
    "altered": signed(IDS, 2, issued_at="2027-11-21T12:00:00Z"),
    "no list": b"{}",
    "garbage": b"[" * 100_000,
    "two versions": signed(IDS, 2).replace(b'"version": 2', b'"version": 3'),
}


@pytest.mark.slow
@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG)
def test_a_list_that_differs_from_the_feed_does_not_pass(
    relay: Running, answers: dict[str, Response], body: bytes
) -> None:
    """F308b: A relay passes on no native list that is not signed, or differs from the feed."""
    right, answers[LIST] = answers[LIST], Response(body)
    assert relay.get(LIST).status == 503
    answers[LIST] = right
    assert relay.get(LIST).status == 200


def test_a_list_of_another_signer_does_not_pass(
    service: Service, relay: Running, answers: dict[str, Response]
) -> None:
    """F308c: The signer of the first native list stays the only one."""
    assert relay.get(LIST).status == 200
    answers[LIST] = Response(signed([*IDS, "svc_wrt_c"], 3, key=8))
    service.revoke("svc_wrt_c")
    soon(lambda: relay.holds(2))
    assert relay.get(LIST).status == 503


def test_a_relay_without_its_service_has_no_native_list(
    relay: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F308d: A stock authorizer gets no list that the service has not confirmed of late.

    It would take it for a new one.
    """
    assert relay.get(LIST).status == 200
    monkeypatch.setattr(relay.relay, "_apply_update", lambda _news: None)
    # What the loop was given before is done once it has answered.
    relay.get("/healthz")
    news = relay.relay.news
    relay.relay.news = replace(news, confirmed=news.confirmed.minus(fleet.AGE_MAX + 1))
    assert relay.get(LIST).status == 503
    relay.relay.news = replace(news, held=None)
    assert relay.get(LIST).status == 503


@pytest.mark.parametrize(
    "passed_on",
    [
        {"srl_version": 2, "srl_health": {"last_fetch_at": "2026-11-21T13:00:00+01:00"}},
        {"srl_version": 2},
        {},
    ],
)
def test_a_stock_heartbeat_is_passed_on(
    service: Service, relay: Running, passed_on: dict[str, Any]
) -> None:
    """F308e: A relay passes on of a stock heartbeat what the service takes from it."""
    more = {"metrics": {"allowed": 3}, "report": "YQ==", "signature": "c2ln"}
    reply = relay.post(f"{ROOT}/{ID}/heartbeat", passed_on | more)
    assert (reply.json()["status"], reply.json()["latest_srl_version"]) == ("ok", 2)
    soon(lambda: service.posted)
    (report,) = service.posted[0][1]["reports"]
    del report["seen_at"]
    assert report == {"id": ID, **passed_on}


def test_registrations_and_events_are_answered_by_the_service(
    service: Service, relay: Running, answers: dict[str, Response]
) -> None:
    """F308f: Registrations and events of stock authorizers have the answers of the service."""
    answers[f"{ROOT}/register"] = Response(b'{"id": "x"}', 201)
    answers[f"{ROOT}/{ID}/events"] = Response(b'{"accepted": 1, "rejected": 0}', 202)
    assert relay.post(f"{ROOT}/register", {"name": "stock"}).status == 201
    assert service.posted[-1][1] == {"name": "stock", "relay": "site-a"}
    events = relay.post(f"{ROOT}/{ID}/events", [{"signature": "a"}])
    assert (events.status, events.body) == (202, b'{"accepted": 1, "rejected": 0}')
    path, said = service.posted[-1]
    assert (path, json.dumps(said)) == (f"{ROOT}/{ID}/events", '[{"signature": "a"}]')
    assert relay.post(f"{ROOT}/svc_azr_x/events", []).status == 404
    assert relay.post(f"{ROOT}/{ID}/events", bytes(4 * 2**20 + 1)).status == 413
