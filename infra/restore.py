"""Putting a backup of one machine back, while no server runs on the data folder (OPS-15)."""

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from infra import backup, data_folder, private_files
from infra.backup import BLOBS, MASTER_KEY, ROOT_KEY, STORE, Manifest
from shared import wiring
from shared.errors import BlobExists, RescindError
from shared.model import times
from shared.operations.base import tenants
from shared.operations.operator import restored
from shared.ports.blobs import BlobStore

# The files that SQLite keeps beside a store: the last for a conversion that was stopped.
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
    manifest = backup.verify(folder)
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    private_files.check_folder(data)
    with data_folder.alone(data):
        if (data / STORE).exists() and not replace:
            raise RestoreRefused(f"{data / STORE} exists. To set it aside, add --replace.")
        own = key or data / MASTER_KEY
        chosen = _master_key(folder, own)
        backup.check_opens(folder, chosen)
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
    with closing(backup.opened(store, blobs, key)) as ports:
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
