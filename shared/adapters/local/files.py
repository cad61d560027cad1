"""Files that are complete or absent after a crash, and readable only by their owner."""

import os
import secrets
import stat
from pathlib import Path
from typing import Final

from shared.errors import InvalidSettings, Unavailable
from shared.ports.outside import CopiedRange

_OWNER_ONLY: Final = 0o600


def create_secret(path: Path, data: bytes) -> None:
    """Create a secret file of mode 0600, and its folder. Both survive a power failure.

    Raises `InvalidSettings` if the file exists or cannot be created.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        create(path, data, root=path.parent, scratch=path.parent)
    except FileExistsError as error:
        raise InvalidSettings(
            f"{path} exists, and a key file is never replaced. Choose another path."
        ) from error
    except OSError as error:
        raise InvalidSettings(f"{path} cannot be created: {error.strerror}.") from error


def read_secret(path: Path, *, most: int, remedy: str) -> bytes:
    """Return at most `most` bytes of a file that only its owner can use.

    Raises `InvalidSettings` if the file cannot be read or is accessible to others. `remedy` is part
    of the message for an unreadable file.
    """
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            secret = file.read(most)
    except OSError as error:
        raise InvalidSettings(f"{path} cannot be read: {error.strerror}. {remedy}") from error
    if mode & ~_OWNER_ONLY:
        raise InvalidSettings(f"{path} is open to others (mode {mode:04o}). Run: chmod 600 {path}")
    return secret


def create(path: Path, data: bytes, *, root: Path, scratch: Path, at: float | None = None) -> None:
    """Create a file of mode 0600 that survives a power failure.

    `scratch` is a folder on the same file system for the incomplete file. `root` is the highest
    folder that this call may have changed. The modification time is `at`, in seconds since the
    epoch, or now. Raises `FileExistsError` if the name is taken, and other `OSError`.
    """
    # `tempfile` and buffered I/O would take ten times as long.
    temporary = scratch / f".{secrets.token_hex(16)}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY)
    try:
        try:
            unwritten = memoryview(data)
            while unwritten:
                unwritten = unwritten[os.write(descriptor, unwritten) :]
            if at is not None:
                os.utime(descriptor, (at, at))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        try:
            # Unlike a rename, a link never replaces a file.
            os.link(temporary, path)
        finally:
            # Also if the name is taken, because its creator may not have synced yet.
            _sync_folders(path.parent, root)
    finally:
        temporary.unlink(missing_ok=True)


def _sync_folders(folder: Path, root: Path) -> None:
    while True:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if folder == root:
            return
        folder = folder.parent


class FileSink:
    """An `AuditSink` in a folder, which may be on a separate disk or machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, copied_range: CopiedRange) -> None:
        """Append the lines to the file of this log. Raises `Unavailable`."""
        path = self._folder / f"{copied_range.tenant_id}-{copied_range.generation}.ndjson"
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Also works if the file is append-only (`chattr +a`).
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            with open(descriptor, "ab") as file:  # noqa: PTH123 (a descriptor, no path)
                file.write(copied_range.lines)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise Unavailable("cannot write to the audit sink") from error
