"""Consistency of a tenant's settings, handle, directory entry and published lists."""

from collections.abc import Iterator

from shared.errors import Corrupt
from shared.model import tenants as model
from shared.model.lists import schedule
from shared.model.lists.head import ListHead, head_address, publications
from shared.model.lists.schedule import Turn
from shared.model.tenants import DirectoryEntry, TenantSettings
from shared.operations.base import counters
from shared.operations.lists import marks
from shared.operations.operator.consistency.inconsistency import Inconsistency
from shared.ports import Ports
from shared.ports.store import At, Check, Expect, Put


def check(ports: Ports, tenant_id: str) -> Iterator[Inconsistency]:
    """Yield inconsistencies of the tenant and its lists. Raises `Corrupt`, `Unavailable`."""
    yield from _names(ports, tenant_id)
    yield from _lists(ports, tenant_id)


def _names(ports: Ports, tenant_id: str) -> Iterator[Inconsistency]:
    address = model.DIRECTORY.address(tenant_id)
    listed = ports.store.get(address)
    item = ports.store.get(model.settings_address(tenant_id))
    if item is None:
        yield _without_settings(
            None if listed is None else DirectoryEntry.from_item(listed), tenant_id
        )
        return
    settings = TenantSettings.from_item(item)
    if listed is None:
        entry = DirectoryEntry(tenant_id, settings.handle, settings.created_at)
        change = Put(address, entry.to_item(), Expect.ABSENT)
        yield Inconsistency(f"the tenant {tenant_id} is not in the list of tenants", (change,))
    handle = model.handle_address(settings.handle)
    if ports.store.get(handle) is None:
        change = Put(handle, {"tenant_id": tenant_id}, Expect.ABSENT)
        yield Inconsistency(f"the name of the tenant {tenant_id} is not taken", (change,))


def _without_settings(entry: DirectoryEntry | None, tenant_id: str) -> Inconsistency:
    problem = f"the tenant {tenant_id} has no settings"
    if entry is None:
        return Inconsistency(problem)
    settings = TenantSettings.initial(tenant_id, entry.handle, entry.created_at)
    return Inconsistency(problem, (Put(settings.address, settings.to_item(), Expect.ABSENT),))


def _lists(ports: Ports, tenant_id: str) -> Iterator[Inconsistency]:
    """Check that the head is that of the newest list, and has a turn and a time of issue."""
    published = newest(ports, tenant_id)
    address = head_address(tenant_id)
    item = ports.store.get(address)
    head = None if item is None else ListHead.from_item(item)
    if published is not None and (head is None or published.version > head.version):
        # Otherwise each publication would fail, because its version exists.
        expected = At(head.version) if head else Expect.ABSENT
        yield Inconsistency(
            f"version {published.version} of the list was published, but is not in force",
            (Put(address, published.to_item(), expected), *_turn(published, tenant_id)),
        )
        return
    if head is None:
        raise Corrupt("a tenant has no published list")
    in_force = Check(address, At(head.version))
    if published is None or published.version < head.version:
        change = Put(head.history_address(tenant_id), head.to_item(), Expect.ANYTHING)
        problem = f"version {head.version} of the list is not among those that were published"
        yield Inconsistency(problem, (change, in_force))
    turns = _turn(head, tenant_id)
    if len(ports.store.get_many(change.address for change in turns)) < len(turns):
        problem = "its list has no turn in the schedule"
        yield Inconsistency(problem, (*turns, in_force))
    # The counters are read before the marks: each change that they count has been marked.
    has_changed = counters.counted(ports, tenant_id).changes != head.changes
    if has_changed and not marks.of_tenant(ports, tenant_id):
        problem = "changes since its list are not marked for the schedule"
        yield Inconsistency(problem, (marks.on_tenant(tenant_id, tenant_id),))


def newest(ports: Ports, tenant_id: str) -> ListHead | None:
    """Read the head of the newest published list; None if there is none."""
    # "head" sorts after the numbers of the others.
    entries = ports.store.query(publications(tenant_id), before="head")
    heads = (ListHead.from_item(entry.item) for entry in entries)
    return max(heads, key=lambda head: head.version, default=None)


def _turn(head: ListHead, tenant_id: str) -> list[Put]:
    turn = Turn.after(head, tenant_id)
    return [
        Put(turn.address, turn.to_item(), Expect.ANYTHING),
        Put(schedule.issue_address(head, tenant_id), {}, Expect.ANYTHING),
    ]
