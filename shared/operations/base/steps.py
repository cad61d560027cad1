"""Batches of small groups of changes; each group is applied completely or skipped."""

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain, islice

from shared.errors import ExpectationLost
from shared.ports import Ports
from shared.ports.store import MOST_CHANGES, Change


def apply(ports: Ports, steps: Iterable[Sequence[Change]], *, most: int) -> int:
    """Apply each step whose expectations hold; skip the others, and return how many were skipped.

    A step has at most `most` changes. Raises `Unavailable`; some steps may then be applied.
    """
    rest, batches = iter(steps), list[list[Sequence[Change]]]()
    while batch := list(islice(rest, MOST_CHANGES // most)):
        batches.append(batch)
    return sum(ports.gather(*(partial(_write, ports, batch) for batch in batches)))


def _write(ports: Ports, batch: list[Sequence[Change]]) -> int:
    wanted = len(batch)
    while batch:
        try:
            ports.store.write(*chain.from_iterable(batch))
        except ExpectationLost as conflict:
            lost = set(conflict.lost)
            batch = [step for step in batch if lost.isdisjoint(each.address for each in step)]
        else:
            break
    return wanted - len(batch)
