"""Every schedule of a few actors on a stage.

`explore` carries out all of them, each from the same start; schedules that differ only in the order
of independent calls count as one.
"""

import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from itertools import count, groupby
from operator import itemgetter
from pathlib import Path
from threading import current_thread
from typing import Any, Final
from unittest.mock import patch

from shared.adapters.stored_usage import StoreUsageCounts
from shared.model.identifiers import before_all_of
from shared.ports import NewId, Ports
from shared.ports.store import Address
from tests.kit.faults import Crash
from tests.kit.worlds import embedded
from tests.world.memory import Blobs, Records
from tests.world.stage import (
    ORDER,
    Choose,
    Drawn,
    Footprint,
    Perils,
    Place,
    Seat,
    Span,
    Stage,
    SteppedBlobs,
    SteppedStore,
    owner,
)

Actor = Callable[[Ports], object]
Observer = Callable[["Run"], object]

_RANDOM: Final = re.compile(r"(?<=svc_...)_[0-9a-z]{26}|-[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Step:
    """A call that was made, by whom, and whether it changed anything."""

    actor: str
    footprint: Footprint
    changed: bool

    def reads(self, address: Address) -> bool:
        """Whether it read this very item."""
        return Place(*address) in self.footprint.reads


@dataclass(frozen=True, slots=True)
class Stop:
    """An actor dies for good after its so-many-th change, before or after it hears of that change.

    No other moment is different: what it would read on the way to its next change, nobody sees.
    """

    actor: str
    changes: int
    answered: bool = True

    def __str__(self) -> str:
        return f"{self.actor} dies after change {self.changes}" + (
            "" if self.answered else ", unanswered"
        )


@dataclass
class Run:
    """One schedule as it was carried out; `outcomes` are what actors returned, or died of."""

    stop: Stop | None = None
    steps: list[Step] = field(default_factory=list)
    outcomes: dict[str, object] = field(default_factory=dict)

    @property
    def stopped(self) -> bool:
        """Whether the actor that was to die did so."""
        return any(isinstance(each, Crash) for each in self.outcomes.values())

    @property
    def schedule(self) -> list[str]:
        """Who made each call."""
        return [step.actor for step in self.steps]

    def __str__(self) -> str:
        """The calls that changed something, or that another actor's calls mind, in order."""
        described = [(step.actor, text) for step in self.steps if (text := self._describe(step))]
        lines = [f"  ({self.stop})"] if self.stopped else []
        for actor, calls in groupby(described, key=itemgetter(0)):
            lines.append(f"  {actor}: " + "; ".join(text for _, text in calls))
        return "\n".join(lines)

    def _describe(self, step: Step) -> str:
        footprint = step.footprint
        others = [each.footprint for each in self.steps if each.actor != step.actor]
        minded = {place for each in others for place in each.shared(footprint)} - {ORDER}
        places = minded or ((footprint.writes - {ORDER}) if step.changed else set())
        names = sorted({f"{place[1]}/{place[2] or ''}" for place in places if place[0]})
        lost = "" if step.changed or not footprint.writes else " (lost)"
        return _RANDOM.sub("", f"{footprint.call} {', '.join(names)}{lost}") if names else ""


class Start:
    """Ports in memory, that can go back to now."""

    def __init__(self, ports: Ports) -> None:
        assert isinstance(ports.store, Records)
        assert isinstance(ports.blobs, Blobs)
        self.ports, self.records, self.blobs = ports, ports.store, ports.blobs
        self._items, self._found = self.records.copy(), dict(self.blobs.found)

    def restore(self) -> None:
        """Make everything as it was when this was made."""
        self.records.become(self._items)
        self.blobs.found.clear()
        self.blobs.found.update(self._found)


def in_memory(folder: Path, clock: Callable[[], datetime]) -> Ports:
    """The ports of one machine, of which store and blobs are in memory."""
    records = Records()
    store: Any = records
    kept = embedded(folder, clock)
    return replace(kept, store=store, blobs=Blobs(), usage=StoreUsageCounts(store))


def _nothing(_run: Run) -> None:
    pass


def explore(
    start: Start,
    actors: Mapping[str, Actor],
    *,
    watched: Iterable[Address | Span] = (),
    observe: Observer = _nothing,
    torn: Iterable[str] = (),
    stop: Stop | None = None,
    reduced: bool = True,
) -> Iterator[Run]:
    """Every schedule; while the caller has a run, the ports are as that run left them.

    `torn` are the actors whose writes become visible item by item. `observe` is called before the
    first step, after each write that was accepted, and after each acknowledgement of one that was
    torn; it sees every write whole from the moment when it was accepted. What it looks
    at must not depend on the order of reads, but for those of `watched` keys and walks. Unless
    `reduced`, also the schedules that differ in nothing that matters. Raises what `observe` raises.
    """
    tree = _Tree(reduced=reduced)
    while tree.unfinished:
        start.restore()
        run = Run(stop)
        if _played(start, actors, run, tree.choose, observe, watched, torn):
            yield run
        tree.turn()


def explore_stops(
    start: Start,
    actors: Mapping[str, Actor],
    mortal: Iterable[str],
    *,
    watched: Iterable[Address | Span] = (),
    observe: Observer = _nothing,
    torn: Iterable[str] = (),
) -> Iterator[Run]:
    """Every schedule in which one of the `mortal` actors dies, at any step."""
    for actor in mortal:
        for changes in count():
            died = False
            for answered in (True, False) if changes else (True,):
                stop = Stop(actor, changes, answered=answered)
                for run in explore(
                    start, actors, watched=watched, observe=observe, torn=torn, stop=stop
                ):
                    if run.stopped:
                        died = True
                        yield run
            if not died:
                break


def rest() -> None:
    """Let the actor whose thread this is wait until no write is in flight."""
    seat = current_thread()
    if isinstance(seat, Seat):
        seat.stage.rest()


class _Recording(Perils):
    """Notes each step of a run, whose actor may have to die."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def arriving(self, seat: Seat) -> None:
        self._die_if_stopped(seat, answered=True)

    def made(self, name: str, footprint: Footprint, *, changed: bool) -> None:
        self._run.steps.append(Step(name, footprint, changed))

    def answered(self, seat: Seat, _footprint: Footprint) -> None:
        self._die_if_stopped(seat, answered=False)

    def _die_if_stopped(self, seat: Seat, *, answered: bool) -> None:
        if self._run.stop == Stop(seat.name, seat.changes, answered=answered):
            raise Crash


def _played(  # noqa: PLR0917 (what `explore` was given)
    start: Start,
    actors: Mapping[str, Actor],
    run: Run,
    choose: Choose,
    observe: Observer,
    watched: Iterable[Address | Span],
    torn: Iterable[str],
) -> bool:
    """Whether everyone went as far as they could. Raises what the observer did."""
    stage = Stage(
        start.records,
        start.blobs,
        choose,
        observe=lambda: observe(run),
        perils=_Recording(run),
        torn=frozenset(torn).__contains__,
        watched=[each if isinstance(each, Span) else Place(*each) for each in watched],
    )
    store: Any = SteppedStore(stage)
    new_id = _numbered(start.ports.now)
    ports = replace(start.ports, store=store, blobs=SteppedBlobs(stage), new_id=new_id)
    for name, actor in actors.items():
        stage.enter(name, partial(actor, ports))
    with _repeatable():
        observe(run)
        stage.play()
    run.outcomes |= stage.outcomes
    unfinished = stage.tasks or any(seat.pending for seat in stage.seats.values())
    return len(run.outcomes) == len(actors) and not unfinished


@contextmanager
def _repeatable() -> Iterator[None]:
    """Let what an actor draws at random be the same in each replay of a schedule.

    Some items are named after it: their order says what a walk meets, so which calls follow.
    """
    drawn = Drawn(0)
    with patch.multiple(secrets, randbits=drawn.getrandbits, token_bytes=drawn.randbytes):
        yield


def _numbered(now: Callable[[], datetime]) -> NewId:
    """A maker of identifiers that are the same in each replay of a schedule.

    Their digests say which items share a partition or a mark, so which calls an actor makes.
    """
    numbers = count()

    def new_id(kind: str, at: datetime | None = None) -> str:
        return f"{before_all_of(at or now(), kind=kind)}z{next(numbers):015d}"

    return new_id


@dataclass
class _Node:
    """A moment of the present schedule: who could go on, who does, and who is still to be tried.

    Those asleep need not be: whatever begins with them was, or will be, carried out elsewhere.
    """

    pending: Mapping[str, Footprint]
    chosen: str
    asleep: set[str]
    wanted: set[str]

    @property
    def footprint(self) -> Footprint:
        return self.pending[self.chosen]


class _Tree:
    """Which schedule is next: depth first, by source sets and sleep sets.

    Abdulla, Aronis, Jonsson and Sagonas, "Optimal dynamic partial order reduction", POPL 2014,
    algorithm 1. Wherever two calls of a schedule race, the later one is tried in place of the
    earlier; nothing else is.
    """

    def __init__(self, *, reduced: bool) -> None:
        self._reduced = reduced
        self._nodes: list[_Node] = []
        # For each step, those that must come before it, as bits.
        self._before: list[int] = []
        self._depth = 0
        self.unfinished = True

    def choose(self, pending: Mapping[str, Footprint]) -> str | None:
        """Who goes on; None where all that could follow was carried out elsewhere."""
        depth, self._depth = self._depth, self._depth + 1
        if depth < len(self._nodes):
            node = self._nodes[depth]
            if pending != node.pending:
                changes = _changes(node.pending, pending)
                raise AssertionError(f"an actor does not do the same again: {changes}")
            return node.chosen
        asleep = self._still_asleep(pending)
        awake = [name for name in pending if name not in asleep]
        if not awake:
            return None
        last = self._nodes[-1].chosen if self._nodes else None
        chosen = last if last in awake else awake[0]
        wanted = {chosen} if self._reduced else set(awake)
        self._nodes.append(_Node(pending, chosen, asleep, wanted))
        return chosen

    def turn(self) -> None:
        """Go on to the next schedule, if there is one."""
        for step in range(len(self._before), len(self._nodes)):
            self._before.append(self._find_races(step))
        while self._nodes:
            node = self._nodes[-1]
            self._before.pop()
            node.asleep.add(node.chosen)
            left = sorted(node.wanted - node.asleep)
            if left:
                node.chosen = left[0]
                break
            self._nodes.pop()
        self._depth = 0
        self.unfinished = bool(self._nodes)

    def _still_asleep(self, pending: Mapping[str, Footprint]) -> set[str]:
        if not self._nodes or not self._reduced:
            return set()
        last = self._nodes[-1]
        # Who cannot go on any more minds what was done last.
        still = last.asleep & pending.keys()
        return {name for name in still if not pending[name].meets(last.footprint)}

    def _find_races(self, step: int) -> int:
        """Have the races of a step tried the other way round; those that must come before it."""
        node, before, races = self._nodes[step], 0, list[int]()
        for earlier in reversed(range(step)):
            if before >> earlier & 1:
                continue
            other = self._nodes[earlier]
            if _in_order(other.chosen, node.chosen):
                before |= self._before[earlier] | 1 << earlier
            elif other.footprint.meets(node.footprint):
                before |= self._before[earlier] | 1 << earlier
                # Who waits for an item to be shown can only come before all of the other's write.
                waited = node.footprint.waits and other.footprint.call == "show"
                races.append(self._accepted(earlier) if waited else earlier)
        if self._reduced:
            for earlier in races:
                self._want_other_way_round(earlier, step, before)
        return before

    def _accepted(self, shown: int) -> int:
        """The step in which the write was accepted of which an item is shown."""
        name = owner(self._nodes[shown].chosen)
        return next(
            each
            for each in reversed(range(shown))
            if self._nodes[each].chosen == name and self._nodes[each].footprint.call == "write"
        )

    def _want_other_way_round(self, earlier: int, step: int, before: int) -> None:
        """Have someone tried at `earlier` with whom a schedule can begin that has `step` first."""
        free = [k for k in range(earlier + 1, step) if not self._before[k] >> earlier & 1]
        bits = sum(1 << each for each in free)
        first = {self._nodes[step].chosen} if not before & bits else set[str]()
        seen = set[str]()
        for each in free:
            name = self._nodes[each].chosen
            if name not in seen and not self._before[each] & bits:
                first.add(name)
            seen.add(name)
        wanted = self._nodes[earlier].wanted
        assert first <= self._nodes[earlier].pending.keys()
        if not first & wanted:
            wanted.add(min(first))


def _changes(before: Mapping[str, Footprint], now: Mapping[str, Footprint]) -> str:
    """The calls that differ in two moments that should be one."""
    names = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
    return "; ".join(f"{each}: {before.get(each)}, now {now.get(each)}" for each in names)


def _in_order(earlier: str, later: str) -> bool:
    """Whether a step of one always comes before a later one of the other.

    Shows of one write come in any order, but all of them between their actor's steps.
    """
    return earlier == later or earlier == owner(later) or owner(earlier) == later
