"""Seals under a key file: the file's own rules, and every byte of a seal."""

import os
import stat
from pathlib import Path

import pytest

from shared.adapters.local.file_sealer import FileSealer
from shared.errors import DataCorrupt, InvalidSettings

CONTEXT = {"tenant": "t1", "key": "svc_key_1"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "master.key"


def test_a_key_file_is_random_and_its_owners_alone(path: Path, tmp_path: Path) -> None:
    """F17: a new key is 32 bytes of its own that nobody else can read, with nothing beside it."""
    for place in (path, tmp_path / "another.key"):
        FileSealer.create(place)
        assert stat.S_IMODE(place.stat().st_mode) == 0o600
        assert len(place.read_bytes()) == 32
    assert path.read_bytes() != (tmp_path / "another.key").read_bytes()
    assert [each.name for each in path.parent.iterdir()] == ["master.key"]


def test_a_seal_outlives_the_process(path: Path) -> None:
    """What was sealed with a key file opens with the same file later."""
    sealed = FileSealer.create(path).seal(b"secret", context=CONTEXT)
    assert FileSealer(path).unseal(sealed, context=CONTEXT) == b"secret"


def test_a_seal_of_another_key_is_corrupt(path: Path, tmp_path: Path) -> None:
    """F10: a seal made with another key file does not open."""
    sealed = FileSealer.create(tmp_path / "another.key").seal(b"secret", context=CONTEXT)
    with pytest.raises(DataCorrupt):
        FileSealer.create(path).unseal(sealed, context=CONTEXT)


def test_every_byte_of_a_seal_counts(path: Path) -> None:
    """F10: a change of any one byte, and every shorter seal, is `DataCorrupt`."""
    keys = FileSealer.create(path)
    sealed = keys.seal(b"secret", context=CONTEXT)
    for place in range(len(sealed)):
        flipped = bytearray(sealed)
        flipped[place] ^= 0x80
        for altered in (bytes(flipped), sealed[:place]):
            with pytest.raises(DataCorrupt):
                keys.unseal(altered, context=CONTEXT)


def test_contexts_that_look_alike_differ(path: Path) -> None:
    """F12: names and values cannot run into one another."""
    keys = FileSealer.create(path)
    sealed = keys.seal(b"secret", context={"ab": "c", "d": ""})
    for other in ({"a": "bc", "d": ""}, {"abc": "", "d": ""}, {"ab": "cd"}, {"ab": "c"}):
        with pytest.raises(DataCorrupt):
            keys.unseal(sealed, context=other)


def test_a_key_is_not_shown(path: Path) -> None:
    """F17: neither the wrapper nor a refusal shows the key."""
    keys = FileSealer.create(path)
    key = path.read_bytes()
    shown = f"{keys!r} {keys} {vars(keys)!r}"
    assert repr(key) not in shown
    assert key.hex() not in shown
    path.write_bytes(key + b"!")
    with pytest.raises(InvalidSettings) as caught:
        FileSealer(path)
    assert repr(key)[2:12] not in str(caught.value)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o610, 0o700, 0o644])
def test_a_key_open_to_others_is_refused(path: Path, mode: int) -> None:
    """F17, S3: A key file that others can read is not used."""
    FileSealer.create(path)
    path.chmod(mode)
    with pytest.raises(InvalidSettings, match="chmod 600"):
        FileSealer(path)
    path.chmod(0o400)
    FileSealer(path)


@pytest.mark.parametrize("size", [0, 16, 31, 33, 4096])
def test_a_file_that_is_no_key_is_refused(path: Path, size: int) -> None:
    """Too few or too many bytes are a mix-up, not a key."""
    FileSealer.create(path)
    path.write_bytes(os.urandom(size))
    with pytest.raises(InvalidSettings, match="32 bytes"):
        FileSealer(path)


def test_a_place_that_takes_no_file_is_refused(tmp_path: Path) -> None:
    """Where no file can be made, the message says why."""
    (tmp_path / "a file").touch()
    with pytest.raises(InvalidSettings, match="cannot be created"):
        FileSealer.create(tmp_path / "a file" / "data" / "master.key")
