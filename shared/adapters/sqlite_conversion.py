"""The conversion of a SQLite file of release 0.3.0 to the format of this release (OPS-11).

A conversion happens alone: if another connection to the file is open, of any release, it is
refused. It is one transaction in a rollback journal. If the process is killed, whoever opens the
file next, release 0.3.0 included, finds it as it was.

The table of items gets another name. So each statement of a process of release 0.3.0 that checked
the format earlier fails from then on: such a process reads, writes and deletes nothing, and answers
503 (docs/adr/15).
"""

import logging
import sqlite3
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

import cbor2

from shared.adapters import sqlite_audit, sqlite_encoding, sqlite_items
from shared.adapters.sqlite_items import version
from shared.errors import InvalidSettings
from shared.model import deployment
from shared.model.items import Address, Item

# The format of release 0.3.0, and the statements that make the next one of it. The audit log is
# indexed anew, by what seals it.
OLDEST: Final = 4
_CONVERSION: Final = (
    sqlite_items.ITEMS,
    # As bytes, so that a key that is damaged is taken over, and reported when it is read.
    """INSERT INTO items_5 SELECT partition(CAST(tbl AS BLOB), CAST(pk AS BLOB)) AS key, sk, item,
        checksum FROM items ORDER BY key, sk""",
    "DROP TABLE items",
    "DROP TABLE tallies",
    "DROP TABLE unindexed",
    *sqlite_audit.SCHEMA,
    f"PRAGMA user_version = {sqlite_items.FORMAT}",
)

_TENANTS: Final = "SELECT pk FROM items WHERE tbl = 'keys' AND sk = 'settings'"
_GET: Final = "SELECT item FROM items WHERE tbl = ? AND pk = ? AND sk = ?"

_PAUSE_SECONDS: Final = 0.05
_REPORT_SECONDS: Final = 10
# About a tenth of a second.
_REPORT_STEPS: Final = 1_000_000

_log = logging.getLogger(__name__)


def convert(path: str, *, busy_seconds: float) -> None:
    """Convert the file at `path` if it has the format of release 0.3.0; leave any other file.

    Waits up to `busy_seconds` for other processes, because one may be converting it. Raises
    `InvalidSettings` if one of them keeps the file open or the data is too old, `Corrupt`, and
    SQLite's errors; the file is unchanged then.
    """
    end = time.monotonic() + busy_seconds
    while not _is_converted(path, busy_seconds):
        if time.monotonic() >= end:
            raise InvalidSettings(
                f"SVC_STORE: the database has format {OLDEST}, and another process has it open, so"
                " it cannot be converted to the format of this release.",
                "Stop every process that uses it, servers of the release before too; then repeat"
                " this.",
            )
        time.sleep(_PAUSE_SECONDS)


def _is_converted(path: str, busy_seconds: float) -> bool:
    """Convert the file if need be; return False if another process has it open."""
    if not Path(path).exists():
        return True
    # A connection of its own for each try, since an open one would keep others from being alone.
    with closing(sqlite3.connect(path, timeout=busy_seconds, isolation_level=None)) as connection:
        if version(connection) != OLDEST:
            return True
        connection.execute("PRAGMA busy_timeout = 0")
        try:
            _convert(connection, path)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
            return False
    return True


def _convert(connection: sqlite3.Connection, path: str) -> None:
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    # SQLite refuses this while another connection is open.
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.execute("BEGIN EXCLUSIVE")
    try:
        if version(connection) != OLDEST:
            return  # Another process has just converted it.
        _log.warning(
            "converting %s from format %s, which takes a while if it is large", path, OLDEST
        )
        _report(connection, path)
        _check_age(connection)
        _change(connection)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    _log.warning("converted %s; release 0.3.0 does not open it any more", path)


def _change(connection: sqlite3.Connection) -> None:
    """Make the file one of the next format, in this transaction."""
    connection.create_function("partition", 2, _partition, deterministic=True)
    for statement in _CONVERSION:
        connection.execute(statement)


def _partition(table: bytes, pk: bytes) -> bytes:
    """Return the key of a partition, or bytes that are no key if it is damaged."""
    try:
        return sqlite_encoding.partition(table.decode(), pk.decode())
    except ValueError:
        return b"?" + table + b"\0" + pk


def _report(connection: sqlite3.Connection, path: str) -> None:
    """Log now and then that the conversion goes on."""
    began = said = time.monotonic()

    def progress() -> None:
        nonlocal said
        if (now := time.monotonic()) - said >= _REPORT_SECONDS:
            said = now
            _log.warning("still converting %s, for %.0f s", path, now - began)

    connection.set_progress_handler(progress, _REPORT_STEPS)


def _check_age(connection: sqlite3.Connection) -> None:
    """Raise `InvalidSettings` if release 0.3.0 served this file, but did not upgrade all of it."""

    def get(address: Address) -> Item | None:
        row = connection.execute(_GET, address).fetchone()
        # A damaged item is reported when it is read, after the conversion too.
        with suppress(cbor2.CBORDecodeError):
            return None if row is None else cbor2.loads(row[0])
        return None

    for (tenant_id,) in connection.execute(_TENANTS).fetchall():
        if deployment.is_too_old(get, tenant_id):
            raise deployment.too_old("the data of a tenant")
