"""The format of the SQLite file: checks of its contents, and files that are refused."""

import sqlite3
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from shared.adapters import sqlite_encoding
from shared.adapters.sqlite import SqliteStore
from shared.adapters.sqlite_encoding import decoded, partition, partition_of, plain
from shared.adapters.sqlite_items import FORMAT
from shared.errors import Corrupt, InvalidSettings, Unavailable
from shared.ports.store import (
    Change,
    Check,
    ColumnPage,
    Delete,
    Expect,
    Increment,
    Item,
    Partition,
    Put,
    Table,
    Where,
)
from tests.kit.sqlite_files import insert

PARTITION = Partition(Table.REVOCATIONS, "t1#revoked#00")
AUDIT = Partition(Table.AUDIT, "t1#2026-11")
KEY, OTHER = PARTITION.address("svc_wrt_1"), PARTITION.address("svc_wrt_2")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(str(path))) as opened:
        opened.write(Put(KEY, {"n": 1, "version": 1}, Expect.ABSENT))
        opened.write(Put(OTHER, {"n": 2, "version": 1}, Expect.ABSENT))
        yield opened


def change_behind_its_back(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(statement)


# --- what is damaged is found ---

DAMAGE: dict[str, tuple[str, str]] = {
    "an item is lost": (
        "DELETE FROM items_5 WHERE sk = 'svc_wrt_1'",
        "1 items are missing from the table items",
    ),
    "a place is lost": (
        "DELETE FROM places WHERE sk = 'svc_wrt_1'",
        "1 items are missing from the table places",
    ),
    "an item is altered": (
        "UPDATE items_5 SET item = x'a0' WHERE sk = 'svc_wrt_1'",
        "1 items do not match their checksum",
    ),
    "a key is altered": (
        "UPDATE items_5 SET sk = 'svc_wrt_0' WHERE sk = 'svc_wrt_1'",
        "1 items do not match their checksum",
    ),
    "an item is no longer bytes": (
        "UPDATE items_5 SET item = 'text' WHERE sk = 'svc_wrt_1'",
        "1 items do not match their checksum",
    ),
}
READS: dict[str, Callable[[SqliteStore], object]] = {
    "get": lambda store: store.get(KEY),
    "get_many": lambda store: store.get_many([KEY, OTHER]),
    "query": lambda store: list(store.query(PARTITION)),
    "query backwards": lambda store: list(store.query(PARTITION, newest_first=True, limit=2)),
}


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("damage", ["an item is lost", "an item is altered", "a key is altered"])
def test_what_is_lost_is_not_absent(store: SqliteStore, path: Path, read: str, damage: str) -> None:
    """F54: a read of an item that is in one tree only, or altered, says that it is damaged."""
    change_behind_its_back(path, DAMAGE[damage][0])
    with pytest.raises(Corrupt):
        READS[read](store)
    assert store.get(OTHER) == {"n": 2, "version": 1}


def test_a_column_without_an_item_is_damaged(store: SqliteStore, path: Path) -> None:
    """F54: a walk over one attribute misses no item either."""
    change_behind_its_back(path, DAMAGE["an item is lost"][0])
    with pytest.raises(Corrupt):
        list(store.column(PARTITION, "n"))


CHANGES: dict[str, Change] = {
    "put": Put(KEY, {}, Expect.ABSENT),
    "delete": Delete(KEY, Expect.PRESENT),
    "check": Check(KEY, Expect.ABSENT),
    "increment": Increment(KEY, {"n": 1}, Expect.ANYTHING),
}


@pytest.mark.parametrize("change", CHANGES)
def test_no_expectation_holds_on_what_is_lost(store: SqliteStore, path: Path, change: str) -> None:
    """F54: whether a lost item is there is not known, so nothing is decided on it."""
    change_behind_its_back(path, DAMAGE["an item is lost"][0])
    with pytest.raises(Corrupt):
        store.write(CHANGES[change])


@pytest.mark.parametrize("damage", DAMAGE)
def test_each_damage_is_a_problem(store: SqliteStore, path: Path, damage: str) -> None:
    """Reading the whole file finds what a single read would find, and says of how many items."""
    assert list(store.problems()) == []
    statement, problem = DAMAGE[damage]
    change_behind_its_back(path, statement)
    assert problem in list(store.problems())


@pytest.mark.parametrize("quickly", [True, False])
def test_a_broken_tree_is_a_problem(path: Path, quickly: bool) -> None:
    """F55: what SQLite itself finds is told, quickly or not."""
    with closing(SqliteStore(str(path))) as store:
        keys = [PARTITION.address(f"svc_wrt_{number}") for number in range(100)]
        store.write(*(Put(key, {"text": "x" * 100}, Expect.ABSENT) for key in keys))
    content = bytearray(path.read_bytes())
    # The first byte of a page says of what kind it is.
    content[content.index(b"svc_wrt_50") // 4096 * 4096] = 0
    path.write_bytes(content)
    with closing(SqliteStore(str(path))) as store:
        found = list(store.problems(quickly=quickly))
    assert found
    assert found[0].startswith("SQLite reports: ")


# --- what is compressed ---

ENTRY: Item = {"id": "svc_evt_1", "actor": "alice@acme.svc", "details": {"reason": "stolen laptop"}}


def test_most_items_are_compressed(store: SqliteStore, path: Path) -> None:
    """F590e: An item of the usual size is stored compressed, and found by what it says."""
    items = {f"svc_evt_{n}": {**ENTRY, "n": n, "actor": "bob" * (n % 2)} for n in range(9)}
    store.write(*(Put(AUDIT.address(sk), item, Expect.ABSENT) for sk, item in items.items()))
    with closing(sqlite3.connect(path)) as connection:
        stored = connection.execute("SELECT item FROM items_5 WHERE instr(sk, 'evt')").fetchall()
    assert len([item for (item,) in stored if len(item) < 60 and b"stolen" not in item]) == 9
    found = store.query(AUDIT, where=Where({"actor": "bob"}))
    assert {row.sk: row.item for row in found} == {
        sk: item for sk, item in items.items() if item["actor"] == "bob"
    }
    assert list(store.column(AUDIT, "n")) == [
        ColumnPage([*items], {sk: item["n"] for sk, item in items.items()})
    ]


def test_what_a_release_compressed_is_read() -> None:
    """OPS-11, F590f: The dictionary and the prefixes of the file's encoding stay what they were."""
    stored = bytes.fromhex(
        "015b0c8c804c380f128e79893999c9a90e89c9b9a9a0b084f96121d451b9c525f939a9790a39890525f90500"
    )
    assert decoded(plain(stored, *AUDIT.address("svc_evt_1")[1:])) == ENTRY
    assert zlib.crc32(sqlite_encoding._DICTIONARY) == 3708740735
    prefixes = b"|".join([*sqlite_encoding._PREFIXES, *sqlite_encoding._PHRASES])
    assert zlib.crc32(prefixes) == 3139516483
    key = bytes.fromhex("7280019347716d1d996a762784d1bc0f854bc03037")
    assert partition_of(key) == (Table.REVOCATIONS, "svc_tnt_01jd3q2v8xk5n7c9w4t6y0z1ab#revoked#07")


LONG = "01jd3q2v8xk5n7c9w4t6y0z1ab"
NAMES = [
    "t1",
    f"svc_tnt_{LONG}",
    f"svc_tnt_{LONG}#audit-of#svc_wrt_{LONG}",
    f"svc_wrt_8{LONG[1:]}",
    "svc_tnt_é#revoked#",
    "#revoked##revocations",
    "\x7f",
]


@pytest.mark.parametrize("table", Table)
@pytest.mark.parametrize("name", NAMES)
def test_each_partition_has_a_key_of_its_own(table: Table, name: str) -> None:
    """F590i: The key of a partition says which one it is, whatever its name."""
    assert partition_of(partition(table, name)) == (table, name)


@pytest.mark.parametrize("key", [b"", b"x", b"a\xf0", b"k\xa0" + bytes(16), b"k\x80", b"k\xff\xff"])
def test_malformed_keys_are_damage(key: bytes) -> None:
    """F590j: Bytes that are no key of a partition name none."""
    with pytest.raises(ValueError, match=r"malformed|decode"):
        partition_of(key)


@pytest.mark.parametrize("change", [b"\x01", b"\x01\xff\xff", b""])
def test_compressed_bytes_that_are_malformed_are_corrupt(store: SqliteStore, change: bytes) -> None:
    """F590g: Bytes that are no compressed item are damage, whatever their checksum says."""
    insert(store._database.connection, [(AUDIT.address("a"), change)])
    with pytest.raises(Corrupt):
        store.get(AUDIT.address("a"))


# --- other formats ---


@pytest.mark.parametrize("format_", [FORMAT - 1, FORMAT + 1])
def test_a_file_of_another_format_is_refused(store: SqliteStore, path: Path, format_: int) -> None:
    """OPS-11, F56a: A file of an older or newer format is refused unchanged, with both formats."""
    change_behind_its_back(path, f"PRAGMA user_version = {format_}")
    before = path.read_bytes()
    with pytest.raises(
        InvalidSettings, match=f"has format {format_}; this release reads format {FORMAT}"
    ):
        SqliteStore(str(path))
    assert path.read_bytes() == before


# --- what an operator is told ---


def test_a_full_disk_is_reported(store: SqliteStore) -> None:
    """F57a: If the disk is full, the error says so and stored data can still be read."""
    store._database.connection.execute("PRAGMA max_page_count = 1")
    with pytest.raises(Unavailable, match="The disk is full"):
        store.write(
            *(Put(PARTITION.address(str(n)), {"t": "x" * 4000}, Expect.ABSENT) for n in range(9))
        )
    assert store.get(KEY) == {"n": 1, "version": 1}
