"""Revoke unused API keys, if the tenant has enabled this (APIKEY-16)."""

from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from itertools import islice
from typing import Final

from shared.errors import Conflict, PreconditionFailed
from shared.model import api_keys as model
from shared.model import deployment
from shared.model.api_keys import ApiKey, ApiKeyStatus, Usage
from shared.model.callers import Caller
from shared.operations.access import api_key_end
from shared.operations.base import tenants
from shared.ports import Ports

# The limit of one pass over a tenant. A clock that is far ahead does not end all keys at once.
_MOST: Final = 50


def revoke_unused(ports: Ports, tenant_id: str) -> None:
    """Revoke up to 50 keys that were unused for `unused_key_days`, except the last admin key.

    After a restore the uses are unknown, so this waits for the review. Raises `DataCorrupt`,
    `Unavailable`.
    """
    settings = tenants.settings(ports, tenant_id)
    is_restored = ports.store.get(deployment.address(tenant_id)) is not None
    days = settings.unused_key_days
    if not days or is_restored:
        return
    caller = Caller.inside(tenant_id, name="monitor", handle=settings.handle)
    for key in islice(_find_unused(ports, tenant_id, timedelta(days=days)), _MOST):
        # The last admin key stays. The next pass handles a key that changed concurrently.
        with suppress(Conflict, PreconditionFailed):
            api_key_end.revoke(ports, caller, key, settings=settings, unused_days=days)


def _find_unused(ports: Ports, tenant_id: str, time: timedelta) -> Iterator[ApiKey]:
    """Yield active keys that were neither created nor used for `time`.

    Reads each usage only if due.
    """
    for key in ApiKey.from_rows(ports.store.query(model.records(tenant_id))):
        if key.status is ApiKeyStatus.ACTIVE and ports.now() - key.created_at >= time:
            usage = Usage.from_optional(ports.store.get(model.usage(tenant_id).address(key.id)))
            if usage is not None and ports.now() - (usage.last_used_at or key.created_at) >= time:
                yield key
