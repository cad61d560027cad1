"""Backups of one machine: a folder with the store, the blobs it needs, and their hashes.

A backup is made while the server runs. Its store is a snapshot. The blobs are copied after the
store. They never change, so every blob that the snapshot names still exists. A backup is restored
while no server uses the data folder (OPS-15).
"""

import hashlib
import json
import os
import shutil
import sqlite3
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from infra import data_folder, private_files
from shared import __version__, wiring
from shared.errors import BlobExists, RescindError, Unavailable
from shared.model import times
from shared.model.deployment import SCHEMA
from shared.operations.base import tenants
from shared.operations.operator import backup as operations
from shared.operations.operator import restored
from shared.ports import Ports

STORE: Final = "svc.db"
MASTER_KEY: Final = "master.key"
ROOT_KEY: Final = "root.key"
BLOBS: Final = "blobs"
_MANIFEST: Final = "manifest.json"
_FORMAT: Final = 1


class BackupFailed(RescindError):
    """No backup was made."""


@dataclass(frozen=True)
class Manifest:
    """The description of a backup. `files` maps the path of each file to its SHA-256 in hex."""

    release: str
    schema: int
    made_at: str
    tenants: int
    files: dict[str, str]
    format: int = _FORMAT

    @classmethod
    def load(cls, folder: Path) -> "Manifest":
        """Return the manifest of a backup. Raises `BackupDamaged`."""
        try:
            fields: dict[str, Any] = json.loads((folder / _MANIFEST).read_bytes())
            manifest = cls(**fields)
            if not (isinstance(fields["schema"], int) and isinstance(fields["files"], dict)):
                raise TypeError("schema or files have another type")
        except (OSError, RecursionError, ValueError, TypeError) as error:
            raise BackupDamaged(f"{folder} is not a backup: {_MANIFEST}: {error}.") from error
        if manifest.format != _FORMAT or manifest.schema > SCHEMA:
            release = manifest.release
            raise BackupDamaged(
                f"{folder} was made by release {release}; use that release, or a newer one."
            )
        return manifest


class BackupDamaged(RescindError):
    """The folder is not a complete backup, or its release is too new for this one."""


def back_up(data: Path, key: Path, destination: Path, *, with_key: bool = False) -> Manifest:
    """Back up the data folder `data` to the new folder `destination`, and verify it.

    `key` is the master key file. It and the root key in the same folder are copied only if
    `with_key` is true. Raises `BackupFailed` if the destination exists, a copy fails, or the copy
    is incomplete. After an error, `destination` does not exist.
    """
    partial = destination.with_name(destination.name + ".partial")
    for each in (destination, partial):
        if each.exists():
            raise BackupFailed(f"{each} exists already. Name another folder, or remove it.")
    try:
        partial.mkdir(mode=0o700)
        copy_store(data / STORE, partial / STORE)
        manifest = _complete(data, key, partial, with_key=with_key)
        partial.rename(destination)
        _sync(destination.parent)
    except (OSError, Unavailable) as error:
        raise BackupFailed(f"cannot back up to {destination}: {error}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return manifest


def _complete(data: Path, key: Path, partial: Path, *, with_key: bool) -> Manifest:
    """Add the blobs and the manifest to a verified copy of the store."""
    with closing(open_ports(partial / STORE, data / BLOBS, key)) as ports:
        directory = list(tenants.directory(ports))
        names: list[str] = []
        for tenant in directory:
            names += operations.blobs(ports, tenant.tenant_id)
            names += operations.journal_blobs(ports, tenant.tenant_id)
        made_at = times.format_utc(ports.now())
        with closing(open_ports(partial / STORE, partial / BLOBS, key)) as copy:
            for name in dict.fromkeys(names):
                blob = ports.blobs.get(name)
                # A blob of a newer SRL may be gone. Blobs that the store names are checked below.
                if blob is not None:
                    copy.blobs.put(name, blob)
            for problem in operations.problems(copy):
                raise BackupFailed(f"the copy is damaged, and the data may be too: {problem}.")
    # The rate limit file is created for any store, and contains no records.
    for path in partial.glob(f"{STORE}-*"):
        path.unlink()
    shutil.rmtree(partial / BLOBS / ".tmp")
    if with_key:
        data_folder.copy_private(key, partial / MASTER_KEY)
        if (root := key.with_name(ROOT_KEY)).exists():
            data_folder.copy_private(root, partial / ROOT_KEY)
    files = {each: _digest(partial / each) for each in _files(partial)}
    manifest = Manifest(__version__, SCHEMA, made_at, len(directory), files)
    data_folder.write_private(partial / _MANIFEST, json.dumps(asdict(manifest), indent=1).encode())
    return manifest


def open_ports(store: Path, blobs: Path, key: Path) -> Ports:
    """Return the ports on these files. Raises `InvalidSettings` or `Unavailable`."""
    settings = {"RESCIND_STORE": f"sqlite:{store}", "RESCIND_BLOBS": f"file:{blobs}"}
    return wiring.build(wiring.settings(settings | {"RESCIND_KEY_WRAPPER": f"file:{key}"}))


def verify(folder: Path) -> Manifest:
    """Return the manifest of a backup with unchanged files. Raises `BackupDamaged`."""
    manifest = Manifest.load(folder)
    files = {each for each in _files(folder) if each != _MANIFEST}
    for name in sorted(files ^ manifest.files.keys()):
        state = "was added to" if name in files else "is missing from"
        raise BackupDamaged(f"{name} {state} the backup {folder}.")
    for name, sha256 in manifest.files.items():
        if _digest(folder / name) != sha256:
            raise BackupDamaged(f"{name} of the backup {folder} has changed since the backup.")
    return manifest


def check_opens(folder: Path, key: Path) -> None:
    """Check that the store of a backup is whole, and that the key unwraps its seeds.

    Works on a copy, because opening a store may change its files. Raises `BackupDamaged` or
    `InvalidSettings`.
    """
    private_files.check_owner(key)
    with TemporaryDirectory() as scratch:
        store = Path(scratch, STORE)
        shutil.copyfile(folder / STORE, store)
        shutil.copytree(folder / BLOBS, blobs := Path(scratch, BLOBS))
        with closing(open_ports(store, blobs, key)) as ports:
            for problem in operations.problems(ports):
                raise BackupDamaged(f"the backup cannot be used with {key}: {problem}.")


def copy_store(source: Path, destination: Path) -> None:
    """Copy the SQLite store at `source` to the new file `destination` with owner-only access.

    The copy contains every write that was acknowledged before the call, and passes SQLite's
    integrity check. Raises `BackupFailed` if the destination exists or the copy fails. No file is
    left then.
    """
    try:
        os.close(os.open(destination, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError as error:
        raise BackupFailed(f"{destination} cannot be created: {error.strerror}.") from error
    try:
        with (
            closing(sqlite3.connect(source)) as store,
            closing(sqlite3.connect(destination)) as copy,
        ):
            store.backup(copy)
            # A single file, complete without a separate log.
            copy.execute("PRAGMA journal_mode = DELETE")
            result = copy.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if result != "ok":
            raise sqlite3.DatabaseError(f"the copy is damaged, as the store may be: {result}")
        for path in (destination, destination.parent):
            _sync(path)
    except (sqlite3.Error, OSError) as error:
        destination.unlink(missing_ok=True)
        raise BackupFailed(f"cannot copy {source}: {error}.") from error


def _files(folder: Path) -> list[str]:
    """Return the sorted relative paths of all files in the folder."""
    files = (each for each in folder.rglob("*") if not each.is_dir() or each.is_symlink())
    return sorted(each.relative_to(folder).as_posix() for each in files)


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise BackupDamaged(f"{path} cannot be read: {error.strerror}.") from error


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# Suffixes of the files of an SQLite store.
_LOGS: Final = ("", "-wal", "-shm", "-journal")


class RestoreRefused(RescindError):
    """The backup was not restored, and no data was changed."""


@dataclass(frozen=True)
class RestoredFolder:
    """The result of a restore. `set_aside` is the previous store under its new name, or None."""

    manifest: Manifest
    handles: tuple[str, ...]
    set_aside: Path | None


def restore(
    folder: Path, data: Path, *, key: Path | None = None, replace: bool = False
) -> RestoredFolder:
    """Verify the backup in `folder`, and restore it to the data folder `data`.

    The master key is the file `key`, or `master.key` of the data folder, or the backup's key. The
    root key is in the same folder, or comes from the backup. An existing store is refused, or
    renamed if `replace` is true. Blobs are only added, because `recover` needs newer SRLs. Raises
    `RestoreRefused`, `BackupDamaged`, `FolderInUse` or `InvalidSettings`, and leaves the data
    folder unchanged then. Safe to repeat after a crash.
    """
    manifest = verify(folder)
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    private_files.check_folder(data)
    with data_folder.exclusive_access(data):
        if (data / STORE).exists() and not replace:
            raise RestoreRefused(f"{data / STORE} exists. To set it aside, add --replace.")
        own_key, backup_key = key or data / MASTER_KEY, folder / MASTER_KEY
        if not own_key.exists() and not backup_key.exists():
            raise RestoreRefused(
                f"{own_key} is missing, and the backup has no master key. Put its copy there, or "
                "name it with --key-file."
            )
        check_opens(folder, own_key if own_key.exists() else backup_key)
        if not own_key.exists():
            data_folder.copy_private(backup_key, own_key)
        root = own_key.with_name(ROOT_KEY)
        if (folder / ROOT_KEY).exists() and not root.exists():
            data_folder.copy_private(folder / ROOT_KEY, root)
        _add_blobs(folder / BLOBS, data / BLOBS)
        new = data / f"{STORE}.new"
        for leftover in data.glob(f"{new.name}*"):
            leftover.unlink()
        data_folder.copy_private(folder / STORE, new)
        # Mark the copy as restored before it becomes the store, so it is never used unmarked.
        with closing(open_ports(new, data / BLOBS, own_key)) as ports:
            restored.mark(ports, copied_at=times.parse(manifest.made_at))
        for log in data.glob(f"{new.name}-*"):
            log.unlink()
        set_aside = _set_aside(data)
        new.rename(data / STORE)
        with closing(open_ports(data / STORE, data / BLOBS, own_key)) as ports:
            handles = tuple(each.handle for each in tenants.directory(ports))
        return RestoredFolder(manifest, handles, set_aside)


def _set_aside(data: Path) -> Path | None:
    """Rename the store with its logs, which contain its last writes. Return its new path."""
    if not (data / STORE).exists():
        return None
    number = 1
    while (aside := data / f"{STORE}.before-restore-{number}").exists():
        number += 1
    # Rename the logs first, because SQLite would apply a leftover log to the next store.
    for end in reversed(_LOGS):
        if (part := data / (STORE + end)).exists():
            part.rename(data / (aside.name + end))
    return aside


def _add_blobs(source: Path, destination: Path) -> None:
    blobs = wiring.blobs_in(destination)
    for path in sorted(source.rglob("*")):
        if not path.is_file():
            continue
        name, data = path.relative_to(source).as_posix(), path.read_bytes()
        try:
            blobs.put(name, data)
        except BlobExists:
            if blobs.get(name) != data:
                # The backup was verified, so the existing blob is damaged.
                blobs.remove(name)
                blobs.put(name, data)
