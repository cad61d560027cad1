"""What is kept of old lists, and what happens if there is no room for new ones."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shared.errors import OutOfSpace, Unavailable
from shared.model.lists.head import lists_folder, states_folder, version_of
from shared.model.tenants import SettingsChange
from shared.operations.access import tenant_settings
from shared.operations.changes import srl
from shared.operations.lists import in_force, publication
from shared.ports import Ports
from shared.ports.blobs import BlobStore
from tests.kit import disks
from tests.kit.intercepted import Call, Intercepted
from tests.kit.tenants import Tenant
from tests.kit.worlds import Clock

pytestmark = pytest.mark.usefixtures("few_partitions")


def kept(ports: Ports, tenant: Tenant) -> list[int]:
    """The versions of which something is stored; of each, all that belongs to it."""
    folders = lists_folder(tenant.id), states_folder(tenant.id)
    lists, states = (list(map(version_of, ports.blobs.names(each))) for each in folders)
    assert lists == states
    return lists


def test_old_lists_do_not_fill_the_disk(ports: Ports, tenant: Tenant) -> None:
    """F89a: At most twenty older lists are kept, however often a tenant publishes."""
    for _ in range(30):
        publication.publish(ports, tenant.operator)
    assert kept(ports, tenant) == list(range(11, 32))


def test_expired_lists_go(ports: Ports, tenant: Tenant, clock: Clock) -> None:
    """F119a: Of the expired lists, only the two before the list in force are kept."""
    for _ in range(8):
        publication.publish(ports, tenant.operator)
    clock.advance(minutes=30)
    for _ in range(3):
        publication.publish(ports, tenant.operator)
    assert kept(ports, tenant) == list(range(1, 13))
    # A list is of no use once its lifetime is over.
    clock.advance(minutes=30, seconds=1)
    publication.publish(ports, tenant.operator)
    assert kept(ports, tenant) == [10, 11, 12, 13]
    clock.advance(days=30)
    publication.publish(ports, tenant.operator)
    assert kept(ports, tenant) == [12, 13, 14]


def test_the_lifetime_is_the_tenants_own(ports: Ports, tenant: Tenant, clock: Clock) -> None:
    """F119: lists that are valid for longer are kept for longer."""
    tenant_settings.update(ports, tenant.operator, change=SettingsChange(srl_ttl_seconds=604_800))
    for _ in range(6):
        publication.publish(ports, tenant.operator)
        clock.advance(days=1)
    assert kept(ports, tenant) == list(range(1, 8))
    clock.advance(days=2)
    publication.publish(ports, tenant.operator)
    assert kept(ports, tenant) == list(range(3, 9))


def test_old_lists_go_although_nothing_can_be_stored(
    ports: Ports, tenant: Tenant, clock: Clock
) -> None:
    """F119c: A publication removes old lists before it stores the new one."""
    for _ in range(9):
        publication.publish(ports, tenant.operator)
    clock.advance(hours=2)
    broken = _broken(ports.blobs, "put", Unavailable("a bad sector"))
    assert list(publication.publish_due(replace(ports, blobs=broken)).failed) == [tenant.id]
    assert kept(ports, tenant) == [9, 10]


@pytest.mark.slow
def test_a_disk_without_room_for_old_lists(
    ports: Ports, tenant: Tenant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F119b: On a disk with little room, old lists make room for new ones."""
    for number in range(50):
        tenant.revoke(ports, f"svc_wrt_{number:064}")
    publication.publish(ports, tenant.operator)
    size = 12 * in_force.read_srl_head(ports, tenant.id).size
    used = disks.limited(monkeypatch, tmp_path / "blobs", size=size)
    for version in range(3, 40):
        assert publication.publish(ports, tenant.operator).version == version
        assert used() <= size * 7 / 8
    assert len(tenant.published(ports).revoked_ids) == 50


def test_a_disk_without_room_for_the_next_list(
    ports: Ports, tenant: Tenant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F120b: If the next list does not fit on the disk, the list in force stays."""
    for _ in range(5):
        publication.publish(ports, tenant.operator)
    with monkeypatch.context() as patched:
        disks.limited(patched, tmp_path / "blobs", size=100)
        with pytest.raises(OutOfSpace):
            publication.publish(ports, tenant.operator)
    assert tenant.published(ports).version == 6
    assert publication.publish(ports, tenant.operator).version == 7


def test_no_tenant_is_created_without_room(
    ports: Ports, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F120: a first list has none before it that could make room."""
    disks.limited(monkeypatch, tmp_path / "blobs", size=100)
    with pytest.raises(OutOfSpace):
        Tenant.create(ports, "globex")


def test_lists_that_cannot_be_removed_stop_no_publication(
    ports: Ports, tenant: Tenant, caplog: pytest.LogCaptureFixture
) -> None:
    """F89: the next list is made all the same; that old ones stay is logged."""
    stuck = _broken(ports.blobs, "discard", Unavailable("no permission"))
    head = srl.regenerate(replace(ports, blobs=stuck), tenant.operator)
    assert in_force.read_srl_head(ports, tenant.id) == head
    assert "cannot remove old blobs" in caplog.text


def _broken(blobs: BlobStore, verb: str, error: Exception) -> Any:
    """Blobs of which one verb fails."""

    def around(call: Call) -> Any:
        if call.verb == verb:
            raise error
        return call()

    return Intercepted(blobs, around)
