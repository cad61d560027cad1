"""A SQLite file as adapters use it: threads take turns, and what goes wrong is `Unavailable`."""

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shared.adapters.messages import UNAVAILABLE
from shared.errors import Unavailable


class Database:
    """The tables of `schema` in the file at `path`, made new if need be, or `:memory:`.

    A commit is on the disk before it returns. Where `durable` is false it is not: a power failure
    may undo the last commits, in order, and a killed process undoes none. `busy_seconds` is how
    long to wait for another process. Raises `Unavailable`.
    """

    def __init__(
        self, path: str, schema: str, *, busy_seconds: float, durable: bool = True
    ) -> None:
        self._lock = threading.Lock()
        try:
            self.connection = _open(path, busy_seconds)
            try:
                _prepare(self.connection, schema, busy_seconds, durable=durable)
            except sqlite3.DatabaseError:
                self.connection.close()
                raise
        except (sqlite3.DatabaseError, OSError) as error:
            raise Unavailable(UNAVAILABLE) from error

    def close(self) -> None:
        """Let go of the file; whatever is asked afterwards is `Unavailable`."""
        with self._lock:
            self.connection.close()

    def __enter__(self) -> sqlite3.Connection:
        """The connection, for this thread alone; what fails with it raises `Unavailable`."""
        self._lock.acquire()
        return self.connection

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: object
    ) -> None:
        self._lock.release()
        if isinstance(error, sqlite3.DatabaseError):
            raise Unavailable(UNAVAILABLE) from error

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Commit what the body did, or undo it where it raised."""
        with self as connection:
            # Takes the write lock at once: what the body reads stays true until it commits.
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")


def _open(path: str, busy_seconds: float) -> sqlite3.Connection:
    if path != ":memory:":
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    return sqlite3.connect(
        path, timeout=busy_seconds, isolation_level=None, check_same_thread=False
    )


def _prepare(
    connection: sqlite3.Connection, schema: str, busy_seconds: float, *, durable: bool
) -> None:
    end = time.monotonic() + busy_seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            break
        except sqlite3.OperationalError as error:
            # SQLite does not always wait by itself while another process changes the same mode.
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() >= end:
                raise
            time.sleep(0.01)
    connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
    connection.executescript(schema)
