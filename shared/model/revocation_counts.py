"""Numbers of warrants revoked and unrevoked per day and hour (REVOKE-31).

They are counted from the audit entries, while these are appended to the transparency log
(docs/adr/19).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Final

from shared.model import times
from shared.model.audit import audit_log, log_state, records
from shared.model.audit.audit_log import AuditAction
from shared.model.audit.log_state import LogState
from shared.model.items import Address, Item, Value
from shared.model.records import integer
from shared.model.tenants import AUDIT_RETENTION_DAYS_MIN

# Maximum number of days in one request, and in one request for hours.
DAYS_MAX: Final = 92
HOURLY_DAYS_MAX: Final = 31

_CREATED: Final = "created"
_DELETED: Final = "deleted"
_BY_KEY: Final = "by_key"
_COUNTED: Final[dict[str, str]] = {
    AuditAction.REVOCATION_CREATE: _CREATED,
    AuditAction.REVOCATION_CREATE_BATCH: _CREATED,
    AuditAction.REVOCATION_DELETE: _DELETED,
    AuditAction.REVOCATION_DELETE_BATCH: _DELETED,
    AuditAction.KEY_REVOKE: _BY_KEY,
}
# Hourly numbers are kept for longer than requests can cover.
_KEPT: Final = timedelta(days=62)
# All entries of this period exist when the first pass begins, and until it ends.
_RETAINED: Final = timedelta(days=AUDIT_RETENTION_DAYS_MIN - 1)
_DAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class RevocationCount:
    """The numbers of revocations created and deleted in a day or hour; None if unknown.

    `start` is its first second, in UTC. `by_key` is the number of warrants revoked through their
    key.
    """

    start: datetime
    created: int | None = None
    deleted: int | None = None
    by_key: int | None = None


@dataclass(frozen=True, slots=True)
class RevocationCountSeries:
    """The numbers of some days or hours, oldest first, and the first day ever counted."""

    counted_since: date | None
    spans: list[RevocationCount]


def begin(created_at: datetime, now: datetime) -> datetime:
    """Return the start of the first day that future passes see completely.

    `created_at` is the creation time of the tenant.
    """
    return max(times.midnight(created_at), times.midnight(now - _RETAINED) + _DAY)


def tally(entries: Iterable[Item], *, tenant_id: str, log: LogState) -> dict[Address, Counter[str]]:
    """Return the amounts that these entries add to items of months and of days.

    Counting begins at `log.counted_from`.
    """
    sums: dict[Address, Counter[str]] = defaultdict(Counter)
    for entry in entries:
        kind = _COUNTED.get(str(entry.get("action")))
        made = records.moment(str(entry["id"]))
        if kind is None or log.counted_from is None or made < log.counted_from:
            continue
        amount = len(audit_log.warrants_of(entry))
        if kind == _BY_KEY:
            # The number of warrants that the key had signed; absent after a repair or recovery.
            details = entry["details"]
            amount = _number(details, "warrants") if isinstance(details, dict) else 0
        if amount:
            sums[address(tenant_id, log.generation, made)][_name(kind, made)] += amount
            hours = address_of_hours(tenant_id, log.generation, made)
            sums[hours][_hour_name(kind, made)] += amount
    return sums


def add_amounts(address_: Address, item: Item, amounts: Counter[str]) -> dict[str, Value]:
    """Return an item, initially empty, with these amounts added. Raises `DataCorrupt`."""
    sums = {name: _number(item, name) + amount for name, amount in amounts.items()}
    day_ = address_.sk.rpartition("#")[2]
    if len(day_) == len("2026-11-21"):
        sums["expires"] = int((times.parse(f"{day_}T00:00:00Z") + _KEPT).timestamp())
    return {**item, **sums, "version": _number(item, "version") + 1}


def address(tenant_id: str, generation: int, day: date) -> Address:
    """Return the address of the numbers of a month, for one log generation."""
    return log_state.partition(tenant_id).address(f"revocations#{generation}#{day:%Y-%m}")


def address_of_hours(tenant_id: str, generation: int, day: date) -> Address:
    """Return the address of the hourly numbers of a day, for one log generation."""
    return log_state.partition(tenant_id).address(f"revocations#{generation}#{day:%Y-%m-%d}")


def parts(day: datetime, *, hourly: bool) -> list[datetime]:
    """Return the first seconds of the hours of a day, or of the day."""
    return [day + timedelta(hours=each) for each in range(24 if hourly else 1)]


def span(start: datetime, item: Item, *, hourly: bool) -> RevocationCount:
    """Return the numbers of a day from its month's item, or of an hour from its day's item.

    Raises `DataCorrupt`.
    """
    name = _hour_name if hourly else _name
    kinds = (_CREATED, _DELETED, _BY_KEY)
    return RevocationCount(start, *(_number(item, name(kind, start)) for kind in kinds))


def _number(item: Item, name: str) -> int:
    return integer(item, name) if name in item else 0


def _name(kind: str, day_: date) -> str:
    return f"{kind}.{day_:%d}"


def _hour_name(kind: str, hour_: datetime) -> str:
    return f"{kind}.{hour_:%H}"
