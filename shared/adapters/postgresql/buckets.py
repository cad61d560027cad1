"""The token buckets in PostgreSQL, shared by all servers.

A crash of the database empties the table. All buckets are then full.
"""

from typing import Final

from shared.adapters.postgresql.database import (
    PooledConnection,
    PostgresqlDatabase,
    execute_pipelined,
)
from shared.ports.token_buckets import Lease, grant

_NEW: Final = "INSERT INTO buckets VALUES (%s, %s) ON CONFLICT DO NOTHING"
_LOCK: Final = "SELECT full_at FROM buckets WHERE name = %s FOR UPDATE"
_SET: Final = "UPDATE buckets SET full_at = %s WHERE name = %s"


class PostgresqlBuckets:
    """`TokenBuckets` in a database with tables from `rescind setup`."""

    def __init__(self, database: PostgresqlDatabase) -> None:
        self._database = database

    def lease(self, name: str, tokens: int, *, now: int, reserve: int = 0, least: int = 1) -> Lease:
        """Take up to `tokens`, or none if there are fewer than `least`. Raises `Unavailable`."""
        key = name.encode()

        def take(connection: PooledConnection) -> Lease:
            opening = [("BEGIN", ()), (_NEW, (key, now)), (_LOCK, (key,))]
            *_, rows = execute_pipelined(connection, opening)
            lease = grant(rows[0][0], tokens, now=now, reserve=reserve, least=least)
            if lease.granted:
                execute_pipelined(connection, [(_SET, (lease.full_at, key)), ("COMMIT", ())])
            else:
                connection.rollback()
            return lease

        return self._database.run(take)
