"""`.ci/run`: on which Pythons the checks run, and what it prints when one fails."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.kit.glewlwyd import has_glewlwyd
from tests.kit.hsm import has_softhsm
from tests.kit.pgbouncer import PROGRAM as PGBOUNCER
from tests.kit.postgresql import of_debian
from tests.kit.processes import ROOT

# It installs nothing, and keeps with what it was called.
_APT = '#!/bin/sh\necho "$@" >>"$0.called"\n'
_PASS_AND_FAIL = """
import pytest


@pytest.mark.parametrize("number", range(300))
def test_passing(number):
    pass


def test_broken():
    assert "what was found" == "what was expected"
"""


# What `.ci/run` calls, saying only with what it was called.
_MOD_AUTH_OPENIDC = Path("/usr/lib/apache2/modules/mod_auth_openidc.so")
_GOALS: Final = "test test-coverage test-only test-slow:\n\t@echo '$@ on $(PYTHON) in $(VENV)'\n"


def _run(folder: Path, makefile: str, **settings: str) -> tuple[int, str]:
    """Run a copy of `.ci/run` beside this Makefile; return its exit code, and what it printed."""
    (folder / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/run", folder / ".ci/run")
    (folder / "Makefile").write_text(makefile)
    (folder / "apt-get").write_text(_APT)
    (folder / "apt-get").chmod(0o755)
    ran = subprocess.run(
        [folder / ".ci/run"],
        env=os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"} | settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return ran.returncode, ran.stdout


@pytest.mark.slow
def test_each_python_runs_the_tests_once(tmp_path: Path) -> None:
    """Of each version one patch release runs all fast tests; one every check, one the coverage."""
    # Nothing is to be installed: any program stands for the browser.
    code, printed = _run(tmp_path, _GOALS, CHROMIUM="sh")
    assert code == 0, printed
    *runs, slow = re.findall(r"^(test\S*) on (\S*) in (\S*)$", printed, re.MULTILINE)
    assert slow[0] == "test-slow"
    wanted = ["test", "test-coverage", *["test-only"] * (len(runs) - 2)]
    assert [goal for goal, *_ in runs] == wanted
    minors = [re.sub(r"\.\d+$", "", environment) for _, _, environment in runs]
    # On a machine with one Python alone, that one does both.
    assert len(set(minors)) == len(minors) or len(runs) == 2


@pytest.mark.slow
@pytest.mark.skipif(os.getuid() != 0, reason="only root installs programs")
def test_what_is_missing_is_installed_at_once(tmp_path: Path) -> None:
    """The programs that the slow tests need and the machine lacks are installed in one go."""
    wanted = [
        "chromium",
        *([] if of_debian() else ["postgresql"]),
        *([] if PGBOUNCER.exists() else ["pgbouncer"]),
        *([] if has_softhsm() else ["softhsm2"]),
        *([] if shutil.which("promtool") else ["prometheus"]),
        *([] if Path("/usr/sbin/nginx").exists() else ["nginx"]),
        *([] if _MOD_AUTH_OPENIDC.exists() else ["apache2", "libapache2-mod-auth-openidc"]),
        *([] if has_glewlwyd() else ["?exact-name(glewlwyd)", "dbconfig-no-thanks"]),
    ]
    code, printed = _run(tmp_path, _GOALS, CHROMIUM="no-such-browser")
    assert code == 0, printed
    update, install = (tmp_path / "apt-get.called").read_text().splitlines()
    assert update.endswith("update")
    assert install.endswith(f"install --no-install-recommends {' '.join(wanted)}")


@pytest.mark.slow
def test_a_failure_is_the_last_thing_printed(tmp_path: Path) -> None:
    """F154a: The end of what failed is the last thing that `.ci/run` prints."""
    (tmp_path / "test_both.py").write_text(_PASS_AND_FAIL)
    pytest_here = f"{sys.executable} -m pytest -p no:cacheprovider --rootdir ."
    code, printed = _run(
        tmp_path, f"test:\n\t@{pytest_here} test_both.py\n", CI="true", CHROMIUM="sh"
    )
    assert code
    assert len(printed) < 1500
    name, closing = printed.splitlines()[-2:]
    assert "what was expected" in printed
    assert name.startswith("FAILED test_both.py::test_broken")
    assert closing.startswith("1 failed, 300 passed")
