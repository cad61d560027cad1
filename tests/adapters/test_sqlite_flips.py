"""Flipped bits of the SQLite file: each read and write is right, or says that the file is damaged.

`tests/operations/operator/test_bit_rot.py` checks the same for the answers of the service.
"""

import itertools
import random
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from shared.adapters.local.sqlite import SqliteStore
from shared.errors import DataCorrupt, InvalidSettings, PreconditionFailed, Unavailable
from shared.ports.store import (
    Address,
    Check,
    Delete,
    Expect,
    Item,
    ItemFilter,
    Partition,
    Put,
    Table,
)

REVOKED = Partition(Table.REVOCATIONS, "t1#revoked#00")
FEED = Partition(Table.REVOCATIONS, "t1#feed")
VERSIONS = Partition(Table.KEYS, "t1#srl-versions")
STANDINGS = [Address(Table.REVOCATIONS, f"t1#warrant#svc_wrt_{n:02}") for n in range(30)]
ENTRIES = [FEED.address(f"{n:012}") for n in range(30)]
ALIVE = ItemFilter(alive_at=1020)
PAGE = 4096
SEED = 20261129


def is_present(store: SqliteStore, address: Address) -> bool:
    try:
        store.write(Check(address, Expect.ABSENT))
    except PreconditionFailed:
        return True
    return False


READS: dict[str, Callable[[SqliteStore], object]] = {
    "get": lambda store: [store.get(each) for each in (*STANDINGS[::5], *ENTRIES[::5])],
    "get_many": lambda store: store.get_many([*STANDINGS, *ENTRIES]),
    "query": lambda store: list(store.query(REVOKED)),
    "query after": lambda store: list(store.query(FEED, after=ENTRIES[9].sk)),
    "query backwards": lambda store: list(store.query(FEED, newest_first=True, limit=5)),
    "query alive": lambda store: list(store.query(VERSIONS, where=ALIVE)),
    "count": lambda store: store.count(REVOKED),
    "count alive": lambda store: store.count(VERSIONS, where=ALIVE),
    "column": lambda store: list(store.column(REVOKED, "expires_at")),
    "revocations": lambda store: list(store.everything(Table.REVOCATIONS)),
    "keys": lambda store: list(store.everything(Table.KEYS)),
    "write": lambda store: [is_present(store, each) for each in (STANDINGS[3], ENTRIES[3])],
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "svc.db"


@pytest.fixture
def image(path: Path) -> bytes:
    """A file in which each tree of keys has several pages, and with free pages."""
    with closing(SqliteStore(str(path))) as store:
        for number in range(100):
            item: Item = {} if number % 2 else {"expires_at": number, "reason": "x" * 30}
            store.write(Put(REVOKED.address(f"svc_wrt_{number:03}"), item, Expect.ABSENT))
        for number, (standing, entry) in enumerate(zip(STANDINGS, ENTRIES, strict=True)):
            version = VERSIONS.address(f"{number:020}")
            store.write(
                Put(standing, {"revoked_at": number}, Expect.ABSENT),
                Put(entry, {"warrant_id": number}, Expect.ABSENT),
                Put(version, {"expires": 1000 + number, "blob": "b" * 60}, Expect.ABSENT),
            )
        past = [Address(Table.KEYS, f"t1#past#{number:03}") for number in range(60)]
        store.write(*(Put(each, {"text": "x" * 500}, Expect.ABSENT) for each in past))
        store.write(*(Delete(each, Expect.PRESENT) for each in past))
    return path.read_bytes()


@pytest.fixture
def right(path: Path, image: bytes) -> dict[str, object]:
    """What each read returns of the undamaged file."""
    assert path.read_bytes() == image
    with closing(SqliteStore(str(path))) as store:
        return {name: read(store) for name, read in READS.items()}


def flip(content: bytes, bit: int) -> bytes:
    flipped = bytearray(content)
    flipped[bit // 8] ^= 1 << bit % 8
    return bytes(flipped)


def read_all(path: Path, right: dict[str, object]) -> Counter[str]:
    """Return how many reads were right, wrong or refused."""
    try:
        store = SqliteStore(str(path))
    except (Unavailable, InvalidSettings):
        return Counter(["not opened"])
    found = Counter[str]()
    with closing(store):
        for name, read in READS.items():
            try:
                found["right" if read(store) == right[name] else f"wrong: {name}"] += 1
            except Unavailable:
                found["refused"] += 1
    return found


def read_flipped(path: Path, right: dict[str, object], files: Iterable[bytes]) -> Counter[str]:
    """Read each of these damaged files. Fail if one read is wrong."""
    found = Counter[str]()
    for content in files:
        for each in path.parent.glob("svc.db*"):
            if each.is_file():
                each.unlink()
        path.write_bytes(content)
        found += read_all(path, right)
    assert not [name for name in found if name.startswith("wrong")]
    return found


def bits_of_pages(content: bytes, number: int) -> Iterator[int]:
    """Yield so many bits of each page: of the header, of both trees, and of free pages."""
    chance = random.Random(SEED)
    for page in range(0, len(content) - PAGE + 1, PAGE):
        yield from (bit + page * 8 for bit in chance.sample(range(PAGE * 8), number))


@pytest.mark.parametrize("number", [6, pytest.param(60, marks=pytest.mark.slow)])
def test_a_flipped_bit_on_any_page_is_never_read(
    path: Path, image: bytes, right: dict[str, object], number: int
) -> None:
    """S6, F2820a: With one flipped bit on any page, each call of the store is right or refused."""
    found = read_flipped(path, right, (flip(image, bit) for bit in bits_of_pages(image, number)))
    assert found["right"]
    assert found["refused"]


def bits_of(content: bytes, words: bytes) -> Iterator[int]:
    """Yield the bits of each place of these words."""
    start = content.find(words)
    while start >= 0:
        yield from range(start * 8, (start + len(words)) * 8)
        start = content.find(words, start + 1)


def test_a_flipped_bit_of_a_definition_is_refused(
    path: Path, image: bytes, right: dict[str, object]
) -> None:
    """S6, F2820b: A table whose definition has a flipped bit is never read.

    If a column of keys were numeric, SQLite would find no number in either tree.
    """
    bits = bits_of(image, b"sk TEXT NOT NULL, item TEXT")
    assert set(read_flipped(path, right, (flip(image, bit) for bit in bits))) == {"not opened"}


@pytest.mark.slow
def test_each_flipped_bit_of_the_header_is_never_read(
    path: Path, image: bytes, right: dict[str, object]
) -> None:
    """F2820: The same for each bit of the header, and for a tenth of the definitions' bits."""
    definitions = [bit for bit in range(100 * 8, PAGE * 8) if image[bit // 8]]
    bits = [*range(100 * 8), *random.Random(SEED).sample(definitions, len(definitions) // 10)]
    assert read_flipped(path, right, (flip(image, bit) for bit in bits))["not opened"]


@pytest.mark.parametrize("number", [6, pytest.param(60, marks=pytest.mark.slow)])
def test_a_flipped_bit_in_the_log_of_a_running_server_is_never_read(
    path: Path, number: int
) -> None:
    """S6, F2820c: Nor is a flipped bit of a page that is only in SQLite's log yet.

    A process that has the file open keeps the log's index, so its frames are not verified again.
    """
    with ExitStack() as stack:
        writer = stack.enter_context(closing(SqliteStore(str(path))))
        writer.write(*(Put(each, {"n": 1}, Expect.ABSENT) for each in (*STANDINGS, *ENTRIES)))
        right = {name: read(writer) for name, read in READS.items()}
        log = path.with_name("svc.db-wal")
        content = log.read_bytes()
        found = Counter[str]()
        for bit in bits_of_pages(content[32:], number):
            with log.open("r+b") as file:
                file.write(flip(content, bit + 32 * 8))
            found += read_all(path, right)
            with log.open("r+b") as file:
                file.write(content)
    assert not [name for name in found if name.startswith("wrong")]
    assert found["right"]


# --- one damage each ---


def test_a_sort_key_that_is_no_text_is_refused(path: Path, image: bytes) -> None:
    """S6, F2820d: A page with a sort key that became bytes is refused, as any other fault is."""
    # The record's header has six bytes; the third is the type of `sk`, which is odd for text.
    type_ = image.index(b"t1#revoked#00svc_wrt_001{}") - 6 + 2
    assert image[type_] == 13 + 2 * len("svc_wrt_001")
    path.write_bytes(flip(image, type_ * 8))
    with closing(SqliteStore(str(path))) as store:
        for name in ("query", "column", "revocations"):
            with pytest.raises(Unavailable):
                READS[name](store)


def number_at(content: bytes, at: int, size: int = 2) -> int:
    return int.from_bytes(content[at : at + size], "big")


def test_a_page_that_is_read_twice_is_corrupt(path: Path) -> None:
    """S6, F2820e: A copy of all items refuses a tree that leads twice to one page, not to another.

    Both pages have as many items, so no number of items differs.
    """
    with closing(SqliteStore(str(path))) as store:
        for number in range(200):
            store.write(Put(REVOKED.address(f"svc_wrt_{number:03}"), {"n": "x"}, Expect.ABSENT))
    image = path.read_bytes()
    with closing(sqlite3.connect(path)) as connection:
        ((root,),) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'revocations'"
        )
    start = (root - 1) * PAGE
    cells = [
        start + number_at(image, start + 12 + n * 2) for n in range(number_at(image, start + 3))
    ]
    sizes = [number_at(image, (number_at(image, cell, 4) - 1) * PAGE + 3) for cell in cells]
    first, second = next(
        (cells[a], cells[b])
        for a, b in itertools.combinations(range(len(cells)), 2)
        if sizes[a] == sizes[b]
    )
    content = bytearray(image)
    content[second : second + 4] = content[first : first + 4]
    path.write_bytes(content)
    with closing(SqliteStore(str(path))) as store, pytest.raises(DataCorrupt):
        READS["revocations"](store)


def test_columns_hide_no_item(path: Path, image: bytes, right: dict[str, object]) -> None:
    """S6, F2820f: Whether an item is alive is read from the item, which has a checksum."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE keys SET expires = 1")
    with closing(SqliteStore(str(path))) as store:
        for name in ("query alive", "count alive"):
            assert READS[name](store) == right[name]


def test_text_that_is_no_text_is_a_problem(path: Path, image: bytes) -> None:
    """F2820g: The doctor's check reports an item whose bytes became no UTF-8, and goes on."""
    path.write_bytes(flip(image, image.index(b'"revoked_at"') * 8 + 15))
    with closing(SqliteStore(str(path))) as store:
        assert list(store.problems()) == ["1 items do not match their checksum"]
        with pytest.raises(Unavailable):
            READS["get_many"](store)
