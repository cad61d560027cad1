"""The files of the local mode are their owner's alone, and its backup holds no key."""

import os
import sqlite3
import stat
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import httpx2
import pytest

from infra import backup, data_folder
from shared.adapters.local.sqlite import SqliteStore
from shared.errors import InvalidSettings
from shared.model.items import Table
from shared.operations.operator import onboarding
from tests.infra.folders import opened
from tests.kit.disks import full_disk
from tests.kit.processes import (
    LocalServer,
    free_port,
    local_server,
    run,
    serve_in_vain,
    start_in_vain,
)

_NOBODY = 65534
_STORES = ("RESCIND_STORE", "RESCIND_BLOBS", "RESCIND_KEY_WRAPPER")
_only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.mark.slow
def test_a_folder_that_others_could_read_is_made_private(tmp_path: Path) -> None:
    """F74a, S8: In a data folder that others could read, every file is made private."""
    data = tmp_path / "data"
    data.mkdir(mode=0o755)
    data.chmod(0o755)
    with local_server(data, workers=2) as server:
        _revoke(server, "svc_wrt_a")
        files = [path for path in data.rglob("*") if path.is_file()]
        assert {"svc.db", "svc.db-wal", "svc.db-shm", "master.key", "admin.key"} <= {
            path.name for path in files
        }
        assert any(path.is_relative_to(data / "blobs") for path in files)
        assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
        assert stat.S_IMODE(data.stat().st_mode) == 0o700
        assert "0700 now" in server.output.read_text()
        # The folder is opened again by a command of the operator, also under umask 022.
        result = run("-m", "infra.cli", "tenant", "create", "acme", "--data", str(data))
        assert result.returncode == 0, result.stderr
        assert {path.stat().st_mode & 0o077 for path in data.rglob("*")} == {0}


def _elsewhere(path: Path) -> None:
    """Let a link stand for it."""
    if path.exists():
        path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


def _foreign_link(data: Path) -> None:
    _elsewhere(data)
    os.chown(data, _NOBODY, -1, follow_symlinks=False)


def _given_away(path: Path) -> None:
    os.chown(path, _NOBODY, -1)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda data: data.chmod(0o777), "chmod 700"),
        (lambda data: (data / "svc.db").chmod(0o620), "chmod 600"),
        (lambda data: _elsewhere(data / "svc.db"), "is a link"),
        (lambda data: os.link(data / "svc.db", data.with_name("elsewhere")), "a second name"),
        (lambda data: _elsewhere(data / "admin.key"), "is a link"),
        pytest.param(_given_away, "chown", marks=_only_root),
        pytest.param(_foreign_link, "is a link that", marks=_only_root),
        pytest.param(lambda data: _given_away(data / "svc.db"), "chown", marks=_only_root),
        pytest.param(lambda data: _given_away(data / "master.key"), "chown", marks=_only_root),
    ],
)
def test_what_others_may_have_touched_is_refused(
    tmp_path: Path, spoil: Callable[[Path], object], words: str
) -> None:
    """F74b, S8: A data folder or file that others own, can write or can reach is refused."""
    data = tmp_path / "data"
    data_folder.prepare(data)
    (data / "svc.db").write_bytes(b"")
    (data / "svc.db").chmod(0o600)
    spoil(data)
    with pytest.raises(InvalidSettings, match=words):
        data_folder.prepare(data)
    with pytest.raises(InvalidSettings, match=words):
        data_folder.folder_environment(data, None, {})


def test_the_master_key_may_lie_elsewhere(tmp_path: Path) -> None:
    """F75a, S8: The master key can lie outside of the data folder, which then holds none."""
    data, key = tmp_path / "data", tmp_path / "safe" / "key"
    options = ["--key-file", str(key)]
    with local_server(data, *options) as server:
        _revoke(server, "svc_wrt_a")
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert not (data / "master.key").exists()
    doctor = ("-m", "infra.cli", "doctor", "--data", str(data))
    assert run(*doctor, *options).returncode == 0
    refused = start_in_vain(data, port=free_port())
    assert refused.returncode == 1
    assert f"{data / 'master.key'} is missing" in refused.stderr
    assert not (data / "master.key").exists()
    assert run("-m", "infra.cli", "doctor", "--data", str(data)).returncode == 2


@pytest.mark.parametrize("lacking", _STORES)
def test_half_of_the_stores_is_not_served(tmp_path: Path, lacking: str) -> None:
    """F555a: `serve` does not start if the environment names some of the stores, and not all."""
    named = dict(data_folder.environment(tmp_path / "data"))
    del named[lacking]
    refused = serve_in_vain(settings=named)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert f"{lacking} is not set" in refused.stderr
    assert "or none to serve a data folder" in refused.stderr
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("named", _STORES)
def test_a_folder_and_stores_are_not_named_together(tmp_path: Path, named: str) -> None:
    """F612a: `serve` takes no folder by `--data` beside stores that the environment names."""
    settings = {named: data_folder.environment(tmp_path)[named]}
    options = ("--data", str(tmp_path / "data"))
    refused = serve_in_vain(*options, settings=settings)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert f"--data and {named} name two stores; give one." in refused.stderr
    assert not (tmp_path / "data").exists()


def test_a_backup_is_whole_and_holds_no_key(tmp_path: Path) -> None:
    """F75b, S8: A backup of a running server is complete, private, and contains no key."""
    data, folder = tmp_path / "data", tmp_path / "copies" / "today"
    folder.parent.mkdir()
    with local_server(data) as server:
        _revoke(server, "svc_wrt_a")
        assert (data / "svc.db-wal").stat().st_size > 0
        done = run("-m", "infra.cli", "backup", str(folder), "--data", str(data))
        secret = server.admin_key
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    for left_out in ("the wrapping key", "admin.key"):
        assert left_out in done.stderr
    assert [path.name for path in folder.parent.iterdir()] == ["today"]
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    copy = folder / "svc.db"
    held = b"".join(path.read_bytes() for path in files)
    assert secret.encode() not in held
    assert (data / "master.key").read_bytes() not in held
    with closing(sqlite3.connect(copy)) as connection:
        query = "SELECT count(*) FROM revocations WHERE instr(sk, 'svc_wrt_a')"
        assert connection.execute(query).fetchone()[0] > 0
    with closing(SqliteStore(str(copy))) as store:
        items = [item for table in Table for _, item in store.everything(table)]
    assert secret not in repr(items)


def test_a_damaged_store_is_not_a_backup(tmp_path: Path) -> None:
    """F75c: A damaged store cannot be backed up, and the command says so."""
    store = tmp_path / "svc.db"
    with closing(sqlite3.connect(store)) as connection:
        connection.execute("CREATE TABLE items (k TEXT PRIMARY KEY) WITHOUT ROWID")
        connection.executemany(
            "INSERT INTO items VALUES (?)", [(f"{number:08}",) for number in range(10_000)]
        )
        connection.commit()
    held = bytearray(store.read_bytes())
    at = held.index(b"00005000")
    held[at] = ord("9")
    store.write_bytes(held)
    with pytest.raises(backup.BackupFailed, match="damaged"):
        backup.copy_store(store, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_no_part_of_a_secret_is_left(tmp_path: Path) -> None:
    """F503a: If the disk is full, no empty or cut file is left that looks like a key."""
    with full_disk(), pytest.raises(OSError, match="File too large"):
        data_folder.write_secret(tmp_path / "admin.key", "x" * 47)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("days", "is_in_force", "warned"), [(31, True, True), (31, False, False), (29, True, False)]
)
def test_the_doctor_reports_an_old_admin_key(
    tmp_path: Path, days: int, is_in_force: bool, warned: bool
) -> None:
    """F75d: The doctor reports a first admin key that still works after a month."""
    data_folder.prepare(tmp_path)
    with opened(tmp_path) as ports:
        _, created = onboarding.create_tenant(ports, handle="local")
    secret = created.secret if is_in_force else created.secret[::-1]
    data_folder.write_secret(tmp_path / "admin.key", secret)
    moment = time.time() - days * 24 * 3600
    os.utime(tmp_path / "admin.key", (moment, moment))
    result = run("-m", "infra.cli", "doctor", "--data", str(tmp_path))
    assert result.returncode == 0, result.stderr
    assert ("31 days old" in result.stderr) == warned
    assert created.secret not in result.stderr


def _revoke(server: LocalServer, warrant_id: str) -> None:
    headers = {"Authorization": f"Bearer {server.admin_key}"}
    body = {"warrant_id": warrant_id, "reason": "stolen"}
    with httpx2.Client(base_url=server.url, headers=headers) as http:
        assert http.post("/v1/revocations", json=body).status_code == 201
        assert http.post("/v1/revocations/srl/regenerate").status_code == 200
