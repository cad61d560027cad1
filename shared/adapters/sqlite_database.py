"""A SQLite file as adapters use it: threads take turns, and what goes wrong is `Unavailable`."""

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from shared.adapters.messages import CORRUPT, UNAVAILABLE
from shared.errors import Corrupt, Unavailable

# Text that is not UTF-8 can come from a damaged file alone, even as part of an error's message.
_FAILURES: Final = (sqlite3.DatabaseError, OSError, UnicodeDecodeError)
_DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_MESSAGES: Final = {
    sqlite3.SQLITE_FULL: "The disk is full; nothing can be stored until there is space.",
    sqlite3.SQLITE_IOERR: "The disk failed to read or write.",
    sqlite3.SQLITE_READONLY: "The data is read-only for this user; nothing can be stored.",
}


class Database:
    """The file at `path`, made new if need be, or `:memory:`; `prepare` makes its tables.

    A commit is on the disk before it returns. Where `durable` is false it is not: a power failure
    may undo the last commits, in order, and a killed process undoes none. `busy_seconds` is how
    long to wait for another process. Raises `Unavailable`, and what `prepare` does.
    """

    def __init__(
        self,
        path: str,
        prepare: Callable[[sqlite3.Connection], object],
        *,
        busy_seconds: float,
        durable: bool = True,
    ) -> None:
        self._lock = threading.Lock()
        try:
            self.connection = _open(path, busy_seconds)
            try:
                _configure(self.connection, busy_seconds, durable=durable)
                prepare(self.connection)
            except BaseException:
                self.connection.close()
                raise
        except _FAILURES as error:
            raise _unavailable(error) from error

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
        if isinstance(error, _FAILURES):
            raise _unavailable(error) from error

    @contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """The connection, on which all reads of the body see one moment."""
        with self as connection:
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

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


def _configure(connection: sqlite3.Connection, busy_seconds: float, *, durable: bool) -> None:
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


def _unavailable(error: BaseException) -> Unavailable:
    """What an operator has to know of a failure; the texts name no table and hold no data."""
    if isinstance(error, UnicodeDecodeError):
        return Corrupt(CORRUPT)
    # The low byte is the kind, the others say more of it. Errors of other origin have no code.
    kind = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if kind in _DAMAGED:
        return Corrupt(CORRUPT)
    return Unavailable(_MESSAGES.get(kind, UNAVAILABLE))
