"""Where the root key of a deployment is, and that a lost one is not replaced by another."""

import shutil
from contextlib import closing
from pathlib import Path

import pytest

from infra import backup, data_folder
from infra.cli.operator import setup
from infra.cli.output import Output
from infra.server.places import StoreSource
from shared import wiring
from shared.adapters.local.file_root import FileRoot
from shared.errors import InvalidSettings
from shared.operations.base import tenants
from shared.operations.operator import onboarding
from shared.ports import Ports


def _ports(folder: Path, **settings: str) -> Ports:
    return wiring.build(wiring.settings(data_folder.environment(folder) | settings))


def _root(folder: Path, **settings: str) -> bytes | None:
    with closing(_ports(folder, **settings)) as ports:
        return None if ports.root is None else ports.root.public_key


def _sign_a_document(folder: Path) -> None:
    """Put a document of a tenant there, as far as names go."""
    with closing(_ports(folder)) as ports:
        tenant, _ = onboarding.create_tenant(ports, handle="acme", user="test")
        ports.blobs.put(f"trust/{tenant.tenant_id}/{1:020}", b"a document")


def test_the_first_start_makes_a_root(tmp_path: Path) -> None:
    """F703a: The first start makes `root.key` beside the master key, and each process has it."""
    data_folder.prepare(tmp_path, tmp_path / "keys/master.key")
    made = FileRoot(tmp_path / "keys/root.key").public_key
    data_folder.prepare(tmp_path, tmp_path / "keys/master.key")
    keys = f"file:{tmp_path / 'keys/master.key'}"
    assert _root(tmp_path, RESCIND_KEY_WRAPPER=keys) == made
    assert not (tmp_path / "root.key").exists()


def test_a_start_with_data_and_without_documents_makes_a_root(tmp_path: Path) -> None:
    """F703b: Data without documents gets a root."""
    data_folder.prepare(tmp_path)
    (tmp_path / "root.key").unlink()
    with closing(_ports(tmp_path)) as ports:
        assert ports.root is None
    data_folder.prepare(tmp_path)
    assert _root(tmp_path) is not None


def test_a_lost_root_is_not_replaced(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """F703c: With documents but no root key, no other one is made: the start says what to do."""
    data_folder.prepare(tmp_path)
    _sign_a_document(tmp_path)
    (tmp_path / "root.key").rename(tmp_path / "copy")
    data_folder.prepare(tmp_path)
    assert not (tmp_path / "root.key").exists()
    assert _root(tmp_path) is None
    assert "root.key is missing" in caplog.text
    assert "Restore its copy" in caplog.text


@pytest.mark.parametrize("mode", [0o644, 0o640])
def test_a_root_open_to_others_stops_the_start(tmp_path: Path, mode: int) -> None:
    """F703d, S3: A process does not start with a root key that others can read."""
    data_folder.prepare(tmp_path)
    (tmp_path / "root.key").chmod(mode)
    with pytest.raises(InvalidSettings, match=r"chmod 600 .*root\.key"):
        _root(tmp_path)


def test_a_linked_root_is_refused(tmp_path: Path) -> None:
    """F703e, S3: A root key that is a link is refused, as a master key is."""
    data_folder.prepare(tmp_path)
    (tmp_path / "root.key").rename(tmp_path / "elsewhere")
    (tmp_path / "root.key").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InvalidSettings, match="is a link"):
        data_folder.prepare(tmp_path)


def test_a_setting_goes_before_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """F704a: `RESCIND_ROOT` names another file, or no root at all; then none is made by default."""
    monkeypatch.setenv("RESCIND_ROOT", "offline")
    data_folder.prepare(tmp_path)
    assert not (tmp_path / "root.key").exists()
    assert _root(tmp_path, RESCIND_ROOT="offline") is None
    other = FileRoot.create(tmp_path / "other.key").public_key
    assert _root(tmp_path, RESCIND_ROOT=f"file:{tmp_path / 'other.key'}") == other


def test_a_named_root_must_be_there(tmp_path: Path) -> None:
    """F704b: A root that `RESCIND_ROOT` names is not taken for offline if it is missing."""
    data_folder.prepare(tmp_path)
    with pytest.raises(InvalidSettings, match=r"other\.key cannot be read"):
        _root(tmp_path, RESCIND_ROOT=f"file:{tmp_path / 'other.key'}")
    with pytest.raises(InvalidSettings, match="passphrase cannot be read"):
        _root(
            tmp_path,
            RESCIND_ROOT=f"file:{tmp_path / 'root.key'}",
            RESCIND_ROOT_PASSPHRASE_FILE=str(tmp_path / "passphrase"),
        )


def test_a_read_only_server_makes_no_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """F704c: A server that must change nothing makes no root."""
    monkeypatch.setenv("RESCIND_MODE", "read-only")
    data_folder.prepare(tmp_path)
    assert not (tmp_path / "root.key").exists()


@pytest.fixture
def stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of stores that the environment names, which several servers may share."""
    for name, value in data_folder.environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    return tmp_path


def test_setup_makes_the_root_of_shared_stores(
    stores: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """F703f: `setup` makes the root of shared stores once; a lost one it does not replace.

    Servers say that it is missing, and go on.
    """
    setup.set_up(Output(), tenant="acme")
    assert f"Created {stores / 'root.key'}" in capsys.readouterr().err.replace("\n", "")
    made = _root(stores)
    setup.set_up(Output())
    assert _root(stores) == made
    (stores / "root.key").rename(stores / "copy")
    with closing(_ports(stores)) as ports:
        (entry,) = tenants.directory(ports)
        StoreSource().begin(ports)
        assert "Run rescind setup" in caplog.text
        ports.blobs.put(f"trust/{entry.tenant_id}/{1:020}", b"a document")
        StoreSource().begin(ports)
        assert "no longer renewed. Restore its copy" in caplog.text
    setup.set_up(Output())
    assert not (stores / "root.key").exists()
    assert "Restore its copy" in capsys.readouterr().err


def test_setup_makes_no_root_where_one_is_named(
    stores: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F704d: With `RESCIND_ROOT` set, `setup` makes no root beside it."""
    monkeypatch.setenv("RESCIND_ROOT", "offline")
    setup.set_up(Output())
    assert not (stores / "root.key").exists()
    assert (stores / "master.key").exists()


def test_a_backup_has_the_root_only_with_the_master_key(tmp_path: Path) -> None:
    """F705a, OPS-15: A backup has the root key only if the master key was asked for."""
    data = tmp_path / "data"
    data_folder.prepare(data)
    _sign_a_document(data)
    backup.back_up(data, data / "master.key", tmp_path / "without")
    assert not (tmp_path / "without/root.key").exists()
    backup.back_up(data, data / "master.key", tmp_path / "with", with_key=True)
    backup.restore(tmp_path / "with", tmp_path / "new")
    assert (tmp_path / "new/root.key").read_bytes() == (data / "root.key").read_bytes()
    assert (tmp_path / "new/root.key").stat().st_mode & 0o777 == 0o600


def test_a_restore_keeps_the_root_that_is_there(tmp_path: Path) -> None:
    """F705b: A restore never brings an older root key back over the present one."""
    data = tmp_path / "data"
    data_folder.prepare(data)
    _sign_a_document(data)
    backup.back_up(data, data / "master.key", tmp_path / "with", with_key=True)
    shutil.move(data / "root.key", tmp_path / "old.key")
    present = FileRoot.create(data / "root.key").public_key
    backup.restore(tmp_path / "with", data, replace=True)
    assert _root(data) == present
