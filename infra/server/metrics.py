"""Metrics of one machine, for Prometheus (docs/metrics.md).

Import this module only if `PROMETHEUS_MULTIPROC_DIR` is set, because the library reads it at import
time. All processes of the server write to files in that folder. The process that serves `/metrics`
sums them.
"""

import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, values
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.mmap_dict import MmapedDict
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from functions.trust import state as trust
from functions.webhooks import dispatch
from infra.server.board import ProcessStatus
from infra.server.metric_names import METRICS
from shared import __version__, logs
from shared.errors import InvalidSettings, PreconditionFailed, RescindError, Unavailable
from shared.model.expiring import DAYS, ExpiringKind
from shared.operations.lists import expiring, unpublished
from shared.operations.operator import readiness
from shared.ports import Ports
from shared.ports.store import wrap_store

# Larger than any of the files grows.
_FILE_BYTES: Final = 1 << 19


class _AllocatedFile(MmapedDict):
    """A counter file with allocated disk space, or in memory if the disk is full.

    The library writes to a memory map of a sparse file. On a full disk, the system kills the
    process.
    """

    def __init__(self, filename: str) -> None:
        if sys.platform == "linux":
            try:
                with Path(filename).open("ab") as file:
                    os.posix_fallocate(file.fileno(), 0, _FILE_BYTES)
            except OSError as error:
                _log.warning("cannot store the metrics of this process: %s", error.strerror)
                filename = f"/proc/self/fd/{os.memfd_create('counts')}"
        super().__init__(filename)  # type: ignore[no-untyped-call]


values.MmapedDict = _AllocatedFile  # type: ignore[assignment, attr-defined]

# Counting keys that expire soon requires a read of all keys.
_COUNT_SECONDS: Final = 600
# The longest time, in seconds, that a scrape waits for the store.
_PATIENCE_SECONDS: Final = 4.0
# The longest time, in seconds, that a response waits for a port that requests do not need.
_PROBE_SECONDS: Final = 1.0
# Above this number of tenants, webhooks are not counted, because each tenant needs a query.
_TENANTS_MAX: Final = 200
_log = logging.getLogger("rescind")

T = TypeVar("T")

_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_WAITS: Final = (0.05, 0.1, 0.25, 0.5, 1, 2, 3, 5, 10, 30, 60)


def _counter(name: str) -> Counter:
    metric = METRICS[name]
    return Counter(name, metric.help, metric.labels)


def _histogram(name: str, buckets: Sequence[float] = _BUCKETS) -> Histogram:
    metric = METRICS[name]
    return Histogram(name, metric.help, metric.labels, buckets=buckets)


def _gauge(name: str, value: float | None = None) -> GaugeMetricFamily:
    metric = METRICS[name]
    return GaugeMetricFamily(name, metric.help, value, metric.labels or None)


_REQUESTS: Final = _counter("rescind_requests_total")
_REQUEST_SECONDS: Final = _histogram("rescind_request_seconds")
_REJECTED: Final = _counter("rescind_requests_rejected_total")
STORE_SECONDS: Final = _histogram("rescind_store_seconds")
_CHANGE_SECONDS: Final = _histogram("rescind_change_published_seconds", _WAITS)
STORE_UNAVAILABLE: Final = _counter("rescind_store_unavailable_total")

# Set every five minutes by the process that counts them.
_AUTHORIZERS: Final = Gauge(
    "rescind_authorizers",
    METRICS["rescind_authorizers"].help,
    METRICS["rescind_authorizers"].labels,
    multiprocess_mode="mostrecent",
)
_STATES: Final = {
    f"Authorizers{each.title().replace('_', '')}": each
    for each in ("enforced", "fail_closed", "unknown")
}

_REASONS: Final = {"Rejected401": "unauthorized", "Rejected403": "scope", "Rejected429": "rate"}
# Counters in log lines, by their AWS name: `rescind_keys_leaked_total` is `KeysLeaked` there.
_COUNTERS: Final = {
    name.removeprefix("rescind").removesuffix("total").title().replace("_", ""): _counter(name)
    for name, each in METRICS.items()
    if each.kind == "counter" and not each.labels
}
STORE_CONFLICTS: Final = _COUNTERS["StoreConflicts"]
# Metrics in log lines with labels. The named dimensions contain the label values.
_LABELLED: Final = {
    "BatchItems": (_counter("rescind_batch_items_total"), ("Action", "Outcome")),
    "WebhookDeliveries": (_counter("rescind_webhook_deliveries_total"), ("Outcome",)),
}


class Handler(logging.Handler):
    """Counts the metrics in log lines, in each process of the server."""

    def emit(self, record: logging.LogRecord) -> None:
        """Count the metrics of a record."""
        fields = logs.logged_fields(record)
        if "RequestSeconds" in fields.metrics:
            operation, outcome = fields.by["Operation"], fields.by["Outcome"]
            _REQUESTS.labels(operation, outcome).inc()
            _REQUEST_SECONDS.labels(operation).observe(fields.metrics["RequestSeconds"])
        for seconds in fields.gathered.get("ChangePublishedSeconds", ()):
            _CHANGE_SECONDS.observe(seconds)
        for name, value in fields.metrics.items():
            if name in _REASONS:
                _REJECTED.labels(_REASONS[name]).inc(value)
            elif name in _STATES:
                _AUTHORIZERS.labels(_STATES[name]).set(value)
            elif name in _COUNTERS:
                _COUNTERS[name].inc(value)
            elif name in _LABELLED:
                counter, dimensions = _LABELLED[name]
                counter.labels(*(fields.by[each] for each in dimensions)).inc(value)


class PeriodicCount(Generic[T]):
    """A count over all tenants, refreshed every ten minutes."""

    def __init__(self, count: Callable[[Ports], T]) -> None:
        self._count = count
        self._result: T | None = None
        self._count_at = 0.0

    def __call__(self, ports: Ports) -> T:
        """Return the count. Raises `Unavailable`."""
        if self._result is None or time.monotonic() >= self._count_at:
            self._result = self._count(ports)
            self._count_at = time.monotonic() + _COUNT_SECONDS
        return self._result


class SilentPorts:
    """Probes the ports other than the store.

    While such a port is down, checks and polls are still answered, and revocations acknowledged.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="probes")
        self._probes: dict[str, Future[object]] = {}

    def __call__(self, ports: Ports) -> list[str]:
        """Return the settings of the ports that fail or do not respond within one second."""
        for probe in readiness.read_probes(ports)[1:]:
            running = self._probes.get(probe.setting)
            if running is None or running.done():
                self._probes[probe.setting] = self._threads.submit(probe.run)
        wait(self._probes.values(), _PROBE_SECONDS)
        silent = []
        for setting, running in self._probes.items():
            try:
                running.result(0)
            except (RescindError, TimeoutError) as error:
                _log.error("%s does not respond: %s", setting, error.__cause__ or repr(error))
                silent.append(setting)
        return silent


class StoreCollector(Collector):
    """Collects gauges from the store. Without the store, it yields only the other gauges.

    If several servers share the data, only the leader reports the state of the store.
    """

    def __init__(self, ports: Callable[[], Ports], board: ProcessStatus) -> None:
        self._ports, self._board = ports, board
        self._silent, self._documents = SilentPorts(), PeriodicCount(trust.survey)
        self._expiring = PeriodicCount(expiring.count_expiring)
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="gauges")
        self._reading: Future[list[Metric]] | None = None

    def collect(self) -> Iterator[Metric]:
        """Yield all gauges."""
        build = _gauge("rescind_build_info")
        build.add_metric([__version__], 1)
        yield build
        yield _gauge("rescind_scheduler_last_run_age_seconds", self._board.schedule_seconds())
        yield _gauge("rescind_leader_last_seen_seconds", self._board.leader_seconds())
        yield _gauge("rescind_audit_log_append_lag_seconds", self._board.sealed_seconds())
        down = set(self._board.down())
        up = _gauge("rescind_process_up")
        metric = METRICS["rescind_process_restarts_total"]
        exits = CounterMetricFamily("rescind_process_restarts", metric.help, labels=metric.labels)
        for name in self._board.names:
            up.add_metric([name], name not in down)
            exits.add_metric([name], self._board.ends(name))
        yield up
        yield exits
        self._board.request_test_writes()
        if self._reading is None or self._reading.done():
            self._reading = self._reader.submit(lambda: list(self._read()))
        try:
            yield from self._reading.result(_PATIENCE_SECONDS)
        except TimeoutError:
            yield _gauge("rescind_ready", 0)

    def _read(self) -> Iterator[Metric]:
        """Yield the gauges that are read from the store."""
        try:
            ports = self._ports()
            srls = readiness.look(ports)
        except (InvalidSettings, Unavailable):
            # The ports cannot be opened while the store is unavailable.
            yield _gauge("rescind_ready", 0)
            return
        is_ready = not self._silent(ports) and self._board.can_store()
        yield _gauge("rescind_ready", int(is_ready))
        if not self._board.is_leader():
            return
        with suppress(InvalidSettings, Unavailable):
            backlog = unpublished.summarize_backlog(ports)
            yield _gauge("rescind_feed_backlog_age_seconds", backlog.oldest_seconds)
            yield _gauge("rescind_feeds_lagging", backlog.late)
        yield _gauge("rescind_srls_overdue", srls.late)
        # There is no age without an SRL.
        if srls.oldest_age_seconds is not None:
            yield _gauge("rescind_srl_age_seconds", srls.oldest_age_seconds)
        if srls.soonest_expiry_seconds is not None:
            yield _gauge("rescind_srl_expires_in_seconds", srls.soonest_expiry_seconds)
        with suppress(Unavailable):
            keys, gauge = self._expiring(ports), _gauge("rescind_credentials_expiring")
            for kind, days in product(ExpiringKind, DAYS):
                gauge.add_metric([kind, f"{days}d"], keys[kind, days])
            yield gauge
        with suppress(Unavailable):
            webhooks = dispatch.count_by_state(ports, most=_TENANTS_MAX)
            if webhooks is not None:
                gauge = _gauge("rescind_webhook_endpoints")
                for state in dispatch.DispatchState:
                    gauge.add_metric([state], webhooks[state])
                yield gauge
        with suppress(Unavailable):
            documents = self._documents(ports)
            yield _gauge("rescind_trust_documents_expiring", documents.due)
            yield _gauge("rescind_trust_documents_expired", documents.expired)


class MetricsApp:
    """Renders `/metrics`."""

    def __init__(self, gauges: StoreCollector) -> None:
        self._registry = CollectorRegistry()
        MultiProcessCollector(self._registry)  # type: ignore[no-untyped-call]
        self._registry.register(gauges)

    def answer(self, accept: str) -> tuple[bytes, str]:
        """Return the body and content type, in the format that an Accept header requests."""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type


def with_metrics(ports: Ports) -> Ports:
    """Return the ports with a store that measures its calls."""
    return replace(ports, store=wrap_store(ports.store, _measure_call))


def _measure_call(operation: str, call: Callable[..., Any]) -> Callable[..., Any]:
    def measured_call(*args: Any, **kwargs: Any) -> Any:
        with STORE_SECONDS.labels(operation).time(), _count_failures(operation):
            result = call(*args, **kwargs)
        return _measure_rows(operation, result) if isinstance(result, Iterator) else result

    return measured_call


def _measure_rows(operation: str, rows: Iterator[Any]) -> Iterator[Any]:
    """Yield the rows. The time that the consumer takes is not measured."""
    seconds, end = 0.0, object()
    try:
        while True:
            started = time.perf_counter()
            try:
                with _count_failures(operation):
                    row = next(rows, end)
            finally:
                seconds += time.perf_counter() - started
            if row is end:
                return
            yield row
    finally:
        STORE_SECONDS.labels(operation).observe(seconds)


@contextmanager
def _count_failures(operation: str) -> Iterator[None]:
    conflicts = STORE_CONFLICTS.count_exceptions(PreconditionFailed)
    with conflicts, STORE_UNAVAILABLE.labels(operation).count_exceptions(Unavailable):
        yield
