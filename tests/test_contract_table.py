"""The table in docs/contract.md is true."""

import pytest

from tests import tables

_ROWS = tables.rows(tables.page("contract.md"))


def test_the_table_is_there() -> None:
    """A table that cannot be read holds nothing."""
    assert len(_ROWS) > 100


@pytest.mark.parametrize(("statement", "test"), _ROWS)
def test_each_statement_has_its_test(statement: str, test: str) -> None:
    """No row is empty, none names a test that is not there."""
    assert statement
    (named,) = tables.tests_in(test)
    assert tables.docstring(named)
