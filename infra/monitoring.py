"""Metrics of one machine, the alerts on them, and the dashboard: each said once.

`make written` writes these tables to docs/metrics.md, `alerts.yaml` (rules of Prometheus) and
`dashboard.json` (Grafana). `infra/server/metrics.py` serves the metrics.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_ROOT: Final = Path(__file__).parents[1]
PAGE: Final = _ROOT / "docs" / "metrics.md"
RULES: Final = _ROOT / "infra" / "alerts.yaml"
DASHBOARD: Final = _ROOT / "infra" / "dashboard.json"
_RUNBOOK: Final = "runbook.md"


@dataclass(frozen=True)
class WatchedMetric:
    """A metric: its kind, its labels, and what it is, in Markdown."""

    kind: str
    labels: tuple[str, ...]
    text: str

    @property
    def help(self) -> str:
        """The text without its links."""
        return re.sub(r" \(\[[^]]*\]\([^)]*\)\)|\[([^]]*)\]\([^)]*\)", r"\1", self.text)


def _counter(text: str, *labels: str) -> WatchedMetric:
    return WatchedMetric("counter", labels, text)


def _gauge(text: str, *labels: str) -> WatchedMetric:
    return WatchedMetric("gauge", labels, text)


def _histogram(text: str, *labels: str) -> WatchedMetric:
    return WatchedMetric("histogram", labels, text)


METRICS: Final = {
    "rescind_requests_total": _counter(
        "requests; the outcome is `ok` or the code of the error", "operation", "outcome"
    ),
    "rescind_request_seconds": _histogram("time to answer", "operation"),
    "rescind_refused_total": _counter(
        "requests refused as `unauthorized`, for their `scope`, or for the `rate`", "reason"
    ),
    "rescind_unavailable_total": _counter("requests answered with 503"),
    "rescind_crashed_total": _counter(
        "requests that met a bug or wrong settings: always report it"
    ),
    "rescind_limiter_open_total": _counter(
        "requests that passed without a rate limit, because its store failed"
    ),
    "rescind_idempotent_replays_total": _counter(
        "requests with an `Idempotency-Key` that were answered as the first one, and changed "
        "nothing"
    ),
    "rescind_batch_items_total": _counter(
        "results in calls of `POST /v1/revocations/batch`, without dry runs: the action is "
        "`revoke` or `take_back`, the outcome that of the response",
        "action",
        "outcome",
    ),
    "rescind_taken_back_total": _counter("revocations that were taken back"),
    "rescind_approvals_overridden_total": _counter(
        "approvals by the operator in place of a person"
    ),
    "rescind_keys_leaked_total": _counter("API keys and sessions that ended as leaked"),
    "rescind_approvers_too_few_total": _counter(
        "sign-ins that left fewer than two people who can approve"
    ),
    "rescind_trust_anchor_changed_total": _counter(
        "changes after which other people may sign in and approve"
    ),
    "rescind_store_seconds": _histogram("time of a call of the store", "verb"),
    "rescind_store_conflicts_total": _counter("writes that lost a race and were decided again"),
    "rescind_store_unavailable_total": _counter("calls of the store that failed", "verb"),
    "rescind_ready": _gauge(
        "1 if the store, the blobs and the sealer respond, and the store can be written"
    ),
    "rescind_process_up": _gauge(
        "1 if the process runs ([processes](one-machine.md#processes))", "process"
    ),
    "rescind_process_ends_total": _counter(
        "ends of the process, each followed by a start", "process"
    ),
    "rescind_schedule_idle_seconds": _gauge(
        "time since the last round of the schedule, which has one each minute"
    ),
    "rescind_leader_seconds": _gauge(
        "time since any server on the same data was seen to [lead](one-machine.md#processes)"
    ),
    "rescind_change_published_seconds": _histogram(
        "time from the acknowledgement of a change to its entry in the feed"
    ),
    "rescind_feeds_late": _gauge(
        "tenants with a change that waits too long to be published, or for which that is not known"
    ),
    "rescind_unpublished_seconds": _gauge(
        "age of the oldest change of all tenants that is not in a feed"
    ),
    "rescind_trust_due": _gauge(
        "tenants whose trust document ends soon or waits for signatures, counted every ten minutes"
    ),
    "rescind_trust_expired": _gauge("tenants whose trust document has expired"),
    "rescind_lists_late": _gauge("lists that should have been replaced"),
    "rescind_list_age_seconds": _gauge("age of the oldest list in force"),
    "rescind_list_expires_in_seconds": _gauge(
        "time until the first list expires; negative if one has"
    ),
    "rescind_credentials_expiring": _gauge(
        "keys that expire within `1d`, `7d` and `30d`, of the kind `api_key` or `key` (signing "
        "keys), counted every ten minutes ([which count](api-keys.md#keys-that-expire))",
        "kind",
        "within",
    ),
    "rescind_authorizers": _gauge(
        "authorizers that are `holding`, `closed` or `unknown` "
        "([what that means](authorizers.md#proof)) for the newest entry of five minutes ago, "
        "counted every fifth minute; missing before the first is registered",
        "state",
    ),
    "rescind_webhook_deliveries_total": _counter(
        "attempts to send an event: `accepted`; `wait` and `aside`, which are tried again; `gone`, "
        "after which the webhook is disabled",
        "outcome",
    ),
    "rescind_webhook_endpoints": _gauge(
        "webhooks that are `enabled`, `failing` (enabled, but not accepting) or `disabled`; "
        "missing with more than 200 tenants, because each scrape asks each tenant",
        "state",
    ),
    "rescind_audit_unsealed_seconds": _gauge(
        "time since a round of sealing that sealed the audit logs of all tenants and copied them "
        "to the sink, if there is one; a round follows every few seconds"
    ),
    "rescind_feed_caught_up_total": _counter(
        "entries of the feed that the schedule had to publish, because the publisher had not yet"
    ),
    "rescind_head_in_future_total": _counter("publications that found a list of a wrong clock"),
    "rescind_equivocation_reported_total": _counter(
        "authorizers that reported entries that this service did not publish"
    ),
    "rescind_events_verified_total": _counter("events of stock authorizers"),
    "rescind_events_refused_total": _counter("events of stock authorizers with a wrong signature"),
    "rescind_build_info": _gauge("the version that runs", "version"),
}


@dataclass(frozen=True)
class Alert:
    """An alert: it fires when `expression` was true for so long. The runbook has its section."""

    name: str
    expression: str
    lasts: str
    severity: str
    summary: str

    @property
    def anchor(self) -> str:
        """The section of the runbook, as alarms on AWS name theirs."""
        return re.sub(r"(?<!^)([A-Z])", r"-\1", self.name).lower()


_PAGE, _LATER = "critical", "warning"


def _risen(metric: str, minutes: int = 5) -> str:
    return f"sum(increase({metric}[{minutes}m]))"


_SLOWEST: Final = (
    "histogram_quantile(0.99, sum by (le) (rate("
    'rescind_request_seconds_bucket{operation!="poll_feed"}[15m])))'
)

_SLOWEST_CHANGE: Final = (
    "histogram_quantile(0.99, sum by (le) (rate(rescind_change_published_seconds_bucket[5m])))"
)

ALERTS: Final = (
    Alert("NoServer", "absent(rescind_build_info)", "2m", _PAGE, "no server answers Prometheus"),
    Alert(
        "NotReady", "rescind_ready == 0", "1m", _PAGE, "a server does not reach a store or a key"
    ),
    Alert("ProcessDown", "rescind_process_up == 0", "1m", _PAGE, "a process of a server is down"),
    Alert("NoLeader", "rescind_leader_seconds > 60", "0m", _PAGE, "no server leads"),
    Alert(
        "ScheduleIdle", "rescind_schedule_idle_seconds > 180", "0m", _PAGE, "the schedule stands"
    ),
    Alert("FeedsLate", "rescind_feeds_late > 0", "0m", _PAGE, "a change is not in its feed"),
    Alert(
        "ChangesWait",
        # The histogram has no new values if nothing is published.
        f"{_SLOWEST_CHANGE} > 5 or max(rescind_unpublished_seconds) > 5",
        "2m",
        _PAGE,
        "changes take more than 5 seconds to their feed",
    ),
    Alert("LateLists", "rescind_lists_late > 0", "5m", _PAGE, "lists are late and will expire"),
    Alert("ExpiredLists", "rescind_list_expires_in_seconds < 0", "0m", _PAGE, "a list has expired"),
    Alert(
        "TrustDue",
        "rescind_trust_due > 0 or rescind_trust_expired > 0",
        "15m",
        _LATER,
        "a trust document ends soon, waits for signatures, or has expired",
    ),
    Alert(
        "AuditUnsealed",
        "rescind_audit_unsealed_seconds > 300",
        "0m",
        _LATER,
        "audit logs are not sealed",
    ),
    Alert(
        "AuthorizersUnknown",
        'rescind_authorizers{state="unknown"} > 0',
        "10m",
        _LATER,
        "an authorizer may admit what is revoked",
    ),
    Alert(
        "WebhookFailing",
        'rescind_webhook_endpoints{state="failing"} > 0',
        "30m",
        _LATER,
        "a webhook accepts nothing",
    ),
    Alert(
        "WebhookDisabled",
        'delta(rescind_webhook_endpoints{state="disabled"}[15m]) > 0',
        "0m",
        _LATER,
        "a webhook was disabled",
    ),
    Alert(
        "TakenBack",
        f"{_risen('rescind_taken_back_total')} >= 100",
        "0m",
        _PAGE,
        "many revocations were taken back",
    ),
    Alert(
        "ApprovalsOverridden",
        f"{_risen('rescind_approvals_overridden_total')} > 0",
        "0m",
        _PAGE,
        "the operator approved in place of a person",
    ),
    Alert(
        "KeyLeaked",
        f"{_risen('rescind_keys_leaked_total')} > 0",
        "0m",
        _PAGE,
        "a leaked API key or session has ended",
    ),
    Alert(
        "ApproversTooFew",
        f"{_risen('rescind_approvers_too_few_total')} > 0",
        "0m",
        _PAGE,
        "fewer than two people can approve what is protected",
    ),
    Alert(
        "TrustAnchorChanged",
        f"{_risen('rescind_trust_anchor_changed_total')} > 0",
        "0m",
        _PAGE,
        "other people may sign in and approve",
    ),
    Alert(
        "EquivocationReported",
        f"{_risen('rescind_equivocation_reported_total')} > 0",
        "0m",
        _PAGE,
        "an authorizer has entries of nobody",
    ),
    Alert(
        "HeadInFuture",
        f"{_risen('rescind_head_in_future_total')} > 0",
        "0m",
        _LATER,
        "a clock is wrong",
    ),
    Alert("SlowAnswers", f"{_SLOWEST} > 3", "15m", _LATER, "one request in a hundred is slow"),
    Alert("Crashed", f"{_risen('rescind_crashed_total')} > 0", "0m", _PAGE, "a request met a bug"),
    Alert(
        "Unavailable",
        f"{_risen('rescind_unavailable_total')} >= 5",
        "0m",
        _PAGE,
        "requests were answered with 503",
    ),
    Alert(
        "LimiterOpen",
        f"{_risen('rescind_limiter_open_total')} > 0",
        "0m",
        _LATER,
        "requests passed without a rate limit",
    ),
    Alert(
        "UnknownCallers",
        'sum(increase(rescind_refused_total{reason="unauthorized"}[5m])) > 1000',
        "0m",
        _LATER,
        "many requests had no valid key",
    ),
)

# Each panel: its title, its unit, and what it draws, by the name of the line.
PANELS: Final[tuple[tuple[str, str, dict[str, str]], ...]] = (
    (
        "Servers and processes",
        "short",
        {
            "ready {{instance}}": "rescind_ready",
            "{{process}} {{instance}}": "rescind_process_up",
            "ends of {{process}}": "increase(rescind_process_ends_total[5m])",
            "version {{version}}": "count by (version) (rescind_build_info)",
        },
    ),
    (
        "Leader, schedule and sealing: idle",
        "s",
        {
            "leader": "max(rescind_leader_seconds)",
            "schedule": "max(rescind_schedule_idle_seconds)",
            "sealing": "max(rescind_audit_unsealed_seconds)",
        },
    ),
    (
        "Requests a second",
        "reqps",
        {"{{operation}}": "sum by (operation) (rate(rescind_requests_total[5m]))"},
    ),
    (
        "Time to answer, 99 of 100",
        "s",
        {
            "{{operation}}": "histogram_quantile(0.99, sum by (operation, le) "
            "(rate(rescind_request_seconds_bucket[5m])))"
        },
    ),
    (
        "Refused and failed in 5 minutes",
        "short",
        {
            "{{reason}}": "sum by (reason) (increase(rescind_refused_total[5m]))",
            "503": _risen("rescind_unavailable_total"),
            "bug": _risen("rescind_crashed_total"),
            "without a limit": _risen("rescind_limiter_open_total"),
        },
    ),
    (
        "Calls of the store, 99 of 100",
        "s",
        {
            "{{verb}}": "histogram_quantile(0.99, sum by (verb, le) "
            "(rate(rescind_store_seconds_bucket[5m])))"
        },
    ),
    (
        "Lost races and failures of the store in 5 minutes",
        "short",
        {
            "lost races": _risen("rescind_store_conflicts_total"),
            "failed {{verb}}": "sum by (verb) (increase(rescind_store_unavailable_total[5m]))",
        },
    ),
    (
        "Lists and feeds: ages",
        "s",
        {
            "oldest list": "max(rescind_list_age_seconds)",
            "a list expires in": "min(rescind_list_expires_in_seconds)",
            "oldest change not in a feed": "max(rescind_unpublished_seconds)",
            "change to its feed, 99 of 100": _SLOWEST_CHANGE,
        },
    ),
    (
        "Lists, feeds and trust documents: late",
        "short",
        {
            "lists": "max(rescind_lists_late)",
            "feeds": "max(rescind_feeds_late)",
            "entries that the schedule published": _risen("rescind_feed_caught_up_total"),
            "lists of a wrong clock": _risen("rescind_head_in_future_total"),
            "trust documents due": "max(rescind_trust_due)",
            "trust documents expired": "max(rescind_trust_expired)",
        },
    ),
    (
        "Authorizers",
        "short",
        {
            "{{state}}": "max by (state) (rescind_authorizers)",
            "entries of nobody": _risen("rescind_equivocation_reported_total"),
            "events": _risen("rescind_events_verified_total"),
            "events with a wrong signature": _risen("rescind_events_refused_total"),
        },
    ),
    (
        "Changes in 5 minutes",
        "short",
        {
            "{{action}}: {{outcome}}": "sum by (action, outcome) "
            "(increase(rescind_batch_items_total[5m]))",
            "taken back": _risen("rescind_taken_back_total"),
            "repeated": _risen("rescind_idempotent_replays_total"),
            "overridden": _risen("rescind_approvals_overridden_total"),
            "leaked": _risen("rescind_keys_leaked_total"),
            "too few approvers": _risen("rescind_approvers_too_few_total"),
            "trust anchors changed": _risen("rescind_trust_anchor_changed_total"),
        },
    ),
    (
        "Webhooks, and keys that expire",
        "short",
        {
            "{{state}}": "max by (state) (rescind_webhook_endpoints)",
            "sent: {{outcome}}": "sum by (outcome) "
            "(increase(rescind_webhook_deliveries_total[5m]))",
            "{{kind}} within {{within}}": "max by (kind, within) (rescind_credentials_expiring)",
        },
    ),
)


def rules() -> str:
    """Return the alerts as rules of Prometheus."""
    lines = [
        "# Written by `make written` from infra/monitoring.py.",
        "groups:",
        "  - name: rescind",
    ]
    lines.append("    rules:")
    for each in ALERTS:
        lines += [
            f"      - alert: {each.name}",
            f"        expr: {json.dumps(each.expression)}",
            f"        for: {each.lasts}",
            f"        labels: {{severity: {each.severity}}}",
            "        annotations:",
            f"          summary: {json.dumps(_sentence(each.summary))}",
            f"          runbook: docs/{_RUNBOOK}#{each.anchor}",
        ]
    return "\n".join(lines) + "\n"


def dashboard() -> str:
    """Return the dashboard for Grafana, which asks for the data source."""
    source = {"type": "prometheus", "uid": "${source}"}
    panels = [
        {
            "id": number,
            "type": "timeseries",
            "title": title,
            "datasource": source,
            "gridPos": {"h": 8, "w": 12, "x": 12 * (number % 2 == 0), "y": 8 * ((number - 1) // 2)},
            "fieldConfig": {"defaults": {"unit": unit}, "overrides": []},
            "targets": [
                {"refId": chr(ord("A") + place), "expr": expression, "legendFormat": legend}
                for place, (legend, expression) in enumerate(lines.items())
            ],
        }
        for number, (title, unit, lines) in enumerate(PANELS, start=1)
    ]
    whole: dict[str, Any] = {
        "uid": "rescind",
        "title": "Rescind",
        "schemaVersion": 39,
        "refresh": "1m",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [{"name": "source", "type": "datasource", "query": "prometheus"}]},
        "panels": panels,
    }
    return json.dumps(whole, indent=2) + "\n"


def page(text: str) -> str:
    """Return docs/metrics.md with the tables of today."""
    for name, lines in (("metrics", _metrics()), ("alerts", _alerts())):
        begin, end = f"<!-- {name}: written by `make written`. -->\n", f"<!-- end of {name} -->\n"
        before, _, rest = text.partition(begin)
        after = rest.partition(end)[2]
        text = f"{before}{begin}\n" + "\n".join(lines) + f"\n\n{end}{after}"
    return text


def _metrics() -> list[str]:
    rows = []
    for name, each in METRICS.items():
        labels = "".join(f" `{label}`," for label in each.labels).rstrip(",")
        rows.append(f"| `{name}` | {each.kind} |{labels} | {each.text} |")
    return ["| Metric | Kind | Labels | What it is |", "| --- | --- | --- | --- |", *rows]


def _alerts() -> list[str]:
    rows = [
        f"| [{each.name}]({_RUNBOOK}#{each.anchor}) | {each.severity} | {each.summary} | "
        f"`{each.expression}` | {each.lasts} |"
        for each in ALERTS
    ]
    return ["| Alert | Severity | It says | If | For |", "| --- | --- | --- | --- | --- |", *rows]


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def main() -> None:
    """Write all of it anew."""
    RULES.write_text(rules(), encoding="utf-8")
    DASHBOARD.write_text(dashboard(), encoding="utf-8")
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
