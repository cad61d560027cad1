"""PostgreSQL behind a pgbouncer. The contracts run through one in tests/engines."""

from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest

from shared.adapters.postgresql.database import PostgresqlDatabase
from shared.adapters.postgresql.store import PostgresqlStore
from shared.errors import InvalidSettings
from shared.model.items import Address, Table
from shared.ports.store import Expect, Increment
from tests.kit import postgresql
from tests.kit.pgbouncer import PROGRAM, pgbouncer
from tests.kit.postgresql import PostgresqlServer, execute

ONE = Address(Table.KEYS, "t1", "1")
_REFUSED = "does not support prepared statements; set RESCIND_POSTGRESQL_PREPARE=off"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PROGRAM.exists(), reason=f"there is no {PROGRAM}"),
]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresqlServer]:
    with postgresql.running() as made:
        yield made


@pytest.mark.parametrize("mode", ["transaction", "session"])
def test_without_prepared_statements_a_pooler_serves(server: PostgresqlServer, mode: str) -> None:
    """F628b, F931b: Several processes serve through a pooler of transactions or sessions."""
    with server.database("pooled"), pgbouncer(server, mode) as pooler:
        processes = [PostgresqlDatabase(pooler.url("pooled"), prepare=False) for _ in range(3)]
        for _ in range(5):
            for each in processes:
                PostgresqlStore(each).write(Increment(ONE, {"n": 1}, Expect.ANYTHING))
        # A pooler of transactions would lose what is heard.
        assert processes[0].listening("news") is None
        for each in processes:
            with closing(each):
                assert PostgresqlStore(each).get(ONE) == {"n": 15}


@pytest.mark.parametrize("mode", ["transaction", "session"])
def test_a_pooler_that_mixes_prepared_statements_is_refused(
    server: PostgresqlServer, mode: str
) -> None:
    """F628c: A pooler that would run one client's prepared statement for another is refused."""
    with server.database("mixed"), pgbouncer(server, mode) as pooler:
        url = pooler.url("mixed")
        for _ in range(2):
            with pytest.raises(InvalidSettings, match=_REFUSED):
                PostgresqlDatabase(url)
            # What it tried stays with no connection of the pool.
            assert execute(url, "SELECT name FROM pg_prepared_statements") == []
        with psycopg.connect(url, autocommit=True) as other:
            # It stays with a connection of the pool, and has the name of ours.
            other.execute("SELECT 1", prepare=True)
            with pytest.raises(InvalidSettings, match=_REFUSED):
                PostgresqlDatabase(url)
        PostgresqlDatabase(url, prepare=False).close()
    with server.database("direct") as direct:
        PostgresqlDatabase(direct).close()


@pytest.mark.parametrize("prepare", [True, False])
def test_a_pooler_of_statements_is_refused(server: PostgresqlServer, prepare: bool) -> None:
    """F628d: A pooler of single statements, in which no transaction works, is refused in words."""
    with server.database("single"), pgbouncer(server, "statement") as pooler:
        url = pooler.url("single")
        with pytest.raises(InvalidSettings, match="let the pooler pool transactions or sessions"):
            PostgresqlDatabase(url, prepare=prepare)
