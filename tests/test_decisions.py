"""Each decision in docs/adr says its status, and the index says the same."""

import re
from pathlib import Path
from typing import Final

from tests.processes import ROOT

_FOLDER: Final = ROOT / "docs" / "adr"
_FILES: Final = sorted(_FOLDER.glob("0*.md"))
_LINK: Final = r"\[\d{4}\]\([\w-]+\.md\)"
_CHANGED: Final = rf"(?:amended|superseded) by {_LINK}(?:, {_LINK})*"
_HEAD: Final = re.compile(
    rf"# (\d{{4}}) (.+) Status: accepted, 20\d\d-\d\d-\d\d(?:; ({_CHANGED}))?\."
)


def _row(path: Path) -> str:
    """The row of the index for a decision; its head is the title and the status."""
    first, second, *_ = path.read_text(encoding="utf-8").split("\n\n", 2)
    head = _HEAD.fullmatch(" ".join(f"{first}\n{second}".split()))
    assert head is not None, path.name
    assert head[1] == path.name[:4]
    return f"| [{head[1]}]({path.name}) | {head[2]} | {head[3] or 'accepted'} |"


def test_the_index_has_each_decision_with_its_status() -> None:
    """Each decision has a title, a status and a date, and the index repeats title and status."""
    index = (_FOLDER / "README.md").read_text(encoding="utf-8")
    assert [line for line in index.splitlines() if line.startswith("| [")] == [*map(_row, _FILES)]


def test_a_decision_is_changed_by_decisions_that_are_there() -> None:
    """The decisions that a status names exist, under their own numbers."""
    named = re.findall(r"\[(\d{4})\]\(([\w-]+\.md)\)", "".join(map(_row, _FILES)))
    assert {name for _, name in named} == {path.name for path in _FILES}
    assert [name for number, name in named if not name.startswith(number)] == []


def test_decisions_name_files_that_are_there() -> None:
    """A module that moves takes its name in the decisions along."""
    texts = {path.name: path.read_text(encoding="utf-8") for path in _FILES}
    kinds = r"`((?:functions|infra|shared|tests)/[\w/.-]+\.\w+)"
    named = [(name, each) for name, text in texts.items() for each in re.findall(kinds, text)]
    assert len(named) > 20
    assert [(name, each) for name, each in named if not (ROOT / each).exists()] == []
