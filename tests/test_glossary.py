"""docs/glossary.md names what is in the code."""

import pkgutil
import re

from tests.kit.processes import ROOT


def test_the_words_have_the_names_of_the_code() -> None:
    """Each row of the glossary has a word of its own, and a name that can be imported."""
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    row = r"^\| ([A-Z][\w, ]+) \| .+ \| `((?:functions|infra|shared)\.\S+)` \|$"
    rows = re.findall(row, text, re.MULTILINE)
    assert len(rows) == text.count("\n| ") - 2
    assert len({word for word, _ in rows}) == len(rows)
    for _, name in rows:
        pkgutil.resolve_name(name)
