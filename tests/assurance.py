"""Which test shows which claim, as docs/assurance.md lists them.

A claim is the first line of a test's docstring, if it begins with identifiers: of clauses of
docs/spec (`SRL-9`), of cases that must not do harm (`F06b`), of chapters of docs/security.md
(`S5`). `python -m tests.assurance` writes the claims to the page, below its hand-written part.
"""

import ast
import re
from functools import cache
from typing import NamedTuple

from tests.processes import ROOT

DOCS = ROOT / "docs"
PAGE = DOCS / "assurance.md"
_MARK = "<!-- The rest is written by `python -m tests.assurance`. -->\n"
_SECTIONS = ("What the specification says", "What breaks", "Security, beside these")
_ID = r"(?:[A-Z]+-\d+|F\d+[a-z]?|S\d+)"
_CLAIM = re.compile(rf"(?!F\d+\b)({_ID}(?:, {_ID})*): (.+)")
_HEADING = re.compile(r"^### ([A-Z]+-\d+|S\d+)\b.*$", re.MULTILINE)


class Claim(NamedTuple):
    """What a test shows: the identifiers and the sentence of its docstring, and where it is."""

    ids: list[str]
    sentence: str
    path: str
    test: str


@cache
def docstrings() -> dict[tuple[str, str], str]:
    """The docstring of each test, by its path below `tests/` and its name."""
    found = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        where = path.relative_to(ROOT / "tests").as_posix()
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                found[where, node.name] = ast.get_docstring(node) or ""
    return found


@cache
def headings() -> dict[str, str]:
    """Where the clauses of docs/spec and the chapters of docs/security.md are, in their order."""
    index = (DOCS / "spec" / "README.md").read_text(encoding="utf-8")
    pages = [f"spec/{name}" for name in re.findall(r"^\| \[([\w-]+\.md)\]", index, re.MULTILINE)]
    found = {}
    for name in (*pages, "security.md"):
        for heading in _HEADING.finditer((DOCS / name).read_text(encoding="utf-8")):
            anchor = heading[0].removeprefix("### ").lower().replace(" ", "-")
            found[heading[1]] = f"{name}#{anchor}"
    return found


def claims() -> list[Claim]:
    """All claims in the order of the page. `F06` without a letter makes no claim."""
    found = []
    for (path, test), text in docstrings().items():
        if said := _CLAIM.match(text):
            found.append(Claim(said[1].split(", "), said[2], path, test))
    return sorted(found, key=_place)


def page() -> str:
    """The page as it should be: its hand-written part as it is, and the claims below it."""
    text = PAGE.read_text(encoding="utf-8").partition(_MARK)[0] + _MARK
    for number, title in enumerate(_SECTIONS):
        rows = "".join(_row(claim) for claim in claims() if _place(claim)[0] == number)
        text += f"\n## {title}\n\n| | Claim | Test |\n| --- | --- | --- |\n{rows}"
    return text


def is_case(identifier: str) -> bool:
    """Whether it is of a case, such as `F06b`, and not of a clause, such as `FEED-1`."""
    return identifier[0] == "F" and "-" not in identifier


def _place(claim: Claim) -> tuple[int, int, str]:
    first = claim.ids[0]
    if is_case(first):
        return 1, int(first[1:-1]), first
    return 0 if "-" in first else 2, list(headings()).index(first), ""


def _row(claim: Claim) -> str:
    ids = ", ".join(_linked(each) for each in claim.ids)
    return f"| {ids} | {claim.sentence} | [{claim.test}](../tests/{claim.path}) |\n"


def _linked(identifier: str) -> str:
    place = headings().get(identifier)
    return f"[{identifier}]({place})" if place else identifier


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
