"""The history of lists: what was published, newest first."""

from shared.model.callers import Caller, Scope
from shared.model.srl import versions as model
from shared.model.srl.versions import PublishedVersion
from shared.operations.rules.operation import operation
from shared.operations.rules.paging import Page
from shared.ports import Ports
from shared.ports.store import Where


@operation(Scope.ADMIN, Scope.READ_ONLY, Scope.REVOKER, Scope.AUDITOR)
def page(ports: Ports, caller: Caller, *, before: str | None, limit: int) -> Page[PublishedVersion]:
    """Return a page of the tenant's lists of the last 30 days (SRL-22); they are not counted.

    Raises `Corrupt`, `Unavailable`.
    """
    alive = Where(alive_at=int(ports.now().timestamp()))
    rows = ports.store.query(
        model.versions(caller.tenant_id),
        before=before,
        newest_first=True,
        limit=limit + 1,
        where=alive,
    )
    found = list(rows)
    shown = found[:limit]
    entries = [PublishedVersion.from_item(row.item) for row in shown]
    return Page(entries, None, shown[-1].sk if len(found) > limit else None)
