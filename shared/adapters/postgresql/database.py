"""PostgreSQL connections, translation of errors to `Unavailable`, and notifications.

Each call borrows a connection and has a deadline, so an unresponsive server delays it by at most
`PATIENCE`. Notifications are for the publishing server (docs/adr/11).
"""

import math
import os
import platform
import select
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, nullcontext, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeAlias, TypeVar

import psycopg
from psycopg import Connection, errors, pq, sql
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from shared.adapters.local.bells import FileNotifier
from shared.adapters.postgresql import schema
from shared.adapters.retries import PATIENCE
from shared.authorizer.http1 import is_here
from shared.errors import InvalidSettings, OutOfSpace, Unavailable
from shared.ports.one_machine import CommitKind

T = TypeVar("T")
Parameters: TypeAlias = tuple[Any, ...]

# The first statement of a write stores its token and returns whether no earlier attempt was
# applied. The standby may lack an earlier attempt. This statement therefore writes in any case, and
# its commit waits for the standby.
BEGUN: Final = """INSERT INTO writes (token) VALUES (%s)
    ON CONFLICT (token) DO UPDATE SET at = now() RETURNING xmax = 0"""

# A concurrent transaction was faster, or the server chose this transaction to end a deadlock.
LOST_RACES: Final = (
    errors.SerializationFailure,
    errors.DeadlockDetected,
    errors.UniqueViolation,
)
# The connection or the server failed, or the server is no longer the primary.
_PASSING: Final = (
    psycopg.InterfaceError,
    errors.AdminShutdown,
    errors.CrashShutdown,
    errors.CannotConnectNow,
    errors.DatabaseDropped,
    errors.ReadOnlySqlTransaction,
    errors.TooManyConnections,
)
# The interval of checks whether a server that was away is back.
_RECONNECT_SECONDS: Final = 1.0
# The wait of one call for a connection after another call got none within its deadline. All other
# calls fail at once for a second, because requests share a limited number of threads.
_AWAY_SECONDS: Final = 1.5
_DEFAULTS: Final = {
    "connect_timeout": 2,
    "keepalives_idle": 10,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    "target_session_attrs": "read-write",
}
_NOT_PREPARED: Final = (
    "RESCIND_STORE names a pooler that does not support prepared statements; set"
    " RESCIND_POSTGRESQL_PREPARE=off, or in pgbouncer 1.21 or later max_prepared_statements."
)
_REMEDIES: Final = {
    errors.InsufficientPrivilege: "; as the owner of the tables run: rescind setup --role ROLE",
    errors.ProtocolViolation: "; let the pooler pool transactions or sessions",
}


class PooledConnection(Connection[Any]):
    """A connection that waits for answers until `end`, by the monotonic clock."""

    end: float | None = None
    _has_warned = False

    def note_warning(self, _: object) -> None:
        """Record a warning of the server."""
        self._has_warned = True

    def __exit__(self, *error: Any) -> None:
        """End the transaction, if there is one. Without one, psycopg would still send a command."""
        if self.pgconn.transaction_status != pq.TransactionStatus.IDLE:
            super().__exit__(*error)

    def commit_with(
        self, statements: Iterable[tuple[str, Parameters]], *, next_statement: str | None = None
    ) -> None:
        """Run the last statements of a transaction and commit, then run `next_statement`.

        Raises `Unavailable` if the server committed with a warning. The wait for the standby was
        then cancelled, and the data may be stored only on this server.
        """
        self._has_warned = False
        ends = ["COMMIT"] if next_statement is None else ["COMMIT", next_statement]
        execute_pipelined(self, [*statements, *((each, ()) for each in ends)])
        if self._has_warned:
            raise Unavailable

    def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:
        """Wait like psycopg, and close the connection if no answer arrives in time."""
        if self.end is not None:
            timeout = max(0.001, self.end - time.monotonic())
        try:
            return super().wait(gen, interval, timeout)
        except errors._WaitTimeout:  # noqa: SLF001 (psycopg has no other name for it)
            self.pgconn.finish()
            raise


class PostgresqlDatabase:
    """The database at `url` (`postgresql://…`), with up to `connections` connections.

    `prepare` enables prepared statements, which pgbouncer supports from version 1.21. Raises
    `InvalidSettings` for an insecure URL or an unusable database. With `is_known`, the database is
    not checked now. Each call then raises `Unavailable` while it is away.
    """

    def __init__(
        self, url: str, *, connections: int = 8, prepare: bool = True, is_known: bool = False
    ) -> None:
        check_url(url)
        self._url = url
        self._pool: ConnectionPool[PooledConnection] = ConnectionPool(
            url,
            connection_class=PooledConnection,
            kwargs={
                **_defaults(url, connections),
                "autocommit": True,
                "prepare_threshold": 2 if prepare else None,
            },
            configure=lambda connection: connection.add_notice_handler(connection.note_warning),
            min_size=0,
            max_size=connections,
            num_workers=1,
            reconnect_timeout=_RECONNECT_SECONDS,
            open=False,
        )
        self._is_away, self._looks_at, self._looking = False, 0.0, threading.Lock()
        if not is_known:
            try:
                with psycopg.connect(url, connect_timeout=4) as connection:
                    schema.check(connection)
                    if prepare:
                        _check_prepared(connection)
            except psycopg.Error as error:
                remedy = next(
                    (text for kind, text in _REMEDIES.items() if isinstance(error, kind)), ""
                )
                problem = " ".join(str(error).split())
                raise InvalidSettings(
                    f"RESCIND_STORE: cannot use the database: {problem}{remedy}"
                ) from error
        self._pool.open()

    def close(self) -> None:
        """Close all connections. Every later call raises `Unavailable`."""
        self._pool.close()

    def listening(self, channel: str) -> Connection[Any] | None:
        """Return a connection that listens on `channel`, or None behind a pooler.

        Raises psycopg's errors.
        """
        connection = psycopg.connect(self._url, autocommit=True, **_defaults(self._url, 1))
        with ExitStack() as unless_heard:
            unless_heard.callback(connection.close)
            if _is_pooled(connection):
                return None
            connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
            unless_heard.pop_all()
        return connection

    def _acquire(self, end: float) -> PooledConnection:
        """Take a connection from the pool, and limit attempts while the server is away."""
        if not self._is_away:
            return self._wait_for_connection(end)
        if time.monotonic() < self._looks_at or not self._looking.acquire(blocking=False):
            raise PoolTimeout("the server did not respond a moment ago")
        try:
            return self._wait_for_connection(min(end, time.monotonic() + _AWAY_SECONDS))
        finally:
            self._looks_at = time.monotonic() + self._is_away * _RECONNECT_SECONDS
            self._looking.release()

    def _wait_for_connection(self, end: float) -> PooledConnection:
        while True:
            left = max(0.001, end - time.monotonic())
            try:
                found = self._pool.getconn(timeout=min(left, _RECONNECT_SECONDS))
            except PoolTimeout:
                if time.monotonic() >= end:
                    self._is_away = True
                    raise
            else:
                self._is_away = False
                return found

    def run(self, call: Callable[[PooledConnection], T]) -> T:
        """Return the result of `call`, with retries after connection errors and conflicts.

        Raises `Unavailable` after `PATIENCE` has passed, or at once if a retry would not help.
        """
        end = time.monotonic() + PATIENCE.deadline_seconds
        last: Exception | None = None
        for _ in PATIENCE.attempts():
            try:
                connection = self._acquire(end)
                try:
                    connection.end = end
                    with connection:
                        return call(connection)
                finally:
                    self._pool.putconn(connection)
            except LOST_RACES as error:
                last = error
            except (psycopg.Error, PoolTimeout, PoolClosed) as error:
                if not _is_passing(error):
                    raise _unavailable(error) from error
                last = error
        raise _unavailable(last) from last

    def rows(self, statement: str, parameters: Parameters = ()) -> list[Parameters]:
        """Return the rows of one read-only statement. Raises `Unavailable`."""

        def read(connection: PooledConnection) -> list[Parameters]:
            return connection.execute(statement.encode(), parameters, binary=True).fetchall()

        return self.run(read)


def execute_pipelined(
    connection: Connection[Any], statements: Iterable[tuple[str, Parameters]]
) -> list[list[Parameters]]:
    """Send all statements at once, and return the rows of each statement."""
    sent = list(statements)
    # For a single statement, a pipeline would double the cost.
    with connection.pipeline() if len(sent) > 1 else nullcontext():
        cursors = [
            connection.execute(statement.encode(), parameters, binary=True)
            for statement, parameters in sent
        ]
    return [each.fetchall() if each.description else [] for each in cursors]


def _defaults(url: str, connections: int) -> dict[str, Any]:
    """Return the connection parameters that the URL does not set."""
    # `doctor` reads the pool size of each process from this name.
    name = f"rescind {connections} {os.getpid()} {platform.node()}"
    defaults = _DEFAULTS | {"application_name": name}
    return {name: value for name, value in defaults.items() if f"{name}=" not in url}


def check_url(url: str) -> None:
    """Raise `InvalidSettings` if the URL has a password, or is remote without TLS.

    Other processes and users could read a password in the environment or in the process list.
    """
    try:
        given = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        # The message of psycopg repeats parts of the URL, possibly parts of a password.
        raise InvalidSettings(
            "RESCIND_STORE is not a PostgreSQL URL; set it to a URL such as "
            "postgresql://rescind@db/rescind."
        ) from None
    # From the environment, for example PGHOST.
    defaults = {
        each.keyword.decode(): each.val.decode()
        for each in pq.Conninfo.get_defaults()
        if each.val is not None
    }
    parts = defaults | given
    if given.get("password"):
        raise InvalidSettings(
            "RESCIND_STORE must not contain a password; put the password into a file, and set "
            "PGPASSFILE to it."
        )
    hosts = [
        each for name in ("host", "hostaddr") for each in str(parts.get(name) or "").split(",")
    ]
    # A path is the folder of a socket.
    is_local = all(not host or host.startswith("/") or is_here(host) for host in hosts)
    if parts.get("sslmode") != "verify-full" and not is_local:
        raise InvalidSettings(
            "RESCIND_STORE requires sslmode=verify-full; otherwise an attacker on the network can "
            "impersonate the database."
        )


def _check_prepared(connection: Connection[Any]) -> None:
    """Raise `InvalidSettings` if a pooler mixes the prepared statements of its clients.

    Two processes give different statements the same name, so one process would run the statement of
    the other. A pooler that supports prepared statements renames them.
    """
    if not _is_pooled(connection):
        return
    try:
        connection.execute("SELECT 1", prepare=True)
    except errors.DuplicatePreparedStatement as error:
        raise InvalidSettings(_NOT_PREPARED) from error
    for (name,) in connection.execute("SELECT name FROM pg_prepared_statements").fetchall():
        if name.startswith("_pg3_"):
            connection.execute(sql.SQL("DEALLOCATE {}").format(sql.Identifier(name)))
            raise InvalidSettings(_NOT_PREPARED)


def _is_pooled(connection: Connection[Any]) -> bool:
    """Return whether there is a pooler, which invents the number of the server's process."""
    (process,) = connection.execute("SELECT pg_backend_pid()").fetchall()[0]
    return bool(connection.info.backend_pid != process)


def _is_passing(error: Exception) -> bool:
    if isinstance(error, _PASSING):
        return True
    if isinstance(error, PoolTimeout):
        return False  # it has waited long enough
    # Errors of the connection itself have no code of the server.
    if isinstance(error, psycopg.OperationalError):
        code = error.sqlstate
        return code is None or code.startswith(("08", "57P"))
    return False


def _unavailable(error: Exception | None) -> Unavailable:
    if isinstance(error, errors.DiskFull):
        return OutOfSpace()
    code = getattr(error, "sqlstate", None) or type(error).__name__
    return Unavailable(f"{Unavailable.default_message} (PostgreSQL: {code})")


_CHANNEL: Final = "rescind_marks"
NOTIFY: Final = f"NOTIFY {_CHANNEL}"

# The interval of simulated notifications while none can be received.
_DEAF_SECONDS: Final = 0.05
_CONNECT_SECONDS: Final = 30.0


class PostgresqlListener:
    """Listens for outbox marks on a separate connection.

    Without a connection, it simulates a notification twenty times a second. This happens if the
    database is away, or behind a pooler, which loses notifications.
    """

    def __init__(self, database: PostgresqlDatabase) -> None:
        self._database = database
        self._connection: Connection[Any] | None = None
        self._connects_at = -math.inf
        with TemporaryDirectory() as folder:
            # Only this process notifies it, so it needs no fixed path.
            self._bell = FileNotifier(Path(folder)).listen(CommitKind.MARKS)

    def fileno(self) -> int:
        """Return a descriptor that `notify` makes readable; notifications do not."""
        return self._bell.fileno()

    def notify(self) -> None:
        """Simulate a notification."""
        self._bell.notify()

    def clear(self) -> None:
        """Discard the notifications so far."""
        self._bell.clear()
        if self._connection is not None:
            try:
                self._connection.pgconn.consume_input()
                while self._connection.pgconn.notifies():
                    pass
            except psycopg.Error:
                self._disconnect()

    def wait(self, seconds: float) -> None:
        """Wait up to `seconds` for notifications, then discard them."""
        if self._connection is None:
            if time.monotonic() >= self._connects_at:
                self._connects_at = time.monotonic() + _CONNECT_SECONDS
                # The following poll reports an error.
                with suppress(psycopg.Error):
                    self._connection = self._database.listening(_CHANNEL)
            # The following poll finds changes that were committed before this.
            self._bell.wait(min(seconds, _DEAF_SECONDS))
        elif select.select([self.fileno(), self._connection.fileno()], [], [], seconds)[0]:
            self.clear()

    def close(self) -> None:
        """Stop listening."""
        self._bell.close()
        self._disconnect()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None
