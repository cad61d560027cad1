"""Consistency of a tenant: settings, handle, SRLs, marks, SRL signers, number of webhooks."""

from collections.abc import Iterator

from shared.capabilities.inconsistency import Inconsistency
from shared.errors import DataCorrupt
from shared.model import tenants as model
from shared.model.lists import schedule
from shared.model.lists.head import SrlHead, head_address, heads_partition
from shared.model.lists.schedule import OutboxMark, PublicationDeadline, SignerOutboxMark
from shared.model.lists.signers import SrlSigner, SrlSignerStatus, signers_partition
from shared.model.tenants import DirectoryEntry, TenantSettings
from shared.operations.base import counters
from shared.operations.lists import marks, records
from shared.operations.lists import signers as srl_signers
from shared.ports import Ports
from shared.ports.store import Check, Delete, Expect, Item, Put, VersionIs


def check(ports: Ports, tenant_id: str) -> Iterator[Inconsistency]:
    """Yield inconsistencies of the tenant and its SRLs. Raises `DataCorrupt`, `Unavailable`."""
    address = model.DIRECTORY.address(tenant_id)
    listed = ports.store.get(address)
    item = ports.store.get(model.settings_address(tenant_id))
    if item is None:
        entry = DirectoryEntry.from_optional(listed)
        changes: tuple[Put, ...] = ()
        if entry is not None:
            settings = TenantSettings.initial(tenant_id, entry.handle, entry.created_at)
            changes = (Put(settings.address, settings.to_item(), Expect.ABSENT),)
        yield Inconsistency(f"the tenant {tenant_id} has no settings", changes)
    else:
        settings = TenantSettings.from_item(item)
        if listed is None:
            entry = DirectoryEntry(tenant_id, settings.handle, settings.created_at)
            change = Put(address, entry.to_item(), Expect.ABSENT)
            yield Inconsistency(f"the tenant {tenant_id} is not in the list of tenants", (change,))
        handle = model.handle_address(settings.handle)
        if ports.store.get(handle) is None:
            change = Put(handle, {"tenant_id": tenant_id}, Expect.ABSENT)
            yield Inconsistency(f"the name of the tenant {tenant_id} is not reserved", (change,))
    yield from _check_lists(ports, tenant_id)


def _check_lists(ports: Ports, tenant_id: str) -> Iterator[Inconsistency]:
    """Check that the SRL head is the newest, with a publication deadline and an issue time."""
    published = newest(ports, tenant_id)
    address = head_address(tenant_id)
    head = SrlHead.from_optional(ports.store.get(address))
    if published is not None and (head is None or published.version > head.version):
        # Otherwise each publication would fail, because its version exists.
        expected = VersionIs(head.version) if head else Expect.ABSENT
        yield Inconsistency(
            f"SRL version {published.version} was published, but is not current",
            (Put(address, published.to_item(), expected), *_turn_changes(published, tenant_id)),
        )
        return
    if head is None:
        raise DataCorrupt("a tenant has no published SRL")
    in_force = Check(address, VersionIs(head.version))
    if published is None or published.version < head.version:
        change = Put(head.history_address(tenant_id), head.to_item(), Expect.ANYTHING)
        problem = f"SRL version {head.version} is missing from the history of publications"
        yield Inconsistency(problem, (change, in_force))
    turns = _turn_changes(head, tenant_id)
    if len(ports.store.get_many(change.address for change in turns)) < len(turns):
        problem = "its SRL has no publication deadline"
        yield Inconsistency(problem, (*turns, in_force))
    # The counters are read before the marks, so each counted change has been marked.
    has_changed = counters.read_counts(ports, tenant_id).changes != head.changes
    if has_changed and not marks.read_tenant_marks(ports, tenant_id):
        problem = "changes after its SRL have no outbox mark"
        yield Inconsistency(problem, (marks.tenant_mark(tenant_id, tenant_id),))


def newest(ports: Ports, tenant_id: str) -> SrlHead | None:
    """Read the head of the newest published SRL, or None if there is none."""
    # "head" sorts after the numbers of the others.
    heads = SrlHead.from_rows(ports.store.query(heads_partition(tenant_id), before="head"))
    return max(heads, key=lambda head: head.version, default=None)


def _turn_changes(head: SrlHead, tenant_id: str) -> list[Put]:
    turn = PublicationDeadline.after_publication(head, tenant_id)
    return [
        Put(turn.address, turn.to_item(), Expect.ANYTHING),
        Put(schedule.issue_address(head, tenant_id), {}, Expect.ANYTHING),
    ]


def check_marks(ports: Ports, tenant_id: str) -> Iterator[Inconsistency]:
    """Yield unreadable marks, which block the feed or the SRL of the tenant.

    If the mark on a warrant is replaced, the feed reads the warrant again. If a mark on signers is
    lost, the next SRL gets a full comparison. Raises `DataCorrupt`, `Unavailable`.
    """
    after, before = schedule.mark_range(tenant_id)
    of_tenant = [(each, after, before) for each in schedule.mark_partitions()]
    of_warrants = [(each, None, None) for each in schedule.warrant_marks(tenant_id)]
    for partition, low, high in (*of_tenant, *of_warrants):
        for row in ports.store.query(partition, after=low, before=high):
            if _is_damaged(OutboxMark, row.item):
                problem = f"cannot read the outbox mark {row.sk}"
                yield Inconsistency(problem, (marks.replacement_mark(partition.address(row.sk)),))
    signers = schedule.signers_marks(tenant_id)
    for row in ports.store.query(signers):
        if _is_damaged(SignerOutboxMark, row.item):
            removed = Delete(signers.address(row.sk), Expect.ANYTHING)
            yield Inconsistency(
                f"cannot read the outbox mark {row.sk} of signers",
                (removed, *records.tombstone_counter_changes(tenant_id)),
            )


def _is_damaged(kind: type[OutboxMark] | type[SignerOutboxMark], item: Item) -> bool:
    try:
        kind.from_item(item)
    except DataCorrupt:
        return True
    return False


def check_srl_signers(ports: Ports, tenant_id: str) -> Iterator[Inconsistency]:
    """Yield inconsistencies of SRL signers: there must be one standby and one active signer.

    The active signer names the pending one. Raises `DataCorrupt`, `Unavailable`.
    """
    head = newest(ports, tenant_id)
    if head is None:
        return
    if srl_signers.read_standby(ports, tenant_id) is None:
        changes = (srl_signers.standby_change(ports, tenant_id), marks.trust_mark(tenant_id))
        yield Inconsistency("its standby signer has no record", changes)
    entries = ports.store.query(signers_partition(tenant_id), newest_first=True)
    keys = {entry.sk: SrlSigner.from_item(entry.item) for entry in entries}
    active = [key for key in keys.values() if key.status is SrlSignerStatus.ACTIVE]
    if not active:
        signer = keys.get(head.key_id)
        if signer is not None and signer.status is SrlSignerStatus.PENDING:
            active_signer = signer.activate(ports.now())
            put = Put(signer.address, active_signer.to_item(), VersionIs(signer.version))
            problem = f"the SRL signer {signer.id} signed the current SRL, but is not active"
        else:
            new = srl_signers.create_signer(ports, tenant_id)
            put = Put(new.address, new.to_item(), Expect.ABSENT)
            problem = "it has no active SRL signer; give verifiers the public key of the new signer"
        yield Inconsistency(problem, (put,))
        return
    # As in `in_force`: the signer of the current SRL, otherwise the newest active one.
    current = next((key for key in active if key.id == head.key_id), active[0])
    for key in active:
        if key is not current:
            problem = f"the SRL signer {key.id} is active, but another signer signs"
            yield _revoke_signer(key, problem)
    pending = [key for key in keys.values() if key.status is SrlSignerStatus.PENDING]
    successor_id = current.pending_id
    if successor_id is not None and successor_id not in [key.id for key in pending]:
        alone = current.with_successor(None)
        yield Inconsistency(
            f"the SRL signer {current.id} names {successor_id} as its successor, which is not "
            "pending",
            (Put(current.address, alone.to_item(), VersionIs(current.version)),),
        )
    for key in pending:
        if key.id != successor_id:
            problem = f"the SRL signer {key.id} is pending, but the active signer does not name it"
            yield _revoke_signer(key, problem)


def _revoke_signer(key: SrlSigner, problem: str) -> Inconsistency:
    """Revoke a signer that should have been either retired or revoked."""
    change = Put(key.address, key.revoke().to_item(), VersionIs(key.version))
    return Inconsistency(problem, (change, *records.tombstone_counter_changes(key.tenant_id)))
