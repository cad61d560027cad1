"""What SAM makes of the template with the parameters of an artefact: containers, and versions."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from typing import Final

import boto3
import pytest

from infra.build import Target, build
from tests import aws_local
from tests.infra import console
from tests.infra.templates import LAMBDAS
from tests.kit.processes import ROOT, free_port
from tests.sam.tool import reading, run

# SAM's own classes take seconds to load.
pytestmark = pytest.mark.slow

_BUCKET: Final = "packages"

PARAMETERS: Final = "file://.build/app/parameters.yaml"
# By architecture: what SAM says that it starts.
CONTAINERS: Final = {
    "arm64": ["arm64", "python:3.13-arm64", "linux/arm64"],
    "x86_64": ["x86_64", "python:3.13-x86_64", "linux/amd64"],
}


def checkout(folder: Path, target: Target) -> Path:
    """What SAM reads of a checkout, with an artefact for a target that has hardly any code."""
    for name in ("functions", "shared"):
        (folder / "sources" / name).mkdir(parents=True)
        (folder / "sources" / name / "module.py").write_text("VALUE = 1\n")
    (folder / "sources" / "requirements.lock").touch()
    build(folder / ".build" / "app", target, root=folder / "sources")
    for name in ("template.yaml", "samconfig.toml", "infra/alarms.yaml", "infra/stateful.yaml"):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    shutil.copytree(ROOT / "infra" / "sam", folder / "infra" / "sam")
    return folder


@pytest.mark.parametrize("architecture", CONTAINERS)
def test_sam_local_starts_what_the_artefact_is_for(tmp_path: Path, architecture: str) -> None:
    """F100a: SAM local starts functions on the architecture that the artefact is for."""
    there = checkout(tmp_path, Target(architecture))
    started = reading(there, "images", "template.yaml", PARAMETERS, "Stage=local")
    assert started == dict.fromkeys(LAMBDAS, CONTAINERS[architecture])


def test_a_restore_reaches_every_function(tmp_path: Path) -> None:
    """F105a: A deployment to restored tables publishes a new version of every function.

    `sam package` names the code, SAM's translator names the versions; it is what CloudFormation
    runs. The value of a parameter alone publishes none.
    """
    before = checkout(tmp_path / "before", Target())
    after = checkout(tmp_path / "after", Target(parameters={"RestoredAs": "r1-"}))
    with aws_local.serving(free_port()) as settings:
        there = {name: value for name, value in settings.items() if name.startswith("AWS_")}
        session = boto3.Session(
            aws_access_key_id=there["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=there["AWS_SECRET_ACCESS_KEY"],
            region_name="us-east-1",
        )
        client = session.client("s3", endpoint_url=there["AWS_ENDPOINT_URL"])
        client.create_bucket(Bucket=_BUCKET)
        client.close()
        for folder in (before, after):
            output = ("--output-template-file", "packaged.yaml")
            run(folder, "sam", "package", "--s3-bucket", _BUCKET, *output, **there)
    now = reading(before, "versions", "packaged.yaml", PARAMETERS, "Stage=prod")
    by_hand = reading(before, "versions", "packaged.yaml", "Stage=prod", "RestoredAs=r1-")
    built = reading(after, "versions", "packaged.yaml", PARAMETERS, "Stage=prod")
    assert len(now) == len(LAMBDAS)
    assert by_hand == now
    assert not set(built) & set(now)
    assert len(built) == len(LAMBDAS)


def test_the_configuration_has_what_each_command_needs(tmp_path: Path) -> None:
    """F100: SAM finds samconfig.toml beside the template, and understands all of it."""
    there = checkout(tmp_path, Target("x86_64"))
    deployed = reading(
        there, "command", "deploy", "--stack-name", "s", "--parameter-overrides", PARAMETERS
    )
    assert deployed["resolve_s3"] is True
    assert deployed["capabilities"] == ["CAPABILITY_NAMED_IAM", "CAPABILITY_AUTO_EXPAND"]
    assert deployed["parameter_overrides"] == {"Architecture": "x86_64"}
    local = ("--config-env", "local")
    for started in (
        reading(there, "command", "local", "start-api", *local),
        reading(there, "command", "local", "invoke", "SrlSchedule", *local),
    ):
        assert started["parameter_overrides"] == {"Architecture": "x86_64", "Stage": "local"}
        assert started["add_host"] == {"host.docker.internal": "host-gateway"}
        assert (there / started["env_vars"]).is_file()


@pytest.mark.parametrize("snippet", ["start-api", "sam local invoke"])
def test_sam_understands_the_commands_of_its_page(tmp_path: Path, snippet: str) -> None:
    """F100: SAM reads the commands of CONTRIBUTING.md as they stand, up to the container."""
    there = checkout(tmp_path, Target("x86_64"))
    (block,) = (each for each in console.blocks("CONTRIBUTING.md") if snippet in each)
    typed = [shlex.split(line) for line in block.splitlines() if "/bin/sam local " in line]
    assert typed
    for _, *arguments in typed:
        started = reading(there, "command", *arguments)
        assert started["parameter_overrides"] == {"Architecture": "x86_64", "Stage": "local"}
        named = started.get("event") or started["env_vars"]
        assert (there / named).is_file()
