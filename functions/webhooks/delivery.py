"""Delivery: a worker sends the due events of a webhook (HOOK-8, docs/adr/20).

A worker leases the webhook, sends events in the order of their indexes, and writes the results
after each batch. If it is interrupted in between, the batch is sent once more.
"""

import json
import logging
import secrets
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from random import SystemRandom
from typing import Any, Final

from standardwebhooks.webhooks import Webhook as Signer

from functions.transparency_log import log
from functions.transparency_log.head import LogHead
from functions.webhooks import deliveries
from functions.webhooks import dispatch as rules
from functions.webhooks import progress as webhook_progress
from functions.webhooks import records as model
from functions.webhooks import records as webhooks
from functions.webhooks.deliveries import MESSAGE_MAX, Delivery
from functions.webhooks.progress import EventBatch, IndexedEvent
from functions.webhooks.records import DisableReason, DispatchMarker, Webhook
from shared import logs
from shared.model import times
from shared.model.audit.audit_log import AuditAction
from shared.model.callers import Caller
from shared.model.items import Value
from shared.model.outbound import DeliveryResponse, EventMessage
from shared.operations.base import audit, operation, tenants
from shared.operations.base.operation import settle
from shared.ports import Ports
from shared.ports.outside import Sender
from shared.ports.store import Change, Delete, Expect, Put

# After this time a worker leaves the rest to the next one, so other webhooks are served, too.
SLICE_SECONDS: Final = 20.0
# The most events in flight at a time, and the most events sent per second.
IN_FLIGHT: Final = 8
PER_SECOND: Final = 50
# The leaves that are read at a time.
_READ: Final = 64

_RANDOM: Final = SystemRandom()

_log = logging.getLogger(__name__)


def signers(ports: Ports, webhook: Webhook) -> list[Signer]:
    """Return the current signers of messages to a webhook, newest secret first.

    Raises `DataCorrupt`, `Unavailable`.
    """
    seals = webhook.seal_contexts(ports.now())
    opened = [ports.sealer.unseal(sealed, context=context) for sealed, context in seals]
    return [Signer(secret.decode()) for secret in opened]


def message(event: IndexedEvent, signed_by: Sequence[Signer], now: datetime) -> EventMessage:
    """Return the message for an event, as sent at `now`.

    It has no details if it would be too long.
    """
    entry = event.entry
    data: dict[str, Any] = {
        "index": event.index,
        "id": entry.id,
        "resource_id": entry.resource_id,
        "actor": entry.actor,
        "actor_name": entry.actor_name,
        "actor_id": entry.actor_id,
        "details": _without_reasons(entry.details),
    }
    named = {"type": webhooks.type_of(entry.action), "timestamp": times.format_utc(entry.timestamp)}
    body = _json(named | {"data": data})
    if len(body.encode()) > MESSAGE_MAX:
        body = _json(named | {"data": data | {"details": None}})
    # The library replaces the time zone with UTC.
    moment, message_id = now.astimezone(UTC), entry.id
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "Rescind",
        "webhook-id": message_id,
        "webhook-timestamp": str(int(moment.timestamp())),
        "webhook-signature": " ".join(each.sign(message_id, moment, body) for each in signed_by),
    }
    return EventMessage(message_id, headers, body.encode())


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _without_reasons(value: Value) -> Value:
    """Return the details without texts by people, because they may contain personal data."""
    if isinstance(value, list):
        return [_without_reasons(each) for each in value]
    if not isinstance(value, dict):
        return value
    public = {name: each for name, each in value.items() if "reason" not in name}
    return {name: _without_reasons(each) for name, each in public.items()}


def deliver(
    ports: Ports,
    sender: Sender,
    tenant_id: str,
    webhook_id: str,
    *,
    is_stopped: Callable[[], bool] = lambda: False,
    seconds: float = SLICE_SECONDS,
) -> bool:
    """Send a webhook its due events for some time; return whether more is due at once.

    Does no work if another worker has the webhook. Raises `DataCorrupt`, `Unavailable`; the webhook
    then waits until the lease ends.
    """
    deadline = operation.PACING.clock() + seconds
    worker = secrets.token_hex(8)
    while (webhook := settle(lambda: _take(ports, tenant_id, webhook_id, worker))) is not None:
        leased: Webhook | None = webhook
        while leased is not None:
            if is_stopped() or operation.PACING.clock() >= deadline:
                _release(ports, leased, ports.now())
                return True
            batch = _batch(ports, leased)
            if batch is None:
                _release(ports, leased, webhook_progress.due_at(leased))
                break
            leased = _deliver(ports, sender, leased, batch)
        # The worker of an event that was appended since the last read may have left it to this one.
    return False


def _take(ports: Ports, tenant_id: str, webhook_id: str, worker: str) -> Webhook | None:
    """Lease the webhook to this worker, if an event is due now."""
    webhook, now = _read(ports, tenant_id, webhook_id), ports.now()
    if webhook is None or webhook.is_leased(now):
        return None
    if not _is_due(webhook, log.head(ports, tenant_id), now):
        # Remove a dispatch marker without work, now or later.
        address = rules.turn_address(webhook)
        is_later = webhook.is_enabled and webhook_progress.due_at(webhook) is not None
        if not is_later and ports.store.get(address) is not None:
            ports.store.write(Delete(address, Expect.ANYTHING))
        return None
    change, leased = rules.replacement(webhook, webhook.lease(worker, now))
    ports.store.write(change, _turn(leased, leased.leased_until))
    return leased


def _is_due(webhook: Webhook, head: LogHead | None, now: datetime) -> bool:
    if not webhook.is_enabled or (webhook.next_attempt_at and now < webhook.next_attempt_at):
        return False
    if webhook_progress.due_deferred(webhook, now):
        return True
    if head is None or not webhook_progress.takes_more(webhook):
        return False
    return webhook.in_generation(head.generation).next_index < head.size


def _batch(ports: Ports, webhook: Webhook) -> EventBatch | None:
    """Return the next batch, or None if no event is due."""
    now, head = ports.now(), log.head(ports, webhook.tenant_id)
    if head is None or not _is_due(webhook, head, now):
        return None
    webhook = webhook.in_generation(head.generation)
    # A webhook that has failed is tried with one event.
    most = 1 if webhook.attempts else IN_FLIGHT
    has_more = webhook_progress.takes_more(webhook) and webhook.next_index < head.size
    due = webhook_progress.due_deferred(webhook, now)[:most]
    # After a failure, later events come first, because a deferred event may be the cause.
    if due and not (webhook.attempts and has_more):
        leaves = [log.entries(ports, webhook.tenant_id, each, each + 1) for each in due]
        events = [IndexedEvent(index, entry) for ((index, entry),) in leaves if entry is not None]
        return EventBatch(tuple(events), webhook.next_index, webhook.next_index)
    first = webhook.next_index
    read = log.entries(ports, webhook.tenant_id, first, min(first + _READ, head.size))
    wanted = [IndexedEvent(index, each) for index, each in read if each and webhook.wants(each)]
    end = wanted[most].index if len(wanted) > most else first + len(read)
    newest = max((each.timestamp for _, each in read if each), default=webhook.passed_at)
    return EventBatch(tuple(wanted[:most]), first, end, newest)


def _deliver(ports: Ports, sender: Sender, webhook: Webhook, batch: EventBatch) -> Webhook | None:
    """Send a batch and write the results; return the webhook, or None if the lease is lost."""
    started = operation.PACING.clock()
    answers: list[DeliveryResponse] = []
    if batch.events:
        signed_by = signers(ports, webhook)
        messages = [message(each, signed_by, ports.now()) for each in batch.events]
        answers = sender.send(webhook.url, messages)
    jitter = _RANDOM.uniform(-1, 1)
    after = settle(lambda: _store_results(ports, webhook, batch, answers, jitter))
    state, now = after or webhook, ports.now()
    fields = partial(logs.fields, tenant_id=state.tenant_id, webhook_id=state.id)
    for judgement, number in Counter(map(deliveries.judge, answers)).items():
        figures, by = {"WebhookDeliveries": number}, {"Outcome": judgement.value}
        _log.info("delivery", extra=fields(metrics=figures, by=by))
    if answers and state.failing_since is not None:
        seconds = (now - state.failing_since).total_seconds()
        _log.info("failing", extra=fields(metrics={"WebhookFailingSeconds": seconds}))
    if state.disabled_reason in (DisableReason.GONE, DisableReason.FAILING):
        _log.info("disabled", extra=fields(metrics={"WebhookDisabled": 1}))
    least = len(answers) / PER_SECOND - (operation.PACING.clock() - started)
    if least > 0:
        operation.PACING.sleep(least)
    return after


def _store_results(
    ports: Ports,
    sent: Webhook,
    batch: EventBatch,
    answers: Sequence[DeliveryResponse],
    jitter: float,
) -> Webhook | None:
    """Write the results of a batch to the current state of the webhook."""
    webhook, now = _read(ports, sent.tenant_id, sent.id), ports.now()
    if webhook is None or webhook.leased_by != sent.leased_by:
        return None
    head = log.head(ports, sent.tenant_id)
    webhook = webhook.in_generation(head.generation if head else webhook.generation)
    after, cause = webhook_progress.apply_responses(webhook, batch, answers, now, jitter=jitter)
    if batch.is_of_deferred and not batch.events:
        # Their entries have expired.
        due = {str(each) for each in webhook_progress.due_deferred(webhook, now)}
        left = {index: each for index, each in after.deferred.items() if index not in due}
        after = replace(after, deferred=left)
    change, stored = rules.replacement(webhook, after.lease(sent.leased_by or "", now))
    changes: list[Change] = [change, _turn(stored, stored.leased_until)]
    addresses = [
        deliveries.address(sent.tenant_id, sent.id, each.entry.id) for each in batch.events
    ]
    known = ports.store.get_many(addresses)
    for event, answer, address in zip(batch.events, answers, addresses, strict=True):
        before = Delivery.from_optional(known.get(address))
        given_up = event.index < after.next_index and str(event.index) not in after.deferred
        delivery = webhook_progress.delivery(event, answer, before, now, given_up=given_up)
        changes.append(Put(address, delivery.to_item(), Expect.ANYTHING))
    if cause:
        settings = tenants.settings(ports, sent.tenant_id)
        caller = Caller.inside(sent.tenant_id, name="webhooks", handle=settings.handle)
        details = {"host": after.host, "cause": str(after.disabled_reason)}
        changes.append(
            audit.entry(
                ports, caller, AuditAction.WEBHOOK_DISABLE, sent.id, settings=settings, **details
            )
        )
    ports.store.write(*changes)
    return stored


def _release(ports: Ports, webhook: Webhook, due_at: datetime | None) -> None:
    """Release the webhook, with a dispatch marker at `due_at` if more is due."""

    def update() -> None:
        current = _read(ports, webhook.tenant_id, webhook.id)
        if current is None or current.leased_by != webhook.leased_by:
            return
        change, stored = rules.replacement(current, current.release())
        ports.store.write(change, _turn(stored, due_at))

    settle(update)


def _turn(webhook: Webhook, due_at: datetime | None) -> Change:
    if due_at is None or not webhook.is_enabled:
        return Delete(rules.turn_address(webhook), Expect.ANYTHING)
    turn = DispatchMarker(webhook.tenant_id, webhook.id, due_at)
    return Put(turn.address, turn.to_item(), Expect.ANYTHING)


def _read(ports: Ports, tenant_id: str, webhook_id: str) -> Webhook | None:
    return Webhook.from_optional(ports.store.get(model.webhooks(tenant_id).address(webhook_id)))
