"""Names of earlier releases say the new ones."""

import subprocess
import sys
from pathlib import Path

import pytest

from infra import renamed
from infra.cli import __main__ as start
from tests.infra.commands import Command
from tests.kit.processes import ROOT, environment


@pytest.mark.parametrize(
    ("module", "now"),
    [
        ("infra.admin", "rescind doctor --data .data"),
        ("infra.local_server", "rescind serve"),
        ("infra.verify_srl", "rescind list verify"),
        ("infra.verify_warrant", "rescind warrants verify"),
    ],
)
def test_a_module_of_earlier_releases_says_its_new_name(module: str, now: str) -> None:
    """F579a: A program that was replaced says its new name, and does nothing."""
    program = [sys.executable, "-m", module, "doctor"]
    ended = subprocess.run(
        program, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"error: {module} is gone. Run: ")
    assert now in ended.stderr


@pytest.mark.parametrize("name", ["rescind-admin", "rescind-server", "rescind-verify"])
def test_a_script_of_earlier_releases_says_its_new_name(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """F579b: So does a script; the wheel has an entry for each."""
    monkeypatch.setattr(sys, "argv", [f"/usr/bin/{name}", "doctor"])
    assert renamed.script() == 2
    assert f"error: {name} is gone. Run: rescind" in capsys.readouterr().err
    assert f'{name} = "rescind:renamed"' in Path(ROOT, "pyproject.toml").read_text("utf-8")


def test_a_command_of_another_name_says_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """F579c: A command whose name means another one now names that; others are run."""
    ended = Command(start.main, capsys, monkeypatch).run("migrate", "acme")
    assert ended.code == 2
    assert "Run: rescind upgrade" in ended.err
    for arguments in ([], ["doctor"], ["migrate", "--from", "a"], ["migrate", "--help"]):
        assert renamed.command(arguments) is None
