"""The sealed log: passes of the sealer, and reading what they left."""

from dataclasses import replace

import pytest

from functions.transparency_log import head as head_model
from functions.transparency_log import log, sealing
from shared.errors import DataCorrupt
from shared.model.audit import records
from shared.model.audit.records import EntryCommitment
from shared.ports import Ports
from tests.kit.sealed_log import (
    entered,
    entry_made,
    head_of,
    many_entered,
    many_sealed,
    root_by_path,
    sealed,
)
from tests.kit.tenants import Tenant
from tests.kit.worlds import Clock

DAY = 24 * 3600


def test_each_entry_is_sealed_once(ports: Ports, clock: Clock, tenant: Tenant) -> None:
    """LOG-1, F325a: Each entry is in the log once, and the log has nothing else."""
    assert log.head(ports, tenant.id) is None
    assert log.records(ports, tenant.id, 0, 10) == []
    made = sealing.extend(ports, tenant.id)
    assert made == (0, 1, 0)
    for each in range(5):
        tenant.revoke(ports, f"svc_wrt_{each}")
        clock.advance(seconds=1)
    assert sealing.extend(ports, tenant.id) == (1, 6, 0)
    assert sealing.extend(ports, tenant.id) == (6, 6, 0)
    entries = log.entries(ports, tenant.id, 0, 100)
    assert [index for index, _ in entries] == list(range(6))
    actions = [each.action for _, each in entries if each]
    assert actions == ["tenant.create", *["revocation.create"] * 5]
    assert [each.id for _, each in entries if each] == sealed(ports, tenant.id)
    assert log.entries(ports, tenant.id, 2, 4) == entries[2:4]
    for (_, entry), record in zip(entries, log.records(ports, tenant.id, 0, 6), strict=True):
        assert entry is not None
        assert EntryCommitment.of(entry.to_item()) == record


def test_a_record_outlives_its_entry(ports: Ports, clock: Clock, tenant: Tenant) -> None:
    """LOG-11, F325b: The end of an entry leaves the log as it is."""
    sealing.extend(ports, tenant.id)
    before = sealed(ports, tenant.id)
    clock.advance(days=401)
    tenant.revoke(ports, "svc_wrt_1")
    assert sealing.extend(ports, tenant.id) == (1, 2, 0)
    assert sealed(ports, tenant.id)[:1] == before
    assert [entry is None for _, entry in log.entries(ports, tenant.id, 0, 2)] == [True, False]


def test_late_entries_are_sealed(ports: Ports, clock: Clock, tenant: Tenant) -> None:
    """LOG-8, F326a: An entry that becomes visible late is sealed by its name or the overlap."""
    clock.advance(days=3)
    entered(ports, clock, tenant.id)
    sealing.extend(ports, tenant.id)
    entered(ports, clock, tenant.id, ago=59)
    assert sealing.extend(ports, tenant.id) == (2, 3, 0)
    named = entered(ports, clock, tenant.id, ago=20 * 3600)
    assert sealing.extend(ports, tenant.id) == (3, 3, 0)
    assert sealing.extend(ports, tenant.id, entry_ids=[named]) == (3, 4, 1)
    assert sealing.extend(ports, tenant.id, entry_ids=[named]) == (4, 4, 0)
    entered(ports, clock, tenant.id, ago=30 * 3600)
    assert sealing.extend(ports, tenant.id) == (4, 4, 0)
    assert sealing.sweep(ports, tenant.id) == (4, 5, 1)
    assert len(set(sealed(ports, tenant.id))) == 5
    assert head_of(ports, tenant.id).late == 2


def test_an_entry_of_the_future_hides_no_other(ports: Ports, clock: Clock, tenant: Tenant) -> None:
    """LOG-8, F326b: After a clock was wrong by months, each entry is sealed as before."""
    sealing.extend(ports, tenant.id)
    entered(ports, clock, tenant.id, ago=-100 * DAY)
    assert sealing.extend(ports, tenant.id) == (1, 1, 0)
    clock.advance(days=101)
    entered(ports, clock, tenant.id)
    assert sealing.extend(ports, tenant.id) == (1, 3, 0)
    clock.advance(days=-101)
    for _ in range(3):
        clock.advance(minutes=10)
        entered(ports, clock, tenant.id)
        sealing.extend(ports, tenant.id)
    assert len(set(sealed(ports, tenant.id))) == 6


def test_the_first_pass_seals_old_entries(ports: Ports, clock: Clock, tenant: Tenant) -> None:
    """LOG-1, F325c: The first pass seals all entries that are retained, old ones too."""
    for _ in range(5):
        entered(ports, clock, tenant.id)
    clock.advance(days=70)
    entered(ports, clock, tenant.id)
    assert sealing.extend(ports, tenant.id) == (0, 7, 0)
    assert None not in [entry for _, entry in log.entries(ports, tenant.id, 0, 7)]


def test_full_tiles_follow_from_the_head(
    ports: Ports, clock: Clock, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LOG-5, F327a: The log is whole while tiles become full, read from each place of it."""
    monkeypatch.setattr(sealing, "APPENDED_MAX", 300)
    many_entered(ports, clock, tenant.id, 700)
    assert sealing.extend(ports, tenant.id) == (0, 701, 0)
    ids = sealed(ports, tenant.id)
    assert len(set(ids)) == 701
    head = head_of(ports, tenant.id)
    assert head.stored == 512
    names = list(ports.blobs.names(head_model.folder(tenant.id, 1)))
    stored = ["0/000", "0/001", "entries/000", "entries/001"]
    assert [each.partition("tile/")[2] for each in names] == stored
    for first, end in [(0, 1), (255, 257), (500, 600), (511, 513), (512, 701), (700, 999)]:
        assert [each.id for each in log.records(ports, tenant.id, first, end)] == ids[first:end]
    tree = log.LogTree(ports, tenant.id, head)
    for index in (0, 255, 256, 511, 512, 700):
        (record,) = log.records(ports, tenant.id, index, index + 1)
        leaf = records.leaf(record.data)
        assert root_by_path(leaf, index, 701, tree.path(index)) == head.root


def test_damage_of_the_log_is_never_extended(
    ports: Ports, clock: Clock, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LOG-5, F327b: If a tile has other content than follows from the head, no pass goes on."""
    monkeypatch.setattr(sealing, "APPENDED_MAX", 256)
    sealing.extend(ports, tenant.id)
    many_entered(ports, clock, tenant.id, 255)
    ports.blobs.put(f"{head_model.folder(tenant.id, 1)}/tile/0/000", b"other")
    with pytest.raises(DataCorrupt, match=r"tile 0/000 .* other"):
        sealing.extend(ports, tenant.id)
    head = head_of(ports, tenant.id)
    assert (head.size, head.stored) == (256, 0)
    assert len(sealed(ports, tenant.id)) == 256


def test_a_missing_bundle_is_damage(
    ports: Ports, clock: Clock, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LOG-5, F327c: A missing bundle or tile is an error, and never an empty part of the log."""
    many_sealed(ports, clock, tenant.id, 256)
    head = head_of(ports, tenant.id)
    ports.blobs.discard(f"{head_model.folder(tenant.id, 1)}/tile/entries", before="~")
    ports.blobs.discard(f"{head_model.folder(tenant.id, 1)}/tile/0", before="~")
    with pytest.raises(DataCorrupt, match="bundle 0"):
        log.records(ports, tenant.id, 0, 1)
    with pytest.raises(DataCorrupt, match="tile 0/000"):
        log.LogTree(ports, tenant.id, head).path(0)


@pytest.mark.parametrize("changed", [{"id": "svc_evt_" + 26 * "0"}, {"expires": None}])
def test_a_damaged_entry_is_not_sealed(
    ports: Ports, clock: Clock, tenant: Tenant, changed: dict[str, str | None]
) -> None:
    """LOG-2, F327d: No pass makes a record of an entry that is not as it was written."""
    _, change = entry_made(ports, clock, tenant.id)
    ports.store.write(replace(change, item={**change.item, **changed}))
    with pytest.raises(DataCorrupt):
        sealing.extend(ports, tenant.id)
