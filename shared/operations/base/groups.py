"""Requests and passes that change many things in several independent writes (REVOKE-21)."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import Final, TypeVar

from shared.errors import ExpectationLost, Unavailable
from shared.operations.base import operation
from shared.operations.base.operation import settle
from shared.ports import Ports
from shared.ports.store import MOST_CHANGES, Change

_M = TypeVar("_M", bound=Hashable)
_R = TypeVar("_R")

# How long the members of a group are tried together, in seconds; then each is tried alone.
_TOGETHER: Final = 1.0


def divided(
    members: Iterable[_M], key: Callable[[_M], Hashable], *, most: int
) -> list[Sequence[_M]]:
    """Divide into groups of at most `most` members that have the same key."""
    alike: dict[Hashable, list[_M]] = defaultdict(list)
    for each in members:
        alike[key(each)].append(each)
    return [
        group[start : start + most]
        for group in alike.values()
        for start in range(0, len(group), most)
    ]


@dataclass(frozen=True, slots=True)
class Groups:
    """Runs attempts for groups. None begins after `deadline`, by the clock of `PACING`."""

    ports: Ports
    deadline: float

    def each(
        self,
        groups: Iterable[Sequence[_M]],
        attempt: Callable[[Sequence[_M]], dict[_M, _R]],
        failed: Callable[[_M, Unavailable], _R],
    ) -> dict[_M, _R]:
        """Return what `attempt` returns for each group, concurrently, and retried by `settle`.

        If a group fails, each of its members is tried alone: a record that is damaged must not
        prevent what is asked of the others. `failed` makes the result of a member that fails.
        """
        runs = (partial(self._try, group, attempt, failed) for group in groups)
        return dict(chain.from_iterable(each.items() for each in self.ports.gather(*runs)))

    def led(
        self,
        groups: Sequence[Sequence[_M]],
        attempt: Callable[[Sequence[_M]], dict[_M, _R]],
        failed: Callable[[_M, Unavailable], _R],
    ) -> dict[_M, _R]:
        """Return the same as `each`, but attempt the first group before the others begin.

        If it fails, it is tried again among them.
        """
        done = dict[_M, _R]()
        if len(groups) > 1 and operation.PACING.clock() < self.deadline:
            with suppress(Unavailable):
                done = settle(lambda: attempt(groups[0]), limit=_TOGETHER)
        return done | self.each(groups[1:] if done else groups, attempt, failed)

    def _try(
        self,
        group: Sequence[_M],
        attempt: Callable[[Sequence[_M]], dict[_M, _R]],
        failed: Callable[[_M, Unavailable], _R],
    ) -> dict[_M, _R]:
        if operation.PACING.clock() >= self.deadline:
            late = Unavailable("the request has taken too long")
            return {each: failed(each, late) for each in group}
        try:
            return settle(lambda: attempt(group), limit=_TOGETHER)
        except Unavailable as error:
            if len(group) == 1:
                return {group[0]: failed(group[0], error)}
        alone = (self._try([each], attempt, failed).items() for each in group)
        return dict(chain.from_iterable(alone))


def apply_steps(ports: Ports, steps: Iterable[Sequence[Change]], *, most: int) -> int:
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
