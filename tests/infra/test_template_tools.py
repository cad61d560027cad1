"""The templates under the tools of those who make CloudFormation, SAM and checkov."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.aws import FUNCTIONS, STATEFUL
from tests.infra.templates import ALARMS, LAMBDAS
from tests.processes import ROOT

pytestmark = pytest.mark.slow


def run(tool: str, *arguments: str, folder: Path, home: Path) -> str:
    """What a tool prints, which must find nothing wrong."""
    path = ROOT / ".tools" / tool
    assert path.exists(), f"{path} is missing; `make test-slow` installs it"
    environment = {
        "AWS_DEFAULT_REGION": "eu-west-1",
        "HOME": str(home),
        "PATH": os.defpath,
        "SAM_CLI_TELEMETRY": "0",
    }
    told = subprocess.run(
        [path, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stdout + told.stderr
    return told.stdout


def test_cfn_lint_finds_nothing(tmp_path: Path) -> None:
    """CloudFormation would accept the templates, as far as its linter knows."""
    run("sam/bin/cfn-lint", FUNCTIONS, STATEFUL, ALARMS, folder=ROOT, home=tmp_path)


@pytest.mark.parametrize("path", [FUNCTIONS, STATEFUL])
def test_sam_finds_nothing(tmp_path: Path, path: str) -> None:
    """SAM accepts what is deployed."""
    run("sam/bin/sam", "validate", "--lint", "--template", path, folder=ROOT, home=tmp_path)


def test_checkov_finds_nothing(tmp_path: Path) -> None:
    """What checkov asks for and does not get has its reason in `.checkov.yaml` or on the spot."""
    run("checkov/bin/checkov", "-f", FUNCTIONS, STATEFUL, ALARMS, folder=ROOT, home=tmp_path)


def test_sam_takes_the_artefact_as_it_is(tmp_path: Path) -> None:
    """`sam build` copies and compiles nothing: what `make build` made is what is deployed."""
    for path in (FUNCTIONS, ALARMS):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    artefact = tmp_path / ".build" / "app"
    artefact.mkdir(parents=True)
    run("sam/bin/sam", "build", folder=tmp_path, home=tmp_path)
    built = tmp_path / ".aws-sam" / "build"
    uris = re.findall(r"CodeUri: (.+)", (built / "template.yaml").read_text())
    assert {(built / uri).resolve() for uri in uris} == {artefact}
    assert len(uris) == len(LAMBDAS)
