"""How PostgreSQL runs what the adapters send, by the plans that it logs itself."""

import json
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import product
from typing import Any, Final

import pytest

from shared.adapters.postgresql.blobs import PostgresqlBlobs
from shared.adapters.postgresql.buckets import PostgresqlBuckets
from shared.adapters.postgresql.database import PostgresqlDatabase
from shared.adapters.postgresql.store import PostgresqlStore
from shared.errors import BlobExists
from shared.model.items import Address, Partition, Table
from shared.ports.store import Check, Delete, Expect, Increment, ItemFilter, Put, VersionIs
from tests.kit import postgresql
from tests.kit.postgresql import PostgresqlServer, execute

pytestmark = pytest.mark.slow

# Each plan goes to the log, also those of what a foreign key does.
_LOGGED: Final = (
    *("-c", "session_preload_libraries=auto_explain", "-c", "auto_explain.log_min_duration=0"),
    *("-c", "auto_explain.log_nested_statements=on", "-c", "auto_explain.log_format=json"),
    *("-c", "log_destination=jsonlog", "-c", "logging_collector=on", "-c", "jit=off"),
)
_TABLES: Final = {"items", "writes", "buckets", "blobs", "blob_parts"}
# A million items: of 3 tables, 1000 partitions each. What fills them is neither logged nor checked.
_FILL: Final = """
    SET auto_explain.log_min_duration = -1; SET session_replication_role = replica;
    INSERT INTO items SELECT t, convert_to('p' || p, 'UTF8'),
        convert_to(to_char(i, 'FM0000000'), 'UTF8'), '\\xa1616e01',
        CASE WHEN i % 10 = 0 THEN 1000 + i END,
        CASE WHEN t = 2 THEN ARRAY['action=a' || i % 7, 'actor=' || i] END
        FROM generate_series(0, 2) t, generate_series(1, 1000) p, generate_series(1, 334) i;
    INSERT INTO writes SELECT gen_random_uuid(), now() - i * interval '1 second'
        FROM generate_series(1, 200000) i;
    INSERT INTO buckets SELECT convert_to('b' || i, 'UTF8'), i FROM generate_series(1, 100000) i;
    INSERT INTO blobs SELECT 'f' || i / 1000 || '/' || i, 1, now() - i * interval '1 second'
        FROM generate_series(1, 100000) i;
    INSERT INTO blob_parts SELECT name, 0, 'x' FROM blobs"""


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresqlServer]:
    with postgresql.running(*_LOGGED) as made:
        yield made


@pytest.fixture(scope="module", params=["empty", "full"])
def url(server: PostgresqlServer, request: pytest.FixtureRequest) -> Iterator[str]:
    """A database without rows, or with a million items."""
    with server.database(request.param) as url:
        if request.param == "full":
            execute(url, _FILL)
            execute(url, "VACUUM ANALYZE")
        yield url


@pytest.mark.parametrize("mode", ["force_generic_plan", "force_custom_plan", "auto"])
def test_each_statement_uses_an_index(server: PostgresqlServer, url: str, mode: str) -> None:
    """F629a: With no row or a million, each statement finds its rows by an index."""
    execute(url, f"ALTER ROLE owner SET plan_cache_mode = {mode}")
    seen = _position(server)
    with closing(PostgresqlDatabase(url, connections=1)) as database:
        # From the third time on a statement is prepared, and the sixth may have a generic plan.
        for _ in range(7 if mode == "auto" else 3):
            _tour(database)
    plans = _plans(server, seen)
    assert _statements(plans) >= _KINDS
    wrong = {
        plan["Query Text"]: json.dumps(plan["Plan"], indent=1)
        for plan in plans
        if any(map(_is_wrong, _scans(plan["Plan"])))
    }
    assert not wrong, "\n".join(f"{text}\n{plan}" for text, plan in wrong.items())


class _Recorded:
    """An adapter, of which it is noted what is called."""

    def __init__(self, adapter: object) -> None:
        self._adapter, self._called = adapter, {"close", "listen"}

    def __getattr__(self, name: str) -> Any:
        self._called.add(name)
        return getattr(self._adapter, name)

    def check(self) -> None:
        """All methods have been called."""
        public = {name for name in vars(type(self._adapter)) if not name.startswith("_")}
        assert public <= self._called


def _tour(database: PostgresqlDatabase) -> None:
    """Call each method of each adapter, in each form of its statements."""
    store, blobs, buckets = (
        _Recorded(kind(database)) for kind in (PostgresqlStore, PostgresqlBlobs, PostgresqlBuckets)
    )
    _tour_of_store(store)
    _tour_of_blobs(blobs)
    assert buckets.lease("b1", 1, now=5).granted == 1
    for each in (store, blobs, buckets):
        each.check()


def _tour_of_store(store: Any) -> None:
    store.made_at()
    one, two = (Address(Table.KEYS, "p1", key) for key in ("new", "0000999"))
    store.write(
        Put(one, {"version": 1, "expires": 5}, Expect.ANYTHING), Increment(two, {"n": 1}, _ANY)
    )
    store.write(Put(one, {"version": 2}, VersionIs(1)), Check(two, Expect.PRESENT))
    store.write(Check(one, Expect.PRESENT), Delete(two, _ANY))
    store.write(Delete(one, _ANY), Check(two, Expect.ABSENT))
    assert store.get(one) is None
    assert store.get_many([one, two]) == {}
    some = (Partition(table, f"p{number}") for table in Table for number in range(16))
    assert sum(map(len, store.query_many(some, limit=3).values())) in {0, 3 * 3 * 15}
    for table, *options in product(Table, (None, "0000500"), (None, "0001500"), *_WHERES):
        after, before, newest_first, limit, alive_at, equal = options
        where, place = ItemFilter(equal, alive_at), Partition(table, "p2")
        between: Any = {"after": after, "before": before, "where": where}
        list(store.query(place, newest_first=newest_first, limit=limit, **between))
        store.count(place, **between)
    next(store.column(Partition(Table.KEYS, "p2"), "n", after="0000500"))
    next(store.everything(Table.REVOCATIONS), None)
    store.remove_expired(before=100_000)
    list(store.flaws())


def _tour_of_blobs(blobs: Any) -> None:
    for name in ("f1/new", "f1/a", "f2/a"):
        with suppress(BlobExists):
            blobs.put(name, b"x")
        assert blobs.get(name) == b"x"
    blobs.get_file("f1/new", sha256="")
    list(blobs.names("f1"))
    blobs.discard("f1", before="b")
    blobs.discard("f2", before="b", older_than_seconds=5, any_age_before="a")
    blobs.remove("f1/new")
    assert blobs.open_url("f1/a", expires="1", signature="") is None
    assert blobs.url("f1/a", ttl_seconds=5)


def _position(server: PostgresqlServer) -> int:
    return len(_log(server))


def _log(server: PostgresqlServer) -> list[str]:
    files = sorted((server.data / "log").glob("*.json"))
    return [line for file in files for line in file.read_text().splitlines()]


def _plans(server: PostgresqlServer, start: int) -> list[Any]:
    """What was logged since, without what the server asks itself and what the tests ask."""
    said = [json.loads(line)["message"] for line in _log(server)[start:]]
    plans = [json.loads(each.partition("plan:\n")[2]) for each in said if "plan:\n" in each]
    return [
        each for each in plans if _TABLES & {scan["Relation Name"] for scan in _scans(each["Plan"])}
    ]


def _scans(node: Any) -> Iterator[Any]:
    """The nodes of a plan that read a table."""
    if node.get("Relation Name") and node["Node Type"] != "ModifyTable":
        yield node
    for below in node.get("Plans", ()):
        yield from _scans(below)


def _is_wrong(scan: Any) -> bool:
    """Whether it reads all of a table of ours, by itself or by all of an index."""
    conditions = [scan, *scan.get("Plans", ())]
    return scan["Relation Name"] in _TABLES and not any(
        "Index Cond" in each or "TID Cond" in each for each in conditions
    )


def _statements(plans: list[Any]) -> set[tuple[str, str]]:
    """What was done with which table."""
    return {
        (plan["Query Text"].split()[0], scan["Relation Name"])
        for plan in plans
        for scan in _scans(plan["Plan"])
    }


_ANY = Expect.ANYTHING
_WHERES: Any = (
    (False, True),
    (None, 3),
    (None, 2000),
    ({}, {"action": "a1"}, {"nothing": "a"}),
)
_KINDS: Final = {
    *(("SELECT", each) for each in ("items", "buckets", "blobs", "blob_parts")),
    *(("UPDATE", each) for each in ("items", "buckets")),
    *(("DELETE", each) for each in ("items", "writes", "blobs", "blob_parts")),
}
