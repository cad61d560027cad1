"""Every schedule of a few actors over the same ports.

An actor is a plain function over `Ports`. It runs in a thread of its own, stops before each of its
calls to the store or the blobs, and goes on only when it is chosen: so a schedule is the list of
those who were chosen, and can be replayed. `explore` carries out all of them, each from the same
start; schedules that differ only in the order of independent calls count as one.

Neither a walk nor a read of many is a snapshot (shared/ports/store.py): each is a call an item.
Nor is a write seen at once, if its actor is one of the `torn`: it is accepted in one step. Until
its items are shown, one by one and in any order, the others read what was there before, and writes
to these items wait. It is acknowledged when all are shown; they are, even if its actor dies.
"""

import re
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import count, groupby, islice
from operator import itemgetter
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple, TypeVar
from unittest.mock import patch

from shared.adapters.sqlite import SqliteStore
from shared.errors import BlobExists, ExpectationLost
from shared.model.identifiers import before_all_of
from shared.ports import NewId, Ports
from shared.ports.blobs import BlobStore
from shared.ports.store import (
    EVERYTHING,
    Address,
    Change,
    Check,
    ColumnPage,
    Item,
    Partition,
    Row,
    Store,
    Table,
    Where,
)
from tests.kit.faults import Crash
from tests.kit.intercepted import Intercepted

R = TypeVar("R")
Actor = Callable[[Ports], object]
Observer = Callable[["Run"], object]
Choose = Callable[[Mapping[str, "Footprint"]], str | None]

_BLOBS: Final = "blobs"
_LOCKED: Final = "locked "
_RANDOM: Final = re.compile(r"(?<=svc_...)_[0-9a-z]{26}|-[0-9a-f]{64}")


class Place(NamedTuple):
    """An item, or a blob."""

    room: str
    folder: str
    name: str

    @property
    def address(self) -> Address:
        """Where the item is stored that is in this place."""
        return Address(Table(self.room), self.folder, self.name)


class Span(NamedTuple):
    """What a walk may meet: the places of a folder between two names, neither included."""

    room: str
    folder: str
    after: str | None
    before: str | None

    def holds(self, place: Place) -> bool:
        """Whether the walk may meet it."""
        return (
            (self.room, self.folder) == place[:2]
            and (self.after is None or self.after < place.name)
            and (self.before is None or place.name < self.before)
        )


# What a proof looks at beside the items: the order in which writes, and reads that are watched,
# took place. As a place that they touch, it keeps two of them from being taken for one another.
_ORDER: Final = Place("", "order", "")
# As that of acknowledgements does, beside reads and writes that are watched.
_ACKNOWLEDGED: Final = Span("", "acknowledged", None, None)
# What is in flight, for those who wait until nothing is.
_IN_FLIGHT: Final = Span("", "in flight", None, None)


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a call is, and what it reads and writes, as its arguments tell."""

    call: str
    reads: frozenset[Place | Span] = frozenset()
    writes: frozenset[Place] = frozenset()

    @property
    def waits(self) -> bool:
        """Whether it cannot be made while what it touches is in flight."""
        return self.call in ("write", "rest")

    def meets(self, other: "Footprint") -> bool:
        """Whether the order of the two calls may matter."""
        return self._upsets(other) or other._upsets(self)

    def shared(self, other: "Footprint") -> set[Place]:
        """The places for which it may matter."""
        places = self.writes | other.writes
        return {each for each in places if self.touches(each) and other.touches(each)}

    def _upsets(self, other: "Footprint") -> bool:
        return any(other.touches(place) for place in self.writes)

    def touches(self, place: Place) -> bool:
        """Whether it reads or writes the place."""
        return place in self.writes or self._reads(place)

    def _reads(self, place: Place) -> bool:
        return place in self.reads or any(
            isinstance(each, Span) and each.holds(place) for each in self.reads
        )


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
        minded = {place for each in others for place in each.shared(footprint)} - {_ORDER}
        places = minded or ((footprint.writes - {_ORDER}) if step.changed else set())
        names = sorted({f"{place[1]}/{place[2] or ''}" for place in places if place[0]})
        lost = "" if step.changed or not footprint.writes else " (lost)"
        return _RANDOM.sub("", f"{footprint.call} {', '.join(names)}{lost}") if names else ""


class World:
    """Ports on the embedded adapters, with their blobs in `blobs`, that can go back to now."""

    def __init__(self, ports: Ports, blobs: Path) -> None:
        assert isinstance(ports.store, SqliteStore)
        self.ports = ports
        self._connection = ports.store._database.connection
        self._blobs = blobs
        self._items = self._connection.serialize()
        self._files = set(self._found())

    def restore(self) -> None:
        """Make everything as it was when this world was made."""
        self._connection.deserialize(self._items)
        for path in self._found():
            if path not in self._files:
                path.unlink()

    def _found(self) -> Iterator[Path]:
        return (path for path in self._blobs.rglob("*") if path.is_file())


def _nothing(_run: Run) -> None:
    pass


def explore(
    world: World,
    actors: Mapping[str, Actor],
    *,
    watched: Iterable[Address | Span] = (),
    observe: Observer = _nothing,
    torn: Iterable[str] = (),
    stop: Stop | None = None,
    reduced: bool = True,
) -> Iterator[Run]:
    """Every schedule; while the caller has a run, the world is as that run left it.

    `torn` are the actors whose writes become visible item by item. `observe` is called before the
    first step, after each write that was accepted, and after each acknowledgement of one that was
    torn; it sees every write whole from the moment when it was accepted. What it looks
    at must not depend on the order of reads, but for those of `watched` keys and walks. Unless
    `reduced`, also the schedules that differ in nothing that matters. Raises what `observe` raises.
    """
    tree = _Tree(reduced=reduced)
    while tree.unfinished:
        world.restore()
        run = Run(stop)
        stage = _Stage(
            world.ports, actors, run, tree.choose, observe=observe, watched=watched, torn=torn
        )
        if stage.play():
            yield run
        tree.turn()


def explore_stops(
    world: World,
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
                    world, actors, watched=watched, observe=observe, torn=torn, stop=stop
                ):
                    if run.stopped:
                        died = True
                        yield run
            if not died:
                break


def play(
    world: World,
    actors: Mapping[str, Actor],
    choose: Choose,
    *,
    observe: Observer = _nothing,
    torn: Iterable[str] = (),
    stop: Stop | None = None,
) -> Run:
    """One schedule: `choose` says who goes on, of those who could, or ends it with None."""
    world.restore()
    run = Run(stop)
    _Stage(world.ports, actors, run, choose, observe=observe, torn=torn).play()
    return run


def follow(schedule: Iterable[str]) -> Choose:
    """Who goes on, as an earlier run had it. Raises `LookupError` where they cannot."""
    left = iter(schedule)

    def choose(pending: Mapping[str, Footprint]) -> str | None:
        name = next(left, None)
        if name is not None and name not in pending:
            raise LookupError(f"{name} makes no further call")
        return name

    return choose


def rest() -> None:
    """Let the actor whose thread this is wait until no write is in flight."""
    seat = threading.current_thread()
    if isinstance(seat, _Seat):
        seat.step(Footprint("rest", reads=frozenset({_IN_FLIGHT})), lambda: None)


@contextmanager
def _repeatable() -> Iterator[None]:
    """Let what an actor draws at random be the same in each replay of a schedule.

    Some items are named after it: their order says what a walk meets, so which calls follow.
    """
    drawn = Random(0)
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


class _Abandoned(BaseException):
    """The schedule ends here, for no fault of the actor."""


class _Stage:
    """The actors of one run: of all their threads, one goes on, the rest wait for their turn."""

    def __init__(
        self,
        ports: Ports,
        actors: Mapping[str, Actor],
        run: Run,
        choose: Choose,
        *,
        observe: Observer,
        watched: Iterable[Address | Span] = (),
        torn: Iterable[str] = (),
    ) -> None:
        self._run = run
        self.torn = frozenset(torn)
        # What items in flight were before, and those that are to be shown, by the task to do it.
        self.hidden: dict[Place, Item | None] = {}
        self._tasks: dict[str, tuple[_Seat, Place]] = {}
        self.watched = {each if isinstance(each, Span) else Place(*each) for each in watched}
        self._choose = choose
        self._observe = observe
        numbered = replace(ports, new_id=_numbered(ports.now))
        self._seats = {name: _Seat(self, name, actor, numbered) for name, actor in actors.items()}
        self._outside = iter(self._seats.values())
        self._over = threading.Semaphore(0)
        self._abandoned = False
        self._error: BaseException | None = None

    def play(self) -> bool:
        """Whether everyone went as far as they could. Raises what the observer did."""
        with _repeatable():
            return self._play()

    def _play(self) -> bool:
        self._observe(self._run)
        self.go_on()
        self._over.acquire()
        self._abandoned = True
        for seat in self._seats.values():
            seat.turn.release()
            seat.join()
        if self._error is not None:
            raise self._error
        unfinished = self._tasks or any(seat.pending for seat in self._seats.values())
        return len(self._run.outcomes) == len(self._seats) and not unfinished

    def go_on(self) -> None:
        """Let the next actor come in; once all are there, give the chosen one its turn."""
        entering = next(self._outside, None)
        if entering is not None:
            entering.start()
            return
        while (chosen := self._next()) is not None:
            if chosen in self._tasks:
                self._show(chosen)
            elif chosen in self._run.outcomes:
                # It died, but its write was accepted.
                self._acknowledge(self._seats[chosen])
            else:
                self._seats[chosen].turn.release()
                return
        self._over.release()

    def _next(self) -> str | None:
        seats = self._seats.items()
        pending = {name: seat.pending for name, seat in seats if seat.pending and self._may(seat)}
        pending |= {task: _showing(task, place) for task, (_, place) in self._tasks.items()}
        try:
            return self._choose(pending) if pending else None
        except Exception as error:  # noqa: BLE001 (raised again where the run was begun)
            self._error = error
            return None

    def _may(self, seat: "_Seat") -> bool:
        """Whether the actor can make its next call now."""
        assert seat.pending is not None
        if seat.pending.call == "rest":
            return not self.hidden
        if seat.pending.call == "acknowledged":
            return not any(owner is seat for owner, _ in self._tasks.values())
        return not any(seat.pending.touches(_lock(place)) for place in self.hidden)

    def _show(self, task: str) -> None:
        _, place = self._tasks.pop(task)
        del self.hidden[place]
        self._run.steps.append(Step(task, _showing(task, place), changed=True))

    def write(self, seat: "_Seat", footprint: Footprint, call: Callable[[], object]) -> None:
        """Make a write that is seen item by item."""
        places = [place for place in footprint.writes if place.room.startswith(_LOCKED)]
        places = sorted(place._replace(room=place.room.removeprefix(_LOCKED)) for place in places)

        def accept() -> None:
            before = {place: seat.ports.store.get(place.address) for place in places}
            call()
            self.hidden |= before
            for number, place in enumerate(places):
                self._tasks[f"{seat.name}/{seat.changes}.{number}"] = (seat, place)
            acknowledged = Place("", "acknowledged", seat.name)
            seat.pending = Footprint("acknowledged", writes=frozenset({acknowledged}))

        self.step(seat, footprint, accept)
        self._wait(seat)
        self._acknowledge(seat)

    def _acknowledge(self, seat: "_Seat") -> None:
        assert seat.pending is not None
        self._run.steps.append(Step(seat.name, seat.pending, changed=True))
        seat.pending = None
        self._look()

    def step(self, seat: "_Seat", footprint: Footprint, call: Callable[[], R]) -> R:
        """Make the call once the actor is chosen for it."""
        self._die_if_stopped(seat, answered=True)
        seat.pending = footprint
        self._wait(seat)
        seat.pending = None
        try:
            result = call()
        except (BlobExists, ExpectationLost):
            self._run.steps.append(Step(seat.name, footprint, changed=False))
            raise
        self._run.steps.append(Step(seat.name, footprint, changed=bool(footprint.writes)))
        if footprint.writes:
            seat.changes += 1
            self._look()
            self._die_if_stopped(seat, answered=False)
        return result

    def _wait(self, seat: "_Seat") -> None:
        """Let others go on until the actor is chosen."""
        self.go_on()
        seat.turn.acquire()
        if self._abandoned:
            raise _Abandoned

    def end(self, seat: "_Seat", outcome: object) -> None:
        """The actor makes no further call."""
        self._run.outcomes[seat.name] = outcome
        self.go_on()

    def _die_if_stopped(self, seat: "_Seat", *, answered: bool) -> None:
        if self._run.stop == Stop(seat.name, seat.changes, answered=answered):
            raise Crash

    def _look(self) -> None:
        try:
            self._observe(self._run)
        except Exception as error:
            self._error = error
            self._over.release()
            raise _Abandoned from error


class _Seat(threading.Thread):
    """One actor: its thread, its turn, and the call that it is about to make."""

    def __init__(self, stage: _Stage, name: str, actor: Actor, ports: Ports) -> None:
        super().__init__(name=name, daemon=True)
        self.turn = threading.Semaphore(0)
        self.pending: Footprint | None = None
        self.changes = 0
        self._stage = stage
        self._actor = actor
        self.ports = ports
        store, blobs = _Store(self, ports.store), _Blobs(self, ports.blobs)
        self._ports = replace(ports, store=store, blobs=blobs)

    @property
    def hidden(self) -> dict[Place, Item | None]:
        """The items that others have written, and that are not shown yet, as they were before."""
        return self._stage.hidden

    def run(self) -> None:
        with suppress(_Abandoned):
            try:
                outcome = self._actor(self._ports)
            except _Abandoned:
                raise
            except BaseException as error:  # noqa: BLE001 (what an actor died of is for the test)
                outcome = error
            self._stage.end(self, outcome)

    def read(self, verb: str, what: Place | Span, call: Callable[[], R]) -> R:
        reads: set[Place | Span] = {what}
        if what in self._stage.watched:
            reads |= {_ORDER, _ACKNOWLEDGED}
        return self.step(Footprint(verb, reads=frozenset(reads)), call)

    def write(self, checked: set[Place], written: set[Place], call: Callable[[], None]) -> None:
        torn = self.name in self._stage.torn and len(checked | written) > 1
        # An item that is shown at once has no moment between its lock and its change.
        shown = {Place("", "in flight", self.name)} if torn else written
        reads: set[Place | Span] = set(map(_lock, checked))
        if written & self._stage.watched:
            reads.add(_ACKNOWLEDGED)
        footprint = Footprint(
            "write",
            reads=frozenset(reads),
            writes=frozenset({*map(_lock, written), *shown, _ORDER}),
        )
        if torn:
            self._stage.write(self, footprint, call)
        else:
            self.step(footprint, call)

    def step(self, footprint: Footprint, call: Callable[[], R]) -> R:
        return self._stage.step(self, footprint, call)


@dataclass
class _Store:
    _seat: _Seat
    _store: Store

    def made_at(self) -> str:
        return self._store.made_at()

    def get(self, address: Address) -> Item | None:
        place, hidden = Place(*address), self._seat.hidden

        def see() -> Item | None:
            return hidden[place] if place in hidden else self._store.get(address)

        return self._seat.read("get", place, see)

    def get_many(self, addresses: Iterable[Address]) -> dict[Address, Item]:
        found = {key: self.get(key) for key in dict.fromkeys(addresses)}
        return {key: item for key, item in found.items() if item is not None}

    def query(
        self,
        partition: Partition,
        *,
        after: str | None = None,
        before: str | None = None,
        newest_first: bool = False,
        limit: int | None = None,
        where: Where = EVERYTHING,
    ) -> Iterator[Row]:
        def first() -> Row | None:
            seen = self._seen(Span(*partition, after, before))
            bounds: dict[str, Any] = {"after": after, "before": before}
            walk = self._store.query(partition, **bounds, newest_first=newest_first, where=where)
            shown = (entry for entry in walk if entry.sk not in seen)
            old = [Row(sk, item) for sk, item in seen.items() if item is not None]
            old = [entry for entry in old if where.holds(entry.item)]
            nearest = max if newest_first else min
            found = [*islice(shown, 1), *old]
            return nearest(found, key=lambda entry: entry.sk) if found else None

        for _ in count() if limit is None else range(limit):
            entry = self._seat.read("query", Span(*partition, after, before), first)
            if entry is None:
                return
            yield entry
            after, before = (after, entry.sk) if newest_first else (entry.sk, before)

    def query_many(
        self, partitions: Iterable[Partition], **bounds: Any
    ) -> dict[Partition, list[Row]]:
        return {each: list(self.query(each, **bounds)) for each in partitions}

    def count(
        self,
        partition: Partition,
        *,
        after: str | None = None,
        before: str | None = None,
        where: Where = EVERYTHING,
    ) -> int:
        bounds = {"after": after, "before": before}
        span = Span(*partition, after, before)
        return self._seat.read(
            "count", span, lambda: self._store.count(partition, **bounds, where=where)
        )

    def column(
        self, partition: Partition, attribute: str, *, after: str | None = None
    ) -> Iterator[ColumnPage]:
        def first() -> ColumnPage:
            seen = self._seen(Span(*partition, after, None))
            shown = (row for row in self._store.query(partition, after=after) if row.sk not in seen)
            old = [Row(sk, item) for sk, item in seen.items() if item is not None]
            found = sorted([*islice(shown, 1), *old], key=itemgetter(0))[:1]
            return ColumnPage.of([row.sk for row in found], found, attribute)

        while (page := self._seat.read("column", Span(*partition, after, None), first)).names:
            yield page
            after = page.names[0]

    def everything(self, table: Table) -> Iterator[tuple[Address, Item]]:
        # No step: no actor of a schedule reads whole tables.
        return self._store.everything(table)

    def write(self, *changes: Change) -> None:
        checked = {Place(*each.address) for each in changes if isinstance(each, Check)}
        written = {Place(*each.address) for each in changes} - checked
        self._seat.write(checked, written, lambda: self._store.write(*changes))

    def _seen(self, span: Span) -> dict[str, Item | None]:
        """What a walk meets that is in flight, as it was before; None where nothing was."""
        hidden = self._seat.hidden.items()
        return {place.name: item for place, item in hidden if span.holds(place)}


class _Blobs(Intercepted):
    """Blobs that are put, read and listed in steps.

    To discard some is no step: no actor of a schedule reads blobs that are as old.
    """

    def __init__(self, seat: _Seat, inner: BlobStore) -> None:
        super().__init__(inner)
        self._seat = seat

    def put(self, name: str, data: bytes) -> None:
        footprint = Footprint("put", writes=frozenset({_blob(name)}))
        self._seat.step(footprint, lambda: self.inner.put(name, data))

    def get(self, name: str) -> bytes | None:
        found: bytes | None = self._seat.read("get blob", _blob(name), lambda: self.inner.get(name))
        return found

    def names(self, folder: str) -> Iterator[str]:
        span = Span(_BLOBS, folder, None, None)
        return iter(self._seat.read("names", span, lambda: list(self.inner.names(folder))))


def _lock(place: Place) -> Place:
    """Stands for the item as those who write it or depend on it see it: locked while in flight."""
    return place._replace(room=_LOCKED + place.room)


def _showing(task: str, place: Place) -> Footprint:
    done = Place("", "in flight", task)
    return Footprint("show", writes=frozenset({place, _lock(place), done}))


def _blob(name: str) -> Place:
    folder, _, last = name.rpartition("/")
    return Place(_BLOBS, folder, last)


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
        owner = _owner(self._nodes[shown].chosen)
        return next(
            each
            for each in reversed(range(shown))
            if self._nodes[each].chosen == owner and self._nodes[each].footprint.call == "write"
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


def _owner(name: str) -> str:
    """The actor who does something, or of whose write an item is shown."""
    return name.partition("/")[0]


def _in_order(earlier: str, later: str) -> bool:
    """Whether a step of one always comes before a later one of the other.

    Shows of one write come in any order, but all of them between their actor's steps.
    """
    return earlier == later or earlier == _owner(later) or _owner(earlier) == later
