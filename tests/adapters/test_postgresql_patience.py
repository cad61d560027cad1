"""How long calls wait for a PostgreSQL server that is away."""

from collections.abc import Callable
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest
from psycopg import pq
from psycopg_pool import PoolTimeout

from shared.adapters.postgresql import database as postgresql_database
from shared.adapters.postgresql.database import PostgresqlDatabase
from shared.errors import Unavailable


class _Server:
    """A server of whose connections a pool of psycopg hands out none while it is away."""

    def __init__(self) -> None:
        self.is_away, self.now = True, 1000.0
        self.pgconn = SimpleNamespace(transaction_status=pq.TransactionStatus.IDLE)
        self.end = 0.0
        self.beside: Callable[[], object] = lambda: None

    def getconn(self, timeout: float) -> Any:
        if not self.is_away:
            return self
        self.now += timeout
        self.beside()
        raise PoolTimeout

    def putconn(self, _connection: object) -> None:
        """Take a connection back."""

    def __enter__(self) -> "_Server":
        return self

    def __exit__(self, *_error: object) -> None:
        """End no transaction."""


def test_one_call_waits_for_a_server_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """F1692a: After a call that waited in vain, one call at a time waits, and others fail at once.

    A request makes several calls, and other requests wait for its thread.
    """
    server = _Server()
    monkeypatch.setattr(postgresql_database, "time", SimpleNamespace(monotonic=lambda: server.now))
    url = "postgresql://rescind@127.0.0.1:1/rescind"
    with closing(PostgresqlDatabase(url, is_known=True)) as database:
        monkeypatch.setattr(
            database,
            "_pool",
            SimpleNamespace(
                getconn=server.getconn, putconn=server.putconn, close=database._pool.close
            ),
        )

        def waited() -> float:
            before = server.now
            with pytest.raises(Unavailable):
                database.run(lambda _: None)
            return server.now - before

        assert [waited() for _ in range(4)] == pytest.approx([4, 1.5, 0, 0], abs=0.1)
        server.now += 1
        beside = list[float]()
        server.beside = lambda: beside.append(waited()) if not beside else None
        assert waited() == pytest.approx(1.5, abs=0.1)
        assert beside == [0]
        server.is_away = False
        server.now += 1
        assert database.run(lambda _: "rows") == "rows"
        server.is_away = True
        assert [waited() for _ in range(2)] == pytest.approx([4, 1.5], abs=0.1)
