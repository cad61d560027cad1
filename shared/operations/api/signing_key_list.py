"""The list of signing keys (KEY-13)."""

from itertools import repeat
from typing import NamedTuple

from shared.model import signing_keys as model
from shared.model.callers import Caller, Scope
from shared.model.signing_keys import Filters, SigningKey
from shared.operations.rules import counters
from shared.operations.rules.operation import operation
from shared.operations.rules.paging import Page, Walk, count, newest
from shared.ports import Ports


class Listed(NamedTuple):
    """A key, and how many warrants it signed; None if that was not asked for."""

    key: SigningKey
    warrant_count: int | None


@operation(Scope.ADMIN, Scope.READ_ONLY, Scope.SIGNER, Scope.AUDITOR)
def page(
    ports: Ports,
    caller: Caller,
    *,
    before: str | None,
    limit: int,
    filters: Filters,
    counted: bool = False,
) -> Page[Listed]:
    """Return a page of the tenant's keys that match `filters`, newest first (KEY-13).

    If `counted`, each has the number of warrants that it signed (KEY-15).
    """
    keys = model.keys(caller.tenant_id)
    walk = Walk(keys, SigningKey.from_item, before, limit, keep=filters.hold)
    counts = model.counts_address(caller.tenant_id)
    found = newest(ports, walk, total=lambda: count(ports, counts, names=filters.count_names))
    signers = [key.signer for key in found.entries]
    signed = counters.of_signers(ports, caller.tenant_id, signers) if counted else repeat(None)
    return Page(list(map(Listed, found.entries, signed)), found.total, found.next_before)
