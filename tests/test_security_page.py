"""What docs/security.md claims, it can show."""

import pytest

from tests import tables

_PAGE = tables.page("security.md")
_HELD = _PAGE.partition("\n## What holds\n")[2].partition("\n## ")[0]


def test_the_tables_are_there() -> None:
    """Tables that cannot be read hold nothing."""
    assert len(tables.rows(_HELD)) > 40


@pytest.mark.parametrize("claim", tables.rows(_HELD), ids=lambda claim: claim[0])
def test_each_claim_has_its_test(claim: list[str]) -> None:
    """Every row of the tables of what holds names one test."""
    said, test = claim
    assert said
    assert len(tables.tests_in(test)) == 1


@pytest.mark.parametrize("test", sorted(set(tables.tests_in(_PAGE))))
def test_each_named_test_is_there(test: str) -> None:
    """No test is named, anywhere on the page, that there is not."""
    assert tables.docstring(test)
