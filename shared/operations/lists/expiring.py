"""Find keys that expire soon, and announce them in the audit log (APIKEY-11)."""

import hashlib
import logging
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Final, TypeVar

from shared.errors import DataCorrupt, PreconditionFailed, Unavailable
from shared.model import api_keys, signing_keys, times
from shared.model import expiring as model
from shared.model.api_keys import ApiKey
from shared.model.audit.audit_log import AuditAction
from shared.model.callers import Caller
from shared.model.expiring import ExpiringKey, ExpiringKind, ExpiryNotice
from shared.model.signing_keys import SigningKey
from shared.operations.base import audit, tenants
from shared.ports import Ports
from shared.ports.store import Expect, Put

_ACTIONS: Final = {
    ExpiringKind.API_KEY: AuditAction.API_KEY_EXPIRING,
    ExpiringKind.SIGNING_KEY: AuditAction.KEY_EXPIRING,
}

# The scheduler visits each tenant once an hour, at a minute that is divisible by five.
_EVERY_MINUTES: Final = 5
_SLOTS: Final = 60 // _EVERY_MINUTES

_log = logging.getLogger(__name__)

T = TypeVar("T")


def list_expiring(ports: Ports, tenant_id: str) -> list[ExpiringKey]:
    """Return the keys of a tenant that expire within 30 days, earliest expiry first.

    Omits keys that are revoked, suspended or rotated. Raises `DataCorrupt`, `Unavailable`.
    """
    usable: list[tuple[ExpiringKind, ApiKey | SigningKey]] = [
        (ExpiringKind.API_KEY, key)
        for key in ApiKey.from_rows(ports.store.query(api_keys.records(tenant_id)))
        if key.status is api_keys.ApiKeyStatus.ACTIVE and key.successor_id is None
    ]
    usable += [
        (ExpiringKind.SIGNING_KEY, key)
        for key in SigningKey.from_rows(ports.store.query(signing_keys.keys(tenant_id)))
        if key.status is signing_keys.KeyStatus.ACTIVE
    ]
    now, expiring = ports.now(), list[ExpiringKey]()
    for kind, key in usable:
        days = model.days_left(key.created_at, key.expires_at, now)
        if days is not None and key.expires_at is not None:
            expiring.append(ExpiringKey(kind, key.id, key.name, key.expires_at, days))
    return sorted(expiring, key=lambda each: (each.expires_at, each.id))


def count_expiring(ports: Ports) -> Counter[tuple[ExpiringKind, int]]:
    """Count the keys of all tenants that expire within 1, 7 and 30 days, by kind and days.

    Reads all keys. A tenant with unreadable keys is logged and not counted. Raises `Unavailable` if
    the tenants cannot be read.
    """
    counts = Counter[tuple[ExpiringKind, int]]()
    for tenant_id in tenants.identifiers(ports):
        try:
            keys = list_expiring(ports, tenant_id)
        except (DataCorrupt, Unavailable):
            _log.exception("cannot count the expiring keys of tenant %s", tenant_id)
            continue
        counts.update((key.kind, days) for key in keys for days in model.DAYS if key.days <= days)
    return counts


def announce_expiring(ports: Ports, tenant_id: str) -> list[ExpiringKey]:
    """Write an audit entry for each key that expires soon and was not announced yet.

    A key is announced once for each number of days. Returns all keys that expire soon. Raises
    `DataCorrupt`, `Unavailable`.
    """
    keys = list_expiring(ports, tenant_id)
    addresses = {model.notice_address(tenant_id, key): key for key in keys}
    announced = ports.store.get_many(addresses) if addresses else {}
    for address, key in addresses.items():
        if address in announced:
            continue
        settings = tenants.settings(ports, tenant_id)
        entry = audit.entry(
            ports,
            Caller.inside(tenant_id, name="monitor", handle=settings.handle),
            _ACTIONS[key.kind],
            key.id,
            settings=settings,
            name=key.name,
            expires_at=times.format_utc(key.expires_at),
            days=key.days,
        )
        notice = ExpiryNotice(int(key.expires_at.timestamp()))
        # Another run of the scheduler may have announced it first.
        with suppress(PreconditionFailed):
            ports.store.write(Put(address, notice.to_item(), Expect.ABSENT), entry)
    return keys


def announce_due(ports: Ports) -> Counter[tuple[ExpiringKind, int]]:
    """Announce the expiring keys of the tenants that are due now, and count these keys.

    The count is by kind and days. A key counts once, for the smallest number of days. Raises
    `Unavailable` if the tenants cannot be read.
    """
    runs = run_due(ports, announce_expiring)
    return Counter((each.kind, each.days) for keys in runs for each in keys)


def run_due(ports: Ports, step: Callable[[Ports, str], T]) -> list[T]:
    """Run a step for each tenant that is due now, and return the results.

    A failure for one tenant is logged and does not stop the others. The tenant is due again in an
    hour. Raises `Unavailable` if the tenants cannot be read.
    """
    now, results = ports.now(), list[T]()
    for tenant_id in tenants.identifiers(ports) if is_due(now) else ():
        if is_tenant_due(tenant_id, now):
            try:
                results.append(step(ports, tenant_id))
            except (DataCorrupt, Unavailable):
                _log.exception("%s failed for tenant %s", step.__name__, tenant_id)
    return results


def is_due(now: datetime) -> bool:
    """Return whether a scheduler run in this minute visits any tenants."""
    return now.minute % _EVERY_MINUTES == 0


def is_tenant_due(tenant_id: str, now: datetime) -> bool:
    """Return whether a tenant is due in the five minutes of `now`."""
    slot = hashlib.sha256(tenant_id.encode()).digest()[0] % _SLOTS
    return now.minute // _EVERY_MINUTES == slot
