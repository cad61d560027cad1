"""A deployment whose records can be put back to an earlier moment."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from shared.model.items import Table
from shared.ports import Ports
from tests.kit import sqlite_files
from tests.kit.worlds import Clock, close, embedded


@dataclass
class Deployment:
    """Ports on one machine whose records can be put back to an earlier moment; its blobs stay."""

    folder: Path
    ports: Ports
    _numbers: Iterator[int] = field(default_factory=count)

    @property
    def file(self) -> Path:
        return self.folder / "svc.db"

    def copy(self) -> Path:
        """A copy of all records as they are now."""
        path = self.folder / f"copy-{next(self._numbers)}.db"
        with closing(sqlite3.connect(self.file)) as now, closing(sqlite3.connect(path)) as then:
            now.backup(then)
        return path

    def restore(self, copy: Path, *tables: Table) -> None:
        """Put the records of these tables, or of all, back to what the copy holds."""
        with closing(sqlite3.connect(self.file, isolation_level=None)) as connection:
            sqlite_files.restore(connection, copy, tables or Table)


@contextmanager
def deployed(folder: Path, clock: Clock) -> Iterator[Deployment]:
    """A deployment in `folder`, with nothing in it yet."""
    ports = embedded(folder, clock, store=str(folder / "svc.db"))
    try:
        yield Deployment(folder, ports)
    finally:
        close(ports)
