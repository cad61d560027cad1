"""The project's commands, run in this process as if typed after `python -m`."""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it printed where."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Command:
    """A command by its main function and first words, and how a test sees what it prints."""

    main: Callable[[], int]
    capsys: pytest.CaptureFixture[str]
    monkeypatch: pytest.MonkeyPatch
    words: tuple[str, ...] = ()

    def run(self, *arguments: str | Path, columns: int = 400) -> Ended:
        name = self.main.__module__.rpartition(".")[2]
        self.monkeypatch.setattr(sys, "argv", [name, *self.words, *map(str, arguments)])
        # A terminal in which no message is broken into lines.
        self.monkeypatch.setenv("COLUMNS", str(columns))
        mask = os.umask(0o022)
        try:
            code: int | str | None = self.main()
        except SystemExit as exit_:
            code = exit_.code
        finally:
            os.umask(mask)  # The command sets that of its process, here the one of all tests.
        assert isinstance(code, int)
        return Ended(code, *self.capsys.readouterr())

    def verdict(self, *arguments: str | Path) -> tuple[int, str]:
        """The code and the text. A verifier uses standard error only if it is called wrongly."""
        ended = self.run(*arguments)
        assert (ended.err == "") == (ended.code != 2)
        return ended.code, ended.out or ended.err
