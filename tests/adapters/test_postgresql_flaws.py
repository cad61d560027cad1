"""What `rescind doctor` says of the configuration of a PostgreSQL."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import psycopg
import pytest

from infra.cli import __main__ as start
from shared.adapters.postgresql import schema as postgresql_schema
from shared.adapters.postgresql.database import PostgresqlDatabase
from shared.adapters.postgresql.store import PostgresqlStore
from shared.ports.store import ConfigurationProblem
from tests.infra.commands import Command
from tests.kit import postgresql
from tests.kit.postgresql import execute
from tests.kit.waiting import soon

# The server of the tests takes no care of a crash of the machine, and has no standby.
_HASTY = ["fsync", "full_page_writes", "synchronous_standby_names"]


@pytest.fixture(scope="module")
def made() -> Iterator[str]:
    """A database as `rescind setup` makes it, by its URL for the servers' role."""
    server = postgresql.server()
    execute(server.url(), "CREATE ROLE watched LOGIN")
    with server.database("flawed") as url:
        postgresql_schema.setup(url, role="watched")
        yield server.url("flawed", user="watched")
    execute(server.url(), "DROP ROLE watched")


@pytest.fixture
def url(made: str) -> Iterator[str]:
    """The same database, whose role is as it was after the test."""
    yield made
    _as_owner(made, "ALTER ROLE watched RESET ALL")
    _as_owner(made, "ALTER ROLE watched CONNECTION LIMIT -1")


def _as_owner(url: str, statement: str) -> None:
    execute(url.replace("watched@", "owner@"), statement)


def _flaws(url: str) -> list[ConfigurationProblem]:
    with closing(PostgresqlDatabase(url)) as database:
        return list(PostgresqlStore(database).flaws())


def _said(url: str) -> list[tuple[str, bool]]:
    """The flaws beyond those of the server itself: their first words, whether they are remarks."""
    found = [(each.problem.partition(",")[0], each.is_remark) for each in _flaws(url)]
    return [each for each in found if each[0].split()[0] not in _HASTY]


def test_what_a_crash_can_lose_is_a_problem(url: str) -> None:
    """F625a: What can lose acknowledged changes is a problem; the lack of a standby is a remark."""
    found = {each.problem.split()[0]: each for each in _flaws(url)}
    assert list(found) == _HASTY
    assert [each.is_remark for each in found.values()] == [False, False, True]
    assert "can be lost" in found["fsync"].problem
    lost = "the loss of one machine can lose acknowledged revocations"
    assert lost in found["synchronous_standby_names"].problem


@pytest.mark.parametrize(
    ("setting", "value", "is_remark"),
    [
        ("synchronous_commit", "off", False),
        ("synchronous_commit", "local", False),
        ("statement_timeout", "5s", True),
        ("lock_timeout", "5s", True),
        ("transaction_timeout", "5s", True),
        ("enable_seqscan", "on", True),
        ("row_security", "on", True),
    ],
)
def test_a_setting_of_the_role_is_found(
    url: str, setting: str, value: str, is_remark: bool
) -> None:
    """F625b: A setting of the role is found that undoes what setup has set, or what is safe."""
    assert _said(url) == []
    _as_owner(url, f"ALTER ROLE watched SET {setting} = '{value}'")
    needed = f" and must be {_MEANT[setting]}" if is_remark else ""
    assert _said(url) == [(f"{setting} is {value}{needed}", is_remark)]


def test_pools_that_may_take_too_much_are_found(url: str) -> None:
    """F625c: The pools of the connected servers are counted against what the role may have."""
    _as_owner(url, "ALTER ROLE watched CONNECTION LIMIT 20")
    with ExitStack() as servers:
        for name in ("rescind 12 7 a", "rescind 12 7 a", "rescind 8 7 b"):
            servers.enter_context(psycopg.connect(url, application_name=name))
        assert _said(url) == []
        servers.enter_context(psycopg.connect(url, application_name="rescind 1 8 b"))
        assert _said(url) == [("the pools of the servers can open 21 connections", True)]
        _as_owner(url, "ALTER ROLE watched CONNECTION LIMIT -1")
        assert _said(url) == []
        servers.enter_context(psycopg.connect(url, application_name="rescind 50 9 b"))
        assert _said(url) == [("the pools of the servers can open 71 connections", True)]


def test_a_role_that_owns_the_tables_is_told(url: str) -> None:
    """F625d: A role that can change tables is a remark."""
    owner = url.replace("watched@", "owner@")
    assert _said(owner) == [("the role owner can change tables", True)]
    _as_owner(url, "GRANT CREATE ON SCHEMA public TO watched")
    assert _said(url) == [("the role watched can change tables", True)]
    _as_owner(url, "REVOKE CREATE ON SCHEMA public FROM watched")
    assert _said(url) == []


def test_a_newer_server_is_told(url: str) -> None:
    """F625e: A PostgreSQL that is newer than the tested ones serves, and is a remark."""
    _as_owner(url, "CREATE SCHEMA new")
    _as_owner(url, "GRANT USAGE ON SCHEMA new TO watched")
    _as_owner(
        url,
        """CREATE FUNCTION new.current_setting(name text) RETURNS text RETURN CASE name
           WHEN 'server_version' THEN '19.1' WHEN 'server_version_num' THEN '190001'
           ELSE pg_catalog.current_setting(name) END""",
    )
    _as_owner(url, "ALTER ROLE watched SET search_path = new, pg_catalog, public")
    assert _said(url) == [("PostgreSQL 19.1 is newer than 18", True)]


@pytest.mark.slow
def test_the_doctor_finds_nothing_wrong_with_a_safe_server(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """F625f: The doctor accepts a server without a standby, with a remark, but no local commit."""
    rescind = Command(start.main, capsys, monkeypatch)
    monkeypatch.setenv("RESCIND_BLOBS", "postgresql:")
    monkeypatch.setenv("RESCIND_KEY_WRAPPER", f"file:{tmp_path}/master.key")
    safe = ("-c", "fsync=on", "-c", "full_page_writes=on")
    with postgresql.running(*safe) as primary, postgresql.running(of=primary):
        execute(primary.url(), "CREATE ROLE serving LOGIN")
        execute(primary.url(), "CREATE DATABASE rescind")
        monkeypatch.setenv("RESCIND_STORE", primary.url("rescind"))
        assert rescind.run("setup", "--tenant", "acme", "--role", "serving").code == 0
        monkeypatch.setenv("RESCIND_STORE", primary.url("rescind", user="serving"))
        alone = rescind.run("doctor")
        assert (alone.code, alone.err.splitlines()[-1]) == (0, "No problem was found.")
        assert "RESCIND_STORE (remark): synchronous_standby_names is empty" in alone.err
        execute(primary.url(), "ALTER SYSTEM SET synchronous_standby_names = 'standby'")
        primary.reload()
        soon(lambda: execute(primary.url(), _SYNCHRONOUS)[0][0])
        together = rescind.run("doctor")
        assert (together.code, together.err) == (0, "All is well.\n")
        execute(primary.url(), "ALTER ROLE serving SET synchronous_commit = local")
        broken = rescind.run("doctor")
        assert broken.code == 1
        assert "1 problem(s) found" in broken.err


_MEANT = {
    **dict.fromkeys(["statement_timeout", "lock_timeout", "transaction_timeout"], "0"),
    **dict.fromkeys(["enable_seqscan", "row_security"], "off"),
}
_SYNCHRONOUS = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"
