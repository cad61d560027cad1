"""When a client reports, and what: the schedule, and the thread that keeps to it."""

import random
import socket
import threading
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from shared.authorizer import (
    AsyncAuthorizerClient,
    FileStateStore,
    PollPolicy,
    Verdict,
    events,
    reporter,
)
from shared.authorizer.formats.members import from_base64
from shared.authorizer.formats.proofs import SignedReport
from shared.authorizer.reports import (
    ReporterIdentity,
    ReportingState,
    ReportInterval,
    ReportResponse,
    ReportSchedule,
    statement,
)
from shared.authorizer.view import Snapshot
from tests.authorizer.clients import Made, arguments
from tests.authorizer.feeds import signer
from tests.authorizer.service import Response, Service
from tests.kit.asgi import run
from tests.kit.waiting import soon

ID = "svc_azr_01KAJ3TMF0000000000000GATE"
ACCEPTED: dict[str, Any] = {
    "id": ID,
    "status": "ok",
    "feed_sequence": 0,
    "report_after_seconds": 300,
    "jitter_seconds": 0,
}


def answer(spread: float = 50.0, after: float = 300.0) -> ReportResponse:
    return ReportResponse(ReportInterval(after, spread), id=ID, status="ok")


def registered(seed: int, spread: float = 50.0) -> ReportSchedule:
    """A schedule whose first report was accepted at 0."""
    schedule = ReportSchedule(random.Random(seed).uniform)
    schedule.record_registration(answer(spread), 0)
    schedule.record_success(answer(spread), 0, 0)
    return schedule


def test_a_fleet_reports_an_advance_evenly() -> None:
    """FLEET-8, F290a: Each client reports an advance once, evenly within `jitter_seconds`."""
    times = []
    for seed in range(2000):
        schedule = registered(seed)
        due = schedule.due(1, 100.0)
        # It asks itself again meanwhile, and the turn stays the same.
        assert schedule.due(1, due - 0.01) == due
        schedule.record_success(answer(), 1, due)
        assert schedule.due(1, due) >= due + 300
        times.append(due)
    assert min(times) >= 100
    assert max(times) <= 150
    each_five_seconds = Counter(int(each - 100) // 5 for each in times)
    assert all(150 < each_five_seconds[place] < 250 for place in range(10))


def test_at_rest_reports_drift_apart() -> None:
    """FLEET-8, F290b: At rest a client reports after `report_after_seconds`, or a quarter later.

    So reports that came together do not come together again.
    """
    after = [registered(seed).due(0, 0) for seed in range(200)]
    assert 300 <= min(after) < 305
    assert 370 < max(after) <= 375


def test_a_feed_that_never_rests_is_reported_once_in_a_period() -> None:
    """F290c: If the feed never rests, a client reports once each `jitter_seconds`; then the end."""
    schedule, made, now = registered(7), [], 0.0
    for sequence in range(1, 2001):
        now = sequence / 2
        if schedule.due(sequence, now) <= now:
            schedule.record_success(answer(), sequence, now)
            made.append(now)
    assert 19 <= len(made) <= 21
    assert all(49 < second - first < 51 for first, second in pairwise(made))
    assert schedule.due(2000, now) <= now + 50


def test_failures_back_off() -> None:
    """F291a: A report that fails is repeated after 5 to 300 seconds, each time later."""
    schedule = registered(1)
    pauses = [schedule.record_failure(503, 0, 0) for _ in range(9)]
    bounds = [min(5 * 2**count, 300) for count in range(9)]
    assert all(most / 2 <= pause <= most for pause, most in zip(pauses, bounds, strict=True))
    assert len({pause / most for pause, most in zip(pauses, bounds, strict=True)}) == 9
    assert schedule.state is ReportingState.FAILING
    # An advance does not shorten the pause.
    assert schedule.due(5, 10.0) == pauses[-1]
    schedule.record_success(answer(0), 5, 400)
    assert schedule.record_failure(None, 0, 800) <= 5


def test_retry_after_is_obeyed() -> None:
    """F291b: A client that has to come back later does so, at a random time."""
    pauses = [registered(seed).record_failure(429, 120, 0) for seed in range(50)]
    assert 122 <= min(pauses) < max(pauses) <= 125
    assert len(set(pauses)) == 50
    assert registered(1).record_failure(429, 10**9, 0) <= 3605


def test_a_client_that_was_forgotten_registers_again() -> None:
    """F291c: A 404 for a report makes the client register again, ever more rarely if it repeats."""
    schedule, now, registrations = registered(1), 0.0, 0
    while now < 3600:
        now = max(now, schedule.due(1, now))
        if schedule.id is None:
            registrations += 1
            schedule.record_registration(answer(), now)
        else:
            schedule.record_failure(404, 0, now)
            assert schedule.id is None
    assert 12 <= registrations <= 35


@pytest.mark.parametrize("status", [400, 404, 405])
def test_a_service_without_a_registry_is_left_alone(status: int) -> None:
    """F291d: If the service takes no registrations, the client asks again after half an hour."""
    schedule = ReportSchedule(random.Random(1).uniform)
    assert schedule.due(0, 0) <= 0
    assert 1800 <= schedule.record_failure(status, 0, 0) <= 3600
    assert schedule.state is ReportingState.UNSUPPORTED
    assert schedule.due(1, 1) >= 1800


def test_a_report_of_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="before the first state"):
        statement(Snapshot(), PollPolicy(), {}, ReporterIdentity("", "", 1))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no",
        b"[]",
        b"[" * 100_000,
        b'{"id": ""}',
        b'{"id": 7}',
        b'{"id": "\\ud800", "report_after_seconds": 300, "jitter_seconds": 0}',
        b'{"id": "a", "jitter_seconds": 0}',
        b'{"id": "a", "report_after_seconds": true, "jitter_seconds": 0}',
        b'{"id": "a", "report_after_seconds": NaN, "jitter_seconds": 0}',
        b'{"id": "a", "report_after_seconds": 1e999, "jitter_seconds": 0}',
        b'{"id": "a", "report_after_seconds": 300, "jitter_seconds": -1}',
    ],
)
def test_an_answer_that_is_none(body: bytes) -> None:
    """F291e: An answer to a report that makes no sense is an error, and never an exception else."""
    with pytest.raises(ValueError, match=r"response|Expecting value|JSON"):
        ReportResponse.parse(body, has="id")


def test_terms_are_bounded() -> None:
    """F291f: No answer makes a client report without a pause, or never again."""
    often = ReportResponse.parse(
        b'{"id":"a","report_after_seconds":0,"jitter_seconds":0}', has="id"
    )
    never = b'{"id":"a","report_after_seconds":1%s,"jitter_seconds":1e300}' % (b"0" * 300)
    assert often.terms == ReportInterval(10, 0)
    assert ReportResponse.parse(never, has="id").terms == ReportInterval(86_400, 3_600)


@pytest.fixture
def service(service: Service) -> Service:
    service.registry = dict(ACCEPTED)
    return service


def bodies(service: Service) -> list[dict[str, Any]]:
    return [body for path, body in service.posted if path == f"/v1/authorizers/{ID}/heartbeat"]


def reports(service: Service) -> list[SignedReport]:
    return [SignedReport.decode(from_base64(body["report"])) for body in bodies(service)]


def registrations(service: Service) -> list[dict[str, Any]]:
    return [body for path, body in service.posted if path == "/v1/authorizers/register"]


def test_a_client_reports_what_it_holds(service: Service, made: Made) -> None:
    """F292a: A client registers under the name of its host, and reports each entry that it holds.

    It sends what this test lists, and nothing else.
    """
    began = time.time()
    seen: list[events.Event] = []
    client = made(
        policy=PollPolicy(poll_seconds=0.01, max_staleness=7.5), on_event=seen.append
    ).start()
    soon(lambda: reports(service))
    (first,) = registrations(service)
    assert first.keys() == {"name", "type", "version", "features", "proof"}
    assert first["features"] == ["subject-cutoffs"]
    assert (first["name"], first["type"]) == (socket.gethostname(), "rescind-authorizer")
    service.revoke("svc_wrt_a")
    soon(lambda: len(reports(service)) > 1)
    assert bodies(service)[-1].keys() == {"report", "signature"}
    told = reports(service)[-1]
    assert (told.sequence, told.chain) == (1, service.feed.chain)
    assert (told.max_staleness, told.fail_open, told.refused) == (8, False, {})
    assert told.verified_at
    soon(lambda: events.ReportAccepted(1, "ok") in seen)
    status = client.status
    assert (status.reporting, status.authorizer_id) == ("on", ID)
    assert status.reported_at
    assert began <= status.reported_at.timestamp() <= time.time()
    assert len(registrations(service)) == 1


def test_refusals_are_counted_since_the_last_report(service: Service, made: Made) -> None:
    """F292b: A report counts the refused answers by reason since the last report that arrived."""
    client = made().start()
    soon(lambda: reports(service))
    genuine, service.feed.key = service.feed.key, signer(9)
    service.revoke("svc_wrt_a")
    soon(lambda: client.status.refusals)
    service.feed.key = genuine
    service.sign()
    soon(lambda: len(reports(service)) > 1)
    assert reports(service)[-1].refused == client.status.refusals
    service.revoke("svc_wrt_b")
    soon(lambda: len(reports(service)) > 2)
    assert reports(service)[-1].refused == {}


def test_reports_change_no_verdict_and_delay_no_poll(service: Service, made: Made) -> None:
    """F293a: While a report hangs, the client polls and decides as always, and closes at once."""
    hangs, closed = [], threading.Event()

    def hang(path: str) -> Response | None:
        if "/authorizers/" in path:
            hangs.append(path)
            closed.wait()
        return None

    service.instead = hang
    client = made().start()
    soon(lambda: hangs)
    polls = service.polls()
    for number in range(1, 4):
        service.revoke(f"svc_wrt_{number}")
        assert client.wait_for(number, timeout=60)
        assert client.check([f"svc_wrt_{number}"]) is Verdict.REVOKED
        assert client.check(["svc_wrt_other"]) is Verdict.CLEAR
    assert service.polls() >= polls + 3
    assert client.status.reporting is ReportingState.WAITING
    client.close()
    assert not closed.is_set()
    closed.set()
    assert not any(each.is_alive() for each in client._threads)


@pytest.mark.parametrize(
    ("response", "state"),
    [
        (Response(b"no", 503, {"Retry-After": "700"}), "failing"),
        (Response(b"no", 429, {"Retry-After": "700"}), "failing"),
        (Response(b"no json"), "failing"),
        (Response(b"{}" * 70_000), "failing"),
        (Response(b"no such endpoint", 404), "unsupported"),
    ],
)
def test_a_registry_that_fails_changes_nothing(
    service: Service,
    made: Made,
    monkeypatch: pytest.MonkeyPatch,
    response: Response,
    state: str,
) -> None:
    """F293b: No answer of the registry changes a decision; the status shows it.

    The pause is at least as long as the service asks for.
    """
    # The second report is minutes later.
    monkeypatch.setattr("shared.authorizer.reports._BACKOFF", 300.0)
    seen: list[events.Event] = []
    service.instead = lambda path: response if "/authorizers/" in path else None
    client = made(on_event=seen.append).start()
    soon(lambda: client.status.reporting == state)
    soon(lambda: any(isinstance(each, events.ReportFailed) for each in seen))
    (failed,) = [each for each in seen if isinstance(each, events.ReportFailed)]
    assert failed.pause >= (850 if response.headers else 150)
    service.revoke("svc_wrt_a")
    assert client.wait_for(1, timeout=60)
    assert client.check(["svc_wrt_a"]) is Verdict.REVOKED
    assert client.check(["svc_wrt_b"]) is Verdict.CLEAR
    status = client.status
    assert (status.failures, status.refusals, status.reported_at) == (0, {}, None)
    assert len(service.posted) == 1


def test_an_error_does_not_end_the_reports(
    service: Service,
    made: Made,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """F293c: An error that nobody foresaw does not end the thread that reports."""
    monkeypatch.setattr(reporter, "_PAUSE", 0.05)
    with monkeypatch.context() as broken:
        broken.setattr("shared.authorizer.reports.report_path", lambda _id: 1 / 0)
        made().start()
        soon(lambda: "cannot send a report" in caplog.text)
    soon(lambda: reports(service))


def test_a_history_that_the_service_does_not_know(
    service: Service, made: Made, caplog: pytest.LogCaptureFixture
) -> None:
    """F292c: If the service does not know the history that a client holds, the client logs it."""
    seen: list[events.Event] = []
    service.registry = {**ACCEPTED, "status": "equivocation"}
    made(on_event=seen.append).start()
    soon(lambda: events.ReportAccepted(0, "equivocation") in seen)
    assert "differs from the feed of the service" in caplog.text


def test_reports_can_be_turned_off(service: Service, made: Made) -> None:
    """F294a: With `report=False` a client sends no reports."""
    client = made(report=False).start()
    service.revoke("svc_wrt_a")
    assert client.wait_for(1, timeout=60)
    time.sleep(0.05)
    assert service.posted == []
    assert (client.status.reporting, client.status.authorizer_id) == ("off", None)
    # One follows the feed, and one watches the age of the state.
    assert len(client._threads) == 2


def test_each_process_has_a_name_of_its_own(service: Service, made: Made, tmp_path: Path) -> None:
    """F294b: Clients that share a folder register under names of their own, which they use again.

    Otherwise the report of one would hide that another is behind.
    """
    folder = tmp_path / "state"
    first = made(name="gate", state=FileStateStore(folder)).start()
    soon(lambda: len(registrations(service)) == 1)
    made(name="gate", state=FileStateStore(folder)).start()
    soon(lambda: len(registrations(service)) == 2)
    first.close()
    made(name="gate", state=FileStateStore(folder)).start()
    soon(lambda: len(registrations(service)) == 3)
    assert [each["name"] for each in registrations(service)] == ["gate", "gate #2", "gate"]


def test_async_reports(service: Service) -> None:
    """F292d: The asyncio client reports as the other does."""

    async def use() -> None:
        client = AsyncAuthorizerClient(service.url, **arguments(name="gate"))
        async with client:
            async for event in client.events():
                if isinstance(event, events.ReportAccepted):
                    break

    run(use())
    assert registrations(service)[0]["name"] == "gate"
    assert reports(service)[0].sequence == 0
