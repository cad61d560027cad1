"""`.ci/run`: what it prints when a check fails can be read to its end."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import ROOT

_PASS_AND_FAIL = """
import pytest


@pytest.mark.parametrize("number", range(300))
def test_passing(number):
    pass


def test_broken():
    assert "what was found" == "what was expected"
"""


@pytest.mark.slow
def test_a_failure_is_the_last_thing_printed(tmp_path: Path) -> None:
    """F154a: The end of what failed is the last thing that `.ci/run` prints."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/run", tmp_path / ".ci/run")
    (tmp_path / "test_both.py").write_text(_PASS_AND_FAIL)
    pytest_here = f"{sys.executable} -m pytest -p no:cacheprovider --rootdir ."
    (tmp_path / "Makefile").write_text(f"test:\n\t@{pytest_here} test_both.py\n")
    ran = subprocess.run(
        [tmp_path / ".ci/run"],
        env=os.environ | {"CI": "true"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert ran.returncode
    assert len(ran.stdout) < 1500
    name, closing = ran.stdout.splitlines()[-2:]
    assert "what was expected" in ran.stdout
    assert name.startswith("FAILED test_both.py::test_broken")
    assert closing.startswith("1 failed, 300 passed")
