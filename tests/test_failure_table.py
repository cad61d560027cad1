"""The table in docs/failures.md is true, as far as a test can tell without breaking anything."""

import pytest

from tests import tables

_TABLE = tables.page("failures.md").partition("\n## ")[0]
_ROWS = tables.rows(_TABLE)
_CASES = [f"F{number:02}" for number in range(1, 33)]


def test_every_case_is_there_in_order() -> None:
    """At least F01 to F32, each with one row or more, in the order of their numbers."""
    assert {case for case, *_ in _ROWS} >= set(_CASES)
    numbers = [int(case.removeprefix("F")) for case, *_ in _ROWS]
    assert numbers == sorted(numbers)


@pytest.mark.parametrize("row", _ROWS, ids=lambda row: f"{row[0]}: {row[1]}")
def test_each_row_names_a_test_of_its_case(row: list[str]) -> None:
    """The test is there, and names the case itself; what breaks it is told."""
    case, happens, test, broken_by = row
    (named,) = tables.tests_in(test)
    assert case in tables.docstring(named)
    assert happens
    assert broken_by
