"""What a client keeps across restarts."""

import hashlib
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from shared.authorizer.policy import PollPolicy
from shared.authorizer.saved_state import (
    FileStateStore,
    MemoryStateStore,
    SavedState,
    SavedStateCorrupt,
)
from tests.authorizer.feeds import HOUR, NOW, public, signer
from tests.authorizer.roots import first, pinned
from tests.kit.processes import ROOT, environment

BASE = b"the payload of a list"
SHA256 = hashlib.sha256(BASE).digest()
TRUST = pinned(held=first(5))
SAVED = SavedState(TRUST, 7, b"c" * 32, NOW, 1.5, public(signer()), SHA256, b"origin", b"latest")


@pytest.fixture
def store(tmp_path: Path) -> FileStateStore:
    made = FileStateStore(tmp_path / "state")
    made.save_base(BASE)
    made.save(SAVED)
    return made


def test_what_is_saved_is_loaded(store: FileStateStore, tmp_path: Path) -> None:
    """F182e: A saved state survives the process, in files that only its user can read."""
    folder = tmp_path / "state"
    assert FileStateStore(folder).load() == SAVED
    assert FileStateStore(folder).load_base(SHA256) == BASE
    modes = {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert (stat.S_IMODE(folder.stat().st_mode), modes) == (0o700, {0o600})
    bare = replace(SAVED, sequence=8, signer=None, base=None, origin=None, latest=None)
    store.save(bare)
    assert store.load() == bare
    # Nothing names the base any more, and nothing else is left over.
    assert [path.name for path in folder.iterdir()] == ["floor.json"]
    assert FileStateStore(tmp_path / "elsewhere").load() is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:0],
        lambda data: data[:-1],
        lambda data: data.replace(b'"sequence": 7', b'"sequence": 6'),
        lambda data: b"\xff" + data[1:],
        lambda data: _hashed(data.replace(b'"format": 1', b'"format": 2')),
        lambda data: _hashed(data.replace(b'"sequence"', b'"number"')),
        lambda data: _hashed(data.replace(b'"trust"', b'"other"')),
        lambda data: _hashed(data.replace(rb"{\"documents\": [", rb"{\"number\": [")),
        lambda data: _hashed(data[:0] + b"\n[]"),
    ],
)
def test_a_damaged_saved_state_is_an_error(
    store: FileStateStore, tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    """F182f: A damaged saved state is an error that names the way out; nobody begins without it."""
    path = tmp_path / "state" / "floor.json"
    path.write_bytes(damage(path.read_bytes()))
    for use in (FileStateStore(tmp_path / "state").load, lambda: store.save(SAVED)):
        with pytest.raises(SavedStateCorrupt, match="remove the folder"):
            use()
    path.unlink()
    assert store.load() is None


def _hashed(data: bytes) -> bytes:
    rest = data.partition(b"\n")[2]
    return hashlib.sha256(rest).hexdigest().encode() + b"\n" + rest


def test_a_saved_state_that_others_can_write_is_an_error(
    store: FileStateStore, tmp_path: Path
) -> None:
    """F182: A saved state is an error that other users could have changed."""
    (tmp_path / "state" / "floor.json").chmod(0o620)
    with pytest.raises(SavedStateCorrupt, match="others can write"):
        store.load()


def test_a_lost_base_is_no_damage(store: FileStateStore, tmp_path: Path) -> None:
    """A base can be fetched again; the position, which cannot, stays."""
    (path,) = (tmp_path / "state").glob("base-*")
    path.write_bytes(BASE[:-1])
    assert store.load_base(SHA256) is None
    path.unlink()
    assert store.load_base(SHA256) is None
    assert store.load() == SAVED


def test_a_failed_write_changes_nothing(
    store: FileStateStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F182g: A full disk leaves the saved state as it was, and no other file beside it."""

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    before = sorted((tmp_path / "state").iterdir())
    with pytest.raises(OSError, match="No space"):
        store.save(replace(SAVED, sequence=8))
    assert store.load() == SAVED
    assert sorted((tmp_path / "state").iterdir()) == before


_KILLED = """
import os, signal, sys
from pathlib import Path
from shared.authorizer.reporter import of_folder
os.fsync = lambda _descriptor: os.kill(os.getpid(), signal.SIGKILL)
of_folder(Path(sys.argv[1]))
"""


def test_the_next_save_removes_what_a_killed_process_left(
    store: FileStateStore, tmp_path: Path
) -> None:
    """F1912a: A private key that a killed process had not named yet does not stay in the folder."""
    folder = tmp_path / "state"
    killed = subprocess.run(
        [sys.executable, "-c", _KILLED, str(folder)], cwd=ROOT, env=environment(), check=False
    )
    assert killed.returncode == -signal.SIGKILL
    (left,) = folder.glob(".new-*")
    assert b"PRIVATE KEY" in left.read_bytes()
    store.save(replace(SAVED, sequence=8))
    assert not left.exists()
    assert store.load() == replace(SAVED, sequence=8)


def test_the_newest_of_several_processes_stays(store: FileStateStore, tmp_path: Path) -> None:
    """F182h: If processes share a folder, one that is behind replaces nothing."""
    other = FileStateStore(tmp_path / "state")
    other.save(replace(SAVED, sequence=9))
    store.save(replace(SAVED, sequence=8))
    assert store.load() == replace(SAVED, sequence=9)
    later = replace(SAVED, sequence=9, issued_at=NOW + HOUR)
    store.save(later)
    other.save(replace(SAVED, sequence=9))
    assert store.load() == later


_SAVER = """
import sys
from dataclasses import replace
from shared.authorizer.saved_state import FileStateStore
store = FileStateStore(sys.argv[1])
saved = store.load()
for sequence in range(int(sys.argv[2]), 60, 2):
    store.save(replace(saved, sequence=sequence))
"""


def test_processes_save_at_once(store: FileStateStore, tmp_path: Path) -> None:
    """F182: Of processes that save at once, the newest saved state stays, and it is whole."""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", _SAVER, str(tmp_path / "state"), str(first)],
            cwd=ROOT,
            env=environment(),
        )
        for first in (10, 11)
    ]
    assert [process.wait(timeout=120) for process in started] == [0, 0]
    loaded = store.load()
    assert loaded is not None
    assert loaded.sequence == 59


def test_memory_keeps_what_an_object_saved() -> None:
    store = MemoryStateStore()
    assert store.load() is None
    assert store.load_base(SHA256) is None
    store.save_base(BASE)
    store.save(SAVED)
    assert store.load() == SAVED
    assert store.load_base(SHA256) == BASE
    assert store.load_base(b"") is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_staleness": 0},
        {"max_staleness": float("nan")},
        {"max_staleness": float("inf")},
        {"poll_seconds": -1},
        {"poll_seconds": True},
        {"wait_seconds": -1},
        {"wait_seconds": "25"},
        {"fail_open": "false"},
        {"allow_http": 1},
    ],
)
def test_a_policy_without_meaning_is_an_error(wrong: dict[str, float]) -> None:
    """F181e: A policy does not take a value that would switch a protection off by accident."""
    with pytest.raises(ValueError, match=next(iter(wrong))):
        PollPolicy(**wrong)  # type: ignore[arg-type]


def test_a_service_cannot_make_a_client_stale() -> None:
    """A pause and a wait that the service asks for leave time for the next answer."""
    policy = PollPolicy(max_staleness=30, poll_seconds=2, wait_seconds=25)
    assert [policy.pause(asked) for asked in (0, 1, 5, 60)] == [2, 2, 5, 15]
    assert [policy.wait(granted) for granted in (0, 5, 25)] == [0, 5, 10]
    assert PollPolicy(wait_seconds=0).wait(25) == 0
