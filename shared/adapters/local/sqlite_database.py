"""Connections to a SQLite file, and translation of SQLite's errors to `Unavailable`.

Each thread has a connection while it uses the file.
"""

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeAlias
from weakref import WeakValueDictionary

from shared.errors import DataCorrupt, Unavailable

MEMORY: Final = ":memory:"
_Identity: TypeAlias = tuple[int, int]

# An entry exists while a database on the file is open.
_turns: Final[WeakValueDictionary[_Identity, threading.Lock]] = WeakValueDictionary()
_turns_lock: Final = threading.Lock()

# Text that is not UTF-8 comes only from a damaged file, also in error messages.
_FAILURES: Final = (sqlite3.DatabaseError, OSError, UnicodeDecodeError)
# The page cache of a connection, in KiB.
_CACHE_KIB: Final = 8192
_DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_MESSAGES: Final = {
    sqlite3.SQLITE_FULL: "The disk is full; free some space, because no data can be stored.",
    sqlite3.SQLITE_IOERR: "The disk failed to read or write.",
    sqlite3.SQLITE_READONLY: "The data is read-only for this user; grant this user write access.",
}


class Database:
    """The file at `path`, created if it is missing, or `:memory:`.

    `prepare` is called with each new connection to create or check the tables.

    A commit is on the disk before it returns. If `durable` is false, a power failure may undo the
    last commits, in order; a killed process undoes none. `busy_seconds` is the maximum wait for
    another thread or process that writes. Readers wait neither for each other nor for a writer,
    except in `:memory:`, which has one connection. Raises `Unavailable`, and the errors of
    `prepare`.
    """

    def __init__(
        self,
        path: str,
        prepare: Callable[[sqlite3.Connection], object],
        *,
        busy_seconds: float,
        durable: bool = True,
    ) -> None:
        self._path, self._busy_seconds, self._durable = path, busy_seconds, durable
        self._prepare = prepare
        # Used as a stack, because the cache of the last used connection is warm.
        self._idle: list[sqlite3.Connection] = []
        self._in_use = threading.local()
        self._closed = False
        self._alone = threading.Lock() if path == MEMORY else None
        with translate_errors():
            self.connection = self._open()
            self._file = _identity(path)
        self._writing = threading.Lock()
        if self._file is not None:
            # All databases on the file in this process share the lock.
            with _turns_lock:
                self._writing = _turns.setdefault(self._file, self._writing)
        self._idle.append(self.connection)

    def close(self) -> None:
        """Close the file. Calls in progress are completed; later calls raise `Unavailable`."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    def __enter__(self) -> sqlite3.Connection:
        """Return a connection for this thread only. Its failures raise `Unavailable`."""
        if self._alone:
            self._alone.acquire()
        try:
            self._in_use.connection = self._idle.pop()
        except IndexError:
            self._in_use.connection = self._another()
        connection: sqlite3.Connection = self._in_use.connection
        return connection

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: object
    ) -> None:
        self._idle.append(self._in_use.connection)
        if self._closed:
            self.close()
        if self._alone:
            self._alone.release()
        if isinstance(error, _FAILURES):
            raise _unavailable(error) from error

    def _another(self) -> sqlite3.Connection:
        """Return a new connection, or, after `close`, the first one, which fails at any use."""
        if self._closed:
            return self.connection
        with translate_errors():
            if _identity(self._path) != self._file:
                # The existing connections use the previous file.
                raise OSError("another file replaced the database")
            return self._open()

    def _open(self) -> sqlite3.Connection:
        if self._path != MEMORY:
            Path(self._path).parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(
            self._path, timeout=self._busy_seconds, isolation_level=None, check_same_thread=False
        )
        end = time.monotonic() + self._busy_seconds
        try:
            while True:
                try:
                    connection.execute("PRAGMA journal_mode = WAL")
                    break
                except sqlite3.OperationalError as error:
                    # SQLite does not always wait while another process changes the same mode.
                    is_busy = error.sqlite_errorcode == sqlite3.SQLITE_BUSY
                    if not is_busy or time.monotonic() >= end:
                        raise
                    time.sleep(0.01)
            connection.execute(f"PRAGMA synchronous = {'FULL' if self._durable else 'NORMAL'}")
            connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    @contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection. All reads of the body use the same snapshot."""
        with self as connection:
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Commit the changes of the body, or roll them back if it raised."""
        with self._turn_to_write(), self as connection:
            # Take the write lock now, so that data read in the body stays unchanged until the
            # commit.
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    @contextmanager
    def _turn_to_write(self) -> Iterator[None]:
        """Wait for the threads of this process that write to the file.

        SQLite's own lock also excludes threads, but SQLite waits for it by polling.
        """
        if not self._writing.acquire(timeout=self._busy_seconds):
            raise Unavailable
        try:
            yield
        finally:
            self._writing.release()


@contextmanager
def translate_errors() -> Iterator[None]:
    """Raise `Unavailable` for a failure of SQLite or of the disk in the block."""
    try:
        yield
    except _FAILURES as error:
        raise _unavailable(error) from error


def _identity(path: str) -> _Identity | None:
    """Return the device and inode of a file; None for `:memory:`."""
    if path == MEMORY:
        return None
    found = Path(path).stat()
    return found.st_dev, found.st_ino


def _unavailable(error: BaseException) -> Unavailable:
    """Return the error for a failure. Its text names no table and contains no data."""
    if isinstance(error, UnicodeDecodeError):
        return DataCorrupt()
    # The low byte is the primary code. Errors of other origin have no code.
    kind = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if kind in _DAMAGED:
        return DataCorrupt()
    return Unavailable(_MESSAGES.get(kind))
