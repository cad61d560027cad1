"""The data folder of a deployment on one machine: store, blobs and the default master key."""

import fcntl
import logging
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from infra import private_files
from shared import wiring
from shared.errors import InvalidSettings, RescindError
from shared.model.lists.head import version_of

_STORE = "svc.db"
_MASTER_KEY = "master.key"
# SQLite keeps recent writes in additional files of the store.
_LIMITS = f"{_STORE}-limits"
_PRIVATE = (
    *(f"{each}{part}" for each in (_STORE, _LIMITS) for part in ("", "-wal", "-shm", "-journal")),
    "admin.key",
)


LOST_ROOT: Final = (
    "its trust documents are no longer renewed. Restore its copy, or set RESCIND_ROOT. "
    "If it is lost, follow docs/runbook.md (a lost root) before the newest document expires."
)

# The metrics library reads this variable at import time (infra/server/metrics.py).
METRICS_VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"

_log = logging.getLogger(__name__)


class FolderInUse(RescindError):
    """Another program uses the folder. No data was changed."""


def environment(folder: Path, key: Path | None = None) -> dict[str, str]:
    """Return the settings for the data in `folder`, with an optional master key at `key`.

    The names are defined in `shared.settings`.
    """
    return {
        "RESCIND_STORE": f"sqlite:{folder / _STORE}",
        "RESCIND_BLOBS": f"file:{folder / 'blobs'}",
        "RESCIND_KEY_WRAPPER": f"file:{master_key(folder, key)}",
    }


def use(folder: Path) -> None:
    """Lock the folder for shared write access until this process ends.

    The lock lasts until the end of the process, because threads complete work in progress. Raises
    `FolderInUse` while another program has `exclusive_access`.
    """
    descriptor = _open_lock(folder)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        problem = f"{folder} is being restored, or moved to another store."
        raise FolderInUse(f"{problem} Wait until that has ended.") from None


@contextmanager
def exclusive_access(folder: Path, remedy: str = "Stop it first.") -> Iterator[None]:
    """Run the block only if no server that may write uses the folder.

    No such server can start during the block. Raises `FolderInUse` with the remedy otherwise. A
    server with `RESCIND_MODE=read-only` may run.
    """
    descriptor = _open_lock(folder)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            problem = f"A server that may change the data runs on {folder}."
            raise FolderInUse(f"{problem} {remedy}") from None
        yield
    finally:
        # Closing alone would leave the lock to a child process that inherited the file.
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def _open_lock(folder: Path) -> int:
    return os.open(folder / "use.lock", os.O_RDWR | os.O_CREAT, 0o600)


def empty_metrics(folder: Path, address: str) -> Path:
    """Return an empty folder for the metrics of a server with `address` as its metrics address.

    Files of an earlier run are removed, because counters start at zero.
    """
    counts = folder / "metrics" / address
    shutil.rmtree(counts, ignore_errors=True)
    counts.mkdir(mode=0o700, parents=True)
    return counts


def master_key(folder: Path, path: Path | None) -> Path:
    """Return the path of the master key: `path` (`--key-file`), else `master.key` in the folder."""
    return path or folder / _MASTER_KEY


def settings_in(environment_: Mapping[str, str]) -> list[str]:
    """Return the names of the store settings that the environment contains."""
    return [name for name in environment(Path()) if environment_.get(name)]


def resolve_folder(folder: Path | None, environment_: Mapping[str, str]) -> Path | None:
    """Return the data folder: `folder` (`--data`), or `RESCIND_DATA`, or None.

    `RESCIND_DATA` is ignored if the environment names stores.
    """
    data = environment_.get("RESCIND_DATA")
    return Path(data) if folder is None and data and not settings_in(environment_) else folder


def of_store(store: str) -> Path | None:
    """Return the folder of a local store (`RESCIND_STORE`), or None for any other store."""
    scheme, _, location = store.partition(":")
    return Path(location).parent if scheme == "sqlite" else None


def prepare(folder: Path, key: Path | None = None) -> None:
    """Create the folder, its master key and its root key with owner-only access, if missing.

    Raises `InvalidSettings` if the folder cannot be created or is not private. Also raises it if
    the folder has data but no key, because a new key could not unwrap the seeds. Raises the errors
    of `check_whole` too.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidSettings(f"{folder} cannot be created: {error.strerror}.") from error
    path = _validate_folder(folder, key)
    if not path.exists():
        wiring.create_master_key(path)
    root = wiring.default_root(wiring.settings(os.environ | environment(folder, path)))
    if root is None or root.exists() or wiring.is_read_only():
        return
    # Clients with a document of another root would refuse the documents of a new root.
    if any((folder / "blobs/trust").glob("*/[0-9]*")):
        _log.warning("%s is missing: %s", root, LOST_ROOT)
    else:
        wiring.create_root(root)


def check_whole(folder: Path, *, has_tenants: bool = True) -> None:
    """Refuse an empty store next to files of an older store, because records were lost.

    `has_tenants` is false if the store was opened and has no tenant. Raises `InvalidSettings`.
    """
    database = folder / _STORE
    if has_tenants and database.is_file() and database.stat().st_size:
        return
    # An interrupted first start leaves one empty SRL.
    srls = folder.glob("blobs/srl/*/lists/*.json")
    if (folder / "admin.key").exists() or any(version_of(each.name) > 1 for each in srls):
        raise InvalidSettings(
            f"{database} is missing or empty: the data is lost or incomplete.",
            f"{folder} contains an admin key or published SRLs, but not their records.",
            "Restore svc.db from a backup, then run: rescind recover (docs/restore.md).",
            "To begin a new service instead, choose another folder.",
        )


def folder_environment(
    folder: Path | None, key: Path | None, environment_: Mapping[str, str]
) -> dict[str, str]:
    """Return the environment, with the settings of `folder` and its key if given.

    Raises `InvalidSettings` if `folder` is not a data folder, because opening it would create one.
    Also raises it if the folder is not private, or if its key is missing.
    """
    if folder is None:
        return dict(environment_)
    if not folder.is_dir():
        raise InvalidSettings(f"{folder} is not a data folder: it does not exist.")
    path = _validate_folder(folder, key)
    if not any((folder / name).exists() for name in (_STORE, _MASTER_KEY)):
        raise InvalidSettings(
            f"{folder} is not a data folder: it has neither {_STORE} nor {_MASTER_KEY}."
        )
    return dict(environment_) | environment(folder, path)


def _validate_folder(folder: Path, key: Path | None) -> Path:
    """Check the folder, its files and the master key. Return the path of the key."""
    private_files.check_folder(folder)
    for name in _PRIVATE:
        private_files.check_file(folder / name)
    check_whole(folder)
    path = master_key(folder, key)
    if (folder / _STORE).exists() and not path.exists():
        problem = f"{path} is missing, but {folder} has data. "
        remedy = "Restore its copy, or say where it is (make run KEYS=…, or the option --key-file)."
        raise InvalidSettings(problem + remedy)
    # Modes are checked when the files are read.
    private_files.check_owner(path)
    private_files.check_owner(path.with_name("root.key"))
    return path


def write_secret(path: Path, secret: str) -> None:
    """Write a secret to a new file with owner-only access."""
    write_private(path, f"{secret}\n".encode("ascii"))


def write_private(path: Path, data: bytes) -> None:
    """Write a new file with owner-only access, and sync it to disk."""
    with _new_private(path) as file:
        file.write(data)


def write_lines(path: Path, lines: Iterable[str]) -> int:
    """Write lines to a new file with owner-only access. Return their number."""
    count = 0
    with _new_private(path) as file:
        for line in lines:
            file.write(line.encode())
            count += 1
    return count


def copy_private(source: Path, destination: Path) -> None:
    """Copy a file of any size to a new file with owner-only access."""
    with source.open("rb") as read, _new_private(destination) as file:
        shutil.copyfileobj(read, file, 1024 * 1024)


@contextmanager
def _new_private(path: Path) -> Iterator[BinaryIO]:
    """Create the file. Remove it if the block fails or is interrupted."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123 (a descriptor, no path)
            yield file
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise
