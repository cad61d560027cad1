"""What stands in the repository for others' tools, under the tools that know it best."""

import subprocess
import tomllib
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.kit.aws import FUNCTIONS
from tests.kit.processes import ROOT

_SCHEMA: Final = ["check-jsonschema", "--builtin-schema"]
_WORKFLOW: Final = ".github/workflows/ci.yml"
_WORKFLOWS: Final = [_WORKFLOW, ".github/workflows/release.yml"]
_CHECKS: Final[list[list[str]]] = [
    ["hadolint", "infra/container/Dockerfile"],
    [*_SCHEMA, "vendor.compose-spec", "infra/container/compose.yaml"],
    [*_SCHEMA, "vendor.compose-spec", "infra/container/compose.postgresql.yaml"],
    [*_SCHEMA, "vendor.compose-spec", "infra/relay/compose.yaml"],
    [*_SCHEMA, "vendor.github-workflows", *_WORKFLOWS],
    [*_SCHEMA, "custom.github-workflows-require-timeout", *_WORKFLOWS],
    [*_SCHEMA, "vendor.dependabot", ".github/dependabot.yml"],
    ["zizmor", "--offline", "--no-progress", "--persona=pedantic", ".github"],
    ["actionlint", *_WORKFLOWS],
    ["pre-commit", "validate-config", ".pre-commit-config.yaml"],
]


def _checked(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(ROOT / ".tools/files/bin" / program), *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_the_tools_of_others_find_nothing() -> None:
    """F158d: Linters and schemas accept Dockerfile, compose file, workflows and hooks."""
    assert sorted(_WORKFLOWS) == sorted(
        str(each.relative_to(ROOT)) for each in (ROOT / ".github/workflows").iterdir()
    )
    for each in _CHECKS:
        ran = _checked(*each)
        assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "broken", "said"),
    [
        ("needs: rehearse", "needs: rehearsed", "which does not exist"),
        ("github.token", "github.tokens", 'property "tokens" is not defined'),
        ("id-token: write", "id-tokens: write", 'unknown permission scope "id-tokens"'),
    ],
)
def test_a_broken_workflow_is_found(tmp_path: Path, line: str, broken: str, said: str) -> None:
    """F1343a: Actionlint finds a job, a value and a right that do not exist."""
    text = (ROOT / _WORKFLOWS[-1]).read_text()
    assert line in text
    workflow = tmp_path / "release.yml"
    workflow.write_text(text.replace(line, broken, 1))
    ran = _checked("actionlint", str(workflow))
    assert ran.returncode == 1
    assert said in ran.stdout


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
