"""The index by which SQLite finds and counts audit entries without reading all of them.

Entries whose sort keys begin with the same `_BLOCK` characters form a block: for an audit
identifier, these are the kind and the time, cut to 17.5 minutes. For each block, `tallies` has the
number of entries, and how many have which value at each path of `SEARCHED`, or which values at
several paths of `_COMBINED`. Whole blocks are counted by their tallies, and only blocks that can
have a match are read.

Triggers count each entry in its block, and note it in `unindexed`. What seals the log also brings
the tallies of values up to date, many entries at once; a write does not, and neither does a reader,
who looks at the noted entries themselves. A change that was made without `forget` is noted as
`_STALE`: nothing is then found by the tallies until all are rebuilt.
"""

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Final, NamedTuple

import cbor2

from shared.ports.store import SEARCHED, Item, Table, Value, Where, at_path

# `svc_evt_` and six characters of time. The statements below repeat the number.
_BLOCK: Final = 14
_PATHS: Final = SEARCHED[Table.AUDIT]
# Paths with few values. Tallies also count their combinations. A resource is included if it is a
# signing key, which may sign a million warrants; other resources have few entries.
_COMBINED: Final = ("action", "actor", "actor_key_id", "resource_id")
_SIGNING_KEY: Final = "svc_key_"
_EXPIRES: Final = "expires"
_DAY_SECONDS: Final = 24 * 3600
_STALE: Final = ("", "")

_COUNT_ALL: Final = """
INSERT INTO tallies SELECT '', '', pk, substr(sk, 1, 14), count(*)
FROM items_5 WHERE tbl = 'audit' GROUP BY pk, substr(sk, 1, 14)
"""
_NOTE_ALL: Final = "INSERT INTO unindexed SELECT pk, sk FROM items_5 WHERE tbl = 'audit'"
SCHEMA: Final = (
    """CREATE TABLE tallies (
        path TEXT NOT NULL, value TEXT NOT NULL, pk TEXT NOT NULL, block TEXT NOT NULL,
        n INTEGER NOT NULL, PRIMARY KEY (path, value, pk, block)
    ) WITHOUT ROWID""",
    """CREATE TABLE unindexed (
        pk TEXT NOT NULL, sk TEXT NOT NULL, PRIMARY KEY (pk, sk)
    ) WITHOUT ROWID""",
    """CREATE TRIGGER audit_inserted AFTER INSERT ON items_5 WHEN NEW.tbl = 'audit' BEGIN
        INSERT OR IGNORE INTO unindexed VALUES (NEW.pk, NEW.sk);
        INSERT INTO tallies VALUES ('', '', NEW.pk, substr(NEW.sk, 1, 14), 1)
            ON CONFLICT (path, value, pk, block) DO UPDATE SET n = n + 1;
    END""",
    """CREATE TRIGGER audit_updated AFTER UPDATE ON items_5 WHEN NEW.tbl = 'audit' BEGIN
        INSERT OR IGNORE INTO unindexed SELECT '', '' WHERE NOT EXISTS (
            SELECT 1 FROM unindexed WHERE pk = NEW.pk AND sk = NEW.sk);
    END""",
    """CREATE TRIGGER audit_deleted AFTER DELETE ON items_5 WHEN OLD.tbl = 'audit' BEGIN
        INSERT OR IGNORE INTO unindexed SELECT '', '' WHERE NOT EXISTS (
            SELECT 1 FROM unindexed WHERE pk = OLD.pk AND sk = OLD.sk);
        DELETE FROM unindexed WHERE pk = OLD.pk AND sk = OLD.sk;
        UPDATE tallies SET n = n - 1 WHERE path = '' AND value = '' AND pk = OLD.pk
            AND block = substr(OLD.sk, 1, 14);
    END""",
    _COUNT_ALL,
    _NOTE_ALL,
)

_UNINDEXED: Final = """SELECT unindexed.pk, unindexed.sk, item FROM unindexed
    LEFT JOIN items_5 ON tbl = 'audit' AND items_5.pk = unindexed.pk AND items_5.sk = unindexed.sk
    LIMIT ?"""
_BLOCKS: Final = """SELECT DISTINCT substr(sk, 1, 14) FROM unindexed
    WHERE pk = ? AND sk > ? AND sk < ?"""
# Also whether the block of the entry is inside the bounds as a whole.
_TAIL: Final = """SELECT unindexed.sk, item,
        substr(unindexed.sk, 1, 14) > ? AND substr(unindexed.sk, 1, 14) < ?
    FROM unindexed JOIN items_5
    ON tbl = 'audit' AND items_5.pk = unindexed.pk AND items_5.sk = unindexed.sk
    WHERE unindexed.pk = ? AND unindexed.sk > ? AND unindexed.sk < ? AND instr(item, ?)"""
_ADD: Final = """INSERT INTO tallies VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (path, value, pk, block) DO UPDATE SET n = n + excluded.n"""
_ITEM: Final = "SELECT item FROM items_5 WHERE tbl = 'audit' AND pk = ? AND sk = ?"
_DONE: Final = "DELETE FROM unindexed WHERE pk = ? AND sk = ?"
_NOTED: Final = "SELECT 1 FROM unindexed WHERE pk = ? AND sk = ?"
_INSIDE: Final = """SELECT coalesce(sum(n), 0) FROM tallies
    WHERE path = ? AND value = ? AND pk = ? AND block > ? AND block < ?"""
_HOLDING: Final = """SELECT block FROM tallies
    WHERE path = ? AND value = ? AND n > 0 AND pk = ? AND block >= ? AND block <= ?"""
_EXPIRING: Final = """SELECT DISTINCT block FROM tallies
    WHERE path = 'expires' AND value <= ? AND n > 0 AND pk = ? AND block >= ? AND block <= ?"""
_EXPIRED: Final = """SELECT value, pk, block FROM tallies
    WHERE path = 'expires' AND value < ? AND n > 0 LIMIT 1"""
_OF_BLOCK: Final = """SELECT sk, item FROM items_5
    WHERE tbl = 'audit' AND pk = ? AND sk >= ? AND sk < ?"""
_DROP: Final = """DELETE FROM tallies
    WHERE path = 'expires' AND value = ? AND pk = ? AND block = ?"""


class Tail(NamedTuple):
    """What a count needs to know of the entries that the tallies of values do not include.

    `inside` is how many of those in whole blocks match; `expired` are the blocks of those that have
    expired.
    """

    inside: int
    expired: set[str]


class Span(NamedTuple):
    """The sort keys between two exclusive bounds."""

    after: str
    before: str | bytes


def forget(connection: sqlite3.Connection, pk: str, sk: str) -> None:
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
        (*said, pk, sk[:_BLOCK]) for pk, sk, item in noted for said in _said(_decoded(item))
    )
    connection.executemany(_ADD, sorted((*key, n) for key, n in counted.items()))
    connection.executemany(_DONE, [(pk, sk) for pk, sk, _ in noted])
    return len(noted)


def tail(connection: sqlite3.Connection, pk: str, where: Where, span: Span) -> Tail:
    """Look at the entries of `span` that are not indexed yet: a few seconds' worth of them."""
    text = max(where.equal.values(), key=len, default="").encode()
    bounds = (span.after[:_BLOCK], span.before[:_BLOCK], pk, *span, text)
    number, gone, of_any_age = 0, set[str](), Where(where.equal)
    if not where.equal and where.alive_at is None:
        return Tail(number, gone)
    for sk, encoded, is_inside in connection.execute(_TAIL, bounds):
        item = _decoded(encoded)
        if of_any_age.holds(item):
            # Without values, the tallies include it.
            number += bool(where.equal and is_inside)
            if not where.holds(item):
                gone.add(sk[:_BLOCK])
    return Tail(number, gone)


def is_tallied(where: Where) -> bool:
    """Return whether there are tallies for the values in `where` together."""
    paths = where.equal.keys()
    return len(paths) < 2 or paths <= {*_combined(where.equal)}  # noqa: PLR2004 (one always is)


def inside(connection: sqlite3.Connection, pk: str, where: Where, span: Span) -> int:
    """Return how many entries of the whole blocks inside `span` match `where`, which is tallied."""
    bounds = (pk, span.after[:_BLOCK], span.before[:_BLOCK])
    (found,) = connection.execute(_INSIDE, (*_tally(where.equal), *bounds)).fetchone()
    return int(found)


def edges(connection: sqlite3.Connection, pk: str, where: Where, span: Span) -> list[Span]:
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


def holding(connection: sqlite3.Connection, pk: str, where: Where, span: Span) -> Iterator[Span]:
    """Yield the parts of `span` that can have entries that match `where`, in order.

    What is not indexed yet can match anything.
    """
    blocks: set[str] | None = None
    bounds = (pk, span.after[:_BLOCK], span.before[:_BLOCK])
    each = [where.equal] if is_tallied(where) else [dict([one]) for one in where.equal.items()]
    for equal in each:
        rows = connection.execute(_HOLDING, (*_tally(equal), *bounds))
        found = {block for (block,) in rows}
        blocks = found if blocks is None else blocks & found
    unindexed = {block for (block,) in connection.execute(_BLOCKS, (pk, *span))}
    return _cut(span, (blocks or set()) | unindexed)


def expiring(
    connection: sqlite3.Connection, pk: str, where: Where, span: Span, also: set[str]
) -> Iterator[Span]:
    """Yield the parts of `span` that can have expired entries, in order; blocks in `also` can."""
    if where.alive_at is None:
        return iter(())
    bounds = (_day(where.alive_at), pk, span.after[:_BLOCK], span.before[:_BLOCK])
    return _cut(span, {block for (block,) in connection.execute(_EXPIRING, bounds)} | also)


def expired(connection: sqlite3.Connection, before: int, most: int) -> list[tuple[str, str]]:
    """Return partition and sort key of entries that expired on a day before that of `before`."""
    tally = connection.execute(_EXPIRED, (_day(before),)).fetchone()
    if tally is None:
        return []
    day, pk, block = tally
    rows = connection.execute(_OF_BLOCK, (pk, block, _past(block)))
    found = [(pk, sk) for sk, item in rows if (_EXPIRES, day) in _said(_decoded(item))]
    if not found:  # Its entries are damaged, so do not find it again.
        connection.execute(_DROP, tally)
    return found[:most]


def _add(connection: sqlite3.Connection, pk: str, sk: str, item: object, n: int) -> None:
    block, said = sk[:_BLOCK], _said(_decoded(item))
    connection.executemany(_ADD, [(path, value, pk, block, n) for path, value in said])


def _decoded(item: object) -> dict[str, Value]:
    """Return an entry; for a damaged one, or none, one that says nothing."""
    try:
        decoded = cbor2.loads(item) if isinstance(item, bytes) else None
    except cbor2.CBORDecodeError:
        decoded = None
    return decoded if isinstance(decoded, dict) else {}


def _said(decoded: Item) -> list[tuple[str, str]]:
    """Return the tallies that count an entry."""
    found = ((path, at_path(decoded, path)) for path in _PATHS)
    values = {path: value for path, value in found if isinstance(value, str)}
    said = [_tally({path: value}) for path, value in values.items()]
    several = _combined(values)
    for number in range(2, len(several) + 1):
        said += (_tally({p: values[p] for p in paths}) for paths in combinations(several, number))
    expires = decoded.get(_EXPIRES)
    return [*said, (_EXPIRES, _day(expires))] if type(expires) is int else said


def _combined(values: Mapping[str, str]) -> list[str]:
    """Return those of the paths whose values are tallied in combination."""
    paths = [path for path in _COMBINED if path in values]
    if not values.get("resource_id", "").startswith(_SIGNING_KEY):
        paths = [path for path in paths if path != "resource_id"]
    return paths


def _tally(equal: Mapping[str, str]) -> tuple[str, str]:
    """Return path and value of the tally for these values."""
    if len(equal) < 2:  # noqa: PLR2004 (one value stands for itself)
        return next(iter(equal.items()), ("", ""))
    paths = sorted(equal)
    return "+".join(paths), json.dumps([equal[path] for path in paths])


def _day(seconds: int) -> str:
    return f"{max(seconds, 0) // _DAY_SECONDS:09}"


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
