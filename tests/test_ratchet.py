"""The figures of the code do not grow unseen."""

from collections.abc import Callable
from pathlib import Path

from shared.model.items import Address, Table
from tests import ratchet
from tests.kit.worlds import Clock, embedded


def test_no_figure_has_grown(record_property: Callable[[str, object], None]) -> None:
    """No figure is larger than the one kept in `tests/ratchet.json`; all are printed at the end."""
    now, kept = ratchet.figures(), ratchet.kept()
    record_property("ratchet", "\n".join(ratchet.table(now, kept)))
    assert list(now) == list(kept)
    assert ratchet.grown(now, kept) == [], "see the docstring of tests/ratchet.py"


def test_a_figure_that_grows_is_named() -> None:
    """A larger or a new figure is refused by name, a smaller or an equal one is not."""
    grown = ratchet.grown({"a": 3, "b": 2, "c": 1, "d": 0}, {"a": 2, "b": 2, "c": 2})
    assert grown == ["a: 3, was 2", "d: 0, was not counted"]


def test_reads_that_are_gathered_are_one_trip(tmp_path: Path, clock: Clock) -> None:
    """Of reads at the same time the longest counts as trips, and each of them as a call."""
    ports, walk = embedded(tmp_path, clock), ratchet.Walk()
    one, other = (Address(Table.KEYS, "p", key) for key in ("one", "other"))
    with walk.watching(ports) as watched:
        watched.gather(
            lambda: watched.store.get(one),
            lambda: [watched.store.get(each) for each in (one, other)],
        )
        watched.store.get_many([other])
    found = walk.figures()
    assert (found["trips"], found["calls"], found["read again"]) == (3, 4, 2)
