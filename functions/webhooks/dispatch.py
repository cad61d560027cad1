"""Find the webhooks that a worker must process, and count them."""

import logging
from collections import Counter
from dataclasses import replace
from enum import StrEnum

from functions.webhooks import records as model
from functions.webhooks.records import TURNS, DispatchMarker, Webhook, turn_name
from shared.errors import DataCorrupt
from shared.model.items import Address
from shared.operations.base import tenants
from shared.ports import Ports
from shared.ports.store import Change, Put, VersionIs

_log = logging.getLogger(__name__)


class DispatchState(StrEnum):
    """The dispatch state of a webhook. `failing`: enabled, but the last attempts failed."""

    ENABLED = "enabled"
    FAILING = "failing"
    DISABLED = "disabled"


def count_by_state(ports: Ports, *, most: int) -> Counter[DispatchState] | None:
    """Count the webhooks of all tenants by state; None if there are more than `most` tenants.

    Raises `DataCorrupt`, `Unavailable`.
    """
    tenant_ids = list(tenants.identifiers(ports))
    if len(tenant_ids) > most:
        return None
    rows = (row for each in tenant_ids for row in ports.store.query(model.webhooks(each)))
    return Counter(map(_state, Webhook.from_rows(rows)))


def _state(webhook: Webhook) -> DispatchState:
    if not webhook.is_enabled:
        return DispatchState.DISABLED
    return DispatchState.ENABLED if webhook.failing_since is None else DispatchState.FAILING


def of_tenant(ports: Ports, tenant_id: str) -> list[str]:
    """Return the names of a tenant's enabled webhooks, after its transparency log has grown.

    Raises `Unavailable`.
    """
    webhooks = Webhook.from_rows(ports.store.query(model.webhooks(tenant_id)))
    return [turn_name(tenant_id, each.id) for each in webhooks if each.is_enabled]


def due(ports: Ports) -> list[str]:
    """Return the names of the due webhooks of all tenants.

    A webhook with an unreadable dispatch marker is due. Raises `DataCorrupt`, `Unavailable`.
    """
    now, names = ports.now(), list[str]()
    for row in ports.store.query(model.TURNS):
        try:
            if DispatchMarker.from_item(row.item).due_at > now:
                continue
        except DataCorrupt:
            # It must not stop the others.
            _log.exception("cannot read the delivery deadline %s of a webhook", row.sk)
        names.append(row.sk)
    return names


def parts(name: str) -> tuple[str, str]:
    """Return the identifiers of tenant and webhook in a name."""
    tenant_id, _, webhook_id = name.partition("#")
    return tenant_id, webhook_id


def replacement(old: Webhook, new: Webhook) -> tuple[Change, Webhook]:
    """Return the change that replaces `old` with `new`, and the stored webhook."""
    stored = replace(new, version=old.version + 1)
    return Put(stored.address, stored.to_item(), VersionIs(old.version)), stored


def turn_address(webhook: Webhook) -> Address:
    """Return the address of the webhook's dispatch marker."""
    return TURNS.address(turn_name(webhook.tenant_id, webhook.id))
