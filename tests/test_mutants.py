"""The mutants' book: each fault in it is found by the tests of its rule."""

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest

from tests import mutants
from tests.mutants import PARTS, Mutant

_SHARES: Final = 6


def test_each_mutant_can_be_planted() -> None:
    """What a line of the book replaces stands exactly once in its file, and its tests exist."""
    book = mutants.read()
    assert [fault for each in book for fault in each.faults()] == []
    assert len(set(book)) == len(book)


def test_all_parts_are_the_book() -> None:
    """Each mutant is in one part."""
    book = mutants.read()
    parts = [each for number in range(PARTS) for each in mutants.part(book, number + 1)]
    assert sorted(map(str, parts)) == sorted(map(str, book))


@pytest.mark.slow
# Processes that run tests side by side share them.
@pytest.mark.parametrize("share", range(1, _SHARES + 1))
def test_no_mutant_of_today_lives(
    record_property: Callable[[str, object], None], share: int
) -> None:
    """The tests of its rule find each mutant of a tenth of the book."""
    chosen = os.environ.get("RESCIND_MUTANTS_PART")
    number = int(chosen or datetime.now(UTC).timetuple().tm_yday % PARTS + 1)
    tried = mutants.part(mutants.part(mutants.read(), number), share, _SHARES)
    record_property("mutants", f"part {number} of {PARTS} (RESCIND_MUTANTS_PART)")
    assert list(mutants.living(tried)) == []


_CODE = "def larger(a, b):\n    return a if a > b else b\n"
_TEST = "from code_ import larger\n\n\ndef test_it():\n    assert larger(1, 2) == {}\n"


@pytest.mark.slow
def test_only_a_failure_that_the_mutant_made_counts(tmp_path: Path) -> None:
    """A mutant dies if its tests fail only with it, and lives otherwise."""
    for name, text in {
        "code_.py": _CODE,
        "test_green.py": _TEST.format(2),
        "test_red.py": _TEST.format(1),
    }.items():
        (tmp_path / name).write_text(text)
    found = [
        list(mutants.living([Mutant("code_.py", old, new, (test,))], tmp_path))
        for old, new, test in [
            ("a > b", "a < b", "test_green.py"),
            ("a > b", "a >= b", "test_green.py"),
            ("a > b", "a < b", "test_red.py"),
            ("a == b", "a < b", "test_green.py"),
        ]
    ]
    reasons = ["", "lives (test_green.py)", "fails without a mutant", "found 0 times"]
    assert [len(each) for each in found] == [0, 1, 1, 1]
    assert all(reason in "".join(each) for reason, each in zip(reasons, found, strict=True))
