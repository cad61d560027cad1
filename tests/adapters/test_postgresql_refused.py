"""PostgreSQL that must not be served from: the start says why, and what to do."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import urlencode

import pytest

from shared import wiring
from shared.adapters.postgresql import schema as postgresql_schema
from shared.adapters.postgresql.database import PostgresqlDatabase
from shared.adapters.postgresql.store import PostgresqlStore
from shared.errors import InvalidSettings, Unavailable
from shared.model.items import Address, Table
from shared.ports.store import Expect, Put
from tests.kit import postgresql
from tests.kit.postgresql import PostgresqlPlace, PostgresqlServer, execute
from tests.kit.receivers import certificate

ONE = Address(Table.KEYS, "t1", "1")


@contextmanager
def _guarded(access: str, *, programs: Path | None = None) -> Iterator[PostgresqlServer]:
    """A server with a certificate that lets only its owner in, unless by `access`."""
    with postgresql.running(programs=programs) as made:
        shown, key = certificate("localhost")
        made.give("server.pem", shown)
        made.give("server.key", key)
        owners = "local all all trust\nhost all owner 127.0.0.1/32 trust\n"
        (made.data / "pg_hba.conf").write_text(f"{owners}{access}\n")
        for name in ("pem", "key"):
            setting = {"pem": "ssl_cert_file", "key": "ssl_key_file"}[name]
            execute(made.url(), f"ALTER SYSTEM SET {setting} = '{made.folder}/server.{name}'")
        execute(made.url(), "CREATE ROLE serving LOGIN PASSWORD 'right'")
        execute(made.url(), "CREATE DATABASE rescind")
        postgresql_schema.setup(made.url("rescind"), role="serving")
        made.reload()
        yield made


@pytest.fixture
def guarded() -> Iterator[PostgresqlServer]:
    """A server that asks for a password."""
    with _guarded("host all all all scram-sha-256") as made:
        yield made


@pytest.fixture
def encrypted() -> Iterator[PostgresqlServer]:
    """A server that demands TLS. That of the wheel is built without."""
    with _guarded("hostssl all all all scram-sha-256", programs=postgresql.of_debian()) as made:
        execute(made.url(), "ALTER SYSTEM SET ssl = on")
        made.reload()
        yield made


@pytest.fixture
def password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the role's password."""
    file = tmp_path / "pgpass"
    file.write_text("*:*:*:*:right")
    file.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(file))
    return file


def _url(server: PostgresqlPlace, trusted: Path, host: str = "localhost") -> str:
    settings = urlencode({"sslmode": "verify-full", "sslrootcert": str(trusted)})
    return f"postgresql://serving@{host}:{server.port}/rescind?{settings}"


def _trusting(folder: Path, host: str) -> Path:
    file = folder / "root.pem"
    file.write_bytes(certificate(host)[0])
    return file


@pytest.mark.slow
@pytest.mark.skipif(postgresql.of_debian() is None, reason="no PostgreSQL with TLS here")
@pytest.mark.usefixtures("password")
def test_a_server_of_the_right_name_is_believed(
    encrypted: PostgresqlServer, tmp_path: Path
) -> None:
    """F622a: With sslmode=verify-full, only a trusted certificate of the server's name will do."""
    url = _url(encrypted, _trusting(tmp_path, "localhost"))
    with closing(PostgresqlDatabase(url)) as database:
        uses = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
        assert database.rows(uses) == [(True,)]
    with pytest.raises(InvalidSettings, match="certificate verify failed"):
        PostgresqlDatabase(_url(encrypted, _trusting(tmp_path, "another")))
    with pytest.raises(InvalidSettings, match='does not match host name "127'):
        PostgresqlDatabase(_url(encrypted, _trusting(tmp_path, "localhost"), "127.0.0.1"))


@pytest.mark.usefixtures("password")
def test_a_server_without_tls_is_not_believed(tmp_path: Path) -> None:
    """F622b: A server without TLS is refused if the URL demands it."""
    url = _url(postgresql.server(), _trusting(tmp_path, "localhost"))
    with pytest.raises(InvalidSettings, match="does not support SSL, but SSL was required"):
        PostgresqlDatabase(url)


def test_setup_needs_tls_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """F622c: `rescind setup` refuses a URL that a server would refuse."""
    place = {"RESCIND_BLOBS": "postgresql:", "RESCIND_KEY_WRAPPER": f"file:{tmp_path}/key"}
    for unsafe, said in (("u:secret@localhost", "PGPASSFILE"), ("u@db.example", "verify-full")):
        store = f"postgresql://{unsafe}/d"
        with pytest.raises(InvalidSettings, match=said):
            wiring.create_tables(wiring.settings({"RESCIND_STORE": store, **place}))


@pytest.mark.slow
def test_a_wrong_password_is_said_so(guarded: PostgresqlServer, password: Path) -> None:
    """F622d: A wrong password is named at the start; a password that changes later is an outage."""
    url = guarded.url("rescind", user="serving")
    password.write_text("*:*:*:*:wrong")
    with pytest.raises(InvalidSettings, match='password authentication failed for user "serving"'):
        PostgresqlDatabase(url)
    password.write_text("*:*:*:*:right")
    with closing(PostgresqlDatabase(url)) as database:
        store = PostgresqlStore(database)
        store.write(Put(ONE, {"n": 1}, Expect.ANYTHING))
        execute(guarded.url(), "ALTER ROLE serving PASSWORD 'new'")
        execute(guarded.url(), _END_ALL)
        with pytest.raises(Unavailable):
            store.get(ONE)
        password.write_text("*:*:*:*:new")
        assert store.get(ONE) == {"n": 1}


@pytest.mark.slow
def test_a_standby_is_refused() -> None:
    """F623a: A standby is refused, and one beside its primary is passed over."""
    with postgresql.running() as primary:
        execute(primary.url(), "CREATE DATABASE rescind")
        postgresql_schema.setup(primary.url("rescind"))
        with postgresql.running(of=primary) as standby:
            with pytest.raises(InvalidSettings, match="names a standby"):
                PostgresqlDatabase(standby.url("rescind"))
            hosts = f"127.0.0.1:{standby.port},127.0.0.1:{primary.port}"
            both = f"postgresql://owner@{hosts}/rescind"
            with pytest.raises(InvalidSettings, match="add target_session_attrs=read-write"):
                PostgresqlDatabase(both)
            with closing(PostgresqlDatabase(f"{both}?target_session_attrs=read-write")) as database:
                assert database.rows("SELECT pg_is_in_recovery()") == [(False,)]


def test_tables_of_an_earlier_release_are_refused() -> None:
    """F623b: A server does not use tables of an earlier format; setup brings them up to date."""
    with postgresql.server().database("earlier") as url:
        execute(url, "UPDATE rescind_format SET format = 0")
        with pytest.raises(InvalidSettings, match="run rescind setup"):
            PostgresqlDatabase(url)
        postgresql_schema.setup(url)
        PostgresqlDatabase(url).close()


def test_an_older_server_is_refused() -> None:
    """F623c: A PostgreSQL before 15 is refused, at setup too."""
    with postgresql.server().database("old") as url:
        execute(url, "CREATE SCHEMA old")
        execute(
            url,
            """CREATE FUNCTION old.current_setting(name text) RETURNS text RETURN CASE name
               WHEN 'server_version' THEN '14.9' WHEN 'server_version_num' THEN '140009'
               ELSE pg_catalog.current_setting(name) END""",
        )
        # What the session finds first is its version, as it says.
        execute(url, "ALTER DATABASE old SET search_path = old, pg_catalog, public")
        for use in (PostgresqlDatabase, postgresql_schema.setup):
            with pytest.raises(InvalidSettings, match=r"PostgreSQL 14\.9 is too old"):
                use(url)


@pytest.mark.parametrize("of", ["DATABASE", "ROLE"])
def test_read_only_transactions_are_refused(of: str) -> None:
    """F623d: A database or role whose transactions are read-only by default is refused."""
    execute(postgresql.server().url(), "CREATE ROLE reader LOGIN")
    with postgresql.server().database("limited") as url:
        postgresql_schema.setup(url, role="reader")
        name = "limited" if of == "DATABASE" else "reader"
        execute(url, f"ALTER {of} {name} SET default_transaction_read_only = on")
        with pytest.raises(InvalidSettings, match="default_transaction_read_only to off"):
            PostgresqlDatabase(postgresql.server().url("limited", user="reader"))
    execute(postgresql.server().url(), "DROP ROLE reader")


@pytest.mark.parametrize("lacking", ["SELECT", "INSERT", "UPDATE", "DELETE"])
def test_a_role_without_rights_is_refused(lacking: str) -> None:
    """F624a: A role that lacks a right on a table is refused, and setup gives it."""
    server = postgresql.server()
    execute(server.url(), "CREATE ROLE poor LOGIN")
    with server.database("rights") as url:
        poor = server.url("rights", user="poor")
        with pytest.raises(
            InvalidSettings, match=r"permission denied .* run: rescind setup --role"
        ):
            PostgresqlDatabase(poor)
        postgresql_schema.setup(url, role="poor")
        execute(url, f"REVOKE {lacking} ON blobs, items FROM poor")
        with pytest.raises(InvalidSettings, match="poor may not read and write blobs, items"):
            PostgresqlDatabase(poor)
        postgresql_schema.setup(url, role="poor")
        PostgresqlDatabase(poor).close()
    execute(server.url(), "DROP ROLE poor")


def test_a_right_that_is_taken_is_not_absence() -> None:
    """F624b: If a right is taken from a role, or rows are hidden from it, nothing seems absent."""
    server = postgresql.server()
    execute(server.url(), "CREATE ROLE robbed LOGIN")
    with server.database("robbed") as url:
        postgresql_schema.setup(url, role="robbed")
        limited = server.url("robbed", user="robbed")
        with closing(PostgresqlDatabase(limited)) as database:
            store = PostgresqlStore(database)
            store.write(Put(ONE, {"n": 1}, Expect.ABSENT))
            for take, give in (
                ("REVOKE SELECT ON items FROM robbed", "GRANT SELECT ON items TO robbed"),
                (_HIDE, "ALTER TABLE items DISABLE ROW LEVEL SECURITY"),
            ):
                execute(url, take)
                for read in (store.get, lambda one: store.get_many([one])):
                    with pytest.raises(Unavailable, match="42501"):
                        read(ONE)
                with pytest.raises(Unavailable, match="42501"):
                    store.write(Put(ONE, {"n": 2}, Expect.ABSENT))
                execute(url, give)
                assert store.get(ONE) == {"n": 1}
        execute(url, _HIDE)
        with pytest.raises(InvalidSettings, match="may hide rows of items from the role robbed"):
            PostgresqlDatabase(limited)
    execute(server.url(), "DROP ROLE robbed")


_END_ALL = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"""
_HIDE = "ALTER TABLE items ENABLE ROW LEVEL SECURITY"
