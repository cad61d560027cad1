"""The token buckets in a SQLite file, for one machine.

They need not survive a power failure, so a request does not wait for the disk. They are in a file
of their own, so it does not wait for a write of the store either.
"""

import sqlite3
from contextlib import suppress
from typing import Final

from shared.adapters.sqlite_database import Database
from shared.errors import ExpectationLost
from shared.model import api_keys, times
from shared.model.rate_limit import Bucket
from shared.model.records import integer, moment
from shared.ports.store import Expect, Increment, Store
from shared.ports.token_buckets import Lease, Used

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS buckets (
    name TEXT NOT NULL PRIMARY KEY, full_at INTEGER NOT NULL
) WITHOUT ROWID;
"""
_GET: Final = "SELECT full_at FROM buckets WHERE name = ?"
_PUT: Final = "INSERT OR REPLACE INTO buckets (name, full_at) VALUES (?, ?)"


class SqliteBuckets:
    """`TokenBuckets` in the file at `path`, which is created if it is missing, or `:memory:`.

    `busy_seconds` is how long to wait for another process.
    """

    def __init__(self, path: str, *, busy_seconds: float = 5) -> None:
        self._database = Database(path, _prepare, busy_seconds=busy_seconds, durable=False)

    def close(self) -> None:
        """Close the file. Every later call raises `Unavailable`."""
        self._database.close()

    def lease(self, name: str, tokens: int, *, now: int, reserve: int = 0, least: int = 1) -> Lease:
        """Take up to `tokens`, or none if there are fewer than `least`. Raises `Unavailable`."""
        with self._database.transaction() as connection:
            row = connection.execute(_GET, (name,)).fetchone()
            full_at = integer({"full_at": row[0]}, "full_at") if row else now
            bucket = Bucket(full_at, now)
            refilled = not bucket.is_credible
            if refilled:
                bucket = Bucket(now, now)
            granted = min(tokens, bucket.above(reserve))
            if granted < least:
                return Lease(0, bucket.full_at)
            full_at = bucket.take(granted).full_at
            connection.execute(_PUT, (name, full_at))
            return Lease(granted, full_at, refilled)


def _prepare(connection: sqlite3.Connection) -> None:
    connection.execute(_SCHEMA)


class SqliteUsage:
    """`UsageCounts` in the items of a store on this machine."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def add(self, used: Used) -> None:
        """Add to the count. Raises `Unavailable`."""
        address = api_keys.usage(used.tenant_id).address(used.key_id)
        last_used_at = used.last_used_at
        if used.late:
            held = moment((self._store.get(address) or {}).get("last_used_at"), "last_used_at")
            last_used_at = max(last_used_at, held or last_used_at)
        assign = {"last_used_at": times.text(last_used_at)}
        # The usage of a deleted key must not be created again.
        with suppress(ExpectationLost):
            self._store.write(
                Increment(address, {"request_count": used.requests}, Expect.PRESENT, assign=assign)
            )
