"""The token buckets in PostgreSQL, shared by all servers.

A crash of the database empties the table. All buckets are then full.
"""

from functools import partial
from typing import Final

from shared.adapters.postgresql_database import (
    PooledConnection,
    PostgresqlDatabase,
    execute_pipelined,
)
from shared.model.rate_limit import Bucket
from shared.ports.token_buckets import Lease

_NEW: Final = "INSERT INTO buckets VALUES (%s, %s) ON CONFLICT DO NOTHING"
_LOCK: Final = "SELECT full_at FROM buckets WHERE name = %s FOR UPDATE"
_SET: Final = "UPDATE buckets SET full_at = %s WHERE name = %s"


class PostgresqlBuckets:
    """`TokenBuckets` in a database with tables from `rescind setup`."""

    def __init__(self, database: PostgresqlDatabase) -> None:
        self._database = database

    def lease(self, name: str, tokens: int, *, now: int, reserve: int = 0, least: int = 1) -> Lease:
        """Take up to `tokens`, or none if there are fewer than `least`. Raises `Unavailable`."""
        take = partial(
            _take, name=name.encode(), tokens=tokens, now=now, reserve=reserve, least=least
        )
        return self._database.run(take)


def _take(
    connection: PooledConnection, *, name: bytes, tokens: int, now: int, reserve: int, least: int
) -> Lease:
    opening = [("BEGIN", ()), (_NEW, (name, now)), (_LOCK, (name,))]
    *_, rows = execute_pipelined(connection, opening)
    bucket = Bucket(rows[0][0], now)
    refilled = not bucket.is_credible
    if refilled:
        bucket = Bucket(now, now)
    granted = min(tokens, bucket.available_above(reserve))
    if granted < least:
        connection.rollback()
        return Lease(0, bucket.full_at)
    full_at = bucket.take(granted).full_at
    execute_pipelined(connection, [(_SET, (full_at, name)), ("COMMIT", ())])
    return Lease(granted, full_at, refilled)
