"""What the programs have in common: their version, and their names."""

import re
from typing import Any

import pytest

from infra import admin, local_server, verify_srl, verify_warrant
from shared import __version__
from tests.infra.commands import Command
from tests.processes import ROOT


@pytest.mark.parametrize("program", [admin, local_server, verify_srl, verify_warrant])
def test_a_program_says_its_version(
    program: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """F33n: Each program prints the version of the changelog's newest release."""
    ended = Command(program.main, capsys, monkeypatch).run("--version")
    assert (ended.code, ended.out) == (0, f"rescind {__version__}\n")
    newest = re.search(r"^## (\d.*?) - ", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest
    assert newest[1] == __version__
