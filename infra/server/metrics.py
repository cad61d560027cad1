"""Metrics of one machine, for Prometheus (docs/metrics.md).

Import this module only if `PROMETHEUS_MULTIPROC_DIR` is set: the library reads it when it is
imported. All processes of the server write to files in that folder, and the one that serves
`/metrics` adds them up.
"""

import logging
import time
from collections import Counter as Counted
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import product
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from infra.server.board import Board
from shared import __version__, logs
from shared.errors import Corrupt, ExpectationLost, InvalidSettings, Unavailable
from shared.model.expiring import DAYS, ExpiringKind
from shared.operations.lists import expiring
from shared.operations.operator import readiness
from shared.operations.operator.readiness import Lists
from shared.operations.trust.state import TrustSurvey
from shared.operations.webhooks import dispatch
from shared.ports import Ports
from shared.ports.store import wrapped

# All keys are read to count those that expire soon.
_COUNT_SECONDS: Final = 600
# The webhooks of more tenants than these are not counted, because each is asked for them.
_TENANTS_MAX: Final = 200

_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)

_REQUESTS: Final = Counter(
    "rescind_requests", "Requests, by operation and outcome.", ["operation", "outcome"]
)
_REQUEST_SECONDS: Final = Histogram(
    "rescind_request_seconds", "Time to answer a request.", ["operation"], buckets=_BUCKETS
)
_REFUSED: Final = Counter("rescind_refused", "Requests that were refused, by reason.", ["reason"])
STORE_SECONDS: Final = Histogram(
    "rescind_store_seconds", "Time of a call of the store.", ["verb"], buckets=_BUCKETS
)
STORE_CONFLICTS: Final = Counter(
    "rescind_store_conflicts", "Writes that lost a race against another one."
)
STORE_UNAVAILABLE: Final = Counter(
    "rescind_store_unavailable", "Calls of the store that failed.", ["verb"]
)

# Set by the process that counts them, each fifth minute.
_AUTHORIZERS: Final = Gauge(
    "rescind_authorizers",
    "Authorizers, by their state for the newest entry of five minutes ago.",
    ["state"],
    multiprocess_mode="mostrecent",
)
_STATES: Final = {
    "AuthorizersHolding": "holding",
    "AuthorizersClosed": "closed",
    "AuthorizersUnknown": "unknown",
}

_REASONS: Final = {"Refused401": "unauthorized", "Refused403": "scope", "Refused429": "rate"}
# Metrics of log lines, by their name on AWS.
_COUNTED: Final = {
    "Unavailable": Counter("rescind_unavailable", "Requests that failed with 503."),
    "Crashed": Counter("rescind_crashed", "Requests that met a bug or wrong settings."),
    "LimiterOpen": Counter("rescind_limiter_open", "Requests without a rate limit."),
    "FeedCaughtUp": Counter(
        "rescind_feed_caught_up", "Entries of the feed that the schedule published late."
    ),
    "TakenBack": Counter("rescind_taken_back", "Revocations that were taken back."),
    "ApprovalsOverridden": Counter(
        "rescind_approvals_overridden", "Approvals by the operator in place of a person."
    ),
    "HeadInFuture": Counter("rescind_head_in_future", "Publications after a list of the future."),
    "EquivocationReported": Counter(
        "rescind_equivocation_reported", "Authorizers that reported entries of nobody."
    ),
    "EventsVerified": Counter("rescind_events_verified", "Events of stock authorizers."),
    "EventsRefused": Counter("rescind_events_refused", "Events with a wrong signature."),
    "Replays": Counter(
        "rescind_idempotent_replays", "Requests that were answered as an earlier one."
    ),
}
# Metrics of log lines with labels, which are the values of these dimensions.
_LABELLED: Final = {
    "BatchItems": (
        Counter("rescind_batch_items", "Results in batches.", ["action", "outcome"]),
        ("Action", "Outcome"),
    ),
    "WebhookDeliveries": (
        Counter(
            "rescind_webhook_deliveries", "Attempts to send an event, by outcome.", ["outcome"]
        ),
        ("Outcome",),
    ),
}


class Handler(logging.Handler):
    """Counts what log lines report, in each process of the server."""

    def emit(self, record: logging.LogRecord) -> None:
        """Count the metrics of a record."""
        found = logs.given(record)
        if "RequestSeconds" in found.metrics:
            operation, outcome = found.by["Operation"], found.by["Outcome"]
            _REQUESTS.labels(operation, outcome).inc()
            _REQUEST_SECONDS.labels(operation).observe(found.metrics["RequestSeconds"])
        for name, value in found.metrics.items():
            if name in _REASONS:
                _REFUSED.labels(_REASONS[name]).inc(value)
            elif name in _STATES:
                _AUTHORIZERS.labels(_STATES[name]).set(value)
            elif name in _COUNTED:
                _COUNTED[name].inc(value)
            elif name in _LABELLED:
                counter, dimensions = _LABELLED[name]
                counter.labels(*(found.by[each] for each in dimensions)).inc(value)


class TrustCount:
    """Counts the tenants whose trust document is due, anew every ten minutes."""

    def __init__(self) -> None:
        self._found: TrustSurvey | None = None
        self._look_at = 0.0

    def __call__(self, ports: Ports) -> TrustSurvey:
        """Return the numbers. Raises `PortNotReady`."""
        if self._found is None or time.monotonic() >= self._look_at:
            self._found = readiness.documents(ports)
            self._look_at = time.monotonic() + _COUNT_SECONDS
        return self._found


class Gauges(Collector):
    """Reads the store when it is collected; without the store, only what needs none remains.

    Of several servers on the same data, the leader alone tells what is in the store.
    """

    def __init__(self, ports: Callable[[], Ports], board: Board) -> None:
        self._ports, self._board = ports, board
        self._documents = TrustCount()
        self._expiring: Counted[tuple[ExpiringKind, int]] | None = None
        self._count_at = 0.0

    def collect(self) -> Iterator[Metric]:
        """Yield all gauges."""
        build = GaugeMetricFamily(
            "rescind_build_info", "The version that runs.", labels=["version"]
        )
        build.add_metric([__version__], 1)
        yield build
        yield GaugeMetricFamily(
            "rescind_schedule_idle_seconds",
            "Time since the last round of the schedule.",
            self._board.schedule_seconds(),
        )
        yield GaugeMetricFamily(
            "rescind_leader_seconds",
            "Time since any server was seen to publish.",
            self._board.leader_seconds(),
        )
        yield GaugeMetricFamily(
            "rescind_audit_unsealed_seconds",
            "Time since the audit logs of all tenants were sealed.",
            self._board.sealed_seconds(),
        )
        yield from self._processes()
        try:
            lists = readiness.look(self._ports())
        except (InvalidSettings, Unavailable):
            # The ports cannot be made while the store is away.
            lists = None
        yield GaugeMetricFamily(
            "rescind_ready", "1 if all places that hold data answer.", int(lists is not None)
        )
        if lists is not None and self._board.is_leader():
            yield from _of_lists(lists)
            yield from self._unpublished()
            yield from self._credentials()
            yield from self._webhooks()
            yield from self._trust()

    def _processes(self) -> Iterator[Metric]:
        """Yield which processes of the server run, and how often each has ended."""
        down = set(self._board.down())
        up = GaugeMetricFamily("rescind_process_up", "1 if the process runs.", labels=["process"])
        ends = CounterMetricFamily(
            "rescind_process_ends",
            "Ends of the process, each followed by a start.",
            labels=["process"],
        )
        for name in self._board.names:
            up.add_metric([name], name not in down)
            ends.add_metric([name], self._board.ends(name))
        yield up
        yield ends

    def _unpublished(self) -> Iterator[GaugeMetricFamily]:
        """Yield how old the oldest change is that is not in a feed, and how many feeds are late."""
        with suppress(Unavailable):
            waiting = readiness.waiting(self._ports())
            yield GaugeMetricFamily(
                "rescind_unpublished_seconds",
                "Time since the oldest change of all tenants that is not in a feed.",
                waiting.oldest_seconds,
            )
            yield GaugeMetricFamily(
                "rescind_feeds_late", "Tenants with a change that waits too long.", waiting.late
            )

    def _trust(self) -> Iterator[GaugeMetricFamily]:
        """Yield how many trust documents are due, and how many have expired."""
        with suppress(Unavailable):
            found = self._documents(self._ports())
            yield GaugeMetricFamily(
                "rescind_trust_due",
                "Tenants whose trust document ends soon or waits for signatures.",
                found.due,
            )
            yield GaugeMetricFamily(
                "rescind_trust_expired", "Tenants whose trust document has expired.", found.expired
            )

    def _webhooks(self) -> Iterator[GaugeMetricFamily]:
        """Yield how many webhooks there are by state, if there are few tenants."""
        try:
            found = dispatch.counted(self._ports(), most=_TENANTS_MAX)
        except (Corrupt, Unavailable):
            return
        if found is None:
            return
        gauge = GaugeMetricFamily("rescind_webhook_endpoints", "Webhooks.", labels=["state"])
        for state in dispatch.DispatchState:
            gauge.add_metric([state], found[state])
        yield gauge

    def _credentials(self) -> Iterator[GaugeMetricFamily]:
        """Yield how many keys expire soon; they are counted anew every ten minutes."""
        if self._expiring is None or time.monotonic() >= self._count_at:
            with suppress(Unavailable):
                self._expiring = expiring.counted(self._ports())
                self._count_at = time.monotonic() + _COUNT_SECONDS
        if self._expiring is None:
            return
        gauge = GaugeMetricFamily(
            "rescind_credentials_expiring",
            "API keys and signing keys that expire soon.",
            labels=["kind", "within"],
        )
        for kind, days in product(ExpiringKind, DAYS):
            gauge.add_metric([kind, f"{days}d"], self._expiring[kind, days])
        yield gauge


def _of_lists(lists: Lists) -> Iterator[GaugeMetricFamily]:
    yield GaugeMetricFamily(
        "rescind_lists_late", "Lists that should have been replaced.", lists.late
    )
    ages = {
        "rescind_list_age_seconds": ("Age of the oldest list in force.", lists.oldest_age_seconds),
        "rescind_list_expires_in_seconds": (
            "Time until the first list in force expires; negative if one has.",
            lists.soonest_expiry_seconds,
        ),
    }
    for name, (text, value) in ages.items():
        # A server without a list has no age.
        if value is not None:
            yield GaugeMetricFamily(name, text, value)


class Exposition:
    """The answer of `/metrics`."""

    def __init__(self, gauges: Gauges) -> None:
        self._registry = CollectorRegistry()
        MultiProcessCollector(self._registry)  # type: ignore[no-untyped-call]
        self._registry.register(gauges)

    def answer(self, accept: str) -> tuple[bytes, str]:
        """Return body and content type, in the format that an Accept header asks for."""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type


def measured(ports: Ports) -> Ports:
    """Return the ports with a store that measures its calls."""
    return replace(ports, store=wrapped(ports.store, _measured))


def _measured(verb: str, call: Callable[..., Any]) -> Callable[..., Any]:
    def measured_call(*args: Any, **kwargs: Any) -> Any:
        with _watched(verb):
            found = call(*args, **kwargs)
        return _steps(verb, found) if isinstance(found, Iterator) else found

    return measured_call


def _steps(verb: str, rows: Iterator[Any]) -> Iterator[Any]:
    """Yield the rows. The time in which the reader uses them is not measured."""
    seconds, ended = 0.0, object()
    try:
        while True:
            began = time.perf_counter()
            try:
                with _failures(verb):
                    row = next(rows, ended)
            finally:
                seconds += time.perf_counter() - began
            if row is ended:
                return
            yield row
    finally:
        STORE_SECONDS.labels(verb).observe(seconds)


@contextmanager
def _watched(verb: str) -> Iterator[None]:
    began = time.perf_counter()
    try:
        with _failures(verb):
            yield
    finally:
        STORE_SECONDS.labels(verb).observe(time.perf_counter() - began)


@contextmanager
def _failures(verb: str) -> Iterator[None]:
    try:
        yield
    except ExpectationLost:
        STORE_CONFLICTS.inc()
        raise
    except Unavailable:
        STORE_UNAVAILABLE.labels(verb).inc()
        raise
