"""The suite holds wherever it runs: with anyone's settings, in a read-only tree, and to an end."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit import surroundings
from tests.kit.processes import HOST, ROOT, free_port

_TIMEOUT = 300
_LEADS_ELSEWHERE = (
    *(f"AWS_ENDPOINT_URL{service}" for service in ("", "_DYNAMODB", "_KMS", "_S3", "_SQS")),
    *("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"),
)
# One or more for each way to the network: the SDK's four services, HTTP to a server, a process.
_ON_THE_NETWORK = (
    *("tests/contracts", "tests/adapters/test_stateful_stack.py"),
    *("tests/infra/server/test_server.py", "-k"),
    "s3 and comes_back_whole or kms or sqs and delivered or stateful_stack or another_start",
)
_COPIED = ("docs", "functions", "infra", "pyproject.toml", "shared", "template.yaml", "tests")


def _pytest(
    *arguments: str, folder: Path = ROOT, settings: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-m", "not slow and not long", *arguments],
        cwd=folder,
        env=os.environ | (settings or {}),
        capture_output=True,
        text=True,
        timeout=_TIMEOUT,
        check=False,
    )


@pytest.mark.parametrize(
    ("free", "flags", "used"),
    [(8 * 1024**3, 0, True), (64 * 1024**2, 0, False), (8 * 1024**3, os.ST_NOEXEC, False)],
    ids=["roomy", "small", "without programs"],
)
def test_files_are_in_memory_if_it_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, flags: int, used: bool
) -> None:
    """Temporary folders are not in a memory that is too small, or in which no program runs."""
    answer = os.statvfs_result((1, 1, free, free, free, 0, 0, 0, flags, 255))
    monkeypatch.setattr(os, "statvfs", lambda _: answer)
    # As it is set for this run, so that it is what it was afterwards.
    monkeypatch.setenv("PYTEST_DEBUG_TEMPROOT", "")
    monkeypatch.delenv("PYTEST_DEBUG_TEMPROOT")
    surroundings.keep_files_in_memory(tmp_path)
    assert (os.environ.get("PYTEST_DEBUG_TEMPROOT") == str(tmp_path)) is used


def test_compiled_modules_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of the tests keep compiled modules, even if the user's environment forbids it."""
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    surroundings.keep_compiled_modules()
    assert "PYTHONDONTWRITEBYTECODE" not in os.environ
    assert not sys.dont_write_bytecode


@pytest.mark.slow
def test_nobodys_settings_lead_away_from_this_machine() -> None:
    """F34a: The tests ignore AWS settings and proxies in the environment of the user."""
    nobody = f"http://{HOST}:{free_port()}"
    settings = dict.fromkeys(_LEADS_ELSEWHERE, nobody)
    settings |= {"ALL_PROXY": f"socks5://{HOST}:{free_port()}", "AWS_PROFILE": "not-there"}
    ran = _pytest("-x", "-p", "no:cacheprovider", *_ON_THE_NETWORK, settings=settings)
    assert ran.returncode == 0, ran.stdout


@pytest.mark.slow
def test_a_tree_in_which_nothing_can_be_written(tmp_path: Path) -> None:
    """F34b: The tests pass in a tree in which nothing can be written."""
    for name in _COPIED:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    # Unlike permissions, a file in the place of a folder stops every user.
    for name in (".hypothesis", ".pytest_cache"):
        (tmp_path / name).touch()
    files = ("model/test_strict_json.py", "infra/test_openapi.py", "infra/test_fuzzed_api.py")
    tests = [f"tests/{each}" for each in files]
    ran = _pytest(*tests, folder=tmp_path, settings={"HYPOTHESIS_STORAGE_DIRECTORY": ""})
    assert ran.returncode == 0, ran.stdout


@pytest.mark.slow
def test_no_test_hangs_for_ever(tmp_path: Path) -> None:
    """F34c: A test that waits for ever fails after its time limit."""
    (tmp_path / "test_waiting.py").write_text(
        "import threading\n\n\ndef test_waiting():\n    threading.Event().wait()\n\n\n"
        "def test_next():\n    pass\n"
    )
    settings = ("-c", str(ROOT / "pyproject.toml"), "-p", "no:cacheprovider")
    ran = _pytest(*settings, "-o", "timeout=1", str(tmp_path))
    assert "1 failed, 1 passed" in ran.stdout


def test_every_test_has_a_time_limit(pytestconfig: pytest.Config) -> None:
    """F34d: Every test has a time limit."""
    assert 0 < float(pytestconfig.getini("timeout")) <= _TIMEOUT
