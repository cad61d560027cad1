"""What belongs together in a tenant's records, compared and repaired (docs/adr/0025).

A write puts all of its items or none, but a backup of DynamoDB may hold a part of the last ones.
Whatever is found half done is repaired to the safe side: what is said to be revoked anywhere is
revoked everywhere.
"""

from collections.abc import Iterator
from typing import Final

from shared.errors import Corrupt, ExpectationLost, Unavailable
from shared.model.callers import Caller
from shared.operations.operator.consistency import (
    accounts,
    api_keys,
    directory,
    list_signers,
    listed,
    revocations,
    signed,
    signing_keys,
)
from shared.operations.operator.consistency.inconsistency import Check, Inconsistency
from shared.operations.rules import audit, first_edition, operation, tenants
from shared.ports import Ports
from shared.ports.store import Change

# In this order repairs build on each other.
_CHECKS: Final[tuple[Check, ...]] = (
    directory.check,
    list_signers.check,
    revocations.check,
    signed.check,
    signing_keys.check,
    api_keys.check,
    accounts.check,
    listed.check,
)
_ROUNDS: Final = 20

__all__ = ["Inconsistency", "examine", "repair"]


def examine(ports: Ports, tenant_id: str) -> Iterator[Inconsistency]:
    """What does not agree in the tenant's records, but for writes in flight; changes nothing.

    Reads all records of the tenant, and if it finds something all of them again. Raises
    `Unavailable`.
    """
    suspected = {each.problem for each in _look(ports, tenant_id)}
    if suspected:
        operation.PACING.sleep(operation.PACING.in_flight)
        yield from (each for each in _look(ports, tenant_id) if each.problem in suspected)


def repair(ports: Ports, operator: Caller) -> list[str]:
    """Make the tenant's records agree; what was repaired, in words. Repeating does no harm.

    What only a restore can help is left as it is. Raises `Unavailable`.
    """
    first_edition.migrate(ports, operator.tenant_id)
    repaired: dict[str, None] = {}
    for _ in range(_ROUNDS):
        found = [each for each in examine(ports, operator.tenant_id) if each.changes]
        if not found:
            return list(repaired)
        repaired |= dict.fromkeys(each.problem for each in found if _write(ports, operator, each))
    raise Unavailable("records change as fast as they are repaired; stop other writers")


def _look(ports: Ports, tenant_id: str) -> Iterator[Inconsistency]:
    for check in _CHECKS:
        try:
            yield from check(ports, tenant_id)
        except Corrupt as error:
            yield Inconsistency(str(error))


def _write(ports: Ports, operator: Caller, found: Inconsistency) -> bool:
    """Whether the repair was written. If not, something else was, and the next round looks anew."""
    try:
        ports.store.write(*found.changes, *_entry(ports, operator, found))
    except ExpectationLost:
        return False
    return True


def _entry(ports: Ports, operator: Caller, found: Inconsistency) -> list[Change]:
    event = found.event
    if event is None:
        return []
    settings = tenants.settings(ports, operator.tenant_id)
    action, resource_id = event.action, event.resource_id
    return [audit.entry(ports, operator, action, resource_id, settings=settings, **event.details)]
