"""The commands of docs/deploy.md on an emulated AWS, as they stand, in the order of the page.

Stacks, functions, versions and aliases are the emulator's; SAM is SAM, except that its transform
runs here (`deploying.py`). The artefact has our code and no libraries, since nothing runs it: what
a caller sees comes from a server on the same tables.
"""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import boto3
import pytest

from tests import aws_local
from tests.infra import console
from tests.infra.templates import ALARMS, LAMBDAS, entry_point
from tests.infra.terminal import Terminal
from tests.kit.processes import HOST, ROOT, Group, answers, free_port

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("aws") is None, reason="needs the AWS command line"),
]

PAGE: Final = "docs/deploy.md"


# Of the tables, only that with the stream; another test types the whole step.
_RESTORE: Final = """
STAGE=prod TO=r1-
for TABLE in keys audit; do
  aws dynamodb restore-table-to-point-in-time --use-latest-restorable-time \\
    --source-table-name rescind-prod-$TABLE --target-table-name rescind-prod-r1-$TABLE
  aws dynamodb update-table --table-name rescind-prod-r1-$TABLE \\
    --stream-specification StreamEnabled=true,StreamViewType=KEYS_ONLY
done
"""


def block(snippet: str, page: str = PAGE) -> str:
    """The one block of a page that has this in it."""
    (found,) = (each for each in console.blocks(page) if snippet in each)
    return found


def desk(there: Path) -> None:
    """Make of the reader's there a checkout in which everything is installed."""
    for name in ("tests", "Makefile"):
        (there / name).symlink_to(ROOT / name)
    # SAM looks for what a template names beside the file that a link leads to.
    for name in ("template.yaml", "samconfig.toml"):
        shutil.copy(ROOT / name, there)
    (there / "requirements.lock").touch()
    (there / "infra").unlink()
    shutil.copytree(ROOT / "infra", there / "infra")
    _leave_out_metric_math(there / ALARMS)
    sam = there / ".tools" / "sam" / "bin" / "sam"
    sam.parent.mkdir(parents=True)
    python = shlex.quote(str(ROOT / ".tools" / "sam" / "bin" / "python"))
    sam.write_text(f'#!/bin/sh\nexec {python} {ROOT / "tests" / "sam" / "deploying.py"} "$@"\n')
    sam.chmod(0o755)
    for stamp in (".venv/.infra", ".venv/.tests", ".tools/sam/.installed"):
        (there / stamp).touch()


def _leave_out_metric_math(path: Path) -> None:
    """The emulator's alarms are of single metrics."""
    resource = re.compile(r"^  \w+:\n(?:(?:    .*)?\n)+", re.MULTILINE)
    written = path.read_text()
    kept = resource.sub(lambda each: "" if "\n      Metrics:" in each[0] else each[0], written)
    assert kept != written
    path.write_text(kept)


@pytest.fixture
def settings() -> Iterator[dict[str, str]]:
    with aws_local.serving(free_port()) as settings:
        yield {name: value for name, value in settings.items() if name.startswith("AWS_")} | {
            "AWS_PAGER": "",
            "SAM_CLI_TELEMETRY": "0",
        }


@contextmanager
def reader(there: Path, settings: dict[str, str]) -> Iterator[Terminal]:
    with Terminal(there, settings, seconds=900) as terminal:
        desk(there)
        terminal.type(block("export PATH="))
        yield terminal


@contextmanager
def api(log: Path, settings: dict[str, str]) -> Iterator[str]:
    """A server on the stage's tables, in place of the functions."""
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "infra.server.app:app", f"--port={port}"]
    server = Group(command, log, lambda: answers(port, 401), settings)
    server.start()
    try:
        yield f"http://{HOST}:{port}"
    finally:
        server.kill()


def tables_of(settings: dict[str, str]) -> set[str]:
    """What the versions of all functions work on that are called."""
    session = boto3.Session(
        aws_access_key_id=settings["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=settings["AWS_SECRET_ACCESS_KEY"],
        region_name=settings["AWS_DEFAULT_REGION"],
    )
    with closing(session.client("lambda", endpoint_url=settings["AWS_ENDPOINT_URL"])) as client:
        called = [
            client.get_function_configuration(
                FunctionName=f"rescind-prod-{entry_point(name).replace('_', '-')}", Qualifier="live"
            )
            for name in LAMBDAS
        ]
    return {each["Environment"]["Variables"]["RESCIND_STORE"] for each in called}


def test_the_page_works(tmp_path: Path, settings: dict[str, str]) -> None:
    """F105c: The commands of docs/deploy.md work on an emulated AWS, from nothing to a restore."""
    with reader(tmp_path, settings) as terminal:
        assert "policy/rescind-deployer" in terminal.type(block("iam create-policy"))
        terminal.type(block("--template-file infra/stateful.yaml"))
        assert "Successfully created/updated stack" in terminal.type(block("AlarmEmail="))
        assert terminal.type(block("get-account-settings")).strip() in ("true", "false")
        assert "All is well." in terminal.type(block("tenant create acme"))
        assert (tmp_path / "admin.key").stat().st_mode & 0o077 == 0
        assert tables_of(settings) == {"dynamodb:rescind-prod-"}
        with api(tmp_path / "log", settings | named(terminal, "RESCIND_")) as url:
            fetch = block("sleep 90").replace("$(output ApiUrl)", url)
            # The schedule, which the emulator does not run.
            tick = ".venv/bin/rescind srl publish-due"
            assert "valid: version 2, " in terminal.type(fetch.replace("sleep 90", tick))
            terminal.type(f"export RESCIND_CONFIG_DIR={tmp_path}/profiles")
            begin = block("TENANT=acme", "docs/runbook.md")
            terminal.type(begin.replace("$(output ApiUrl)", url))
        terminal.type(block("rescind upgrade"))
        assert "All is well." in terminal.type(block(".venv/bin/rescind doctor", "docs/runbook.md"))
        for snippet in ("rescind srl publish-due", "on-demand-throughput"):
            terminal.type(block(snippet, "docs/runbook.md"))
        terminal.type(block("reserved-concurrent-executions 0"))
        terminal.type(_RESTORE)
        terminal.type(block("PARAMETERS=RestoredAs=$TO"))
        assert tables_of(settings) == {"dynamodb:rescind-prod-r1-"}
        terminal.type(block("list-object-versions"))
        terminal.type("CERTIFICATE=arn:aws:acm:eu-west-1:000000000000:certificate/a")
        assert "https://api.example.com/auth" in terminal.type(block("PARAMETERS=BasePath=auth"))
        assert tables_of(settings) == {"dynamodb:rescind-prod-r1-"}


def test_a_first_try_that_failed_is_cleaned_up(tmp_path: Path, settings: dict[str, str]) -> None:
    """F102c: The documented commands clean up after a first deployment that failed."""
    with reader(tmp_path, settings) as terminal:
        # Whoever failed does not go on to protect the stack.
        terminal.type(block("--template-file infra/stateful.yaml").partition("\naws")[0])
        terminal.type(block("--no-deletion-protection-enabled"))
        gone = "aws cloudformation wait stack-delete-complete --stack-name rescind-prod-data"
        terminal.type(gone)
        protected = "aws dynamodb list-tables --output text --query TableNames"
        for table in terminal.type(protected).split():
            if table.startswith("rescind-prod-"):
                asked = f"aws dynamodb describe-table --table-name {table} --output text"
                assert "False" in terminal.type(f"{asked} --query Table.DeletionProtectionEnabled")


def named(terminal: Terminal, prefix: str) -> dict[str, str]:
    """The variables of the reader's shell whose names begin so."""
    lines = terminal.type("env").splitlines()
    return dict(line.split("=", 1) for line in lines if line.startswith(prefix))
