"""Checks of the PostgreSQL configuration for `rescind doctor`."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from shared.adapters.postgresql.database import PostgresqlDatabase
from shared.adapters.postgresql.schema import NEWEST_MAJOR, SETTINGS
from shared.ports.store import ConfigurationProblem

# The required values that prevent data loss after a machine crash or a disk error.
_SAFE: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    "fsync": (("on",), "set it to on in the server's configuration"),
    "full_page_writes": (("on",), "set it to on in the server's configuration"),
    "data_checksums": (("on",), "stop the server, run pg_checksums --enable, and start it"),
    "synchronous_commit": (("on", "remote_apply"), "set it to on for the database and the role"),
}
_STANDBYS: Final = "synchronous_standby_names"
_READ: Final = """SELECT name, current_setting(name)
    FROM pg_settings WHERE name = ANY(%s) ORDER BY name"""
_SERVER: Final = """SELECT current_setting('server_version'),
    current_setting('server_version_num')::int / 10000,
    to_regprocedure('aurora_version()') IS NOT NULL"""
# Whether the role of this process could change the tables.
_OWNS: Final = """SELECT current_user, rolsuper OR pg_has_role(relowner, 'USAGE')
    OR has_schema_privilege(relnamespace, 'CREATE')
    FROM pg_class, pg_roles WHERE pg_class.oid = 'items'::regclass AND rolname = current_user"""
# Connections available to ordinary roles, and the limits of the database and the role; -1 is no
# limit.
_ROOM: Final = """SELECT current_setting('max_connections')::int
        - current_setting('superuser_reserved_connections')::int
        - coalesce(current_setting('reserved_connections', true), '0')::int,
        datconnlimit, rolconnlimit
    FROM pg_database, pg_roles WHERE datname = current_database() AND rolname = current_user"""
_CLIENTS: Final = """SELECT application_name, count(*)::int FROM pg_stat_activity
    WHERE backend_type = 'client backend'
    AND application_name <> current_setting('application_name') GROUP BY 1"""
_POOL: Final = re.compile(r"rescind (\d+) ")


def flaws(database: PostgresqlDatabase) -> Iterator[ConfigurationProblem]:
    """Yield each problem. Raises `Unavailable`."""
    version, major, is_aurora = database.rows(_SERVER)[0]
    if major > NEWEST_MAJOR:
        problem = f"PostgreSQL {version} is newer than {NEWEST_MAJOR}, the newest that was tested"
        yield ConfigurationProblem(problem, "look for an update of Rescind", is_remark=True)
    names = [*_SAFE, _STANDBYS, *SETTINGS]
    settings = {name: str(value) for name, value in database.rows(_READ, (names,))}
    # Aurora's storage keeps several copies itself, and chooses these settings.
    if not is_aurora:
        yield from _unsafe(settings)
    for name, value in SETTINGS.items():
        # `rescind setup` has set these values.
        if settings.get(name, value) != value:
            problem = f"{name} is {settings[name]} and must be {value}"
            remedy = "run rescind setup, reset it for the role, and reconnect the pooler"
            yield ConfigurationProblem(problem, remedy, is_remark=True)
    for role, can_change in database.rows(_OWNS):
        if can_change:
            problem = (
                f"the role {role} can change tables, but a server needs access only to their rows"
            )
            remedy = "run rescind setup --role ANOTHER, and serve as that role"
            yield ConfigurationProblem(problem, remedy, is_remark=True)
    yield from _check_connection_limit(database)


def _unsafe(settings: Mapping[str, str]) -> Iterator[ConfigurationProblem]:
    for name, (safe, remedy) in _SAFE.items():
        if settings[name] not in safe:
            problem = f"{name} is {settings[name]}, so acknowledged changes can be lost or misread"
            yield ConfigurationProblem(problem, remedy)
    if not settings[_STANDBYS]:
        # If it named standbys and none were connected, writes would not succeed.
        problem = (
            f"{_STANDBYS} is empty, so the loss of one machine can lose acknowledged revocations"
        )
        remedy = "add a synchronous standby, unless the disks are in two zones"
        yield ConfigurationProblem(problem, remedy, is_remark=True)


def _check_connection_limit(database: PostgresqlDatabase) -> Iterator[ConfigurationProblem]:
    """Yield a problem if the pools of all processes may exceed the connection limit."""
    total, *limits = database.rows(_ROOM)[0]
    pools = others = 0
    for name, count in database.rows(_CLIENTS):
        if pool := _POOL.match(name):
            pools += int(pool[1])
        else:
            others += count
    room = min([total - others, *(each for each in limits if each >= 0)])
    if pools > room:
        problem = (
            f"the pools of the servers can open {pools} connections, but only {room} are available"
        )
        yield ConfigurationProblem(
            problem, "raise max_connections, or lower RESCIND_POSTGRESQL_POOL_SIZE", is_remark=True
        )
