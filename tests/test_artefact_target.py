"""An artefact refuses to start on what it was not built for, before it loads any library."""

import json
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from shared import artefact
from shared.errors import InvalidSettings
from tests.kit.processes import ROOT

_STORE = "dynamodb:rescind-prod-"


def _artefact(folder: Path, **target: Any) -> Path:
    known = {"architecture": "arm64", "python": "3.13", "parameters": {}}
    (folder / artefact.TARGET_FILE).write_text(json.dumps(known | target))
    return folder


@pytest.mark.parametrize(
    ("architecture", "machine"), [("arm64", "aarch64"), ("arm64", "arm64"), ("x86_64", "x86_64")]
)
def test_an_artefact_starts_on_its_own_processor(
    tmp_path: Path, architecture: str, machine: str
) -> None:
    """F100: Lambda's names of processors and those of Linux are the same processors."""
    artefact.check(_artefact(tmp_path, architecture=architecture), machine, {})


@pytest.mark.parametrize(
    ("architecture", "machine", "named"),
    [("x86_64", "aarch64", "arm64"), ("arm64", "x86_64", "x86_64")],
)
def test_an_artefact_refuses_another_processor(
    tmp_path: Path, architecture: str, machine: str, named: str
) -> None:
    """F100: the error names both, and both ways out."""
    with pytest.raises(InvalidSettings) as caught:
        artefact.check(_artefact(tmp_path, architecture=architecture), machine, {})
    (problem,) = caught.value.problems
    assert f"is built for {architecture} and runs on {named}" in problem
    assert f"`make build ARCHITECTURE={named}`" in problem
    assert f"Architecture={architecture}" in problem


def test_a_checkout_runs_anywhere(tmp_path: Path) -> None:
    """F100: where nothing was built there is nothing to compare."""
    artefact.check(tmp_path, "riscv64", {})


@pytest.mark.parametrize(
    ("parameters", "store"),
    [
        ({}, _STORE),
        ({}, f"{_STORE}r1-"),  # the next build after a restore
        ({"RestoredAs": ""}, _STORE),
        ({"RestoredAs": "r1-"}, f"{_STORE}r1-"),
        ({"RestoredAs": "r1-"}, "dynamodb:rescind-r1-r1-"),
    ],
)
def test_an_artefact_starts_on_its_tables(
    tmp_path: Path, parameters: dict[str, str], store: str
) -> None:
    """F105: those that it was built for, or, if it was built for none, those that are deployed."""
    artefact.check(_artefact(tmp_path, parameters=parameters), "aarch64", {"RESCIND_STORE": store})


@pytest.mark.parametrize(
    ("restored_as", "store"), [("", f"{_STORE}r1-"), ("r1-", _STORE), ("r2-", f"{_STORE}r1-")]
)
def test_an_artefact_refuses_other_tables(tmp_path: Path, restored_as: str, store: str) -> None:
    """F105b: A function does not start if its artefact was built for other tables."""
    built = _artefact(tmp_path, parameters={"RestoredAs": restored_as})
    with pytest.raises(InvalidSettings, match=f"is built for RestoredAs={restored_as} and"):
        artefact.check(built, "aarch64", {"RESCIND_STORE": store})


def test_a_function_is_checked_before_it_loads_anything(tmp_path: Path) -> None:
    """F100b: A function checks its processor before it loads any library."""
    shutil.copytree(ROOT / "functions", tmp_path / "functions")
    shutil.copytree(ROOT / "shared", tmp_path / "shared")
    _artefact(tmp_path, architecture=f"not-{platform.machine()}")
    start = (
        "import sys\n"
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        "try:\n"
        "    import functions.srl.handler\n"
        "finally:\n"
        "    print([each for each in ('pydantic', 'fastapi', 'cbor2') if each in sys.modules])\n"
    )
    ran = subprocess.run(
        [sys.executable, "-I", "-B", "-c", start], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 1
    assert "InvalidSettings: this artefact is built for not-" in ran.stderr
    assert ran.stdout == "[]\n"
