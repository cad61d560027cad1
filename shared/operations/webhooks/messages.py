"""Messages: events in the form of the Standard Webhooks specification (HOOK-7)."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from standardwebhooks.webhooks import Webhook as Signer

from shared.model import times, webhooks
from shared.model.deliveries import MESSAGE_MAX, Message
from shared.model.items import Value
from shared.model.webhook_progress import Event
from shared.model.webhooks import Webhook
from shared.ports import Ports


def signers(ports: Ports, webhook: Webhook) -> list[Signer]:
    """Return what signs messages to a webhook now, the newest secret first.

    Raises `Corrupt`, `Unavailable`.
    """
    seals = webhook.seal_contexts(ports.now())
    opened = [ports.sealer.unseal(sealed, context=context) for sealed, context in seals]
    return [Signer(secret.decode()) for secret in opened]


def message(event: Event, signed_by: Sequence[Signer], now: datetime) -> Message:
    """Return the message for an event, as it is sent at `now`."""
    body = _body(event)
    # The library replaces the zone of the time by UTC.
    moment, message_id = now.astimezone(UTC), event.entry.id
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "Rescind",
        "webhook-id": message_id,
        "webhook-timestamp": str(int(moment.timestamp())),
        "webhook-signature": " ".join(each.sign(message_id, moment, body) for each in signed_by),
    }
    return Message(message_id, headers, body.encode())


def _body(event: Event) -> str:
    """Return the body; without the details if it would be too long."""
    entry = event.entry
    data: dict[str, Any] = {
        "index": event.index,
        "id": entry.id,
        "resource_id": entry.resource_id,
        "actor": entry.actor,
        "actor_name": entry.actor_name,
        "details": _without_reasons(entry.details),
    }
    named = {"type": webhooks.type_of(entry.action), "timestamp": times.text(entry.timestamp)}
    body = _json(named | {"data": data})
    if len(body.encode()) > MESSAGE_MAX:
        return _json(named | {"data": data | {"details": None}})
    return body


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _without_reasons(value: Value) -> Value:
    """Return the details without what people wrote, which may be about people."""
    if isinstance(value, list):
        return [_without_reasons(each) for each in value]
    if not isinstance(value, dict):
        return value
    kept = {name: each for name, each in value.items() if "reason" not in name}
    return {name: _without_reasons(each) for name, each in kept.items()}
