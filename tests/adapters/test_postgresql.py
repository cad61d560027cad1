"""PostgreSQL where it must be refused, and where it fails. The contracts run in tests/contracts."""

import re
import select
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import psycopg
import pytest

from shared.adapters.postgresql import database as postgresql_database
from shared.adapters.postgresql import schema as postgresql_schema
from shared.adapters.postgresql.blobs import PostgresqlBlobs
from shared.adapters.postgresql.database import PostgresqlDatabase, PostgresqlListener, check_url
from shared.adapters.postgresql.store import PostgresqlStore
from shared.errors import DataCorrupt, InvalidSettings, Unavailable
from shared.model.items import Address, Item, Table
from shared.model.lists.schedule import mark_address
from shared.ports.store import Change, Delete, Expect, Increment, Put
from tests.kit import postgresql
from tests.kit.postgresql import END_WAITS, PostgresqlServer, execute
from tests.kit.processes import free_port
from tests.kit.waiting import soon

ONE = Address(Table.KEYS, "t1", "1")


@pytest.fixture
def database() -> Iterator[PostgresqlDatabase]:
    with closing(PostgresqlDatabase(postgresql.emptied())) as opened:
        yield opened


@pytest.fixture
def another() -> Iterator[PostgresqlServer]:
    """A server that a test may stop."""
    with postgresql.running() as made:
        yield made


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://u:secret@localhost/d", "PGPASSFILE"),
        ("postgresql://u@localhost/d?password=secret", "PGPASSFILE"),
        ("postgresql://u@db.example.com/d", "sslmode=verify-full"),
        ("postgresql://u@db.example.com/d?sslmode=verify-ca", "sslmode=verify-full"),
        ("postgresql://u@localhost,db.example.com/d", "sslmode=verify-full"),
        ("postgresql://u@10.0.0.1/d?sslmode=require", "sslmode=verify-full"),
        ("postgresql://u@localhost/d?hostaddr=10.0.0.1", "sslmode=verify-full"),
        ("postgresql://u@localhost/d?nothing=1", "not a PostgreSQL URL"),
        ("postgresql://u:se%cret@localhost/d", "not a PostgreSQL URL"),
    ],
)
def test_an_unsafe_url_is_refused(url: str, said: str) -> None:
    """F607a: A password in the URL, or a way to the database that anybody can tap, is refused."""
    with pytest.raises(InvalidSettings, match=said) as caught:
        check_url(url)
    assert not {"secret", "se%cret"} & set(re.split(r"[^\w%]", str(caught.value)))


def test_the_environment_leads_nowhere_without_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    """F607g: A host that PGHOST names needs TLS as one in the URL does."""
    monkeypatch.setenv("PGHOST", "db.example.com")
    with pytest.raises(InvalidSettings, match="sslmode=verify-full"):
        check_url("postgresql:///d")
    monkeypatch.setenv("PGSSLMODE", "verify-full")
    check_url("postgresql:///d")


@pytest.mark.slow
def test_a_database_without_tables_says_what_to_run() -> None:
    """F607b: A server does not make tables; it says which command does."""
    with pytest.raises(InvalidSettings, match="run rescind setup"):
        PostgresqlDatabase(postgresql.server().url())


def test_a_database_that_cannot_be_used_says_why() -> None:
    """F607c: An unknown database, or nobody at the address, is named at the start."""
    with pytest.raises(InvalidSettings, match=r'database "nowhere" does not exist'):
        PostgresqlDatabase(postgresql.server().url("nowhere"))
    with pytest.raises(InvalidSettings, match="refused"):
        PostgresqlDatabase(f"postgresql://u@127.0.0.1:{free_port()}/d")
    with pytest.raises(InvalidSettings, match="cannot set up the database"):
        postgresql_schema.setup(postgresql.server().url("nowhere"))


def test_data_of_a_later_release_is_refused() -> None:
    """F607d: Tables of a later format are neither used nor changed."""
    with postgresql.server().database("later") as url:
        execute(url, "INSERT INTO rescind_format VALUES (99)")
        with pytest.raises(InvalidSettings, match="later release"):
            PostgresqlDatabase(url)
        with pytest.raises(InvalidSettings, match="later release"):
            postgresql_schema.setup(url)


def test_a_database_of_another_encoding_is_refused() -> None:
    """F607e: A database that is not in UTF8 is refused."""
    server = postgresql.server()
    execute(server.url(), "CREATE DATABASE ascii ENCODING 'SQL_ASCII' TEMPLATE template0")
    with pytest.raises(InvalidSettings, match="with ENCODING UTF8"):
        postgresql_schema.setup(server.url("ascii"))
    execute(server.url(), "DROP DATABASE ascii")


def test_servers_need_no_more_than_rows() -> None:
    """F607f: A role that may change rows and no tables suffices; setup may run twice at once."""
    server = postgresql.server()
    execute(server.url(), "CREATE ROLE serving LOGIN")
    with server.database("granted") as url:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda _: postgresql_schema.setup(url, role="serving"), range(2)))
        limited = server.url("granted", user="serving")
        with closing(PostgresqlDatabase(limited)) as database:
            store, blobs = PostgresqlStore(database), PostgresqlBlobs(database)
            store.write(Put(ONE, {"n": 1, "expires": 1}, Expect.ABSENT))
            assert store.remove_expired(before=2) == 1
            blobs.put("a/b", b"data")
            blobs.discard("a", before="c")
            assert blobs.get("a/b") is None
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            execute(limited, "DROP TABLE items")
    execute(server.url(), "DROP ROLE serving")


def test_setup_by_another_role_says_who_runs_it() -> None:
    """F659b: `setup` as a role that may not make tables says that the owner runs it."""
    server = postgresql.server()
    execute(server.url(), "CREATE ROLE stranger LOGIN")
    with pytest.raises(InvalidSettings, match="Run setup as the owner of the database"):
        postgresql_schema.setup(server.url(user="stranger"))
    execute(server.url(), "DROP ROLE stranger")


def test_damage_is_never_absence(database: PostgresqlDatabase) -> None:
    """F10: An item that is no CBOR map, or a blob with a part missing, is corrupt."""
    store, blobs = PostgresqlStore(database), PostgresqlBlobs(database)
    store.write(Put(ONE, {"n": 1}, Expect.ABSENT))
    blobs.put("a", bytes(3 * 1024 * 1024))
    for damage in ("'\\xff'", "'\\x01'"):
        execute(postgresql.empty(), f"UPDATE items SET item = {damage}")
        with pytest.raises(DataCorrupt):
            store.get(ONE)
    execute(postgresql.empty(), "DELETE FROM blob_parts WHERE n = 1")
    with pytest.raises(DataCorrupt):
        blobs.get("a")


def test_a_link_key_that_is_too_short_signs_nothing(database: PostgresqlDatabase) -> None:
    """S8: Others could guess a short key."""
    blobs = PostgresqlBlobs(database)
    assert blobs.url("a", ttl_seconds=60)
    execute(postgresql.empty(), "UPDATE blob_parts SET data = 'k'; UPDATE blobs SET size = 1")
    with pytest.raises(DataCorrupt):
        blobs.url("a", ttl_seconds=60)


def test_tokens_go_after_a_day(database: PostgresqlDatabase) -> None:
    """The token of a write stays for a day, and no longer."""
    PostgresqlStore(database).write(Put(ONE, {}, Expect.ABSENT))
    PostgresqlStore(database).remove_expired(before=0)
    assert execute(postgresql.empty(), "SELECT count(*) FROM writes") == [(1,)]
    execute(postgresql.empty(), "UPDATE writes SET at = at - interval '25 hours'")
    PostgresqlStore(database).remove_expired(before=0)
    assert execute(postgresql.empty(), "SELECT count(*) FROM writes") == [(0,)]


@pytest.mark.slow
def test_a_server_that_hangs_or_went_away_is_an_outage(another: PostgresqlServer) -> None:
    """F608a: No call waits for ever, none takes an outage for absence, and all is well after it."""
    with another.database("hung") as url, closing(PostgresqlDatabase(url)) as database:
        store = PostgresqlStore(database)
        store.write(Put(ONE, {"n": 1}, Expect.ABSENT))
        another.signal(signal.SIGSTOP)
        with pytest.raises(Unavailable):
            store.get(ONE)
        with pytest.raises(Unavailable):
            store.write(Increment(ONE, {"n": 1}, _ANY))
        another.signal(signal.SIGCONT)
        assert store.get(ONE) is not None
        another.stop()
        with pytest.raises(Unavailable):
            store.get(ONE)
        another.start()
        assert store.get(ONE) is not None


# A second attempt locks what it finds, and a lock waits for the standby too; what is gone has none.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "change", "left"),
    [
        ("cancel", Increment(ONE, {"n": 1}, Expect.PRESENT), {"n": 2}),
        ("terminate", Delete(ONE, Expect.PRESENT), None),
    ],
    ids=["cancel", "terminate"],
)
def test_what_no_standby_has_is_not_acknowledged(
    another: PostgresqlServer, end: str, change: Change, left: Item | None
) -> None:
    """F608b: A write whose wait for the standby is ended is not acknowledged, nor applied twice."""
    with another.database("alone") as url, closing(PostgresqlDatabase(url)) as database:
        PostgresqlStore(database).write(Put(ONE, {"n": 1}, Expect.ABSENT))
        execute(url, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        execute(url, "SELECT pg_reload_conf()")
        soon(lambda: postgresql.waits_for_standbys(url))
        store = PostgresqlStore(database)
        with ThreadPoolExecutor(1) as pool:
            written = pool.submit(store.write, change)
            soon(lambda: execute(url, END_WAITS.format(end))[0][0])
            with pytest.raises(Unavailable):
                written.result()
        execute(url, "ALTER SYSTEM RESET synchronous_standby_names")
        execute(url, "SELECT pg_reload_conf()")
        assert store.get(ONE) == left


def test_a_mark_is_heard_by_other_servers(
    database: PostgresqlDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F931a: Who listens hears of the commit of a mark, and of no other.

    If its connection breaks, it pretends news, and hears again on another one.
    """
    monkeypatch.setattr(postgresql_database, "_CONNECT_SECONDS", 0)
    with (
        closing(PostgresqlDatabase(postgresql.empty(), connections=1)) as other,
        closing(PostgresqlListener(database)) as listener,
    ):
        for _ in range(2):
            listener.wait(60)
            listener.wait(0)
            assert listener._connection is not None
            PostgresqlStore(database).write(Put(ONE, {}, _ANY))
            PostgresqlStore(other).write(Put(mark_address("t1", "w"), {}, _ANY))
            heard = next(listener._connection.notifies(timeout=60))
            assert (heard.pid,) == other.rows("SELECT pg_backend_pid()")[0]
            other.rows(f"SELECT pg_terminate_backend({listener._connection.info.backend_pid})")
            # The end is news as well.
            while listener._connection is not None:
                listener.wait(60)
        listener.notify()
        assert select.select([listener.fileno()], [], [], 0)[0]


def test_what_is_created_meanwhile_is_deleted_too(database: PostgresqlDatabase) -> None:
    """F608d: A write that waits for another one deletes also what that one creates."""
    store, other = PostgresqlStore(database), Address(Table.KEYS, "t1", "2")
    store.write(Put(other, {}, Expect.ABSENT))
    with psycopg.connect(postgresql.empty()) as first, ThreadPoolExecutor(1) as pool:
        first.execute("SELECT 1 FROM items FOR UPDATE")
        first.execute("INSERT INTO items SELECT tbl, pk, '1', item FROM items")
        deleted = pool.submit(store.write, Delete(ONE, _ANY), Delete(other, Expect.PRESENT))
        soon(lambda: execute(postgresql.empty(), _BLOCKED)[0][0])
        first.commit()
        deleted.result()
    assert store.get_many([ONE, other]) == {}


@pytest.mark.slow
def test_each_write_is_applied_once_while_connections_break(another: PostgresqlServer) -> None:
    """F608c: While backends end, each acknowledged write of six threads counts once."""
    with another.database("broken") as url, closing(PostgresqlDatabase(url)) as database:
        store, over = PostgresqlStore(database), threading.Event()
        unknown = [0] * _WRITERS

        def write(number: int) -> int:
            acknowledged = 0
            while not over.is_set():
                own = Put(Address(Table.KEYS, f"w{number}", str(acknowledged)), {}, Expect.ABSENT)
                try:
                    store.write(Increment(ONE, {"n": 1}, _ANY), own)
                    acknowledged += 1
                except Unavailable:
                    unknown[number] += 1
                    # What is unknown must not be written by the next one.
                    return acknowledged
            return acknowledged

        with ThreadPoolExecutor(_WRITERS) as pool:
            counts = [pool.submit(write, number) for number in range(_WRITERS)]
            for _ in range(_BREAKS):
                execute(url, _TERMINATE)
                soon(lambda: int(execute(url, _WRITTEN)[0][0]) >= _WRITERS)
            over.set()
            acknowledged = sum(each.result() for each in counts)
        item = store.get(ONE)
        assert item is not None
        assert acknowledged <= int(str(item["n"])) <= acknowledged + sum(unknown)
        assert acknowledged > _WRITERS


_ANY = Expect.ANYTHING
_WRITERS = 6
_BREAKS = 40
_TERMINATE = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()"""
_WRITTEN = "SELECT count(*) FROM writes"
_BLOCKED = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
