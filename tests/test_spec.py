"""The clauses of docs/spec have stable identifiers."""

import re
from pathlib import Path
from typing import Final

from tests.processes import ROOT

_PAGES: Final = sorted((ROOT / "docs" / "spec").glob("*.md"))
_CLAUSE: Final = re.compile(r"^### (\S+)$", re.MULTILINE)
_IDENTIFIER: Final = re.compile(r"[A-Z]+-[1-9][0-9]*")
_LINK: Final = re.compile(r"\]\(([\w./-]+\.\w+)(?:#([\w-]+))?\)")


def _clauses(page: Path) -> list[str]:
    """The identifiers of the clauses of a page, in its order."""
    return _CLAUSE.findall(page.read_text(encoding="utf-8"))


def test_each_identifier_is_there_once() -> None:
    """The headings of clauses are identifiers alone, which makes them anchors that stay."""
    clauses = [each for page in _PAGES for each in _clauses(page)]
    assert len(clauses) > 90
    assert [each for each in clauses if not _IDENTIFIER.fullmatch(each)] == []
    assert len(clauses) == len(set(clauses))


def test_the_index_names_the_page_of_each_clause() -> None:
    """The index of docs/spec has each page once, with exactly the prefixes of its clauses."""
    index = (ROOT / "docs" / "spec" / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[([\w-]+\.md)\]\(\1\) \| (.+?) \|", index, re.MULTILINE)
    said = {name: set(re.findall(r"`([A-Z]+)`", prefixes)) for name, prefixes in rows}
    found = {page.name: {each.split("-")[0] for each in _clauses(page)} for page in _PAGES}
    assert said == {name: prefixes for name, prefixes in found.items() if prefixes}


def test_links_lead_somewhere() -> None:
    """What the pages of docs link to is there, and so are the anchors of clauses."""
    dangling = []
    for page in (ROOT / "docs").rglob("*.md"):
        for name, anchor in _LINK.findall(page.read_text(encoding="utf-8")):
            target = (page.parent / name).resolve()
            is_clause = target in _PAGES and anchor
            if not target.exists() or (is_clause and anchor.upper() not in _clauses(target)):
                dangling.append((page.name, name, anchor))
    assert dangling == []


def test_each_cited_clause_is_there() -> None:
    """No citation in the code, the tests or the docs names a clause that is not there."""
    clauses = {each for page in _PAGES for each in _clauses(page)}
    prefixes = "|".join(sorted({each.split("-")[0] for each in clauses}))
    cited = {
        (str(path.relative_to(ROOT)), each)
        for path in _sources()
        for each in re.findall(rf"\b(?:{prefixes})-[0-9]+\b", path.read_text(encoding="utf-8"))
    }
    assert len(cited) > 100
    assert [place for place in cited if place[1] not in clauses] == []


def _sources() -> list[Path]:
    """The code, its tests, and the pages of docs."""
    folders = ["shared", "functions", "infra", "tests", "docs"]
    kinds = ("*.py", "*.md")
    return [path for each in folders for kind in kinds for path in (ROOT / each).rglob(kind)]
