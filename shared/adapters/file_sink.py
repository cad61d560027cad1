"""A sink on this machine: a file for each generation of a log, to which lines are only added."""

import os
from pathlib import Path

from shared.errors import Unavailable
from shared.ports.audit_sink import Copied


class FileSink:
    """An `AuditSink` in a folder, which may be on a disk or a machine of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, copied: Copied) -> None:
        """Add the lines to the end of the file of this log. Raises `Unavailable`."""
        path = self._folder / f"{copied.tenant_id}-{copied.generation}.ndjson"
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Also allowed if the file may only be added to (`chattr +a`).
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            with open(descriptor, "ab") as file:  # noqa: PTH123 (a descriptor, no path)
                file.write(copied.lines)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise Unavailable("the sink of the audit log cannot be written") from error
