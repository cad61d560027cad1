"""API keys that nobody uses: a tenant may have them revoked (APIKEY-16)."""

import logging
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from functools import partial
from itertools import islice
from typing import Final

from shared.errors import Conflict, Corrupt, Unavailable
from shared.model import api_keys as model
from shared.model import deployment
from shared.model.api_keys import ApiKey, ApiKeyStatus, Usage
from shared.model.callers import Caller
from shared.model.tenants import TenantSettings
from shared.operations.access import api_key_end
from shared.operations.base import tenants
from shared.operations.base.operation import settle
from shared.operations.lists import expiring
from shared.ports import Ports

# In one pass over a tenant: a clock that is far ahead does not end all keys at once.
_MOST: Final = 50

_log = logging.getLogger(__name__)


def revoke_due(ports: Ports) -> None:
    """Revoke unused keys of the tenants whose turn it is, once an hour for each tenant.

    A failure for one tenant is logged. Raises `Unavailable` if the tenants cannot be read.
    """
    now = ports.now()
    for tenant_id in tenants.identifiers(ports) if expiring.is_due(now) else ():
        if expiring.is_turn(tenant_id, now):
            try:
                revoke_unused(ports, tenant_id)
            except (Corrupt, Unavailable):
                _log.exception("the unused keys of %s cannot be revoked", tenant_id)


def revoke_unused(ports: Ports, tenant_id: str) -> None:
    """Revoke up to 50 keys that were not used for `unused_key_days`, but no last admin key.

    After a restore the uses are unknown, so it waits for the review. Raises `Corrupt`,
    `Unavailable`.
    """
    settings = tenants.settings(ports, tenant_id)
    is_restored = ports.store.get(deployment.address(tenant_id)) is not None
    if not settings.unused_key_days or is_restored:
        return
    for key_id in islice(_find_unused(ports, settings), _MOST):
        with suppress(Conflict):
            settle(partial(_revoke, ports, settings, key_id))


def _find_unused(ports: Ports, settings: TenantSettings) -> Iterator[str]:
    for row in ports.store.query(model.records(settings.tenant_id)):
        if ApiKey.from_item(row.item).status is ApiKeyStatus.ACTIVE:
            usage = ports.store.get(model.usage(settings.tenant_id).address(row.sk))
            if _is_unused(ports, settings, ApiKey.from_item(row.item), Usage.from_optional(usage)):
                yield row.sk


def _is_unused(ports: Ports, settings: TenantSettings, key: ApiKey, usage: Usage | None) -> bool:
    """Return whether an active key was neither made nor used for so long."""
    if usage is None or key.status is not ApiKeyStatus.ACTIVE:
        return False
    last = max(key.created_at, usage.last_used_at or key.created_at)
    return ports.now() - last >= timedelta(days=settings.unused_key_days)


def _revoke(ports: Ports, settings: TenantSettings, key_id: str) -> None:
    """Revoke a key if it is still unused. Raises `Conflict` for the last admin key."""
    places = [of(settings.tenant_id).address(key_id) for of in (model.records, model.usage)]
    found = ports.store.get_many(places)
    key = ApiKey.from_optional(found.get(places[0]))
    if key is None or not _is_unused(
        ports, settings, key, Usage.from_optional(found.get(places[1]))
    ):
        return
    caller = Caller.inside(settings.tenant_id, name="monitor", handle=settings.handle)
    days = settings.unused_key_days
    api_key_end.revoke(ports, caller, key, settings=settings, unused_days=days)
