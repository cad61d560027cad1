"""Names, kinds, labels and help of the metrics on one machine (docs/metrics.md)."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class WatchedMetric:
    """A metric: its kind, its labels, and its help."""

    kind: str
    labels: tuple[str, ...]
    help: str


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
    "rescind_request_seconds": _histogram("time to respond", "operation"),
    "rescind_requests_rejected_total": _counter(
        "requests rejected as `unauthorized`, or because of the `scope` or the `rate` limit",
        "reason",
    ),
    "rescind_requests_unavailable_total": _counter("requests answered with 503"),
    "rescind_requests_failed_total": _counter(
        "requests that failed because of a bug or wrong settings; report them"
    ),
    "rescind_rate_limit_bypassed_total": _counter(
        "requests accepted without a rate limit because its store failed"
    ),
    "rescind_idempotent_replays_total": _counter(
        "requests with an `Idempotency-Key` that returned the first response and changed nothing"
    ),
    "rescind_batch_items_total": _counter(
        "results of `POST /v1/revocations/batch` without dry runs; the action is `revoke` or "
        "`unrevoke`, and the outcome is in the response",
        "action",
        "outcome",
    ),
    "rescind_unrevoked_total": _counter("warrants that were unrevoked"),
    "rescind_approvals_overridden_total": _counter("approvals by the operator instead of a person"),
    "rescind_keys_leaked_total": _counter("API keys that were revoked as leaked"),
    "rescind_approvers_too_few_total": _counter("sign-ins that left fewer than two approvers"),
    "rescind_trust_anchor_changed_total": _counter(
        "changes that allow other people to sign in and approve"
    ),
    "rescind_store_seconds": _histogram("duration of a store call", "operation"),
    "rescind_store_conflicts_total": _counter("writes that conflicted and were retried"),
    "rescind_store_unavailable_total": _counter("store calls that failed", "operation"),
    "rescind_ready": _gauge(
        "1 if the store, the blobs and the key wrapper respond, and the store accepts writes"
    ),
    "rescind_process_up": _gauge("1 if the process runs", "process"),
    "rescind_process_restarts_total": _counter("restarts of the process", "process"),
    "rescind_scheduler_last_run_age_seconds": _gauge(
        "time since the scheduler last ran; it runs once a minute"
    ),
    "rescind_leader_last_seen_seconds": _gauge(
        "time since any server on the same data was the leader"
    ),
    "rescind_change_published_seconds": _histogram(
        "time from the acknowledgement of a change to its feed entry"
    ),
    "rescind_feeds_lagging": _gauge(
        "tenants with a change that is published too late, or whose backlog is unknown"
    ),
    "rescind_feed_backlog_age_seconds": _gauge(
        "age of the oldest change of any tenant that is not in a feed"
    ),
    "rescind_trust_documents_expiring": _gauge(
        "tenants with a trust document that expires soon or lacks signatures, counted every ten "
        "minutes"
    ),
    "rescind_trust_documents_expired": _gauge("tenants with an expired trust document"),
    "rescind_srls_overdue": _gauge("SRLs past their next update"),
    "rescind_srl_age_seconds": _gauge("age of the oldest current SRL"),
    "rescind_srl_expires_in_seconds": _gauge(
        "time until the first SRL expires; negative after an expiry"
    ),
    "rescind_credentials_expiring": _gauge(
        "keys that expire within `1d`, `7d` and `30d`, of the kind `api_key` or `key` (signing "
        "keys), counted every ten minutes",
        "kind",
        "within",
    ),
    "rescind_authorizers": _gauge(
        "authorizers that are `enforced`, `fail_closed` or `unknown` "
        "for the newest entry of five minutes ago, "
        "counted every fifth minute; missing before the first is registered",
        "state",
    ),
    "rescind_webhook_deliveries_total": _counter(
        "attempts to send an event: `accepted`; `retry` and `deferred`, which are retried; `gone`, "
        "after which the webhook is disabled",
        "outcome",
    ),
    "rescind_webhook_endpoints": _gauge(
        "webhooks that are `enabled`, `failing` (enabled, but not accepting) or `disabled`; "
        "missing with more than 200 tenants, because each scrape reads every tenant",
        "state",
    ),
    "rescind_audit_log_append_lag_seconds": _gauge(
        "time since the audit entries of all tenants were appended to their transparency logs and "
        "copied to the sink, if there is one; normally a few seconds"
    ),
    "rescind_feed_scheduler_publications_total": _counter(
        "feed entries that the scheduler published because the publisher had not"
    ),
    "rescind_clock_skew_total": _counter("publications that found an SRL issued in the future"),
    "rescind_equivocation_reported_total": _counter(
        "authorizers that reported entries that this service never published"
    ),
    "rescind_events_verified_total": _counter("events of stock authorizers"),
    "rescind_events_refused_total": _counter("events of stock authorizers with a wrong signature"),
    "rescind_build_info": _gauge("the running version", "version"),
}
