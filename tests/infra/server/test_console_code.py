"""One-time codes for the console, as a folder keeps them."""

import stat
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from infra.server import console_code
from shared.errors import InvalidSettings

_ADDRESS = "http://127.0.0.1:8080"


def _code(folder: Path, tenant: str = "local") -> str:
    return console_code.link(folder, tenant).removeprefix(f"{_ADDRESS}/#code=")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    console_code.announce(tmp_path, _ADDRESS)
    return tmp_path


def test_a_code_is_random_and_only_its_hash_is_kept(folder: Path) -> None:
    """F450b: A code has 256 random bits; its owner's file has no more than its hash."""
    codes = {_code(folder) for _ in range(8)}
    assert len(codes) == 8
    assert {len(code) for code in codes} == {43}
    kept = folder / console_code.FILE
    assert not any(code in kept.read_text() for code in codes)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert [each.name for each in folder.iterdir()] == [console_code.FILE]


def test_a_code_is_for_its_tenant_and_is_accepted_once(folder: Path) -> None:
    code = _code(folder, "acme")
    assert console_code.spend(folder, code) == "acme"
    assert console_code.spend(folder, code) is None


def test_a_new_link_or_a_restart_ends_the_code_before(folder: Path) -> None:
    """F450c: Only the newest code can be used, and none of an earlier run."""
    old, new = _code(folder), _code(folder)
    assert console_code.spend(folder, old) is None
    assert console_code.spend(folder, new) == "local"
    old = _code(folder)
    console_code.announce(folder, _ADDRESS)
    assert console_code.spend(folder, old) is None


@pytest.mark.parametrize(("seconds", "accepted"), [(299, True), (300, False), (-1, False)])
def test_a_code_is_accepted_for_five_minutes(
    folder: Path, monkeypatch: pytest.MonkeyPatch, seconds: int, accepted: bool
) -> None:
    """F450d: A code ends after five minutes, also if the clock is set back."""
    code = _code(folder)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + seconds)
    assert (console_code.spend(folder, code) == "local") is accepted
    monkeypatch.undo()
    # It was ended, whatever the clock says later.
    assert console_code.spend(folder, code) is None


@pytest.mark.parametrize(("wrong", "accepted"), [(4, True), (5, False)])
def test_five_wrong_tries_end_the_code(folder: Path, wrong: int, accepted: bool) -> None:
    """F450f: After five wrong tries the right code is not accepted any more."""
    code = _code(folder)
    for number in range(wrong):
        assert console_code.spend(folder, f"{number}") is None
    assert (console_code.spend(folder, code) == "local") is accepted


def test_of_many_at_once_one_is_accepted(folder: Path) -> None:
    """F450g: Of several that use a code at the same moment, one is accepted."""
    for _ in range(5):
        code, together = _code(folder), threading.Barrier(4)

        def use(code: str = code, together: threading.Barrier = together) -> str | None:
            together.wait()
            return console_code.spend(folder, code)

        with ThreadPoolExecutor(4) as pool:
            used = [each.result() for each in [pool.submit(use) for _ in range(4)]]
        assert used.count("local") == 1


@pytest.mark.parametrize("content", [None, b"", b"{", b"[]", b'{"address": 1, "x": 2}'])
def test_a_damaged_file_takes_no_code(tmp_path: Path, content: bytes | None) -> None:
    """F450h: Without the file, or with a damaged one, no code is accepted and none is made."""
    if content is not None:
        (tmp_path / console_code.FILE).write_bytes(content)
    assert console_code.spend(tmp_path, "") is None
    with pytest.raises(InvalidSettings):
        console_code.link(tmp_path, "local")
