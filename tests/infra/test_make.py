"""What `make` promises before anything runs: a Python that will do, and arguments as they are."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.processes import ROOT, environment

# Python, were it of another version.
_OTHER = "import sys; sys.version_info = {}; exec(sys.argv[1])"
_STAMPS = (".infra", ".tests")


def _make(*arguments: str) -> subprocess.CompletedProcess[str]:
    # Not as a part of the make that runs the tests.
    inherited = {name: value for name, value in environment().items() if "MAKE" not in name}
    return subprocess.run(
        ["make", *arguments],
        cwd=ROOT,
        env=inherited,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def _python(path: Path, version: tuple[int, int, int]) -> Path:
    """A Python that says this version of itself, and prints what else it is told to do."""
    path.parent.mkdir(parents=True, exist_ok=True)
    program = shlex.join([sys.executable, "-c", _OTHER.format(version)])
    path.write_text(
        f'#!/bin/sh\nif [ "$1" = -c ]; then exec {program} "$2"; fi\nprintf "<%s>" "$@"\n'
    )
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("target", ["run", "test", "build"])
@pytest.mark.parametrize("made", [False, True], ids=["none yet", "made before"])
def test_an_older_python_gets_one_sentence(tmp_path: Path, target: str, made: bool) -> None:
    """F33e: `make` refuses a Python that is too old with one sentence."""
    environment_ = tmp_path / "venv"
    if made:
        python = _python(environment_ / "bin" / "python", (3, 10, 13))
        for stamp in _STAMPS:
            (environment_ / stamp).touch()
    else:
        python = _python(tmp_path / "python3", (3, 10, 13))
    ran = _make(target, f"VENV={environment_}", f"PYTHON={python}")
    said, of_make = ran.stderr.splitlines()
    assert said.startswith(f"Rescind needs Python 3.11 or later; this is 3.10.13 ({python}). ")
    assert said.endswith("set PYTHON, as in: make run PYTHON=python3.13") is made
    assert of_make.startswith("make: ***")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert environment_.exists() is made


def test_a_path_with_a_space_is_one_argument(tmp_path: Path) -> None:
    """F33f: `make run` accepts a data folder with a space in its name."""
    ran = _run(tmp_path, "DATA=my data", "KEYS=my keys/master.key")
    assert "<--data><my data>" in ran
    assert "<--key-file><my keys/master.key>" in ran


def test_a_run_without_data_serves_what_the_environment_names(tmp_path: Path) -> None:
    """F659a: `make run` names no folder by itself, which would clash with `RESCIND_STORE`."""
    ran = _run(tmp_path)
    assert "<serve>" in ran
    assert "<--data>" not in ran


def _run(folder: Path, *options: str) -> str:
    """What `make run` calls, as text; nothing is served."""
    _python(folder / "venv" / "bin" / "python", (3, 11, 0))
    for stamp in _STAMPS:
        (folder / "venv" / stamp).touch()
    ran = _make("run", f"VENV={folder}/venv", *options)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout
