"""Backups of one machine: a folder with the store, the blobs that it needs, and their hashes.

A backup is made while the server runs. Its store is one moment of the store. The blobs are read
afterwards: they never change, so every blob that the copied store names is there. A backup is put
back while no server runs on the data folder (OPS-15).
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
from shared.ports.blobs import BlobStore

STORE: Final = "svc.db"
MASTER_KEY: Final = "master.key"
ROOT_KEY: Final = "root.key"
BLOBS: Final = "blobs"
_MANIFEST: Final = "manifest.json"
_FORMAT: Final = 1
_PRIVATE_FOLDER: Final = 0o700


class BackupFailed(RescindError):
    """No backup was made."""


@dataclass(frozen=True)
class Manifest:
    """The description of a backup. `files` has the SHA-256 of each file, in hex, by its path."""

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
            found = cls(**fields)
            if not (isinstance(fields["schema"], int) and isinstance(fields["files"], dict)):
                raise TypeError("schema or files have another type")
        except (OSError, RecursionError, ValueError, TypeError) as error:
            raise BackupDamaged(f"{folder} is not a backup: {_MANIFEST}: {error}.") from error
        if found.format != _FORMAT or found.schema > SCHEMA:
            raise BackupDamaged(
                f"{folder} was made by release {found.release}; use that release, or a newer one."
            )
        return found


class BackupDamaged(RescindError):
    """The folder is not a whole backup of a release that this one can read."""


def back_up(data: Path, key: Path, destination: Path, *, with_key: bool = False) -> Manifest:
    """Make a backup of the data folder `data` in the new folder `destination`, and verify it.

    `key` is the file of the master key, which is copied only if `with_key` is true, as is the root
    key beside it. Raises
    `BackupFailed` if the destination exists, a copy fails, or the copy is not whole; `destination`
    does not exist then.
    """
    partial = destination.with_name(destination.name + ".partial")
    for each in (destination, partial):
        if each.exists():
            raise BackupFailed(f"{each} exists already. Name another folder, or remove it.")
    try:
        partial.mkdir(mode=_PRIVATE_FOLDER)
        copy_store(data / STORE, partial / STORE)
        made = _complete(data, key, partial, with_key=with_key)
        partial.rename(destination)
        _sync(destination.parent)
    except (OSError, Unavailable) as error:
        raise BackupFailed(f"{destination} could not be made: {error}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return made


def _complete(data: Path, key: Path, partial: Path, *, with_key: bool) -> Manifest:
    """Add the blobs and the manifest to a copy of the store, after the copy was verified."""
    with closing(open_ports(partial / STORE, data / BLOBS, key)) as ports:
        directory = list(tenants.directory(ports))
        needed = (operations.blobs, operations.journal_blobs)
        names = [n for each in directory for of in needed for n in of(ports, each.tenant_id)]
        made_at = times.format_utc(ports.now())
        with closing(open_ports(partial / STORE, partial / BLOBS, key)) as copy:
            for name in dict.fromkeys(names):
                blob = ports.blobs.get(name)
                # A newer list may be gone; those that the store names are checked later.
                if blob is not None:
                    copy.blobs.put(name, blob)
            for problem in operations.problems(copy):
                raise BackupFailed(f"the copy is not whole, as the data may be: {problem}.")
    _remove_limits(partial)
    if with_key:
        data_folder.copy_private(key, partial / MASTER_KEY)
        if (root := key.with_name(ROOT_KEY)).exists():
            data_folder.copy_private(root, partial / ROOT_KEY)
    files = {each: _digest(partial / each) for each in _files(partial)}
    made = Manifest(__version__, SCHEMA, made_at, len(directory), files)
    data_folder.write_private(partial / _MANIFEST, json.dumps(asdict(made), indent=1).encode())
    return made


def open_ports(store: Path, blobs: Path, key: Path) -> Ports:
    """Return the ports on these files. Raises `InvalidSettings`, `Unavailable`."""
    settings = {"RESCIND_STORE": f"sqlite:{store}", "RESCIND_BLOBS": f"file:{blobs}"}
    return wiring.build(wiring.settings(settings | {"RESCIND_KEY_WRAPPER": f"file:{key}"}))


def _remove_limits(folder: Path) -> None:
    """Remove the file of the rate limit, which is made for any store and holds no records."""
    for path in folder.glob(f"{STORE}-*"):
        path.unlink()
    shutil.rmtree(folder / BLOBS / ".tmp")


def verify(folder: Path) -> Manifest:
    """Return the manifest of a backup whose files are as they were made. Raises `BackupDamaged`."""
    made = Manifest.load(folder)
    found = {each for each in _files(folder) if each != _MANIFEST}
    for name in sorted(found ^ made.files.keys()):
        state = "was added to" if name in found else "is missing from"
        raise BackupDamaged(f"{name} {state} the backup {folder}.")
    for name, sha256 in made.files.items():
        if _digest(folder / name) != sha256:
            raise BackupDamaged(f"{name} of the backup {folder} is not as it was made.")
    return made


def check_opens(folder: Path, key: Path) -> None:
    """Check that the store of a backup is whole, and that the key in the file opens its seals.

    Works on a copy, since to open a store may change its files. Raises `BackupDamaged`,
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
    """Copy the SQLite store at `source` to the new file `destination`, for its owner only.

    The copy has every write that was acknowledged before the call, and passes SQLite's own check.
    Raises `BackupFailed` if the destination exists or the copy fails; no file is left then.
    """
    try:
        os.close(os.open(destination, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError as error:
        raise BackupFailed(f"{destination} cannot be created: {error.strerror}.") from error
    try:
        _copy(source, destination)
        for path in (destination, destination.parent):
            _sync(path)
    except (sqlite3.Error, OSError) as error:
        destination.unlink(missing_ok=True)
        raise BackupFailed(f"{source} could not be copied: {error}.") from error


def _copy(source: Path, destination: Path) -> None:
    with closing(sqlite3.connect(source)) as store, closing(sqlite3.connect(destination)) as copy:
        store.backup(copy)
        # One file, complete without a log beside it.
        copy.execute("PRAGMA journal_mode = DELETE")
        found = copy.execute("PRAGMA integrity_check(1)").fetchone()[0]
    if found != "ok":
        raise sqlite3.DatabaseError(f"the copy is damaged, as the store may be: {found}")


def _files(folder: Path) -> list[str]:
    """Return the paths of all files below the folder, relative to it, in order."""
    found = (each for each in folder.rglob("*") if not each.is_dir() or each.is_symlink())
    return sorted(each.relative_to(folder).as_posix() for each in found)


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


# The files that SQLite keeps beside a store.
_LOGS: Final = ("", "-wal", "-shm", "-journal")


class RestoreRefused(RescindError):
    """The backup was not put back, and nothing was changed."""


@dataclass(frozen=True)
class RestoredFolder:
    """The result of a restore. `set_aside` is the store that was there before, or None."""

    manifest: Manifest
    handles: tuple[str, ...]
    set_aside: Path | None


def restore(
    folder: Path, data: Path, *, key: Path | None = None, replace: bool = False
) -> RestoredFolder:
    """Verify the backup in `folder`, and put it into the data folder `data`.

    The master key is the file `key`, or `master.key` of the data folder, or that of the backup; the
    root key is beside it, or that of the backup. A
    store that is there is refused, or set aside under another name if `replace` is true. Blobs are
    only added: a newer list is what `recover` needs. Raises `RestoreRefused`, `BackupDamaged`,
    `FolderInUse`, `InvalidSettings`; the data folder is unchanged then. May be repeated after a
    crash.
    """
    manifest = verify(folder)
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    private_files.check_folder(data)
    with data_folder.exclusive_access(data):
        if (data / STORE).exists() and not replace:
            raise RestoreRefused(f"{data / STORE} exists. To set it aside, add --replace.")
        own = key or data / MASTER_KEY
        chosen = _master_key(folder, own)
        check_opens(folder, chosen)
        if chosen != own:
            data_folder.copy_private(chosen, own)
        root = own.with_name(ROOT_KEY)
        if (folder / ROOT_KEY).exists() and not root.exists():
            data_folder.copy_private(folder / ROOT_KEY, root)
        return _put_back(folder, data, own, manifest)


def _master_key(folder: Path, own: Path) -> Path:
    for each in (own, folder / MASTER_KEY):
        if each.exists():
            return each
    raise RestoreRefused(
        f"{own} is missing, and the backup has no master key. Put its copy there, or say where it "
        "is with --keys."
    )


def _put_back(folder: Path, data: Path, key: Path, manifest: Manifest) -> RestoredFolder:
    _add_blobs(folder / BLOBS, data / BLOBS)
    new = data / f"{STORE}.new"
    for left in data.glob(f"{new.name}*"):
        left.unlink()
    data_folder.copy_private(folder / STORE, new)
    _mark(new, data / BLOBS, key, manifest)
    set_aside = _set_aside(data)
    new.rename(data / STORE)
    settings = data_folder.environment(data, key)
    with closing(wiring.build(wiring.settings(settings))) as ports:
        handles = tuple(each.handle for each in tenants.directory(ports))
    return RestoredFolder(manifest, handles, set_aside)


def _mark(store: Path, blobs: Path, key: Path, manifest: Manifest) -> None:
    """Mark the copy as restored, before it is the store: nobody takes it for one that is not."""
    with closing(open_ports(store, blobs, key)) as ports:
        restored.mark(ports, copied_at=times.parse(manifest.made_at))
    for path in store.parent.glob(f"{store.name}-*"):
        path.unlink()


def _set_aside(data: Path) -> Path | None:
    """Rename the store with its logs, which hold its last writes; return its new path."""
    if not (data / STORE).exists():
        return None
    number = 1
    while (aside := data / f"{STORE}.before-restore-{number}").exists():
        number += 1
    # The logs first: a log beside another store would be taken for that store's.
    for end in reversed(_LOGS):
        if (part := data / (STORE + end)).exists():
            part.rename(data / (aside.name + end))
    return aside


def _add_blobs(source: Path, destination: Path) -> None:
    blobs = wiring.blobs_in(destination)
    for path in sorted(source.rglob("*")):
        if path.is_file():
            _add_blob(blobs, path.relative_to(source).as_posix(), path.read_bytes())


def _add_blob(blobs: BlobStore, name: str, data: bytes) -> None:
    try:
        blobs.put(name, data)
    except BlobExists:
        if blobs.get(name) != data:
            # The backup was verified, so the blob that is there is damaged.
            blobs.remove(name)
            blobs.put(name, data)
