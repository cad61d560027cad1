"""Names, kinds, labels and help of the metrics of one machine (docs/metrics.md)."""

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
    "rescind_keys_leaked_total": _counter("API keys that ended as leaked"),
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
    "rescind_process_up": _gauge("1 if the process runs", "process"),
    "rescind_process_ends_total": _counter(
        "ends of the process, each followed by a start", "process"
    ),
    "rescind_schedule_idle_seconds": _gauge(
        "time since the last round of the schedule, which has one each minute"
    ),
    "rescind_leader_seconds": _gauge("time since any server on the same data was seen to lead"),
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
        "keys), counted every ten minutes",
        "kind",
        "within",
    ),
    "rescind_authorizers": _gauge(
        "authorizers that are `holding`, `closed` or `unknown` "
        "for the newest entry of five minutes ago, "
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
