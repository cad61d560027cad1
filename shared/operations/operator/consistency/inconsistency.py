"""What a check of a tenant's records finds, and the changes that set it right."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from shared.model.audit_log import Action
from shared.model.items import Address, Item, Value
from shared.model.revoked_signers import LOST as LOST
from shared.ports import Ports
from shared.ports.store import Change, Expect, Increment


@dataclass(frozen=True, slots=True)
class Event:
    """What the audit log says of a repair that changes what a caller sees."""

    action: Action
    resource_id: str
    details: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Inconsistency:
    """Records that belong together and do not agree.

    `problem` is a sentence without its full stop, with identifiers. `changes` make the records
    agree, and expect what was read; there are none if only a restore can help.
    """

    problem: str
    changes: tuple[Change, ...] = ()
    event: Event | None = None


Check: TypeAlias = Callable[[Ports, str], Iterator[Inconsistency]]


def recounted(
    address: Address, item: Item | None, counted: Mapping[str, int], *, what: str
) -> Iterator[Inconsistency]:
    """The difference between a counter's item and a recount, attribute by attribute.

    The repair adds the difference, since others may count meanwhile.
    """
    held = dict(item or {})
    differences = {
        name: counted.get(name, 0) - number
        for name in sorted({*held, *counted})
        if type(number := held.get(name, 0)) is int and counted.get(name, 0) != number
    }
    if differences:
        names = ", ".join(f"{name} by {amount:+}" for name, amount in differences.items())
        problem = f"the count of {what} is wrong ({names})"
        yield Inconsistency(problem, (Increment(address, differences, Expect.ANYTHING),))
