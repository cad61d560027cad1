"""Progress of a webhook through its events, by the responses of the receiver (HOOK-9)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, NamedTuple

from functions.webhooks import records as webhooks
from functions.webhooks.deliveries import (
    KEPT,
    PATIENCE,
    Delivery,
    DeliveryDecision,
    DeliveryState,
    judge,
    pause,
)
from functions.webhooks.records import DEFERRED_MAX, DisableReason, Webhook
from shared.model import times
from shared.model.audit.audit_log import AuditEntry
from shared.model.outbound import DeliveryResponse

_ENDS: Final = (DeliveryDecision.RETRY, DeliveryDecision.GONE)


@dataclass(frozen=True, slots=True)
class IndexedEvent:
    """An audit entry, with its index in the transparency log."""

    index: int
    entry: AuditEntry


@dataclass(frozen=True, slots=True)
class EventBatch:
    """Events that are sent at the same time, in order of index.

    They are the webhook's events with indexes from `first` to `end`. For a retry of deferred
    events, `first` and `end` are equal. `passed_at` is the time of the newest change.
    """

    events: tuple[IndexedEvent, ...]
    first: int
    end: int
    passed_at: datetime | None = None

    @property
    def is_of_deferred(self) -> bool:
        """Whether these are deferred events."""
        return self.first == self.end


class WebhookProgress(NamedTuple):
    """The webhook after a batch, and the reason if it is now disabled."""

    webhook: Webhook
    cause: DisableReason | None


class RetryEntry(NamedTuple):
    """A deferred event: the number of attempts, the first failure, and the next attempt.

    The times are in seconds since the epoch.
    """

    attempts: int
    since: int
    next_at: int


def asides(webhook: Webhook) -> dict[int, RetryEntry]:
    """Return the deferred events, by index."""
    return {int(index): RetryEntry(*each) for index, each in sorted(webhook.deferred.items())}


def due_deferred(webhook: Webhook, now: datetime) -> list[int]:
    """Return the indexes of the deferred events that are due now."""
    seconds = now.timestamp()
    return [index for index, each in asides(webhook).items() if each.next_at <= seconds]


def takes_more(webhook: Webhook) -> bool:
    """Return whether new events may be sent, and not only deferred events."""
    return len(webhook.deferred) < DEFERRED_MAX


def due_at(webhook: Webhook) -> datetime | None:
    """Return when a worker must process the webhook again, or None without pending work."""
    if webhook.next_attempt_at is not None:
        return webhook.next_attempt_at
    seconds = [each.next_at for each in asides(webhook).values()]
    return times.from_seconds(min(seconds)) if seconds else None


def apply_responses(
    webhook: Webhook,
    batch: EventBatch,
    answers: Sequence[DeliveryResponse],
    now: datetime,
    *,
    jitter: float,
) -> WebhookProgress:
    """Return the webhook after these responses to a batch. `jitter` is passed to `pause`."""
    judged = [judge(each) for each in answers]
    stopped = next((n for n, each in enumerate(judged) if each in _ENDS), None)
    after = webhook
    # The webhook may have been rewound during the batch.
    if not batch.is_of_deferred and webhook.next_index == batch.first:
        after = replace(webhook, next_index=batch.end, passed_at=batch.passed_at)
        if stopped is not None:
            after = replace(webhook, next_index=batch.events[stopped].index)
    count = len(judged) if stopped is None or batch.is_of_deferred else stopped
    outcomes = zip(batch.events[:count], answers[:count], judged[:count], strict=True)
    for event, answer, judgement in outcomes:
        after = _record_response(after, event.index, answer, judgement, now, jitter)
    accepted = DeliveryDecision.ACCEPTED in judged
    if judged:
        since = None if accepted else after.failing_since or now
        after = replace(after, failing_since=since, next_attempt_at=None)
    if stopped is not None:
        failures = 1 if accepted else after.attempts + 1
        next_attempt_at = now + pause(failures, answers[stopped], jitter=jitter)
        after = replace(after, attempts=failures, next_attempt_at=next_attempt_at)
    elif judged:
        after = replace(after, attempts=0)
    # The webhook is disabled if it responded 410, or accepted no event for a day.
    since = after.failing_since
    cause: DisableReason | None = None
    if DeliveryDecision.GONE in judged:
        cause = DisableReason.GONE
    elif judged and since is not None and now - since >= PATIENCE:
        cause = DisableReason.FAILING
    return WebhookProgress(after.disable(cause) if cause else after, cause)


def delivery(
    event: IndexedEvent,
    answer: DeliveryResponse,
    previous: Delivery | None,
    now: datetime,
    *,
    given_up: bool,
) -> Delivery:
    """Return the delivery to show after an attempt. `previous` is the last shown delivery."""
    state = DeliveryState.FAILED if given_up else DeliveryState.RETRYING
    if judge(answer) is DeliveryDecision.ACCEPTED:
        state = DeliveryState.DELIVERED
    return Delivery(
        id=event.entry.id,
        index=event.index,
        type=webhooks.type_of(event.entry.action),
        state=state,
        attempts=previous.attempts + 1 if previous else 1,
        attempted_at=now,
        outcome=answer.outcome,
        status=answer.status,
        duration_ms=answer.duration_ms,
        response=answer.body,
        expires=int((now + KEPT).timestamp()),
    )


def _record_response(
    webhook: Webhook,
    index: int,
    answer: DeliveryResponse,
    judgement: DeliveryDecision,
    now: datetime,
    jitter: float,
) -> Webhook:
    """Return the webhook after one event was accepted, failed, or was abandoned.

    A deferred event without a response remains deferred, so that the others continue first.
    """
    before = asides(webhook).get(index)
    if judgement is DeliveryDecision.GONE or (
        judgement is DeliveryDecision.RETRY and before is None
    ):
        return webhook
    deferred = {name: each for name, each in webhook.deferred.items() if name != str(index)}
    seconds = int(now.timestamp())
    attempts, since = (before.attempts + 1, before.since) if before else (1, seconds)
    is_over = seconds - since >= PATIENCE.total_seconds()
    if judgement is not DeliveryDecision.ACCEPTED and not is_over and index < webhook.next_index:
        wait = pause(attempts, answer, jitter=jitter).total_seconds()
        deferred[str(index)] = [attempts, since, seconds + int(wait)]
    return replace(webhook, deferred=deferred)
