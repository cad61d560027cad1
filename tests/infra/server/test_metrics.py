"""`/metrics` of one machine, read by the parser of Prometheus' own library."""

import logging
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import httpx2
import pytest
from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families as parsed
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from functions.webhooks import operations as managing
from functions.webhooks.records import DisableReason
from infra.data_folder import METRICS_VARIABLE
from infra.server import metrics
from infra.server import ops as local_ops
from infra.server.board import PUBLISHER, ProcessStatus
from infra.server.metric_names import METRICS
from infra.server.metrics import Handler, StoreCollector, with_metrics
from shared import logs
from shared.errors import PreconditionFailed, Unavailable
from shared.model.items import Partition, Table
from shared.model.signing_keys import SigningKeyType
from shared.operations.changes import signing_keys
from shared.ports import Ports
from shared.ports.store import Expect, Put
from tests.kit import processes
from tests.kit.asgi import run
from tests.kit.faults import Script, raises, scripted
from tests.kit.tenants import Tenant
from tests.kit.waiting import soon
from tests.kit.worlds import Clock

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]
CHECK = "/v1/revocations/check"


@pytest.mark.slow
def test_all_workers_count_together_and_the_next_run_begins_at_zero(tmp_path: Path) -> None:
    """F427a: Metrics are the sums over all worker processes, and a restart begins at zero."""
    for _ in range(2):
        with _server(tmp_path / "data", workers=2) as (server, ops), httpx2.Client() as http:
            _ask(server, 6)
            found = _samples(http.get(f"{ops}/metrics"))
            assert found[_of("requests_total", operation="check_revocation", outcome="ok")] == 6
            assert found[_of("request_seconds_count", operation="check_revocation")] == 6
            assert found[_of("requests_total", operation="none", outcome="not_found")] == 1
            assert found[_of("store_seconds_count", operation="get_many")] > 0
            assert found[_of("ready")] == 1
            assert 0 <= found[_of("audit_log_append_lag_seconds")] < 60
            assert 0 <= found[_of("srl_age_seconds")] < 60
            assert 3500 < found[_of("srl_expires_in_seconds")] <= 3600


def test_the_address_serves_metrics_and_health_alone(tmp_path: Path) -> None:
    """OPS-21, F427b: Nothing else is served there, it needs no key, and a lost store is seen."""
    with _server(tmp_path / "data") as (server, ops), httpx2.Client() as http:
        assert http.get(f"{ops}/v1/keys").status_code == 404
        assert http.get(f"{server.url}/metrics").status_code == 401
        assert http.get(f"{ops}/healthz").json() == {"status": "alive"}
        assert http.get(f"{ops}/readyz").json()["status"] == "ready"
        accept = {"Accept": "application/openmetrics-text; version=1.0.0"}
        openmetrics = http.get(f"{ops}/metrics", headers=accept)
        assert openmetrics.headers["content-type"].startswith("application/openmetrics-text")
        assert openmetrics.text.endswith("# EOF\n")
        with closing(sqlite3.connect(server.data / "svc.db")) as database:
            database.execute("ALTER TABLE keys RENAME TO lost")
        found = _samples(http.get(f"{ops}/metrics"))
        assert found[_of("ready")] == 0
        assert _of("srl_age_seconds") not in found


# What a process of the server logs when it cannot be made to within a minute.
_RARE = """
import logging
from infra.server.metrics import Handler, STORE_UNAVAILABLE
from shared import logs

by = {"Action": "revoke", "Outcome": "revoked"}
for metric in ("AuthorizersUnknown", "BatchItems", "WebhookDeliveries"):
    Handler().emit(logging.makeLogRecord(logs.fields(metrics={metric: 1}, by=by)))
STORE_UNAVAILABLE.labels("get").inc()
"""


@pytest.mark.slow
def test_each_metric_that_is_watched_is_served(tmp_path: Path) -> None:
    """F1342a: A scrape has each metric of the table, of its kind and with its labels; no other one.

    The expressions of alerts and dashboard name these metrics alone (F1340b).
    """
    with _server(tmp_path / "data") as (server, ops), httpx2.Client() as http:
        _ask(server, 1)
        assert http.get(f"{server.url}{CHECK}").status_code == 401
        settings = {METRICS_VARIABLE: str(tmp_path / "data/metrics" / ops.removeprefix("http://"))}
        rare = processes.run("-c", _RARE, settings=settings)
        assert rare.returncode == 0, rare.stderr
        text = http.get(f"{ops}/metrics").text
    served = {}
    for family in parsed(text):
        labels = {label for sample in family.samples for label in sample.labels} - {"le", "pid"}
        name = f"{family.name}_total" if family.type == "counter" else family.name
        served[name] = (family.type, labels, family.documentation)
    assert served == {
        name: (each.kind, {*each.labels}, each.help) for name, each in METRICS.items()
    }


def _ask(server: processes.LocalServer, times: int) -> None:
    headers = {"Authorization": f"Bearer {server.admin_key}"}
    for _ in range(times):
        # A connection each, so that both workers get some.
        asked = httpx2.get(f"{server.url}{CHECK}?warrant_id=svc_wrt_a", headers=headers)
        assert asked.status_code == 200
    assert httpx2.get(f"{server.url}/v1/nothing", headers=headers).status_code == 404


@contextmanager
def _server(data: Path, workers: int = 1) -> Iterator[tuple[processes.LocalServer, str]]:
    """A server, and the URL of its address for metrics."""
    ops = f"{processes.HOST}:{processes.free_port()}"
    options = ("--ops-address", ops, "--log-level", "warning")
    with processes.local_server(data, *options, workers=workers) as server:
        yield server, f"http://{ops}"


def _samples(answer: httpx2.Response) -> Samples:
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return {
        (sample.name.removeprefix("rescind_"), tuple(sorted(sample.labels.items()))): sample.value
        for family in parsed(answer.text)
        for sample in family.samples
    }


def _of(name: str, **labels: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    return name, tuple(sorted(labels.items()))


# --- in one process ---


def _count(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(f"rescind_{name}", labels) or 0


def test_each_reason_of_a_refusal_is_counted() -> None:
    """F428a: Refusals are counted by reason, failures by kind; other lines are not counted."""
    counted = [
        ("Rejected401", "requests_rejected_total", {"reason": "unauthorized"}),
        ("Rejected403", "requests_rejected_total", {"reason": "scope"}),
        ("Rejected429", "requests_rejected_total", {"reason": "rate"}),
        ("RequestsFailed", "requests_failed_total", {}),
        ("RequestsUnavailable", "requests_unavailable_total", {}),
        ("IdempotentReplays", "idempotent_replays_total", {}),
    ]
    for metric, name, labels in counted:
        before = _count(name, **labels)
        record = logging.makeLogRecord(logs.fields(metrics={metric: 1, "Published": 1}))
        Handler().emit(record)
        assert _count(name, **labels) == before + 1
    Handler().emit(logging.makeLogRecord({}))


def test_the_wait_of_each_change_is_measured() -> None:
    """F1681a: The histogram has the time of each change from its acknowledgement to its entry."""

    def at_most(seconds: str) -> float:
        return _count("change_published_seconds_bucket", le=seconds)

    before = at_most("1.0"), at_most("5.0"), _count("change_published_seconds_count")
    name = "ChangePublishedSeconds"
    figures = logs.fields(metrics={name: 7.0}, samples={name: [0.2, 0.9, 4.0, 7.0]})
    Handler().emit(logging.makeLogRecord(figures))
    after = at_most("1.0"), at_most("5.0"), _count("change_published_seconds_count")
    assert [now - then for now, then in zip(after, before, strict=True)] == [2, 3, 4]


def test_calls_of_the_store_are_measured(ports: Ports) -> None:
    """F429a: Each call of the store is measured by verb; lost races and failures are counted."""
    partition = Partition(Table.KEYS, "T")
    address = partition.address("a")
    store = with_metrics(ports).store
    store.write(Put(address, {"version": 1}, Expect.ABSENT))
    before = {verb: _count("store_seconds_count", operation=verb) for verb in ("get", "query")}
    lost = _count("store_conflicts_total")
    assert store.get(address) == {"version": 1}
    assert [row.sk for row in store.query(partition)] == ["a"]
    assert {v: _count("store_seconds_count", operation=v) - n for v, n in before.items()} == {
        "get": 1,
        "query": 2,
    }
    with pytest.raises(PreconditionFailed):
        store.write(Put(address, {}, Expect.ABSENT))
    assert _count("store_conflicts_total") == lost + 1
    failed = _count("store_unavailable_total", operation="query")
    broken = scripted(ports, Script(before={0: raises(Unavailable("down"))}))
    with pytest.raises(Unavailable):
        list(with_metrics(broken).store.query(partition))
    assert _count("store_unavailable_total", operation="query") == failed + 1


def test_a_process_that_is_down_is_named(ports: Ports) -> None:
    """OPS-21, F555b: `/metrics` says which processes run, and how often each has ended."""
    board = ProcessStatus([PUBLISHER, "worker 1"])
    for name in board.names:
        board.record_start(name)
    board.record_exit(PUBLISHER)
    board.record_leadership(
        0, schedule=time.monotonic() - 1000, append_time=time.monotonic() - 1000
    )
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in StoreCollector(lambda: ports, board).collect()
        for sample in family.samples
    }
    assert found["rescind_process_up", "worker 1"] == 1
    assert found["rescind_process_up", PUBLISHER] == 0
    assert found["rescind_process_restarts_total", PUBLISHER] == 1
    # The ages count from the start of the server if nothing later is known.
    assert 0 <= found["rescind_scheduler_last_run_age_seconds",] < 1000


def test_one_server_tells_the_ages(ports: Ports) -> None:
    """F621a: Of several servers on the same data, the leader alone reports the ages of lists."""
    board = ProcessStatus([PUBLISHER])

    def told() -> set[str]:
        return {each.name for each in StoreCollector(lambda: ports, board).collect()}

    Tenant.create(ports)
    board.record_leadership(time.monotonic(), schedule=0, append_time=0)
    ages = {"rescind_srls_overdue", "rescind_srl_age_seconds", "rescind_feeds_lagging"}
    assert ages < told()
    board.record_other_leader(time.monotonic())
    assert not ages & told()
    assert {"rescind_ready", "rescind_leader_last_seen_seconds"} < told()


def test_blobs_that_are_away_hide_no_gauge(ports: Ports) -> None:
    """F1936a: Without blobs `rescind_ready` is 0, and ages of lists and changes are reported."""
    board, script = ProcessStatus([PUBLISHER]), Script()
    Tenant.create(ports)
    board.record_leadership(time.monotonic(), schedule=0, append_time=0)

    def told(found: Ports) -> dict[str, float]:
        families = StoreCollector(lambda: found, board).collect()
        return {each.name: each.value for family in families for each in family.samples}

    whole = told(scripted(ports, script))
    away = {script.calls.index("get_blob"): raises(Unavailable("down"))}
    found = told(scripted(ports, Script(before=away)))
    assert (whole["rescind_ready"], found["rescind_ready"]) == (1, 0)
    assert found.keys() == whole.keys()
    assert {"rescind_srls_overdue", "rescind_feeds_lagging"} < found.keys()


def test_health_names_a_process_that_is_down(
    ports: Ports, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OPS-21, F555c: `/healthz` of the address for metrics names each process that is down."""
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    board = ProcessStatus([PUBLISHER, "worker 1"])
    app = local_ops._app(lambda: ports, board)
    (lives,) = [each for each in app.routes if getattr(each, "path", "") == "/healthz"]
    assert isinstance(lives, Route)

    def asked() -> Response:
        answer: Response = run(lives.endpoint(Request({"type": "http", "headers": []})))
        return answer

    board.record_start("worker 1")
    assert asked().status_code == 503
    assert b"publisher" in asked().body
    assert b"worker" not in asked().body
    board.record_start(PUBLISHER)
    assert asked().status_code == 200


def test_keys_that_expire_soon_are_counted(
    ports: Ports, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F380b: One machine reports how many keys expire within 1, 7 and 30 days, for each kind."""
    tenant, gauges = Tenant.create(ports), StoreCollector(lambda: ports, ProcessStatus())
    for days in (5, 20, 20):
        end = clock() + timedelta(days=50 + days)
        signing_keys.create(
            ports, tenant.operator, type_=SigningKeyType.ROOT, name="k", expires_at=end
        )

    def found() -> list[float]:
        (family,) = [
            each for each in gauges.collect() if each.name.endswith("credentials_expiring")
        ]
        return [sample.value for sample in family.samples if sample.labels["kind"] == "key"]

    assert found() == [0, 0, 0]
    clock.advance(days=50)
    assert found() == [0, 0, 0]
    monkeypatch.setattr(gauges._expiring, "_count_at", 0)
    assert found() == [0, 1, 3]


def test_webhooks_are_counted_by_state(ports: Ports, monkeypatch: pytest.MonkeyPatch) -> None:
    """F400e: Webhooks of up to 200 tenants are counted by state; others need no reads."""
    tenants = [Tenant.create(ports, f"t{number}") for number in range(2)]
    first, second, *_ = [
        managing.create(
            ports, each.operator, url="https://hooks.example.com/", events=("*",), description=None
        ).webhook
        for each in tenants * 2
    ]
    states = [first.disable(DisableReason.GONE), replace(second, failing_since=ports.now())]
    for each in states:
        ports.store.write(Put(each.address, each.to_item(), Expect.PRESENT))

    def found() -> list[dict[str, float]]:
        families = [
            each
            for each in StoreCollector(lambda: ports, ProcessStatus()).collect()
            if "webhook" in each.name
        ]
        return [
            {each.labels["state"]: each.value for each in family.samples} for family in families
        ]

    assert found() == [{"enabled": 2, "failing": 1, "disabled": 1}]
    monkeypatch.setattr(metrics, "_TENANTS_MAX", 1)
    assert found() == []


# --- traces ---


@pytest.mark.slow
def test_opentelemetry_collects_spans_by_configuration_alone(tmp_path: Path) -> None:
    """OPS-20, F430a: OpenTelemetry's own SDK gets a span for each request, without its path."""
    (packages,) = (processes.ROOT / ".tools/otel/lib").glob("python3.*/site-packages")
    # What `opentelemetry-instrument` sets.
    paths = (packages / "opentelemetry/instrumentation/auto_instrumentation", packages)
    settings = {
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "OTEL_TRACES_EXPORTER": "console",
        "OTEL_METRICS_EXPORTER": "none",
        "OTEL_LOGS_EXPORTER": "none",
        "OTEL_BSP_SCHEDULE_DELAY": "100",
    }
    trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    options = ("--log-level", "error")
    with processes.local_server(tmp_path / "data", *options, settings=settings) as server:
        headers = {
            "Authorization": f"Bearer {server.admin_key}",
            "traceparent": f"00-{trace}-{parent}-01",
        }
        answer = httpx2.get(f"{server.url}{CHECK}?warrant_id=svc_wrt_peculiar", headers=headers)
        assert answer.status_code == 200
        soon(lambda: trace in server.output.read_text())
        for said in (
            '"name": "check_revocation"',
            f'"parent_id": "0x{parent}"',
            '"http.route": "/v1/revocations/check"',
        ):
            soon(lambda said=said: said in server.output.read_text())  # type: ignore[misc]
    assert "peculiar" not in server.output.read_text()
