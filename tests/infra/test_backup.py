"""Backups of one machine, and what is put back from them."""

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from infra import backup, data_folder
from infra.backup import BackupDamaged, BackupFailed, RestoreRefused
from infra.data_folder import FolderInUse
from shared import wiring
from shared.model.audit import audit_log
from shared.model.audit.audit_log import EntryFilters
from shared.model.callers import Caller
from shared.model.deployment import SCHEMA
from shared.operations.changes import revocations
from shared.operations.lists import in_force, publication
from shared.operations.lists.verdicts import read_statuses
from shared.operations.operator import doctor, onboarding
from shared.operations.operator.recovery import recovery
from tests.infra.folders import opened
from tests.kit.processes import free_port, local_server, start_in_vain

BEFORE, AFTER = "svc_wrt_a", "svc_wrt_b"


def _operator(data: Path) -> Caller:
    with opened(data) as ports:
        return onboarding.operator(ports, handle="acme")


def _revoke(data: Path, warrant_id: str) -> None:
    with opened(data) as ports:
        operator = onboarding.operator(ports, handle="acme")
        revocations.create(ports, operator, warrant_id=warrant_id, reason="r")
        publication.publish(ports, operator)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the data of a tenant that revoked a warrant, and with a backup of it."""
    folder = tmp_path_factory.mktemp("template")
    data_folder.prepare(folder / "data")
    with opened(folder / "data") as ports:
        onboarding.create_tenant(ports, handle="acme")
    _revoke(folder / "data", BEFORE)
    backup.back_up(folder / "data", folder / "data/master.key", folder / "monday")
    return folder


@pytest.fixture
def data(template: Path, tmp_path: Path) -> Path:
    """A data folder with a tenant and a published revocation."""
    return Path(shutil.copytree(template / "data", tmp_path / "data"))


@pytest.fixture
def made(template: Path, tmp_path: Path) -> Path:
    """A backup of it, without the master key."""
    return Path(shutil.copytree(template / "monday", tmp_path / "monday"))


def _revoked(data: Path, *warrant_ids: str) -> list[bool]:
    tenant_id = _operator(data).tenant_id
    with opened(data) as ports:
        found = read_statuses(ports, tenant_id, warrant_ids)
    return [found[each].revoked for each in warrant_ids]


def test_a_backup_has_what_a_lost_machine_needs(data: Path, made: Path, tmp_path: Path) -> None:
    """F404a, OPS-15: From a backup and the master key, all is served again on a new machine."""
    names = [each.relative_to(made).as_posix() for each in made.rglob("*") if each.is_file()]
    assert "master.key" not in names
    assert (data / "master.key").read_bytes() not in (made / "svc.db").read_bytes()
    assert len([name for name in names if "/lists/" in name]) == 1  # that in force, and no older
    assert json.loads((made / "manifest.json").read_bytes())["tenants"] == 1
    new = tmp_path / "new"
    done = backup.restore(made, new, key=data / "master.key")
    assert (done.handles, done.set_aside) == (("acme",), None)
    shutil.copy(data / "master.key", new)
    assert _revoked(new, BEFORE, AFTER) == [True, False]
    _revoke(new, AFTER)
    with opened(new) as ports:
        assert in_force.read_srl_head(ports, _operator(new).tenant_id).version == 3


def test_the_master_key_comes_along_if_it_is_asked_for(data: Path, tmp_path: Path) -> None:
    """F404b, OPS-15: A backup with the master key is enough by itself."""
    backup.back_up(data, data / "master.key", tmp_path / "all", with_key=True)
    backup.restore(tmp_path / "all", tmp_path / "new")
    assert (tmp_path / "new/master.key").read_bytes() == (data / "master.key").read_bytes()
    assert (tmp_path / "new/master.key").stat().st_mode & 0o777 == 0o600
    assert _revoked(tmp_path / "new", BEFORE) == [True]


def test_a_restore_keeps_newer_lists_and_the_store_that_it_replaces(data: Path, made: Path) -> None:
    """F405a, OPS-15: A restore sets the store aside, and keeps the newer lists for recover."""
    _revoke(data, AFTER)
    with pytest.raises(RestoreRefused, match="--replace"):
        backup.restore(made, data)
    done = backup.restore(made, data, replace=True)
    assert done.set_aside is not None
    with closing(sqlite3.connect(done.set_aside)) as file:
        query = "SELECT count(*) FROM revocations WHERE sk = ?"
        assert file.execute(query, (AFTER,)).fetchone()[0] > 0
    assert _revoked(data, BEFORE, AFTER) == [True, False]
    with opened(data) as ports:
        done_again = recovery.recover(ports, _operator(data))
    assert done_again.revoked_again == [AFTER]
    assert _revoked(data, BEFORE, AFTER) == [True, True]


def test_a_restored_store_is_reviewed_before_it_counts_as_recovered(data: Path, made: Path) -> None:
    """F577a, OPS-10: After a restore no recovery is complete before a second, reviewed one.

    That is so also if no list was published between the backup and the loss.
    """
    with opened(data) as ports:
        operator = onboarding.operator(ports, handle="acme")
        revocations.create(ports, operator, warrant_id=AFTER, reason="r")
    backup.restore(made, data, replace=True)
    for reviewed, is_open in [(True, True), (False, True), (True, False), (False, False)]:
        with opened(data) as ports:
            done = recovery.recover(ports, operator, reviewed=reviewed)
            found = [each.problem for each in doctor.examine(ports)]
        assert bool(done.unknown) is is_open
        assert any("the restore is not reviewed" in each for each in found) is is_open
        assert any("active API key" in each for each in done.unknown.review) is is_open
        assert any(each.startswith("Horizon: ") for each in done.unknown.reasons) is is_open
    with opened(data) as ports:
        (entry,) = (
            row.item
            for _, partitions in audit_log.months(
                operator.tenant_id, EntryFilters(ports.now() - timedelta(hours=1), ports.now())
            )
            for each in partitions
            for row in ports.store.query(each)
            if row.item["action"] == "recovery.complete_review"
        )
    assert entry["resource_id"] == operator.tenant_id


def test_no_server_starts_on_a_restored_store_before_recover(data: Path, made: Path) -> None:
    """F577b, OPS-22: A server on a restored store starts only after `recover`."""
    backup.restore(made, data, replace=True)
    refused = start_in_vain(data, port=free_port())
    assert refused.returncode == 1
    assert "Run: recover acme" in refused.stderr
    with opened(data) as ports:
        recovery.recover(ports, onboarding.operator(ports, handle="acme"))
    with local_server(data):
        pass


def test_a_restore_leaves_nothing_of_the_store_before(data: Path, made: Path) -> None:
    """F580a, OPS-15: The logs of the store that was there go with it, as a crash left them."""
    left = {end: (data / f"svc.db{end}") for end in ("-wal", "-shm", "-journal")}
    for end, path in left.items():
        path.write_bytes(f"of the store before {end}".encode())
    done = backup.restore(made, data, replace=True)
    assert done.set_aside is not None
    for end in left:
        aside = done.set_aside.with_name(done.set_aside.name + end)
        assert aside.read_bytes() == f"of the store before {end}".encode()
    assert _revoked(data, BEFORE) == [True]


def test_a_restore_replaces_damaged_blobs(data: Path, made: Path) -> None:
    """F580b, OPS-15: A blob that is there, but is not that of the backup, is replaced by it."""
    path = data / _a_list(made).relative_to(made)
    held = path.read_bytes()
    path.chmod(0o600)
    _flip(path)
    assert path.read_bytes() != held
    backup.restore(made, data, replace=True)
    assert path.read_bytes() == held


def _flip(path: Path) -> None:
    held = bytearray(path.read_bytes())
    held[len(held) // 2] ^= 1
    path.write_bytes(held)


def _a_list(folder: Path) -> Path:
    return next(folder.glob("blobs/srl/*/lists/*"))


def _raise_schema(folder: Path) -> None:
    said = json.loads((folder / "manifest.json").read_bytes())
    (folder / "manifest.json").write_text(json.dumps(said | {"schema": SCHEMA + 1}))


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda folder: _flip(folder / "svc.db"), r"svc\.db of the backup .* has changed"),
        (lambda folder: _flip(_a_list(folder)), r"lists/.* has changed since the backup"),
        (lambda folder: _a_list(folder).unlink(), "is missing from the backup"),
        (lambda folder: (folder / "more").write_text("x"), "more was added to the backup"),
        (lambda folder: (folder / "manifest.json").unlink(), "is not a backup"),
        (_raise_schema, "use that release, or a newer one"),
    ],
)
def test_a_damaged_backup_is_not_put_back(
    data: Path, made: Path, harm: Callable[[Path], object], said: str
) -> None:
    """F405b, OPS-15: A backup that is not as it was made changes nothing when it is put back."""
    harm(made)
    before = (data / "svc.db").read_bytes()
    with pytest.raises(BackupDamaged, match=said):
        backup.restore(made, data, replace=True)
    assert (data / "svc.db").read_bytes() == before


def test_a_backup_is_not_put_back_with_another_key(made: Path, tmp_path: Path) -> None:
    """F405c, OPS-15: A restore finds out that the master key is missing, or of other data."""
    new = tmp_path / "new"
    with pytest.raises(RestoreRefused, match=r"master\.key is missing"):
        backup.restore(made, new)
    data_folder.prepare(tmp_path / "other")
    with pytest.raises(BackupDamaged, match="cannot be used with"):
        backup.restore(made, new, key=tmp_path / "other/master.key")
    assert not (new / "svc.db").exists()


def test_a_backup_is_not_put_back_below_a_server(data: Path, made: Path) -> None:
    """F405d: While a server runs on the data folder, nothing is put back."""
    with local_server(data), pytest.raises(FolderInUse, match="Stop it first"):
        backup.restore(made, data, replace=True)


def test_no_server_starts_while_a_backup_is_put_back(data: Path) -> None:
    """F505a, OPS-15: A server that was started during a restore ends before it reads the store."""
    with data_folder.exclusive_access(data):
        refused = start_in_vain(data, port=free_port())
    assert refused.returncode == 1
    assert "is being restored" in refused.stderr
    with local_server(data):
        pass


@pytest.mark.parametrize("what", ["list", "store", "key"])
def test_what_is_not_whole_is_no_backup(data: Path, tmp_path: Path, what: str) -> None:
    """F404c, OPS-15: If a list, an item or the master key is damaged, no backup is made."""
    if what == "list":
        with opened(data) as ports:
            head = in_force.read_srl_head(
                ports, onboarding.operator(ports, handle="acme").tenant_id
            )
        _flip(data / "blobs" / head.blob)
    elif what == "store":
        with closing(sqlite3.connect(data / "svc.db")) as file, file:
            file.execute("UPDATE revocations SET item = '' WHERE sk = 'svc_wrt_a'")
    else:
        (data / "master.key").unlink()
        wiring.create_master_key(data / "master.key")
    with pytest.raises(BackupFailed):
        backup.back_up(data, data / "master.key", tmp_path / "monday")
    assert [each.name for each in tmp_path.iterdir()] == ["data"]


def test_a_backup_replaces_no_folder(data: Path, made: Path) -> None:
    """OPS-15: A folder that exists is not replaced by a backup."""
    with pytest.raises(BackupFailed, match="exists already"):
        backup.back_up(data, data / "master.key", made)
    assert backup.verify(made).tenants == 1
