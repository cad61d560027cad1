"""Sessions of the documentation, typed into a shell as they stand."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from threading import Timer
from typing import Final, Self

from tests.kit.processes import ROOT, environment

URL: Final = "http://127.0.0.1:8080"
_END: Final = "--- the end of a block ---"

# What a reader types, and what is shown below it.
_FENCE: Final = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Stands for anything within a line.
_ANYTHING: Final = "…"


def _session(document: str) -> list[tuple[str, str]]:
    """The blocks of commands, each with what is shown below it; nothing, if nothing is."""
    fences = _FENCE.findall((ROOT / document).read_text(encoding="utf-8"))
    below = [*fences[1:], ("", "")]
    return [
        (block, shown if kind == "text" else "")
        for (language, block), (kind, shown) in zip(fences, below, strict=True)
        if language == "sh"
    ]


def _desk(folder: Path) -> Path:
    """A folder that looks to the reader's commands like a checkout with its environment.

    The environment is the one that runs the tests, wherever it is.
    """
    for name in ("functions", "infra", "shared"):
        (folder / name).symlink_to(ROOT / name)
    bin_ = folder / ".venv" / "bin"
    bin_.mkdir(parents=True)
    for name, words in (("python", ""), ("rescind", "-m infra.cli")):
        program = bin_ / name
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {words} "$@"\n')
        program.chmod(0o755)
    return folder


def check_session(document: str, folder: Path, *, url: str) -> None:
    """Hold what the commands of a document print to what it shows; `.data` is in `folder`."""
    blocks = _session(document)
    before = set(_desk(folder).iterdir())
    ends = [f"{block}echo '{_END}'\n" for block, _ in blocks]
    ran = subprocess.run(
        ["bash", "-c", "set -euo pipefail\n" + "".join(ends).replace(URL, url)],
        cwd=folder,
        env=environment({"RESCIND_CONFIG_DIR": str(folder.with_name(f"{folder.name}-profiles"))}),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    *printed, rest = ran.stdout.split(f"{_END}\n")
    assert not rest
    for (block, shown), seen in zip(blocks, printed, strict=True):
        pattern = ".*".join(map(re.escape, shown.split(_ANYTHING)))
        assert re.fullmatch(pattern, seen), f"{block}printed\n{seen}and not\n{shown}"
    check_traces(folder, set(folder.iterdir()) - before)


def check_traces(folder: Path, left: set[Path]) -> None:
    """What a session leaves is kept out of commits, and its secrets from others."""
    secret = re.compile(rb"svc_[A-Za-z0-9_-]{43}\b")
    readable = [path.name for path in left if path.stat().st_mode & 0o077]
    assert not [name for name in readable if secret.search((folder / name).read_bytes())]
    shutil.copy(ROOT / ".gitignore", folder)
    git = ("git", "-C", str(folder))
    subprocess.run([*git, "init", "--quiet"], check=True, env=environment())
    asked = [*git, "check-ignore", *(path.name for path in left)]
    ignored = subprocess.run(
        asked, check=False, capture_output=True, text=True, env=environment()
    ).stdout
    assert set(ignored.split()) == {path.name for path in left}


class Terminal:
    """A shell that a reader types blocks of commands into, one after the other."""

    def __init__(
        self, folder: Path, settings: dict[str, str] | None = None, *, seconds: float = 240
    ) -> None:
        self._shell = subprocess.Popen(
            ["bash", "-euo", "pipefail"],
            cwd=_desk(folder),
            env=environment(settings),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._deadline = Timer(seconds, self._shell.kill)
        self._deadline.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._deadline.cancel()
        self._shell.kill()
        self._shell.communicate(timeout=60)

    def type(self, block: str) -> str:
        """What the block prints, once it has ended well."""
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        # Not every answer ends with a line feed.
        self._shell.stdin.write(f"{block}\nprintf '\\n%s\\n' '{_END}'\n")
        self._shell.stdin.flush()
        seen: list[str] = []
        for line in self._shell.stdout:
            if line == f"{_END}\n":
                return "".join(seen).removesuffix("\n")
            seen.append(line)
        raise AssertionError(f"the shell ended: {''.join(seen)}")
