"""Authorizers behind a relay report through it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shared.authorizer import AuthorizerClient
from shared.authorizer.formats.members import from_base64
from shared.authorizer.formats.proofs import SignedReport
from shared.authorizer.relay import relay as relay_state
from shared.authorizer.relay import reports
from shared.authorizer.reports import ReportingState
from tests.authorizer.clients import arguments
from tests.authorizer.relay.relays import Reply, Running, running
from tests.authorizer.service import Response, Service
from tests.kit.waiting import soon

REGISTER = "/v1/authorizers/register"
REPORTS = "/v1/authorizers/reports"
PACE = {"report_after_seconds": 400, "jitter_seconds": 0}


def named(number: int) -> str:
    """The identifier of an authorizer."""
    return f"svc_azr_01kaj3tmf{number:017d}"


def beat(number: int) -> str:
    return f"/v1/authorizers/{named(number)}/heartbeat"


def said(text: str) -> dict[str, str]:
    """A signed report; a relay does not read it."""
    return {"report": text, "signature": "c2ln"}


class Registry:
    """What the service says to registrations and reports."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.outcomes: dict[str, str] = {}
        self.bad: set[str] = set()
        self.fails = False
        service.instead = self.answer

    def answer(self, path: str) -> Response | None:
        if path == REGISTER and not self.fails:
            return Response(json.dumps({"id": named(1), **PACE}).encode(), 201)
        if path in (REGISTER, REPORTS) and self.fails:
            return Response(b"not now", 503, {"Retry-After": "0"})
        if path != REPORTS:
            return None
        # A relay makes one such request at a time.
        return self.taken([body for each, body in self.service.posted if each == REPORTS][-1])

    def taken(self, body: dict[str, Any]) -> Response:
        ids = [each["id"] for each in body["reports"]]
        if len(ids) > 100 or self.bad & {*ids}:
            return Response(b"bad", 400)
        results = [{"id": each, "status": self.outcomes.get(each, "ok")} for each in ids]
        return Response(json.dumps({"results": results, **PACE}).encode())

    def batches(self) -> list[list[dict[str, Any]]]:
        """The reports of each request."""
        return [body["reports"] for path, body in self.service.posted if path == REPORTS]

    def reported(self) -> dict[str, dict[str, Any]]:
        """The last report of each authorizer."""
        return {each["id"]: each for batch in self.batches() for each in batch}


@pytest.fixture
def registry(service: Service) -> Registry:
    service.revoke("svc_wrt_a")
    return Registry(service)


@pytest.fixture
def relay(registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    monkeypatch.setattr(reports, "_PAUSE", 0.1)
    with running(registry.service, tmp_path) as relay:
        soon(lambda: relay.holds(1))
        yield relay


def pending(relay: Running) -> int:
    """How many authorizers wait to be reported; the loop of the relay counts them."""
    lines = relay.get("/metrics").body.decode().splitlines()
    figures = dict(line.split() for line in lines if not line.startswith("#"))
    return int(figures["rescind_relay_reports_pending"])


def fail_again(relay: Running) -> None:
    """Wait for another failure. The request after that one has all that was reported before."""
    failures = relay.relay.reports.counts["failures"]
    soon(lambda: relay.relay.reports.counts["failures"] > failures)


def client(url: str) -> AuthorizerClient:
    return AuthorizerClient(url, **arguments(api_key="a-token", name="gateway-1"))


def test_a_client_reports_through_a_relay(registry: Registry, relay: Running) -> None:
    """FLEET-25, F307a: The service learns of each authorizer behind a relay, by its name."""
    with client(relay.url).start() as held:
        soon(registry.reported)
        (report,) = registry.reported().values()
        told = SignedReport.decode(from_base64(report["report"]))
        assert (report["id"], told.authorizer_id, told.sequence) == (named(1), named(1), 1)
        assert told.chain.hex() == held.status.chain
        assert report["seen_at"].endswith("Z")
        soon(lambda: held.status.reporting is ReportingState.ON)
    (registration,) = [body for path, body in registry.service.posted if path == REGISTER]
    assert (registration["name"], registration["relay"]) == ("gateway-1", "site-a")


def test_reports_are_passed_on_in_batches(registry: Registry, relay: Running) -> None:
    """F307b: Reports that come together are passed on in requests of up to a hundred."""
    registry.fails = True
    for number in range(120):
        assert relay.post(beat(number), said(str(number)) | {"metrics": 1}).status == 200
    assert pending(relay) == 120
    registry.fails = False
    soon(lambda: not relay.relay.reports.pending and len(registry.reported()) == 120)
    assert all(len(batch) <= 100 for batch in registry.batches())
    found = [each["report"] for each in registry.reported().values()]
    assert found == [str(number) for number in range(120)]
    assert "metrics" not in registry.reported()[named(7)]


def test_no_report_is_lost_while_the_service_is_away(registry: Registry, relay: Running) -> None:
    """F307c: Without the service, the newest report of each authorizer stays."""
    registry.fails = True
    relay.post(beat(1), said("a"))
    relay.post(beat(2), said("b"))
    soon(lambda: relay.relay.reports.counts["failures"])
    relay.post(beat(1), said("c"))
    fail_again(relay)
    registry.fails = False
    soon(lambda: not relay.relay.reports.pending)
    assert {each["id"]: each["report"] for each in registry.batches()[-1]} == {
        named(1): "c",
        named(2): "b",
    }


def test_one_bad_report_does_not_stop_the_others(registry: Registry, relay: Running) -> None:
    """F307d: A report that the service refuses is dropped, and no other of its batch."""
    registry.bad = {named(3)}
    for number in range(6):
        relay.post(beat(number), said(str(number)))
    soon(lambda: relay.relay.reports.counts["dropped"] == 1)
    soon(lambda: relay.relay.reports.counts["sent"] == 5)
    assert pending(relay) == 0


@pytest.mark.parametrize(
    ("outcome", "status"),
    [("ok", 200), ("equivocation", 200), ("not_found", 404), ("full", 429), ("refused", 409)],
)
def test_the_next_report_learns_what_the_service_said(
    registry: Registry, relay: Running, outcome: str, status: int
) -> None:
    """F307e: An authorizer learns with its next report what became of the one before."""
    registry.outcomes[named(1)] = outcome
    assert relay.post(beat(1), said("a")).json()["status"] == "ok"
    soon(lambda: relay.relay.reports.counts["sent"])
    reply = relay.post(beat(1), said("b"))
    assert reply.status == status
    if status == 200:
        assert reply.json() == {
            "status": outcome,
            "feed_sequence": 1,
            "srl_version": 2,
            **PACE,
        }


def test_signed_reports_are_passed_on_unchanged(registry: Registry, relay: Running) -> None:
    """FLEET-25, F785a: A relay passes proofs and signed reports on as they are."""
    proof = {"payload": "cGF5bG9hZA==", "signature": "c2ln"}
    assert relay.post(REGISTER, {"name": "a", "proof": proof}).status == 201
    sent = {"name": "a", "proof": proof, "relay": "site-a"}
    assert registry.service.posted[-1] == (REGISTER, sent)
    assert relay.post(beat(1), said("cmVwb3J0") | {"srl_version": 1}).status == 200
    soon(registry.reported)
    found = registry.reported()[named(1)]
    del found["seen_at"]
    assert found == {"id": named(1), **said("cmVwb3J0")}


def test_callers_do_not_replace_the_reports_of_each_other(
    registry: Registry, relay: Running
) -> None:
    """FLEET-25, F785b: What B says of A neither replaces what A says, nor learns its answers.

    A is told nothing of the refusals of B.
    """

    def tell(token: str, report: str) -> Reply:
        body = json.dumps(said(report)).encode()
        return relay.get(beat(1), method="POST", data=body, Authorization=f"Bearer {token}")

    registry.fails = True
    assert tell("token-of-a", "YQ==").status == 200
    for number in range(3):
        assert tell("token-of-b", f"YmI{number}").status == 200
    assert pending(relay) == 2
    fail_again(relay)

    def taken(body: dict[str, Any]) -> Response:
        results = [
            {"id": each["id"], "status": "ok" if each["report"] == "YQ==" else "refused"}
            for each in body["reports"]
        ]
        return Response(json.dumps({"results": results, **PACE}).encode())

    registry.taken = taken  # type: ignore[method-assign]
    registry.fails = False
    soon(lambda: relay.relay.reports.counts["sent"] == 2)
    # A request has each authorizer once.
    answered = [[each["report"] for each in batch] for batch in registry.batches()]
    assert sorted(answered[-2:]) == [["YQ=="], ["YmI2"]]
    assert tell("token-of-a", "YQ==").status == 200
    reply = tell("token-of-b", "YmI=")
    assert (reply.status, reply.json()["error"]["code"]) == (409, "conflict")


def test_too_many_authorizers_are_told_to_wait(
    registry: Registry, relay: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F307f: A relay keeps a bounded number of reports, and answers the others with 429."""
    registry.fails = True
    monkeypatch.setattr(reports, "AUTHORIZERS_MAX", 2)
    statuses = [relay.post(beat(number), said("a")).status for number in (1, 2, 3, 1)]
    assert statuses == [200, 200, 429, 200]


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        (beat(1), b"{", 400),
        (beat(1), b"[]", 400),
        (beat(1), b"[" * 60_000, 400),
        (beat(1), bytes(65 * 1024), 413),
        (beat(1), b"{}", 400),
        (beat(1), b'{"report": "YQ==", "srl_version": 1}', 400),
        (beat(1), b'{"report": "YQ==", "signature": 5}', 400),
        ("/v1/authorizers/svc_azr_x/heartbeat", b'{"report": "", "signature": ""}', 404),
        (REGISTER, b"no", 400),
    ],
)
def test_bad_reports_are_refused(
    registry: Registry, relay: Running, path: str, body: bytes, status: int
) -> None:
    """F307g: A relay refuses a report that is not signed, or too large, or of nobody."""
    reply = relay.post(path, body)
    assert reply.status == status
    assert set(reply.json()["error"]) == {"code", "message"}
    assert registry.service.posted == []


def test_a_registration_needs_the_service(registry: Registry, relay: Running) -> None:
    """F307h: A registration has the answer of the service, also if that is an error."""
    registry.fails = True
    reply = relay.post(REGISTER, {"name": "a"})
    assert (reply.status, reply.headers["retry-after"], reply.body) == (503, "0", b"not now")


def test_what_is_no_answer_is_asked_again(
    registry: Registry, relay: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F307i: Reports are repeated until the service says what became of them."""
    with monkeypatch.context() as broken:
        broken.setattr(registry, "taken", lambda _body: Response(b'{"results": 1}'))
        relay.post(beat(1), said("a"))
        soon(lambda: relay.relay.reports.counts["failures"])
    soon(lambda: relay.relay.reports.counts["sent"] == 1)


def test_a_relay_that_stops_passes_on_the_last_reports(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F307j: A relay that stops passes on the reports that it has."""
    # No report is passed on before the stop, which waits for the service.
    monkeypatch.setattr(reports, "_PAUSE", 3600.0)
    monkeypatch.setattr(relay_state, "_LAST_REPORTS_SECONDS", 60.0)
    with running(registry.service, tmp_path) as relay:
        soon(lambda: relay.holds(1))
        relay.post(beat(1), said("a"))
    assert [*registry.reported()] == [named(1)]
