"""What stands in the repository for others' tools, under the tools that know it best."""

import subprocess
import tomllib
from typing import Final

import pytest
import yaml

from tests.kit.aws import FUNCTIONS
from tests.kit.processes import ROOT

_SCHEMA: Final = ["check-jsonschema", "--builtin-schema"]
_WORKFLOW: Final = ".github/workflows/ci.yml"
_CHECKS: Final[list[list[str]]] = [
    ["hadolint", "infra/container/Dockerfile"],
    [*_SCHEMA, "vendor.compose-spec", "infra/container/compose.yaml"],
    [*_SCHEMA, "vendor.compose-spec", "infra/container/compose.postgresql.yaml"],
    [*_SCHEMA, "vendor.compose-spec", "infra/relay/compose.yaml"],
    [*_SCHEMA, "vendor.github-workflows", _WORKFLOW],
    [*_SCHEMA, "custom.github-workflows-require-timeout", _WORKFLOW],
    [*_SCHEMA, "vendor.dependabot", ".github/dependabot.yml"],
    ["zizmor", "--offline", "--no-progress", "--persona=pedantic", ".github"],
    ["pre-commit", "validate-config", ".pre-commit-config.yaml"],
]


@pytest.mark.slow
def test_the_tools_of_others_find_nothing() -> None:
    """F158d: Linters and schemas accept Dockerfile, compose file, workflow and hooks."""
    for program, *arguments in _CHECKS:
        command = [str(ROOT / ".tools/files/bin" / program), *arguments]
        ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_workflow_tries_every_python() -> None:
    """F158e: The workflow runs all checks from the oldest Python to one after the deployed one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    workflow = yaml.safe_load((ROOT / _WORKFLOW).read_text())
    pythons = workflow["jobs"]["checks"]["strategy"]["matrix"]["python"]
    assert pythons[0] == project["requires-python"].removeprefix(">=")
    assert pythons == [f"3.{minor}" for minor in range(11, 11 + len(pythons))]
    deployed = yaml.load((ROOT / FUNCTIONS).read_text(), yaml.BaseLoader)["Globals"]["Function"]
    assert deployed["Runtime"].removeprefix("python") in pythons[:-1]
    assert workflow["jobs"]["checks"]["steps"][-1]["run"] == ".ci/run"
