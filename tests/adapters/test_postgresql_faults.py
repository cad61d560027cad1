"""PostgreSQL that has no connection, no room or no time left: a wait with an end, then an error."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from shared import wiring
from shared.adapters.postgresql import schema as postgresql_schema
from shared.adapters.postgresql.blobs import PostgresqlBlobs
from shared.adapters.postgresql.database import PostgresqlDatabase
from shared.adapters.postgresql.store import PostgresqlStore
from shared.adapters.retries import PATIENCE
from shared.errors import OutOfSpace, Unavailable
from shared.model.items import Address, Table
from shared.ports.store import Expect, Increment, Put
from tests.kit import postgresql
from tests.kit.api import Tenant, serve
from tests.kit.postgresql import PostgresqlServer, execute
from tests.kit.waiting import soon

ONE = Address(Table.KEYS, "t1", "1")
_MIB = 1024 * 1024
_COUNT = Increment(ONE, {"n": 1}, Expect.ANYTHING)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def crowded() -> Iterator[PostgresqlServer]:
    """A server with few connections, and a role that may not have the reserved ones."""
    with postgresql.running("-c", "max_connections=12") as made:
        execute(made.url(), "CREATE ROLE serving LOGIN")
        execute(made.url(), "CREATE DATABASE rescind")
        postgresql_schema.setup(made.url("rescind"), role="serving")
        yield made


def _all(server: PostgresqlServer) -> ExitStack:
    """All connections that are left, until it is closed."""
    taken = ExitStack()
    with suppress(psycopg.OperationalError):
        while True:
            taken.enter_context(psycopg.connect(server.url("rescind", user="serving")))
    return taken


def test_without_a_connection_a_request_is_told_to_come_back(
    crowded: PostgresqlServer, tmp_path: Path
) -> None:
    """F626a: If others keep all connections, a request gets 503 with Retry-After, then 200."""
    settings = {
        "RESCIND_STORE": crowded.url("rescind", user="serving"),
        "RESCIND_BLOBS": "postgresql:",
        "RESCIND_KEY_WRAPPER": f"file:{tmp_path}/master.key",
    }
    wiring.create_master_key(tmp_path / "master.key")
    with closing(wiring.build(wiring.settings(settings))) as ports:
        tenant = Tenant(ports, serve(ports), handle="acme")
        path = "/v1/revocations/check?warrant_id=svc_wrt_a"
        assert tenant.admin.get(path).status_code == 200
        # Those of this process end, and others are faster.
        execute(crowded.url(), _END_ALL)
        with _all(crowded):
            refused = tenant.admin.get(path)
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1")
        assert tenant.admin.get(path).status_code == 200


@contextmanager
def _small_disk(server: PostgresqlServer, mebibytes: int) -> Iterator[Path]:
    """A disk of so many MiB for some of its data, which root can mount."""
    place = server.folder / "small"
    place.mkdir()
    owner = server.data.stat().st_uid
    mount = [
        "mount",
        "-t",
        "tmpfs",
        "-o",
        f"size={mebibytes}m,mode=700,uid={owner}",
        "tmpfs",
        str(place),
    ]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        yield place
    finally:
        server.stop()
        subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_is_out_of_space_until_there_is_room() -> None:
    """F627a: On a full disk writes fail as out of space, reads go on, and room ends it.

    What was acknowledged stays, and nothing else is stored.
    """
    with postgresql.running() as server, _small_disk(server, 32) as small:
        execute(server.url(), f"CREATE TABLESPACE small LOCATION '{small}'")
        execute(server.url(), "CREATE DATABASE rescind TABLESPACE small")
        postgresql_schema.setup(server.url("rescind"))
        with closing(PostgresqlDatabase(server.url("rescind"))) as database:
            store, blobs = PostgresqlStore(database), PostgresqlBlobs(database)
            store.write(_COUNT)
            stored, lost = _fill(blobs)
            assert stored
            assert sorted(blobs.names("full")) == stored
            assert {len(blobs.get(name) or b"") for name in stored} == {_MIB}
            assert blobs.get(lost) is None
            items = _fill_items(store)
            assert store.get(ONE) == {"n": 1}
            assert sum(1 for _ in store.everything(Table.KEYS)) == items + 1
            subprocess.run(["mount", "-o", "remount,size=128m", str(small)], check=True)
            blobs.put(lost, bytes(_MIB))
            store.write(_COUNT)
            assert store.get(ONE) == {"n": 2}


def _fill(blobs: PostgresqlBlobs) -> tuple[list[str], str]:
    """Store blobs until the disk is full; return the names of those, and of the one that failed."""
    stored: list[str] = []
    while True:
        name = f"full/{len(stored):03}"
        try:
            blobs.put(name, bytes(_MIB))
        except OutOfSpace:
            return stored, name
        stored.append(name)


def _fill_items(store: PostgresqlStore) -> int:
    """Store items until the disk is full; return how many were."""
    stored = 0
    with suppress(OutOfSpace):
        while True:
            address = Address(Table.KEYS, "t2", f"{stored:05}")
            store.write(Put(address, {"filler": "x" * 1000}, Expect.ABSENT))
            stored += 1
    return stored


def test_a_timeout_of_the_server_acknowledges_nothing() -> None:
    """F628a: A statement_timeout ends a read with an error, and no wait for the standby as done.

    Setup overrides that of the server, but not that of the role.
    """
    with postgresql.running() as server:
        execute(server.url(), "CREATE DATABASE rescind")
        url = server.url("rescind")
        execute(url, "ALTER SYSTEM SET statement_timeout = '20s'")
        server.reload()
        postgresql_schema.setup(url)
        assert execute(url, "SHOW statement_timeout") == [("0",)]
        execute(url, "ALTER ROLE owner SET statement_timeout = '1s'")
        with closing(PostgresqlDatabase(url)) as database:
            store = PostgresqlStore(database)
            store.write(_COUNT)
            execute(url, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
            server.reload()
            soon(lambda: postgresql.waits_for_standbys(url))
            with pytest.raises(Unavailable):
                store.write(_COUNT)
            with pytest.raises(Unavailable, match="57014"):
                database.rows("SELECT pg_sleep(%s)", (PATIENCE.deadline_seconds,))
            execute(url, "ALTER SYSTEM RESET synchronous_standby_names")
            server.reload()
            assert store.get(ONE) == {"n": 2}


_END_ALL = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE usename = 'serving'"""
