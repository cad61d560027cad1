"""What all operations on webhooks share."""

from dataclasses import replace

from shared.model.items import Address
from shared.model.webhooks import TURNS, Webhook, turn_name
from shared.ports.store import At, Change, Put


def replaced(before: Webhook, after: Webhook) -> tuple[Change, Webhook]:
    """Return the change that stores `after` in the place of `before`, and what it stores."""
    stored = replace(after, version=before.version + 1)
    return Put(stored.address, stored.to_item(), At(before.version)), stored


def turn_address(webhook: Webhook) -> Address:
    """Return the address of the webhook's turn."""
    return TURNS.address(turn_name(webhook.tenant_id, webhook.id))
