"""The token buckets in a SQLite file, for one machine.

They need not survive a power failure, so a request does not wait for the disk. They are in a
separate file, so a request does not wait for a write of the store either.
"""

from typing import Final

from shared.adapters.local.sqlite_database import Database
from shared.model.records import integer
from shared.ports.token_buckets import Lease, grant

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS buckets (
    name TEXT NOT NULL PRIMARY KEY, full_at INTEGER NOT NULL
) WITHOUT ROWID;
"""
_GET: Final = "SELECT full_at FROM buckets WHERE name = ?"
_PUT: Final = "INSERT OR REPLACE INTO buckets (name, full_at) VALUES (?, ?)"


class SqliteBuckets:
    """`TokenBuckets` in the file at `path`, which is created if it is missing, or `:memory:`.

    `busy_seconds` is the maximum wait for another process.
    """

    def __init__(self, path: str, *, busy_seconds: float = 5) -> None:
        self._database = Database(
            path,
            lambda connection: connection.execute(_SCHEMA),
            busy_seconds=busy_seconds,
            durable=False,
        )

    def close(self) -> None:
        """Close the file. Every later call raises `Unavailable`."""
        self._database.close()

    def lease(self, name: str, tokens: int, *, now: int, reserve: int = 0, least: int = 1) -> Lease:
        """Take up to `tokens`, or none if there are fewer than `least`. Raises `Unavailable`."""
        with self._database.transaction() as connection:
            row = connection.execute(_GET, (name,)).fetchone()
            full_at = integer({"full_at": row[0]}, "full_at") if row else now
            lease = grant(full_at, tokens, now=now, reserve=reserve, least=least)
            if lease.granted:
                connection.execute(_PUT, (name, lease.full_at))
            return lease
