"""The index by which SQLite finds and counts audit entries without reading all of them.

Entries whose sort keys begin with the same `_BLOCK` characters form a block: for an audit
identifier, these are the kind and the time, cut to 17.5 minutes. For each block, `tallies` has the
number of entries, and how many have which value at each path of `SEARCHED`, or which values at
several paths of `_COMBINED`. Whole blocks are counted by their tallies, and only blocks that can
have a match are read.

Triggers count each entry in its block, and note it in `unindexed`. The sealing of the log also
updates the tallies of values, for many entries at once. Writes do not, and neither do readers,
which look at the noted entries themselves. A change that was made without `forget` is noted as
`_STALE`: nothing is then found by the tallies until all are rebuilt.
"""

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from itertools import chain, combinations
from typing import Final, NamedTuple, TypeAlias

from shared.adapters import sqlite_encoding
from shared.model.audit import audit_log
from shared.ports.store import SEARCHED, Address, Item, Table, Value, Where, at_path

# `svc_evt_` and six characters of time. The statements below repeat the number.
_BLOCK: Final = 14
# Entries are searched by their warrant only while they are not sealed, which takes seconds.
_PATHS: Final = tuple(path for path in SEARCHED[Table.AUDIT] if path != "details.warrant_id")
# How the tallies name them. A combination is several of them.
_SHORT: Final = {path: str(number) for number, path in enumerate(_PATHS)}
_OF_EXPIRY: Final = "e"
_LETTER: Final = b"a"
# Paths with few values. Tallies also count their combinations. A resource is included if it is a
# signing key, which may sign a million warrants; other resources have few entries.
_COMBINED: Final = ("action", "actor", "actor_key_id", "resource_id")
_SIGNING_KEY: Final = "svc_key_"
_EXPIRES: Final = "expires"
_DAY_SECONDS: Final = 24 * 3600
_STALE: Final = (b"", "")

# The path, the value and the partition of a tally.
_Tally: TypeAlias = tuple[str, bytes, bytes | int]

# A condition of SQL for the items that are tallied; `x'61'` below is the same letter.
IS_ENTRY: Final = "pk >= x'61' AND pk < x'62'"
_COUNT_ALL: Final = f"""
INSERT INTO tallies SELECT '', x'', pk, substr(sk, 1, 14), count(*)
FROM items_5 WHERE {IS_ENTRY} GROUP BY pk, substr(sk, 1, 14)
"""  # noqa: S608
_NOTE_ALL: Final = f"INSERT INTO unindexed SELECT pk, sk FROM items_5 WHERE {IS_ENTRY}"  # noqa: S608
SCHEMA: Final = (
    """CREATE TABLE tallies (
        path TEXT NOT NULL, value BLOB NOT NULL, pk BLOB NOT NULL, block TEXT NOT NULL,
        n INTEGER NOT NULL, PRIMARY KEY (path, value, pk, block)
    ) WITHOUT ROWID""",
    """CREATE TABLE unindexed (
        pk BLOB NOT NULL, sk TEXT NOT NULL, PRIMARY KEY (pk, sk)
    ) WITHOUT ROWID""",
    """CREATE TRIGGER audit_inserted AFTER INSERT ON items_5 WHEN substr(NEW.pk, 1, 1) = x'61' BEGIN
        INSERT OR IGNORE INTO unindexed VALUES (NEW.pk, NEW.sk);
        INSERT INTO tallies VALUES ('', x'', NEW.pk, substr(NEW.sk, 1, 14), 1)
            ON CONFLICT (path, value, pk, block) DO UPDATE SET n = n + 1;
    END""",
    """CREATE TRIGGER audit_updated AFTER UPDATE ON items_5 WHEN substr(NEW.pk, 1, 1) = x'61' BEGIN
        INSERT OR IGNORE INTO unindexed SELECT x'', '' WHERE NOT EXISTS (
            SELECT 1 FROM unindexed WHERE pk = NEW.pk AND sk = NEW.sk);
    END""",
    """CREATE TRIGGER audit_deleted AFTER DELETE ON items_5 WHEN substr(OLD.pk, 1, 1) = x'61' BEGIN
        INSERT OR IGNORE INTO unindexed SELECT x'', '' WHERE NOT EXISTS (
            SELECT 1 FROM unindexed WHERE pk = OLD.pk AND sk = OLD.sk);
        DELETE FROM unindexed WHERE pk = OLD.pk AND sk = OLD.sk;
        UPDATE tallies SET n = n - 1 WHERE path = '' AND value = x'' AND pk = OLD.pk
            AND block = substr(OLD.sk, 1, 14);
    END""",
    _COUNT_ALL,
    _NOTE_ALL,
)

_UNINDEXED: Final = """SELECT unindexed.pk, unindexed.sk, item FROM unindexed
    LEFT JOIN items_5 ON items_5.pk = unindexed.pk AND items_5.sk = unindexed.sk
    LIMIT ?"""
_BLOCKS: Final = """SELECT DISTINCT substr(sk, 1, 14) FROM unindexed
    WHERE pk = ? AND sk > ? AND sk < ?"""
# Also whether the block of the entry is inside the bounds as a whole. CROSS JOIN has SQLite begin
# with the few that are not indexed, where it would walk all entries inside the bounds.
_TAIL: Final = f"""SELECT unindexed.sk, item,
        substr(unindexed.sk, 1, 14) > ? AND substr(unindexed.sk, 1, 14) < ?
    FROM unindexed CROSS JOIN items_5
    ON items_5.pk = unindexed.pk AND items_5.sk = unindexed.sk
    WHERE unindexed.pk = ? AND unindexed.sk > ? AND unindexed.sk < ?
    AND {sqlite_encoding.MAY_HAVE}"""  # noqa: S608
_ADD: Final = """INSERT INTO tallies VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (path, value, pk, block) DO UPDATE SET n = n + excluded.n"""
_ITEM: Final = "SELECT item FROM items_5 WHERE pk = ? AND sk = ?"
_DONE: Final = "DELETE FROM unindexed WHERE pk = ? AND sk = ?"
_NOTED: Final = "SELECT 1 FROM unindexed WHERE pk = ? AND sk = ?"
_INSIDE: Final = """SELECT coalesce(sum(n), 0) FROM tallies
    WHERE path = ? AND value = ? AND pk = ? AND block > ? AND block < ?"""
_HOLDING: Final = """SELECT block FROM tallies
    WHERE path = ? AND value = ? AND n > 0 AND pk = ? AND block >= ? AND block <= ?"""
_EXPIRING: Final = """SELECT DISTINCT block FROM tallies
    WHERE path = 'e' AND value <= ? AND n > 0 AND pk = ? AND block >= ? AND block <= ?"""
_EXPIRED: Final = """SELECT value, pk, block FROM tallies
    WHERE path = 'e' AND value < ? AND n > 0 LIMIT 1"""
_OF_BLOCK: Final = """SELECT sk, item FROM items_5
    WHERE pk = ? AND sk >= ? AND sk < ?"""
_DROP: Final = """DELETE FROM tallies
    WHERE path = 'e' AND value = ? AND pk = ? AND block = ?"""


class Tail(NamedTuple):
    """Facts for a count about the entries that the tallies of values do not include.

    `inside` is how many of those in whole blocks match; `expired` are the blocks of those that have
    expired.
    """

    inside: int
    expired: set[str]


class Span(NamedTuple):
    """The sort keys between two exclusive bounds."""

    after: str
    before: str | bytes


def has_tallies(table: str, pk: str) -> bool:
    """Return whether the items of a partition are tallied: those of the audit log, not its index.

    The index by warrant would have some tallies for each of its items, which no search needs.
    """
    return table == Table.AUDIT and sqlite_encoding.letter(table, pk) == _LETTER


def forget(connection: sqlite3.Connection, pk: bytes, sk: str) -> None:
    """Remove an entry from the tallies before this transaction replaces or deletes it."""
    row = connection.execute(_ITEM, (pk, sk)).fetchone()
    if row is None:
        return
    if connection.execute(_NOTED, (pk, sk)).fetchone() is None:
        _add(connection, pk, sk, row[0], -1)
        connection.execute("INSERT INTO unindexed VALUES (?, ?)", (pk, sk))


def is_behind(connection: sqlite3.Connection) -> bool:
    """Return whether an entry is missing from the tallies of values."""
    return connection.execute("SELECT 1 FROM unindexed LIMIT 1").fetchone() is not None


def is_stale(connection: sqlite3.Connection) -> bool:
    """Return whether a program that does not call `forget` changed the table."""
    return connection.execute(_NOTED, _STALE).fetchone() is not None


def catch_up(connection: sqlite3.Connection, most: int) -> int:
    """Add up to `most` entries to the tallies of values; return how many they were.

    If a program that does not call `forget` changed the table, all tallies are rebuilt first.
    """
    if is_stale(connection):
        for statement in ("DELETE FROM tallies", "DELETE FROM unindexed", _COUNT_ALL, _NOTE_ALL):
            connection.execute(statement)
    noted = connection.execute(_UNINDEXED, (most,)).fetchall()
    counted = Counter(
        (*said, sk[:_BLOCK])
        for pk, sk, item in noted
        for said in _said(pk, _decoded(_name(pk), sk, item))
    )
    connection.executemany(_ADD, sorted((*key, n) for key, n in counted.items()))
    connection.executemany(_DONE, [(pk, sk) for pk, sk, _ in noted])
    return len(noted)


def tail(connection: sqlite3.Connection, pk: bytes, where: Where, span: Span) -> Tail:
    """Look at the entries of `span` that are not indexed yet: a few seconds' worth of them."""
    text = max(where.equal.values(), key=len, default="").encode()
    bounds = (span.after[:_BLOCK], span.before[:_BLOCK], pk, *span, text)
    name = _name(pk)
    number, gone, of_any_age = 0, set[str](), Where(where.equal)
    if not where.equal and where.alive_at is None:
        return Tail(number, gone)
    for sk, encoded, is_inside in connection.execute(_TAIL, bounds):
        item = _decoded(name, sk, encoded)
        if of_any_age.holds(item):
            # Without values, the tallies include it.
            number += bool(where.equal and is_inside)
            if not where.holds(item):
                gone.add(sk[:_BLOCK])
    return Tail(number, gone)


def is_tallied(where: Where) -> bool:
    """Return whether there are tallies for the values in `where` together."""
    paths = where.equal.keys()
    if not paths <= _SHORT.keys():
        return False
    return len(paths) < 2 or paths <= {*_combined(where.equal)}  # noqa: PLR2004 (one always is)


def inside(connection: sqlite3.Connection, pk: bytes, where: Where, span: Span) -> int:
    """Return how many entries of the whole blocks inside `span` match `where`, which is tallied."""
    bounds = (span.after[:_BLOCK], span.before[:_BLOCK])
    (found,) = connection.execute(_INSIDE, (*_tally(pk, where.equal), *bounds)).fetchone()
    return int(found)


def edges(connection: sqlite3.Connection, pk: bytes, where: Where, span: Span) -> list[Span]:
    """Return the parts of `span` in blocks that it contains only in part, which `inside` omits.

    Parts without a match of `where` are omitted.
    """
    first, last = (bound[:_BLOCK] if isinstance(bound, str) else None for bound in span)
    if first and first == last:
        cut = [span]
    else:
        lower = [Span(span.after, _past(first))] if first else []
        cut = lower + ([Span(_ahead_of(last), span.before)] if last else [])
    if not where.equal:
        return cut
    return [part for edge in cut for part in holding(connection, pk, where, edge)]


def holding(connection: sqlite3.Connection, pk: bytes, where: Where, span: Span) -> Iterator[Span]:
    """Yield the parts of `span` that can have entries that match `where`, in order.

    Entries that are not indexed yet may match.
    """
    known = {path: value for path, value in where.equal.items() if path in _SHORT}
    if not known:
        return iter([span])
    blocks: set[str] | None = None
    bounds = (span.after[:_BLOCK], span.before[:_BLOCK])
    each = [where.equal] if is_tallied(where) else [dict([one]) for one in known.items()]
    for equal in each:
        rows = connection.execute(_HOLDING, (*_tally(pk, equal), *bounds))
        found = {block for (block,) in rows}
        blocks = found if blocks is None else blocks & found
    unindexed = {block for (block,) in connection.execute(_BLOCKS, (pk, *span))}
    return _cut(span, (blocks or set()) | unindexed)


def expiring(
    connection: sqlite3.Connection, pk: bytes, where: Where, span: Span, also: set[str]
) -> Iterator[Span]:
    """Yield the parts of `span` that can have expired entries, in order; blocks in `also` can."""
    if where.alive_at is None:
        return iter(())
    bounds = (_day(where.alive_at), pk, span.after[:_BLOCK], span.before[:_BLOCK])
    return _cut(span, {block for (block,) in connection.execute(_EXPIRING, bounds)} | also)


def expired(connection: sqlite3.Connection, before: int, most: int) -> list[Address]:
    """Return where entries are that expired on a day before that of `before`.

    Their entries in the index by warrant are included, since they expire together.
    """
    tally = connection.execute(_EXPIRED, (_day(before),)).fetchone()
    if tally is None:
        return []
    day, pk, block = tally
    rows = connection.execute(_OF_BLOCK, (pk, block, _past(block)))
    name = _name(pk)
    items = ((sk, _decoded(name, sk, item)) for sk, item in rows)
    found = [(sk, item) for sk, item in items if (_OF_EXPIRY, day, pk) in _said(pk, item)]
    if not found:  # Its entries are damaged, so do not find it again.
        connection.execute(_DROP, tally)
    return list(chain.from_iterable(_addresses(name, *each) for each in found[:most]))


def _addresses(pk: str, sk: str, entry: Item) -> list[Address]:
    indexed: Iterable[tuple[Address, Item]] = ()
    if named := audit_log.entry_of(pk, sk):
        indexed = audit_log.indexed(named[0], {**entry, "id": sk})
    return [Address(Table.AUDIT, pk, sk), *(address for address, _ in indexed)]


def _add(connection: sqlite3.Connection, pk: bytes, sk: str, item: object, n: int) -> None:
    said = _said(pk, _decoded(_name(pk), sk, item))
    connection.executemany(_ADD, [(*each, sk[:_BLOCK], n) for each in said])


def _name(pk: bytes) -> str:
    """Return the partition key; nothing if the bytes are malformed."""
    with suppress(ValueError):
        return sqlite_encoding.partition_of(pk)[1]
    return ""


def _decoded(pk: str, sk: str, item: object) -> dict[str, Value]:
    """Return an entry; for a damaged one, or none, one that says nothing."""
    if isinstance(item, bytes):
        with suppress(ValueError):
            return sqlite_encoding.decoded(sqlite_encoding.plain(item, pk, sk))
    return {}


def _said(pk: bytes, decoded: Item) -> list[_Tally]:
    """Return the tallies that count an entry."""
    found = ((path, at_path(decoded, path)) for path in _PATHS)
    values = {path: value for path, value in found if isinstance(value, str)}
    said = [_tally(pk, {path: value}) for path, value in values.items()]
    several = _combined(values)
    for number in range(2, len(several) + 1):
        said += (
            _tally(pk, {p: values[p] for p in paths}) for paths in combinations(several, number)
        )
    expires = decoded.get(_EXPIRES)
    return [*said, (_OF_EXPIRY, _day(expires), pk)] if type(expires) is int else said


def _combined(values: Mapping[str, str]) -> list[str]:
    """Return those of the paths whose values are tallied in combination."""
    paths = [path for path in _COMBINED if path in values]
    if not values.get("resource_id", "").startswith(_SIGNING_KEY):
        paths = [path for path in paths if path != "resource_id"]
    return paths


def _tally(pk: bytes, equal: Mapping[str, str]) -> _Tally:
    """Return path, value and partition of the tally for these values; all entries have none."""
    if not equal:
        return "", b"", pk
    paths = sorted(equal)
    values = [equal[path] for path in paths]
    said = "".join(values) if len(values) < 2 else json.dumps(values)  # noqa: PLR2004 (of several)
    path = "".join(_SHORT[each] for each in paths)
    return path, sqlite_encoding.packed(said), _place(pk)


@lru_cache(maxsize=1024)
def _place(pk: bytes) -> int:
    """Return the hash of a partition, by which the tallies of values name it."""
    return sqlite_encoding.place(Table.AUDIT, _name(pk))


def _day(seconds: int) -> bytes:
    return b"%09d" % (max(seconds, 0) // _DAY_SECONDS)


def _cut(span: Span, blocks: set[str]) -> Iterator[Span]:
    for block in sorted(blocks):
        after = max(span.after, _ahead_of(block))
        past = _past(block)
        yield Span(after, past if isinstance(span.before, bytes) else min(span.before, past))


def _ahead_of(block: str) -> str:
    """Return a bound between the sort keys (ASCII) of a block and those of earlier blocks."""
    return block[:-1] + chr(ord(block[-1]) - 1) + "\U0010ffff"


def _past(block: str) -> str:
    return block + "\U0010ffff"
