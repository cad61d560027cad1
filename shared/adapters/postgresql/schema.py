"""The PostgreSQL tables. Their owner creates them with `rescind setup`; each process checks them.

`items` has the tables of the store. `terms` has the searchable texts of audit entries. `writes` has
the tokens of writes, which show a repeated write that it was already applied. `buckets` need not
survive a crash. A blob exists once its row in `blobs` exists.
"""

from typing import Any, Final

import psycopg
from psycopg import Connection, errors, sql

from shared.errors import InvalidSettings

FORMAT: Final = 1
# The versions that are tested. An older server is rejected, a newer server is reported to the
# operator.
OLDEST_MAJOR: Final = 15
NEWEST_MAJOR: Final = 18
_LOCK: Final = 0x72657363696E64

_STATEMENTS: Final = (
    "CREATE TABLE IF NOT EXISTS rescind_format (format int PRIMARY KEY)",
    """CREATE TABLE IF NOT EXISTS items (
        tbl smallint NOT NULL, pk bytea NOT NULL, sk bytea NOT NULL, item bytea NOT NULL,
        expires bigint, terms text[], PRIMARY KEY (tbl, pk, sk))""",
    """CREATE INDEX IF NOT EXISTS items_expires ON items (expires)
        WHERE expires IS NOT NULL AND tbl <> 1""",
    """CREATE TABLE IF NOT EXISTS writes (
        token uuid PRIMARY KEY, at timestamptz NOT NULL DEFAULT now())""",
    "CREATE INDEX IF NOT EXISTS writes_at ON writes USING brin (at)",
    """CREATE UNLOGGED TABLE IF NOT EXISTS buckets (
        name bytea PRIMARY KEY, full_at bigint NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS blobs (
        name text COLLATE "C" PRIMARY KEY, size bigint NOT NULL,
        at timestamptz NOT NULL DEFAULT now())""",
    """CREATE TABLE IF NOT EXISTS blob_parts (
        name text COLLATE "C" REFERENCES blobs ON DELETE CASCADE, n int, data bytea NOT NULL,
        PRIMARY KEY (name, n))""",
    "ALTER TABLE blob_parts ALTER COLUMN data SET STORAGE EXTERNAL",
)
_FORMAT: Final = "INSERT INTO rescind_format VALUES (%s) ON CONFLICT DO NOTHING"
SETTINGS: Final = {
    # For a nearly empty table, the planner prefers a sequential scan, and a prepared statement
    # would keep that plan after the table has grown.
    "enable_seqscan": "off",
    # The maximum time for which a server on a lost machine keeps its locks. Neither setting ends a
    # wait in COMMIT.
    "idle_in_transaction_session_timeout": "10s",
    "client_connection_check_interval": "2s",
    # A timeout of the server would end a long read, or a wait for a lock that is limited anyway.
    "statement_timeout": "0",
    "lock_timeout": "0",
    "transaction_timeout": "0",
    # A policy that hides rows is an error, because a hidden item is not an absent item.
    "row_security": "off",
}
_TABLES: Final = ("items", "writes", "buckets", "blobs", "blob_parts")
_KNOWN: Final = "SELECT name FROM pg_settings WHERE name = ANY(%s)"
_SERVER: Final = """SELECT current_setting('server_encoding') = 'UTF8', pg_is_in_recovery(),
    current_setting('transaction_read_only') = 'on', current_setting('server_version'),
    current_setting('server_version_num')::int / 10000"""
# The privileges of the role on each table; NULL if the table does not exist.
_RIGHTS: Final = """SELECT name, bool_and(has_table_privilege(to_regclass(name), needed)),
        bool_or(row_security_active(to_regclass(name))), current_user
    FROM unnest(%s::text[]) name, unnest('{SELECT,INSERT,UPDATE,DELETE}'::text[]) needed
    GROUP BY name ORDER BY name"""


def setup(url: str, *, role: str | None = None) -> None:
    """Create the missing tables as their owner, and grant `role` access to their rows.

    It also sets the required settings of the database. It may be repeated or run twice at the same
    time. Raises `InvalidSettings`.
    """
    try:
        with psycopg.connect(
            url, connect_timeout=4, target_session_attrs="read-write"
        ) as connection:
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            _check_server(connection)
            _check_format(_formats(connection))
            for statement in _STATEMENTS:
                connection.execute(statement.encode())
            connection.execute(_FORMAT, (FORMAT,))
            (name,) = connection.execute("SELECT current_database()").fetchall()[0]
            # Versions before 17 have no `transaction_timeout`.
            known = connection.execute(_KNOWN, (list(SETTINGS),)).fetchall()
            for (setting,) in known:
                connection.execute(
                    sql.SQL("ALTER DATABASE {} SET {} = {}").format(
                        sql.Identifier(name),
                        sql.Identifier(setting),
                        sql.Literal(SETTINGS[setting]),
                    )
                )
            if role is not None:
                user = sql.Identifier(role)
                tables = sql.SQL(", ").join(map(sql.Identifier, _TABLES))
                rights = sql.SQL("SELECT, INSERT, UPDATE, DELETE")
                connection.execute(sql.SQL("GRANT {} ON {} TO {}").format(rights, tables, user))
                connection.execute(sql.SQL("GRANT SELECT ON rescind_format TO {}").format(user))
    except errors.InsufficientPrivilege as error:
        raise InvalidSettings(
            f"RESCIND_STORE: {error.diag.message_primary}. Run setup as the owner of the database;"
            " --role names the role of the servers."
        ) from error
    except psycopg.Error as error:
        said = " ".join(str(error).split())
        raise InvalidSettings(f"RESCIND_STORE: cannot set up the database: {said}") from error


def check(connection: Connection[Any]) -> None:
    """Raise `InvalidSettings` unless this release can use the database.

    Call it in a transaction. Also raises psycopg's errors.
    """
    _check_server(connection)
    formats = _formats(connection)
    if not formats:
        raise InvalidSettings(
            "RESCIND_STORE: the database has no tables of Rescind; run rescind setup"
        )
    _check_format(formats)
    if max(formats) < FORMAT:
        raise InvalidSettings(
            "RESCIND_STORE: an earlier release made the tables; stop its servers and run rescind"
            " setup"
        )
    rights = connection.execute(_RIGHTS, (list(_TABLES),)).fetchall()
    role = rights[0][3]
    if lacking := [name for name, has_all, *_ in rights if not has_all]:
        raise InvalidSettings(
            f"RESCIND_STORE: the role {role} may not read and write {', '.join(lacking)}; as their"
            f" owner run: rescind setup --role {role}"
        )
    if hiding := [name for name, _, hides, _ in rights if hides]:
        raise InvalidSettings(
            f"RESCIND_STORE: row-level security may hide rows of {', '.join(hiding)} from the role"
            f" {role}; as their owner run: ALTER TABLE … DISABLE ROW LEVEL SECURITY"
        )


def _check_server(connection: Connection[Any]) -> None:
    is_utf8, is_standby, is_read_only, version, major = connection.execute(_SERVER).fetchall()[0]
    if major < OLDEST_MAJOR:
        raise InvalidSettings(
            f"RESCIND_STORE: PostgreSQL {version} is too old; update it to {OLDEST_MAJOR} to"
            f" {NEWEST_MAJOR}."
        )
    if not is_utf8:
        raise InvalidSettings("RESCIND_STORE: create the database with ENCODING UTF8.")
    if is_standby:
        raise InvalidSettings(
            "RESCIND_STORE names a standby, which may lack acknowledged revocations; name the"
            " primary, and add target_session_attrs=read-write if there are several hosts."
        )
    if is_read_only:
        raise InvalidSettings(
            "RESCIND_STORE: transactions are read-only here; set default_transaction_read_only to"
            " off, for the database and the role."
        )


def _formats(connection: Connection[Any]) -> set[int]:
    found = connection.execute("SELECT to_regclass('rescind_format')").fetchone()
    if found is None or found[0] is None:
        return set()
    return {number for (number,) in connection.execute("SELECT format FROM rescind_format")}


def _check_format(formats: set[int]) -> None:
    if max(formats, default=FORMAT) > FORMAT:
        raise InvalidSettings(
            "RESCIND_STORE: a later release has changed the database; update this one."
        )
