"""`rescind`, run in this process as if typed in a shell, against a server of its own."""

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import typer.main

from infra.cli.__main__ import main
from infra.cli.app import NAME, app
from tests.infra.commands import Command, Ended
from tests.kit.processes import LocalServer, local_server


def _commands(group: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, (*path, name))
        else:
            yield (*path, name), command


# The command line, and each command with its words.
ROOT_COMMAND: Final[Any] = typer.main.get_command(app)
COMMANDS: Final = list(_commands(ROOT_COMMAND, (NAME,)))


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    """A server for all tests of the command line, which therefore name their own things."""
    with local_server(tmp_path_factory.mktemp("cli") / "data") as server:
        yield server


@dataclass(frozen=True)
class Shell:
    """Where a user types `rescind`: the environment, and what the terminal shows."""

    command: Command
    monkeypatch: pytest.MonkeyPatch
    home: Path

    def run(self, *arguments: str | Path, stdin: str | bytes = "", columns: int = 80) -> Ended:
        """Run a command; its standard input is no terminal."""
        given = stdin.encode() if isinstance(stdin, str) else stdin
        self.monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given)))
        return self.command.run(*arguments, columns=columns)

    def json(self, *arguments: str | Path) -> Any:
        """What a command that succeeds prints as JSON."""
        ended = self.run(*arguments, "-o", "json")
        assert ended.code == 0, ended.err
        return json.loads(ended.out)


@pytest.fixture
def shell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Shell:
    """A user without a profile."""
    for name in ("URL", "API_KEY", "PROFILE", "OUTPUT", "ALLOW_HTTP"):
        monkeypatch.delenv(f"RESCIND_{name}", raising=False)
    monkeypatch.setenv("RESCIND_CONFIG_DIR", str(tmp_path / "home"))
    return Shell(Command(main, capsys, monkeypatch), monkeypatch, tmp_path / "home")


@pytest.fixture
def admin(shell: Shell, service: LocalServer, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A user whose environment has an admin key of the service."""
    monkeypatch.setenv("RESCIND_URL", service.url)
    monkeypatch.setenv("RESCIND_API_KEY", service.admin_key)
    return shell
