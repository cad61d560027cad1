"""The audit log: the entry that rides in the write of its change, and the reading of them all."""

from datetime import timedelta
from typing import Final

from shared.model import audit_log as model
from shared.model import times
from shared.model.audit_log import Action, Entry, Filters
from shared.model.callers import Caller, Scope
from shared.model.identifiers import AUDIT_ENTRY
from shared.model.items import Value
from shared.model.tenants import AUDIT_RETENTION_DAYS_MAX, Settings
from shared.operations.operation import operation
from shared.operations.paging import Page
from shared.ports import Ports
from shared.ports.store import Expect, Put

# Clocks of instances may disagree by this much, not more.
_AHEAD_MAX: Final = timedelta(days=1)


def entry(
    ports: Ports,
    caller: Caller,
    action: Action,
    resource_id: str,
    *,
    settings: Settings,
    **details: Value,
) -> Put:
    """The change that records `action` on `resource_id`; `details` must hold no secret.

    The entry is kept for the retention of `settings`. If an operator acts, `details` also says
    which user of the machine that is.
    """
    now = ports.now()
    made = Entry(
        id=ports.new_id(AUDIT_ENTRY),
        timestamp=now,
        actor=caller.identity,
        action=action,
        resource_id=resource_id,
        result="success",
        source_ip=caller.source_ip,
        request_id=caller.request_id,
        details=details | ({"operator": caller.operator} if caller.operator else {}),
        expires=int((now + settings.audit_retention).timestamp()),
        actor_key_id=caller.key_id,
    )
    return Put(model.month(caller.tenant_id, now).key(made.id), made.to_item(), Expect.ABSENT)


@operation(Scope.ADMIN, Scope.READ_ONLY)
def page(
    ports: Ports, caller: Caller, *, filters: Filters, before: str | None, limit: int
) -> Page[Entry]:
    """The tenant's entries that match, newest first (decisions 3, audit log).

    Counting them takes reading all entries between the filters' times.
    """
    now = ports.now()
    found: list[Entry] = []
    total = 0
    for partition in model.months(caller.tenant_id, _reachable(ports, filters)):
        for stored in ports.store.query(partition, newest_first=True):
            each = Entry.from_item(stored.item)
            # The store drops what has expired when it comes round to it.
            if not filters.match(each) or each.expires <= now.timestamp():
                continue
            total += 1
            if len(found) <= limit and (before is None or _position(each) < before):
                found.append(each)
    next_before = _position(found[limit - 1]) if len(found) > limit else None
    return Page(found[:limit], total, next_before)


def _position(entry: Entry) -> str:
    """Where the walk over the months meets the entry; clocks make no identifier bind months."""
    return f"{entry.timestamp:%Y-%m}/{entry.id}"


def _reachable(ports: Ports, filters: Filters) -> Filters:
    """The filters, without the years in which there can be no entry."""
    now = times.whole(ports.now())
    oldest = now - timedelta(days=AUDIT_RETENTION_DAYS_MAX)
    return Filters(start=max(filters.start, oldest), end=min(filters.end, now + _AHEAD_MAX))
