"""Deliveries of webhook events and their outcomes (HOOK-8)."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from shared.model.items import Address, Partition, Table
from shared.model.outbound import RETRY_AFTER_MAX, DeliveryOutcome, DeliveryResponse
from shared.model.records import Record

# How long a delivery is shown.
KEPT: Final = timedelta(days=14)
# How long an event or a webhook may fail before delivery is abandoned.
PATIENCE: Final = timedelta(days=1)
# Maximum size of a message, in bytes.
MESSAGE_MAX: Final = 20 * 1024

# Seconds between two attempts, by the number of failures. The last value repeats.
_PAUSES: Final = (5, 30, 120, 600, 1800, 3600, 7200, 10_800)

_OK, _REDIRECTION, _GONE, _SERVER_ERROR = 200, 300, 410, 500
# Request timeout, and too many requests: the receiver requests another attempt.
_LATER: Final = (408, 429)


class DeliveryDecision(StrEnum):
    """The consequence of a response (HOOK-9).

    `accepted`: the event is done. `wait`: the webhook waits, and the same event is then sent again.
    `deferred`: the event becomes a deferred event, which is retried apart from the others. `gone`:
    the webhook is disabled.
    """

    ACCEPTED = "accepted"
    RETRY = "retry"
    DEFERRED = "deferred"
    GONE = "gone"


class DeliveryState(StrEnum):
    """Whether an event was accepted, will be retried, or was abandoned."""

    DELIVERED = "delivered"
    RETRYING = "retrying"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Delivery(Record):
    """The delivery of an event: the last attempt, and the number of attempts.

    `id` and `index` identify the entry in the transparency log. The store may delete the record
    after `expires`, in seconds since the epoch.
    """

    id: str
    index: int
    type: str
    state: DeliveryState
    attempts: int
    attempted_at: datetime
    outcome: DeliveryOutcome
    status: int | None
    duration_ms: int
    response: str
    expires: int


def judge(answer: DeliveryResponse) -> DeliveryDecision:
    """Return the consequence of a response."""
    status = answer.status
    if status is None or status >= _SERVER_ERROR or status in _LATER:
        return DeliveryDecision.RETRY
    if _OK <= status < _REDIRECTION:
        return DeliveryDecision.ACCEPTED
    return DeliveryDecision.GONE if status == _GONE else DeliveryDecision.DEFERRED


def pause(failures: int, answer: DeliveryResponse, *, jitter: float) -> timedelta:
    """Return the pause after this many consecutive failures. `answer` is the last response.

    `jitter` is from -1 to 1. It changes the pause by up to a fifth, to spread the webhooks of one
    receiver.
    """
    seconds = _PAUSES[min(failures, len(_PAUSES)) - 1] * (1 + jitter / 5)
    return timedelta(seconds=max(seconds, min(answer.retry_after or 0, RETRY_AFTER_MAX)))


def deliveries(tenant_id: str, webhook_id: str) -> Partition:
    """Return the partition of a webhook's deliveries, by the identifiers of the entries."""
    return Partition(Table.AUDIT, f"{tenant_id}#deliveries#{webhook_id}")


def address(tenant_id: str, webhook_id: str, entry_id: str) -> Address:
    """Return the address of a delivery."""
    return deliveries(tenant_id, webhook_id).address(entry_id)
