"""Copies of the store of one machine, made while the server runs."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from shared.errors import RescindError


class BackupFailed(RescindError):
    """No copy was made."""


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


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
