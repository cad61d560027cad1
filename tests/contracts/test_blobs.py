"""What every blob store promises (`shared.ports.blobs.BlobStore`)."""

import gzip
import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from shared.errors import BlobExists
from shared.ports.blobs import BlobStore

NAME = "srl/t1/0000000001-9f86d081.cbor"


@pytest.mark.slow_on("postgresql-0")
@pytest.mark.parametrize("data", [b"", b"\x00\xff\r\n", b"x" * 1_000_000], ids=len)
def test_a_blob_comes_back_whole(blobs: BlobStore, data: bytes) -> None:
    """What was put is read back byte for byte."""
    blobs.put(NAME, data)
    assert blobs.get(NAME) == data


def test_a_blob_that_was_never_put_is_none(blobs: BlobStore) -> None:
    """Absent is an answer, also beside a blob of a similar name."""
    blobs.put("srl/t1/a.b", b"")
    for name in (NAME, "srl/t1/a", "srl/t1/a.bc", "another"):
        assert blobs.get(name) is None


def test_a_blob_never_changes(blobs: BlobStore) -> None:
    """F03: a second put of a name is refused, whatever it brings, and the first stays."""
    blobs.put(NAME, b"first")
    for data in (b"second", b"first"):
        with pytest.raises(BlobExists):
            blobs.put(NAME, data)
    assert blobs.get(NAME) == b"first"


@pytest.mark.parametrize("name", ["a", "a-b_c.d/0/z", "a..b", "-", "_/-", "srl/" + "a" * 200])
def test_a_name_is_a_relative_path(blobs: BlobStore, name: str) -> None:
    """Every name of the promised form can be put, read and addressed."""
    blobs.put(name, name.encode())
    assert blobs.get(name) == name.encode()
    assert name in blobs.url(name, ttl_seconds=60)


@pytest.mark.parametrize(
    "name",
    [
        *("", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "a/.", ".tmp/a"),
        *("A", "a b", "a\\b", "a\x00", "a\n", "é", "a%2e", "a?b", "~"),
    ],
)
def test_another_name_is_a_value_error(blobs: BlobStore, name: str) -> None:
    """No name reaches outside the store or is read differently by one of its parts."""
    for use in (
        lambda: blobs.put(name, b""),
        lambda: blobs.get(name),
        lambda: blobs.url(name, ttl_seconds=60),
        lambda: [*blobs.names(name)],
    ):
        with pytest.raises(ValueError, match="name"):
            use()


def test_the_names_below_a_folder_come_in_order(blobs: BlobStore) -> None:
    """All below it and nothing beside it, at any depth, in the order of their bytes."""
    below = ["a/b/-", "a/b/0", "a/b/10", "a/b/2.json", "a/b/c-d", "a/b/c/d", "a/b/c_d"]
    for name in [*reversed(below), "a/b.c", "a/bc/d", "a/c", "b/a/b/c", "ab/b"]:
        blobs.put(name, b"")
    assert list(blobs.names("a/b")) == below
    assert list(blobs.names("a/b/c")) == ["a/b/c/d"]


def test_a_folder_without_blobs_has_no_names(blobs: BlobStore) -> None:
    """Absent is an answer: a folder never made, one beside it, and a blob that is no folder."""
    blobs.put("a/b/c", b"")
    for folder in ("b", "a/a", "a/b/c", "a/b/c/d", "a/b/cd"):
        assert list(blobs.names(folder)) == []


@pytest.mark.slow
def test_names_are_not_cut_off_at_a_page(blobs: BlobStore) -> None:
    """More blobs than any engine names in one answer are all named."""
    names = [f"srl/t1/{number:05d}" for number in range(2_100)]
    for name in names:
        blobs.put(name, b"")
    assert list(blobs.names("srl/t1")) == names


def test_an_address_serves_the_blob(
    blobs: BlobStore, follow: Callable[[str], bytes | None]
) -> None:
    """F27: whoever has the address needs nothing else."""
    blobs.put(NAME, b"data")
    assert follow(blobs.url(NAME, ttl_seconds=60)) == b"data"


@pytest.mark.parametrize(
    ("suffix", "type_", "encoding"),
    [
        (".json", "application/json", None),
        (".json.gz", "application/json", "gzip"),
        (".cbor.gz", "application/cbor", "gzip"),
    ],
)
def test_an_address_says_what_it_serves(
    blobs: BlobStore, suffix: str, type_: str, encoding: str | None
) -> None:
    """F123d, F250a: A signed address of S3 serves lists and bases as compressed and private."""
    name = NAME.replace(".cbor", suffix)
    blobs.put(name, gzip.compress(b"{}"))
    url = blobs.url(name, ttl_seconds=60)
    if url.startswith("/"):  # the local server's part: tests/infra/server/test_app.py
        return
    headers = requests.get(url, timeout=60).headers
    assert headers["content-type"] == type_
    assert headers["cache-control"] == "private, no-cache"
    assert headers.get("content-encoding") == encoding


def test_a_file_is_the_blob_or_there_are_none(blobs: BlobStore) -> None:
    """F122: a store either keeps its blobs in files that hold just their bytes, or says so."""
    blobs.put(NAME, b"data")
    file = blobs.get_file(NAME, sha256=hashlib.sha256(b"data").hexdigest())
    assert file is None or file.read_bytes() == b"data"


def test_many_threads_share_a_blob_store(blobs: BlobStore) -> None:
    """Blobs put at once are each complete as soon as their put returns."""

    def put(number: int) -> bool:
        data = bytes([number]) * 10_000
        blobs.put(f"srl/{number % 3}/{number}", data)
        return blobs.get(f"srl/{number % 3}/{number}") == data

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(put, range(24)))


def test_discarding_touches_no_later_blob(blobs: BlobStore) -> None:
    """F89: what sorts before the bound may go; the rest of the folder, and other folders, stay."""
    stay = ("srl/t1/lists/02-a", "srl/t1/lists/03-a", "srl/t2/lists/01-a")
    for name in ("srl/t1/lists/01-a", *stay):
        blobs.put(name, name.encode())
    blobs.discard("srl/t1/lists", before="02")
    blobs.discard("srl/t3/lists", before="02")
    # None of them is that old.
    blobs.discard("srl/t1/lists", before="04", older_than_seconds=3600, any_age_before="02")
    for name in stay:
        assert blobs.get(name) == name.encode()


def test_what_sorts_before_the_start_is_not_discarded(blobs: BlobStore) -> None:
    """F825a: Of a folder, the blobs from a name on may go, and those before it stay."""
    for number in range(5):
        blobs.put(f"journal/t1/{number}", b"")
    blobs.discard("journal/t1", start="3", before="~")
    left = list(blobs.names("journal/t1"))
    assert left[:3] == [f"journal/t1/{number}" for number in range(3)]
    # A store with a rule of its own may keep the rest.
    assert left in (left[:3], [f"journal/t1/{number}" for number in range(5)])


def test_a_removed_blob_is_gone_and_the_others_stay(blobs: BlobStore) -> None:
    """F401b: A blob that the operator removes is not found any more; its neighbours are."""
    for name in (NAME, NAME + "x"):
        blobs.put(name, b"data")
    for _ in range(2):
        blobs.remove(NAME)
        assert blobs.get(NAME) is None
        assert list(blobs.names("srl")) == [NAME + "x"]
    with pytest.raises(ValueError, match="name"):
        blobs.remove("../a")
