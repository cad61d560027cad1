"""Which test shows which claim.

A claim is the first line of a test's docstring, if it begins with identifiers: of clauses of
docs/spec (`SRL-9`), of cases that must not do harm (`F06b`), of chapters of docs/security.md
(`S5`). `python -m tests.assurance` prints all claims, and `python -m tests.assurance SRL-9` those
of one identifier; `F06` stands for all claims of the case.
"""

import ast
import re
import sys
from functools import cache
from typing import NamedTuple

from tests.kit.processes import ROOT

DOCS = ROOT / "docs"
_ID = r"(?:[A-Z]+-\d+|F\d+[a-z]?|S\d+)"
_CLAIM = re.compile(rf"(?!F\d+\b)({_ID}(?:, {_ID})*): (.+)")
_HEADING = re.compile(r"^### ([A-Z]+-\d+|S\d+)\b", re.MULTILINE)


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
def headings() -> list[str]:
    """The clauses of docs/spec and the chapters of docs/security.md, in their order."""
    index = (DOCS / "spec" / "README.md").read_text(encoding="utf-8")
    pages = [f"spec/{name}" for name in re.findall(r"^\| \[([\w-]+\.md)\]", index, re.MULTILINE)]
    texts = [(DOCS / name).read_text(encoding="utf-8") for name in (*pages, "security.md")]
    return [identifier for text in texts for identifier in _HEADING.findall(text)]


def claims() -> list[Claim]:
    """All claims: those of clauses, of cases, of chapters. `F06` without a letter makes none."""
    found = []
    for (path, test), text in docstrings().items():
        if said := _CLAIM.match(text):
            found.append(Claim(said[1].split(", "), said[2], path, test))
    return sorted(found, key=_place)


def of(identifier: str) -> list[Claim]:
    """The claims of a clause, a chapter, a case or one claim of a case; empty if there is none."""
    wanted = re.compile(rf"{re.escape(identifier)}[a-z]?" if identifier[0] == "F" else identifier)
    return [claim for claim in claims() if any(wanted.fullmatch(each) for each in claim.ids)]


def is_case(identifier: str) -> bool:
    """Whether it is of a case, such as `F06b`, and not of a clause, such as `FEED-1`."""
    return identifier[0] == "F" and "-" not in identifier


def _place(claim: Claim) -> tuple[int, int, str]:
    first = claim.ids[0]
    if is_case(first):
        return 1, int(first[1:-1]), first
    return 0 if "-" in first else 2, headings().index(first), ""


def printed(claim: Claim) -> str:
    """The claim, and its test as pytest takes it."""
    return f"{', '.join(claim.ids)}: {claim.sentence}\n    tests/{claim.path}::{claim.test}"


if __name__ == "__main__":
    chosen = of(sys.argv[1]) if sys.argv[1:] else claims()
    print("\n".join(printed(claim) for claim in chosen) or sys.exit("No test claims that."))
