"""Marks that cannot be read, for which the feed or the list of the tenant waits.

If the mark on a warrant is set anew, the feed looks at the warrant. If a mark on signers is lost,
the next list is compared with all records.
"""

from collections.abc import Iterator

from shared.errors import Corrupt
from shared.model.lists import schedule
from shared.model.lists.schedule import Mark, SignersMark
from shared.operations.lists import marks, records
from shared.operations.operator.consistency.inconsistency import Inconsistency
from shared.ports import Ports
from shared.ports.store import Delete, Expect, Item


def check(ports: Ports, tenant_id: str) -> Iterator[Inconsistency]:
    """Yield the damaged marks of a tenant. Raises `Corrupt`, `Unavailable`."""
    after, before = schedule.around_marks_of(tenant_id)
    of_tenant = [(each, after, before) for each in schedule.marks()]
    of_warrants = [(each, None, None) for each in schedule.warrant_marks(tenant_id)]
    for partition, low, high in (*of_tenant, *of_warrants):
        for row in ports.store.query(partition, after=low, before=high):
            if _is_damaged(Mark, row.item):
                problem = f"the mark {row.sk} cannot be read"
                yield Inconsistency(problem, (marks.again(partition.address(row.sk)),))
    signers = schedule.signers_marks(tenant_id)
    for row in ports.store.query(signers):
        if _is_damaged(SignersMark, row.item):
            removed = Delete(signers.address(row.sk), Expect.ANYTHING)
            yield Inconsistency(
                f"the mark {row.sk} on signers cannot be read",
                (removed, *records.noted(tenant_id)),
            )


def _is_damaged(kind: type[Mark] | type[SignersMark], item: Item) -> bool:
    try:
        kind.from_item(item)
    except Corrupt:
        return True
    return False
