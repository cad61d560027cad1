"""Blobs as files: crashes, races, addresses and clearing up."""

import errno
import hashlib
import os
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from shutil import rmtree
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from shared.adapters.local import files
from shared.adapters.local.filesystem import FileBlobs
from shared.errors import BlobExists, DataCorrupt, OutOfSpace, Unavailable
from tests.kit.disks import KIB, disk

NAME = "srl/t1/1.json"


class Power(BaseException):
    """The machine stops here."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "blobs"


@pytest.fixture
def blobs(root: Path) -> FileBlobs:
    return FileBlobs(root)


def read(file: Path | None) -> bytes | None:
    return None if file is None else file.read_bytes()


def left_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


# --- crashes and races ---


@pytest.mark.parametrize("step", ["fsync", "link"])
def test_a_put_cut_off_is_never_visible(
    root: Path, blobs: FileBlobs, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """F01: a put that dies before it is whole leaves no blob, and the name can be used again."""

    def stop(*_: object, **__: object) -> None:
        raise Power

    with monkeypatch.context() as broken:
        broken.setattr(os, step, stop)
        broken.setattr(Path, "unlink", stop)  # a crash tidies nothing up
        with pytest.raises(Power):
            blobs.put(NAME, b"data")
    assert blobs.get(NAME) is None
    assert len(left_in(root)) == 1
    blobs.put(NAME, b"data")
    assert blobs.get(NAME) == b"data"


def test_a_put_goes_on_after_a_short_write(
    blobs: FileBlobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F01: a put is whole even if the system takes a part of the data at a time."""
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:3]))
    blobs.put(NAME, b"0123456789")
    assert blobs.get(NAME) == b"0123456789"


def test_a_put_is_on_the_disk_before_it_returns(
    root: Path, blobs: FileBlobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F02: data, then name, then every new folder is synced, also where the name was taken.

    A folder that this process has synced with those above it is synced alone.
    """
    done: list[str] = []
    fsync, link = os.fsync, os.link

    def note_sync(descriptor: int) -> None:
        name = Path(f"/proc/self/fd/{descriptor}").readlink().relative_to(root.resolve())
        done.append("data" if name.parts[:1] == (".tmp",) else f"folder {name}")
        fsync(descriptor)

    def note_link(*paths: Path) -> None:
        done.append("name")
        link(*paths)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(os, "link", note_link)
    blobs.put(NAME, b"data")
    whole = ["data", "name", "folder srl/t1", "folder srl", "folder ."]
    assert done == whole
    for again, synced in ((blobs, whole[:3]), (FileBlobs(root), whole)):
        done.clear()
        with pytest.raises(BlobExists):
            again.put(NAME, b"data")
        assert done == synced
    rmtree(root / "srl")
    done.clear()
    blobs.put(NAME, b"data")
    assert done == whole


def test_of_many_puts_at_once_one_wins(root: Path) -> None:
    """F03: of writers at one name one wins, and its bytes are the blob's."""

    def put(number: int) -> int | None:
        try:
            FileBlobs(root).put(NAME, bytes([number]) * 1000)
        except BlobExists:
            return None
        return number

    with ThreadPoolExecutor(8) as pool:
        (winner,) = [number for number in pool.map(put, range(16)) if number is not None]
    assert FileBlobs(root).get(NAME) == bytes([winner]) * 1000


def test_a_blob_is_the_owners_alone(root: Path, blobs: FileBlobs) -> None:
    """F17: other users of the machine can read neither blobs nor the key of addresses."""
    blobs.put(NAME, b"data")
    blobs.url(NAME, ttl_seconds=1)
    files_ = [root / name for name in left_in(root)]
    assert len(files_) == 2
    assert {stat.S_IMODE(path.stat().st_mode) for path in files_} == {0o600}


# --- outages ---


def test_a_folder_that_is_gone_is_unavailable(root: Path, blobs: FileBlobs) -> None:
    """F26: a disk that is not there says nothing about its blobs."""
    (root / ".tmp").rmdir()
    calls: list[Callable[[], object]] = [
        lambda: blobs.get(NAME),
        lambda: blobs.put(NAME, b"data"),
        lambda: blobs.url(NAME, ttl_seconds=1),
    ]
    for call in calls:
        with pytest.raises(Unavailable) as caught:
            call()
        assert str(root) not in str(caught.value)


def test_what_is_no_blob_is_unavailable(root: Path, blobs: FileBlobs) -> None:
    """F26: only a missing file is an absent blob; anything else that fails is an outage."""
    blobs.put("a/b", b"data")
    with pytest.raises(Unavailable):
        blobs.get("a")
    with pytest.raises(Unavailable):
        blobs.get("a/b/c")
    with pytest.raises(Unavailable):
        blobs.put("a/b/c", b"data")
    with pytest.raises(Unavailable):
        FileBlobs(root / "a" / "b")


# --- addresses ---


def parts(url: str) -> dict[str, str]:
    split = urlsplit(url)
    query = {name: values[0] for name, values in parse_qs(split.query).items()}
    return {"name": split.path.removeprefix("/blobs/")} | query


def test_an_address_opens_until_it_expires(root: Path) -> None:
    """An address is good for its time and not a second longer."""
    now = [1000.0]
    blobs = FileBlobs(root, clock=lambda: now[0])
    blobs.put(NAME, b"data")
    asked = parts(blobs.url(NAME, ttl_seconds=60))
    for later, answer in ((0, b"data"), (59.9, b"data"), (0.1, None), (1e6, None)):
        now[0] += later
        assert read(blobs.open_url(**asked)) == answer


@pytest.mark.parametrize(
    "altered",
    [
        {"name": "srl/t2/1.json"},
        {"name": "srl/../srl/t1/1.json"},
        {"name": ".url-key"},
        {"name": ""},
        {"expires": "9999999999"},
        {"expires": ""},
        {"expires": "x"},
        {"expires": "\ud800"},
        {"signature": ""},
        {"signature": "0" * 64},
        {"signature": "é" * 32},
        {"signature": "\ud800"},
    ],
    ids=str,
)
def test_an_altered_address_opens_nothing(blobs: FileBlobs, altered: dict[str, str]) -> None:
    """F12, S5: A signed address opens one list for a limited time, and nothing else."""
    blobs.put(NAME, b"data")
    blobs.put("srl/t2/1.json", b"of another")
    asked = parts(blobs.url(NAME, ttl_seconds=60))
    assert read(blobs.open_url(**asked)) == b"data"
    assert blobs.open_url(**(asked | altered)) is None


def test_every_character_of_a_signature_counts(blobs: FileBlobs) -> None:
    """F92a: A signed address with any character of its signature changed opens nothing."""
    blobs.put(NAME, b"data")
    asked = parts(blobs.url(NAME, ttl_seconds=60))
    signature = asked["signature"]
    for place, character in enumerate(signature):
        other = "0" if character != "0" else "1"
        forged = f"{signature[:place]}{other}{signature[place + 1 :]}"
        assert blobs.open_url(**(asked | {"signature": forged})) is None, place


def test_losing_the_race_for_the_key_is_no_fault(
    root: Path, blobs: FileBlobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that finds the key made in the meantime uses that one."""
    create = files.create

    def lose(path: Path, data: bytes, **options: Any) -> None:
        create(path, b"k" * 32, **options)
        create(path, data, **options)

    with monkeypatch.context() as race:
        race.setattr(files, "create", lose)
        url = blobs.url(NAME, ttl_seconds=60)
    assert (root / ".url-key").read_bytes() == b"k" * 32
    blobs.put(NAME, b"data")
    assert read(blobs.open_url(**parts(url))) == b"data"


def test_a_short_key_signs_nothing(root: Path, blobs: FileBlobs) -> None:
    """An emptied key file does not make addresses that anyone could forge."""
    (root / ".url-key").write_bytes(b"")
    with pytest.raises(DataCorrupt):
        blobs.url(NAME, ttl_seconds=60)


# --- clearing up ---


def test_what_crashed_writers_left_is_removed(root: Path) -> None:
    """Old parts of blobs go; young ones, blobs and the key of addresses stay."""
    now = [0.0]
    blobs = FileBlobs(root, clock=lambda: now[0])
    blobs.put("srl/list", b"data")
    blobs.url("srl/list", ttl_seconds=1)
    (root / ".tmp" / "left").write_bytes(b"da")
    for name in left_in(root):
        os.utime(root / name, (1000, 1000))
    for at, removed in ((1100, 0), (1101, 1), (1101, 0), (9100, 0)):
        now[0] = at
        assert blobs.remove_leftovers(older_than_seconds=100) == removed
    assert left_in(root) == [".url-key", "srl/list"]


def test_a_folder_that_cannot_be_read_is_unavailable(
    blobs: FileBlobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F23: names that could not be read are never taken for names that are not there."""
    blobs.put(NAME, b"")

    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(Unavailable):
        list(blobs.names("srl"))


def test_names_of_a_store_that_went_away(root: Path, blobs: FileBlobs) -> None:
    """Where the whole folder is gone, nothing is known of what was in it."""
    root.rename(root.with_name("elsewhere"))
    with pytest.raises(Unavailable):
        list(blobs.names("srl"))


# --- space ---


def test_old_blobs_are_discarded_by_their_age(root: Path) -> None:
    """F119: of the blobs before a bound, those go that were stored longer ago than is said."""
    now = 1_000.0
    blobs = FileBlobs(root, clock=lambda: now)
    for number in range(1, 5):
        blobs.put(f"a/{number}", b"")
        now += 100
    blobs.discard("a", before="4", older_than_seconds=250)
    assert list(blobs.names("a")) == ["a/3", "a/4"]
    blobs.discard("a", before="4", older_than_seconds=200)
    assert list(blobs.names("a")) == ["a/3", "a/4"]
    blobs.put("a/0", b"")
    blobs.discard("a", before="4", older_than_seconds=200, any_age_before="1", start="1")
    assert list(blobs.names("a")) == ["a/0", "a/3", "a/4"]
    blobs.discard("a", before="4", older_than_seconds=200, any_age_before="1")
    assert list(blobs.names("a")) == ["a/3", "a/4"]
    blobs.discard("a", before="4")
    assert list(blobs.names("a")) == ["a/4"]


def test_a_part_of_the_disk_is_spared(blobs: FileBlobs, monkeypatch: pytest.MonkeyPatch) -> None:
    """F120a: Lists leave an eighth of a small disk to the records."""
    with disk(monkeypatch, free=80 * KIB - 1, size=640 * KIB), pytest.raises(OutOfSpace):
        blobs.put(NAME, b"")
    with disk(monkeypatch, free=80 * KIB, size=640 * KIB):
        blobs.put(NAME, b"")
        with pytest.raises(OutOfSpace):
            blobs.put("srl/t1/2.json", b"x")
    assert list(blobs.names("srl")) == [NAME]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_distinguished_from_a_failing_one(
    blobs: FileBlobs, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """F120: a write for which there is no room is `OutOfSpace`, and leaves nothing."""

    def full(_descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", full)
        with pytest.raises(OutOfSpace):
            blobs.put(NAME, b"data")
    assert blobs.get(NAME) is None


# --- files that are streamed ---


def test_a_file_is_checked_when_it_has_changed(root: Path, blobs: FileBlobs) -> None:
    """F122: what is streamed is what was stored, unless a file hides that it has changed."""
    blobs.put(NAME, b"data")
    sha256 = hashlib.sha256(b"data").hexdigest()
    assert blobs.get_file(NAME, sha256=sha256).read_bytes() == b"data"
    assert blobs.get_file(NAME, sha256=sha256) == root / NAME
    (root / NAME).write_bytes(b"date")
    with pytest.raises(DataCorrupt):
        blobs.get_file(NAME, sha256=sha256)
    with pytest.raises(DataCorrupt):
        blobs.get_file("srl/t1/2.json", sha256=sha256)
