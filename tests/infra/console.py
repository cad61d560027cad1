"""The `console` blocks of the documentation: what a reader types, without the prompts."""

import re
import subprocess
from functools import cache
from textwrap import dedent
from typing import Final

from tests.kit.processes import ROOT

PAGES: Final = (
    "README.md",
    "CONTRIBUTING.md",
    *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").glob("*.md")),
    *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs" / "spec").glob("*.md")),
)
_BLOCK: Final = re.compile(r"^( *)```console\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


def text(page: str) -> str:
    """The text of a page."""
    return (ROOT / page).read_text(encoding="utf-8")


@cache
def blocks(page: str) -> tuple[str, ...]:
    """The commands of each block of a page, one text for each block.

    They are kept, because a shell looks at each of their lines.
    """
    found = _BLOCK.findall(text(page))
    return tuple("\n".join(_commands(dedent(block))) for _, block in found)


def name(page: str, block: str) -> str:
    """What a block is called here: its page, and its first line."""
    return f"{page}: {block.splitlines()[0]}"


def _commands(block: str) -> list[str]:
    """The commands, without what they print: a command ends where the shell finds it whole."""
    commands: list[str] = []
    typing: list[str] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            assert not typing, f"not whole: {typing}"
            typing = [line.removeprefix("$ ")]
        elif typing:
            typing.append(line)
        if typing and _is_whole("\n".join(typing)):
            commands.append("\n".join(typing))
            typing = []
    assert not typing, f"not whole: {typing}"
    return commands


def _is_whole(command: str) -> bool:
    if command.endswith("\\"):
        return False
    parsed = subprocess.run(["bash", "-n", "-c", command], capture_output=True, check=False)
    return parsed.returncode == 0 and not parsed.stderr
