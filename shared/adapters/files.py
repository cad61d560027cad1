"""Files that are whole or absent, whatever crashes, and that nobody else can read."""

import os
import tempfile
from pathlib import Path


def create(path: Path, data: bytes, *, root: Path, scratch: Path, at: float | None = None) -> None:
    """Make a new file of mode 0600 that outlives a power cut.

    `scratch` takes the file while it is written; it lies on the same file system. `root` is the
    highest folder that this call may have changed. The file says that it was modified `at`, in
    seconds since the epoch; by default, when it was. Raises `FileExistsError` where the name is
    taken, and other `OSError`.
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
            # Also where the name is taken: its maker may not have come as far as this.
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
