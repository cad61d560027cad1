"""Inconsistencies of a tenant's records, and the changes that repair them."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from shared.model.audit.audit_log import AuditAction
from shared.model.items import Address, Item, Value
from shared.ports import Ports
from shared.ports.store import Change, Expect, Increment


@dataclass(frozen=True, slots=True)
class RepairEvent:
    """The audit entry of a repair that API callers can notice."""

    action: AuditAction
    resource_id: str
    details: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Inconsistency:
    """Records that contradict each other.

    `problem` is a sentence without a full stop, with identifiers. `changes` repair the records,
    with the items that were read as preconditions. They are empty if only a restore can repair the
    records.
    """

    problem: str
    changes: tuple[Change, ...] = ()
    event: RepairEvent | None = None


Check: TypeAlias = Callable[[Ports, str], Iterator[Inconsistency]]


def check_counter(
    address: Address, item: Item | None, counts: Mapping[str, int], *, what: str
) -> Iterator[Inconsistency]:
    """Compare a counter item with a recount by attribute; yield an inconsistency if they differ.

    The repair adds the difference, to preserve concurrent increments.
    """
    stored = dict(item or {})
    differences = {
        name: counts.get(name, 0) - number
        for name in sorted({*stored, *counts})
        if type(number := stored.get(name, 0)) is int and counts.get(name, 0) != number
    }
    if differences:
        names = ", ".join(f"{name} by {amount:+}" for name, amount in differences.items())
        problem = f"the count of {what} is wrong ({names})"
        yield Inconsistency(problem, (Increment(address, differences, Expect.ANYTHING),))
