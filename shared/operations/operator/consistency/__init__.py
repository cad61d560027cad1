"""Consistency of a tenant's records: comparison and repair (docs/adr/14).

A write stores all of its items or none, but a backup of DynamoDB may contain only some of them.
Repairs choose the safe side: a warrant or key that is revoked in one record is revoked in all.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from shared.capabilities import INSTALLED
from shared.capabilities.inconsistency import Check, Inconsistency
from shared.errors import DataCorrupt, PreconditionFailed, Unavailable
from shared.model.callers import Caller
from shared.operations.base import audit, operation, tenants
from shared.operations.operator.consistency import (
    access,
    published,
    revocations,
    signed,
    signing_keys,
    tenant,
)
from shared.ports import Ports

# The order matters: later repairs rely on earlier ones.
_CHECKS: Final[tuple[Check, ...]] = (
    tenant.check,
    tenant.check_marks,
    tenant.check_srl_signers,
    revocations.check,
    signed.check,
    signing_keys.check,
    access.check_api_keys,
    access.check,
    published.check_feed,
    published.check,
)
_ROUNDS: Final = 20


def examine(ports: Ports, tenant_id: str) -> Iterator[Inconsistency]:
    """Yield the inconsistencies of a tenant's records, without changes. Raises `Unavailable`.

    Reads all records of the tenant. If some contradict each other, reads all again after a pause,
    because a write may be in flight.
    """
    suspected = {each.problem for each in _compare(ports, tenant_id)}
    if suspected:
        operation.wait_for_writes()
        yield from (each for each in _compare(ports, tenant_id) if each.problem in suspected)


def repair(ports: Ports, operator: Caller) -> list[str]:
    """Repair the inconsistencies of a tenant; return a sentence for each. May be repeated.

    Leaves inconsistencies that only a restore can repair. Raises `Unavailable`.
    """
    repaired: dict[str, None] = {}
    for _ in range(_ROUNDS):
        inconsistencies = [each for each in examine(ports, operator.tenant_id) if each.changes]
        if not inconsistencies:
            return list(repaired)
        for each in inconsistencies:
            entries = []
            if (event := each.event) is not None:
                settings = tenants.settings(ports, operator.tenant_id)
                action, subject, details = event.action, event.resource_id, event.details
                entries = [
                    audit.entry(ports, operator, action, subject, settings=settings, **details)
                ]
            # If the records have changed since, the next round compares them again.
            with suppress(PreconditionFailed):
                ports.store.write(*each.changes, *entries)
                repaired[each.problem] = None
    raise Unavailable("records change during the repair; stop other writers, and repeat")


def _compare(ports: Ports, tenant_id: str) -> Iterator[Inconsistency]:
    added = (check for each in INSTALLED for check in each.consistency_checks())
    for check in (*_CHECKS, *added):
        try:
            yield from check(ports, tenant_id)
        except DataCorrupt as error:
            yield Inconsistency(str(error))
