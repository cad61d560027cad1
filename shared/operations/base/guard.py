"""The guard of protected effects (APPROVAL-1).

`guard_writes` rejects a write by an outside caller with a protected effect, unless the write proves
that the operation checked the policy. As proof, the write uses an approval for one of the actions,
or depends on the version of a policy that required none. The rule also applies while the policy
protects no action, so an operation that omits the check fails in its first test.
"""

from dataclasses import dataclass, replace
from typing import Any, cast

from shared.model import idempotency
from shared.model.callers import Caller
from shared.model.lists import schedule
from shared.ports import Ports
from shared.ports.store import Change, Check, Delete, Increment, Store, Table


class UnguardedWrite(AssertionError):
    """An operation has a protected effect, and its write does not prove a policy check."""


@dataclass(frozen=True, slots=True)
class PolicyAsked(Check):
    """The proof that a policy of this version required no approval, without a check of the item.

    The guard removes it from the write. Frequent changes use this proof, because concurrent checks
    of one item conflict in DynamoDB. A change of the policy also uses it, because a write has at
    most one change for each item.
    """


class GuardedStore:
    """A `Store` that rejects writes with an unproved effect. Reads pass through."""

    def __init__(self, store: Store, caller: Caller) -> None:
        self._store, self._caller = store, caller

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def write(self, *changes: Change) -> None:
        """Apply the changes as `Store.write` does. Raises `UnguardedWrite`.

        Raises `InsufficientScope` if a disabled person created the calling key (IDENTITY-9).
        """
        if not all(map(_is_plain, changes)):
            # Imported here so that revocations do not load it.
            from shared.operations.base import effects  # noqa: PLC0415

            if fault := effects.find_unproved(self._store, self._caller.tenant_id, changes):
                raise UnguardedWrite(fault.address)
            changes += tuple(effects.check_caller(self._store, self._caller, changes))
        self._store.write(*(each for each in changes if not isinstance(each, PolicyAsked)))


def _is_plain(change: Change) -> bool:
    """Return whether a change belongs to a plain revocation and has no protected effect."""
    if isinstance(change, Increment) or change.address.table is Table.AUDIT:
        return True
    if change.address.table is Table.REVOCATIONS:
        return not isinstance(change, Delete)
    return schedule.is_mark(change.address) or idempotency.is_outcome_at(change.address)


def guard_writes(ports: Ports, caller: Caller) -> Ports:
    """Return the ports through which an operation of this caller reads and writes."""
    if caller.is_inside or isinstance(ports.store, GuardedStore):
        return ports
    return replace(ports, store=cast("Store", GuardedStore(ports.store, caller)))
