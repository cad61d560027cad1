"""How many warrants were revoked on each day, and how many restored (REVOKE-31, docs/adr/19).

The numbers are counted from the audit entries, by the pass that seals them.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Final

from shared.model import times
from shared.model.audit import audit_log, head, records
from shared.model.audit.audit_log import Action
from shared.model.audit.head import LogHead
from shared.model.items import Address, Item, Value
from shared.model.records import integer
from shared.model.tenants import AUDIT_RETENTION_DAYS_MIN

# The most days that one call asks for.
DAYS_MAX: Final = 92

_CREATED: Final = "created"
_REMOVED: Final = "removed"
_COUNTED: Final[dict[str, str]] = {
    Action.REVOCATION_CREATE: _CREATED,
    Action.REVOCATION_CREATE_BATCH: _CREATED,
    Action.REVOCATION_DELETE: _REMOVED,
    Action.REVOCATION_DELETE_BATCH: _REMOVED,
}
# The entries of so many days are all there when the first pass begins, and until it is done.
_RETAINED: Final = timedelta(days=AUDIT_RETENTION_DAYS_MIN - 1)
_DAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Day:
    """How many revocations were made and deleted on a day, in UTC; None if that is not known."""

    date: date
    created: int | None = None
    removed: int | None = None


@dataclass(frozen=True, slots=True)
class Counts:
    """The numbers of some days, oldest first, and the first day that was ever counted, if any."""

    known_from: date | None
    days: list[Day]


def begin(log: LogHead, *, created_at: datetime, now: datetime) -> datetime:
    """Return the start of the first day whose entries the passes from now on all see.

    `created_at` is when the tenant was created. If the log has entries, a release before this one
    sealed them and did not count them.
    """
    if log.size:
        return times.midnight(now) + _DAY
    return max(times.midnight(created_at), times.midnight(now - _RETAINED) + _DAY)


def tally(entries: Iterable[Item], *, tenant_id: str, log: LogHead) -> dict[Address, Counter[str]]:
    """Return the numbers that these entries add to items of months, from `log.counted_from` on."""
    sums: dict[Address, Counter[str]] = defaultdict(Counter)
    for entry in entries:
        kind = _COUNTED.get(str(entry.get("action")))
        made = records.moment(str(entry["id"]))
        if kind and log.counted_from and made >= log.counted_from:
            place = address(tenant_id, log.generation, made)
            sums[place][_name(kind, made)] += len(audit_log.warrants_of(entry))
    return sums


def added(item: Item, amounts: Counter[str]) -> dict[str, Value]:
    """Return the item of a month, empty at first, with these amounts added. Raises `Corrupt`."""
    sums = {name: _number(item, name) + amount for name, amount in amounts.items()}
    return {**item, **sums, "version": _number(item, "version") + 1}


def address(tenant_id: str, generation: int, day: date) -> Address:
    """Return the address of the numbers of a month, as one generation of the log counted them."""
    return head.partition(tenant_id).address(f"revocations#{generation}#{day:%Y-%m}")


def day(day_: date, item: Item) -> Day:
    """Return the numbers of a day in the item of its month. Raises `Corrupt`."""
    created, removed = (_name(kind, day_) for kind in (_CREATED, _REMOVED))
    return Day(day_, _number(item, created), _number(item, removed))


def _number(item: Item, name: str) -> int:
    return integer(item, name) if name in item else 0


def _name(kind: str, day_: date) -> str:
    return f"{kind}.{day_:%d}"
