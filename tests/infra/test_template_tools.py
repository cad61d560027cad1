"""The templates under the tools of those who make CloudFormation, SAM and checkov."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.infra.templates import ALARMS, LAMBDAS, SECOND
from tests.kit.aws import FUNCTIONS, STATEFUL
from tests.kit.processes import ROOT

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
    result = subprocess.run(
        [path, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_cfn_lint_finds_nothing(tmp_path: Path) -> None:
    """CloudFormation would accept the templates, as far as its linter knows."""
    run("sam/bin/cfn-lint", FUNCTIONS, STATEFUL, ALARMS, SECOND, folder=ROOT, home=tmp_path)


@pytest.mark.parametrize("path", [FUNCTIONS, STATEFUL, SECOND])
def test_sam_finds_nothing(tmp_path: Path, path: str) -> None:
    """SAM accepts what is deployed."""
    run("sam/bin/sam", "validate", "--lint", "--template", path, folder=ROOT, home=tmp_path)


def test_a_deployment_deletes_what_it_replaces(tmp_path: Path) -> None:
    """F107c: A deployment deletes each function version that it replaces."""
    script = tmp_path / "transform.py"
    script.write_text(_TRANSFORM)
    result = run("sam/bin/python", str(script), folder=ROOT, home=tmp_path)
    versions = json.loads(result)
    assert sorted(name for name, _ in versions) == sorted(LAMBDAS)
    assert {policy for _, policy in versions} == {"Delete"}


# What SAM's service makes of the template: each function's name, and the policy of its version.
_TRANSFORM: Final = """
import json
from boto3 import Session
from samtranslator.parser.parser import Parser
from samtranslator.translator.translator import Translator
from samtranslator.yaml_helper import yaml_parse

template = yaml_parse(open("template.yaml").read())
for resource in template["Resources"].values():
    # Where `sam package` would have put them.
    if "CodeUri" in resource.get("Properties", {}):
        resource["Properties"]["CodeUri"] = "s3://bucket/app"
    if "TemplateURL" in resource.get("Properties", {}):
        resource["Properties"]["TemplateURL"] = "https://bucket/alarms"
made = Translator({}, Parser(), boto_session=Session()).translate(template, {"Stage": "test"})
versions = [each for each in made["Resources"].values() if each["Type"] == "AWS::Lambda::Version"]
print(json.dumps([
    [each["Properties"]["FunctionName"]["Ref"], each["DeletionPolicy"]] for each in versions
]))
"""


def test_checkov_finds_nothing(tmp_path: Path) -> None:
    """What checkov asks for and does not get has its reason in `.checkov.yaml` or on the spot."""
    run(
        "checkov/bin/checkov", "-f", FUNCTIONS, STATEFUL, ALARMS, SECOND, folder=ROOT, home=tmp_path
    )


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
