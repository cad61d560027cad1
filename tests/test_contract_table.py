"""The table in docs/contract.md is true."""

import re

import pytest

from tests.processes import ROOT

_ROW = re.compile(r"^\| (?!Statement|---)(.+?) \| (.*?) \|$", re.MULTILINE)
_TEST = re.compile(r"`([\w/.]+)::(\w+)`")

_ROWS = _ROW.findall((ROOT / "docs" / "contract.md").read_text(encoding="utf-8"))


def test_the_table_is_there() -> None:
    """A table that cannot be read holds nothing."""
    assert len(_ROWS) > 100


@pytest.mark.parametrize(("statement", "test"), _ROWS)
def test_each_statement_has_its_test(statement: str, test: str) -> None:
    """No row is empty, none names a test that is not there."""
    named = _TEST.fullmatch(test)
    assert named, statement
    path, name = named.groups()
    source = (ROOT / "tests" / path).read_text(encoding="utf-8")
    assert f"def {name}(" in source
