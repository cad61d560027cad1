"""Pages of `docs/` that name tests, as `path::test` with a path below `tests/`."""

import ast
import re
from functools import cache

from tests.processes import ROOT

# What follows the line under a table's head.
_ROWS = re.compile(r"^\|[ |:-]+\|\n((?:\|.+\|\n)+)", re.MULTILINE)
_TEST = re.compile(r"`([\w/]+\.py::\w+)`")


def page(name: str) -> str:
    """The text of a page of `docs/`."""
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def rows(text: str) -> list[list[str]]:
    """The cells of each row of all tables in a text, without their heads."""
    lines = [line for body in _ROWS.findall(text) for line in body.splitlines()]
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in lines]


def tests_in(text: str) -> list[str]:
    """The tests that a text names."""
    return _TEST.findall(text)


def docstring(test: str) -> str:
    """What a test says of itself. Raises `KeyError` where there is no such test."""
    path, name = test.split("::")
    return _docstrings(path)[name]


@cache
def _docstrings(path: str) -> dict[str, str]:
    tree = ast.parse((ROOT / "tests" / path).read_text(encoding="utf-8"))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return {each.name: ast.get_docstring(each) or "" for each in functions}
