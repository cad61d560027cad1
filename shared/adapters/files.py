"""Files that are whole or absent even after a crash, and readable only by their owner."""

import os
import tempfile
from pathlib import Path


def create(path: Path, data: bytes, *, root: Path, scratch: Path, at: float | None = None) -> None:
    """Create a file of mode 0600 that survives a power failure.

    `scratch` is a folder on the same file system for the file while it is written. `root` is the
    highest folder that this call may have changed. The modification time is `at`, in seconds since
    the epoch, or now. Raises `FileExistsError` if the name is taken, and other `OSError`.
    """
    handle, name = tempfile.mkstemp(dir=scratch)
    temporary = Path(name)
    try:
        with open(handle, "wb") as file:  # noqa: PTH123 - a descriptor, no path
            file.write(data)
            file.flush()
            if at is not None:
                os.utime(file.fileno(), (at, at))
            os.fsync(file.fileno())
        try:
            # Unlike a rename, a link never replaces a file.
            os.link(temporary, path)
        finally:
            # Also if the name is taken: its creator may not have done this yet.
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
