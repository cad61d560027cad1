"""Actors of whom one goes on at a time, and the calls at which they stop.

An actor is a function that runs in a thread of its own. It stops before each of its calls to the
store or the blobs, and goes on only when it is chosen: so a schedule is the list of those who were
chosen, and can be replayed. Neither a walk nor a read of many is a snapshot: each is a call an
item. A write of an actor that is torn is shown item by item, and acknowledged when all are shown;
they are, even if its actor dies.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from random import Random, SystemRandom
from typing import Any, Final, NamedTuple, TypeVar

from shared.errors import BlobExists, PreconditionFailed
from shared.ports.store import (
    EVERYTHING,
    Address,
    Change,
    Check,
    ColumnPage,
    Item,
    ItemFilter,
    ItemRow,
    Partition,
    Table,
)
from tests.world.memory import Blobs, Records

R = TypeVar("R")

_BLOBS: Final = "blobs"
_LOCKED: Final = "locked "


class Place(NamedTuple):
    """An item, or a blob."""

    room: str
    folder: str
    name: str


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
ORDER: Final = Place("", "order", "")
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


Choose = Callable[[Mapping[str, Footprint]], str | None]


class Perils:
    """What goes wrong at the calls of actors: nothing. A method may raise for the actor."""

    def arriving(self, seat: "Seat") -> None:
        """The actor is about to make a call, for which it will be chosen."""

    def making(self, seat: "Seat", footprint: Footprint) -> None:
        """The actor makes the call now."""

    def made(self, name: str, footprint: Footprint, *, changed: bool) -> None:
        """The actor, or the task of this name, has made a step."""

    def answered(self, seat: "Seat", footprint: Footprint) -> None:
        """The call has changed something, and its answer is on the way."""

    def ready(self, seats: Iterable["Seat"]) -> "dict[str, Footprint]":
        """Those of the actors who can go on now, each with its next call."""
        return {seat.name: seat.pending for seat in seats if seat.pending}

    def may_show(self, _task: str) -> bool:
        """Whether an item can be shown now."""
        return True

    def idle(self) -> bool:
        """Nobody can go on. Return whether somebody can now, because time has passed."""
        return False


class Abandoned(BaseException):
    """The schedule ends here, for no fault of the actor."""


class Stage:
    """The actors of one run: of all their threads, one goes on, the rest wait for their turn.

    `torn` says whose writes are shown item by item. `observe` is called after each change.
    """

    def __init__(
        self,
        records: Records,
        blobs: Blobs,
        choose: Choose,
        *,
        observe: Callable[[], object],
        perils: Perils | None = None,
        torn: Callable[[str], bool] = lambda _name: False,
        watched: Iterable[Place | Span] = (),
    ) -> None:
        self.records, self.blobs = records, blobs
        self.torn, self.watched = torn, frozenset(watched)
        self.perils = perils or Perils()
        self.seats: dict[str, Seat] = {}
        self.outcomes: dict[str, object] = {}
        # What is to be shown, by the task to do it.
        self.tasks: dict[str, tuple[Seat, Address]] = {}
        self._choose, self._observe = choose, observe
        self._entering, self._left = list[Seat](), list[Seat]()
        self._over = threading.Semaphore(0)
        self._is_over = False
        self._error: BaseException | None = None

    def enter(self, name: str, actor: Callable[[], object]) -> "Seat":
        """Let an actor come in, who goes on to its first call before anybody else does."""
        seat = self.seats[name] = Seat(self, name, actor)
        self._entering.append(seat)
        return seat

    def play(self) -> None:
        """Go on until nobody is chosen any more. Raises what `choose` or `observe` raised."""
        self._go_on(None)
        self._over.acquire()
        self._is_over = True
        for seat in [*self._left, *self.seats.values()]:
            if seat.ident is not None:
                seat.turn.release()
                seat.join()
        if self._error is not None:
            raise self._error

    def step(self, footprint: Footprint, call: Callable[[], R]) -> R:
        """Make a call of the actor whose thread this is, once it is chosen for it."""
        seat = threading.current_thread()
        if not isinstance(seat, Seat) or seat.is_off_stage:
            return call()
        self.perils.arriving(seat)
        self._wait(seat, footprint)
        self.perils.making(seat, footprint)
        try:
            result = call()
        except (BlobExists, PreconditionFailed):
            self.perils.made(seat.name, footprint, changed=False)
            raise
        self.perils.made(seat.name, footprint, changed=bool(footprint.writes))
        if footprint.writes:
            seat.changes += 1
            self._look()
            self.perils.answered(seat, footprint)
        return result

    def rest(self) -> None:
        """Let the actor whose thread this is wait until no write is in flight."""
        self.step(Footprint("rest", reads=frozenset({_IN_FLIGHT})), lambda: None)

    def write(self, changes: tuple[Change, ...]) -> None:
        """Make a write, which may be shown item by item."""
        checked = {_place(each.address) for each in changes if isinstance(each, Check)}
        written = {_place(each.address) for each in changes} - checked
        name = threading.current_thread().name
        torn = len(changes) > 1 and self.torn(name)
        # An item that is shown at once has no moment between its lock and its change.
        shown = {Place("", "in flight", name)} if torn else written
        reads: set[Place | Span] = set(map(lock, checked))
        if written & self.watched:
            reads.add(_ACKNOWLEDGED)
        writes = frozenset({*map(lock, written), *shown, ORDER})
        footprint = Footprint("write", frozenset(reads), writes)
        seat = threading.current_thread()
        if torn and isinstance(seat, Seat) and not seat.is_off_stage:
            self.step(footprint, lambda: self._accept(seat, changes))
            self._acknowledge(seat)
        else:
            self.step(footprint, lambda: self.records.write(*changes))

    def _accept(self, seat: "Seat", changes: tuple[Change, ...]) -> None:
        for number, address in enumerate(sorted(self.records.accept(changes, hides=True))):
            self.tasks[f"{seat.name}/{seat.changes}.{number}"] = (seat, address)
        # Also if it dies before it hears of that.
        done = Place("", "acknowledged", seat.name)
        seat.pending = Footprint("acknowledged", writes=frozenset({done}))

    def _acknowledge(self, seat: "Seat") -> None:
        assert seat.pending is not None
        footprint = seat.pending
        self._wait(seat, footprint)
        self._acknowledged(seat, footprint)

    def _acknowledged(self, seat: "Seat", footprint: Footprint) -> None:
        seat.pending = None
        self.perils.made(seat.name, footprint, changed=True)
        self._look()

    def _wait(self, seat: "Seat", footprint: Footprint) -> None:
        """Let others go on until the actor is chosen."""
        seat.pending = footprint
        if self._go_on(seat):
            seat.turn.acquire()
        seat.pending = None
        if self._is_over:
            raise Abandoned

    def _go_on(self, current: "Seat | None") -> bool:
        """Let the one go on who is chosen; return whether that is somebody else."""
        if self._entering:
            self._entering.pop(0).start()
            return True
        while (chosen := self._next()) is not None:
            if chosen in self.tasks:
                _, address = self.tasks.pop(chosen)
                self.records.show(address)
                self.perils.made(chosen, showing(chosen, address), changed=True)
            elif chosen in self.outcomes:
                # It died, but its write was accepted.
                seat = self.seats[chosen]
                assert seat.pending is not None
                self._acknowledged(seat, seat.pending)
            elif self.seats[chosen] is current:
                return False
            else:
                self.seats[chosen].turn.release()
                return True
        self._over.release()
        return True

    def _next(self) -> str | None:
        try:
            while True:
                pending = self.perils.ready(self.seats.values())
                if self.records.hidden or self.tasks:
                    seats = self.seats
                    pending = {n: it for n, it in pending.items() if self._may(seats[n], it)}
                    pending |= {
                        task: showing(task, address)
                        for task, (_, address) in self.tasks.items()
                        if self.perils.may_show(task)
                    }
                if pending:
                    return self._choose(pending)
                if not self.perils.idle():
                    return None
        except Exception as error:  # noqa: BLE001 (raised again where the run was begun)
            self._error = error
            return None

    def _may(self, seat: "Seat", pending: Footprint) -> bool:
        """Whether what is in flight lets the actor make its next call now."""
        if pending.call == "rest":
            return not self.records.hidden
        if pending.call == "acknowledged":
            return not any(owner is seat for owner, _ in self.tasks.values())
        if pending.call == "write" and self.records.hidden:
            return not any(pending.touches(lock(_place(each))) for each in self.records.hidden)
        return True

    def bury(self, seat: "Seat") -> None:
        """The actor, who waits, is never chosen again."""
        self._left.append(self.seats.pop(seat.name))

    def leave(self, seat: "Seat", outcome: object) -> None:
        """The actor makes no further call."""
        self.outcomes[seat.name] = outcome
        if seat.pending is None:
            self._left.append(self.seats.pop(seat.name))
        self._go_on(None)

    def _look(self) -> None:
        try:
            self._observe()
        except Exception as error:
            self._error = self._error or error
            self._over.release()
            raise Abandoned from error


class Seat(threading.Thread):
    """One actor: its thread, its turn, and the call that it is about to make."""

    def __init__(self, stage: Stage, name: str, actor: Callable[[], object]) -> None:
        super().__init__(name=name, daemon=True)
        self.turn = threading.Semaphore(0)
        self.pending: Footprint | None = None
        self.changes = 0
        # Until when it lets time pass.
        self.wakes_at = 0.0
        self.stage = stage
        # Whether it makes its calls at once.
        self.is_off_stage = False
        self._actor = actor

    def run(self) -> None:
        self.pending = None
        with suppress(Abandoned):
            try:
                outcome = self._actor()
            except Abandoned:
                raise
            except BaseException as error:  # noqa: BLE001 (what an actor died of is for the test)
                outcome = error
            self.stage.leave(self, outcome)


class SteppedStore:
    """The store as actors have it, one step a call."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def made_at(self) -> str:
        return self._stage.records.made_at()

    def get(self, address: Address) -> Item | None:
        partition = Partition(address.table, address.pk)
        return self._read(
            "get", _place(address), lambda: self._stage.records.seen(partition).get(address)
        )

    def get_many(self, addresses: Iterable[Address]) -> dict[Address, Item]:
        found = {each: self.get(each) for each in dict.fromkeys(addresses)}
        return {each: item for each, item in found.items() if item is not None}

    def query(
        self,
        partition: Partition,
        *,
        after: str | None = None,
        before: str | None = None,
        newest_first: bool = False,
        limit: int | None = None,
        where: ItemFilter = EVERYTHING,
    ) -> Iterator[ItemRow]:
        bounds: dict[str, Any] = {"newest_first": newest_first, "limit": 1, "where": where}

        def first() -> ItemRow | None:
            seen = self._stage.records.seen(partition)
            return next(seen.query(partition, after=after, before=before, **bounds), None)

        for _ in count() if limit is None else range(limit):
            row = self._read("query", Span(*partition, after, before), first)
            if row is None:
                return
            yield row
            after, before = (after, row.sk) if newest_first else (row.sk, before)

    def query_many(
        self, partitions: Iterable[Partition], **bounds: Any
    ) -> dict[Partition, list[ItemRow]]:
        return {each: list(self.query(each, **bounds)) for each in partitions}

    def count(
        self,
        partition: Partition,
        *,
        after: str | None = None,
        before: str | None = None,
        where: ItemFilter = EVERYTHING,
    ) -> int:
        bounds: dict[str, Any] = {"after": after, "before": before, "where": where}

        def number() -> int:
            return self._stage.records.seen(partition).count(partition, **bounds)

        return self._read("count", Span(*partition, after, before), number)

    def column(
        self, partition: Partition, attribute: str, *, after: str | None = None
    ) -> Iterator[ColumnPage]:
        for row in self.query(partition, after=after):
            yield ColumnPage.of([row.sk], [row], attribute)

    def everything(self, table: Table) -> Iterator[tuple[Address, Item]]:
        # No step: only commands of the operator read whole tables.
        return self._stage.records.everything(table)

    def write(self, *changes: Change) -> None:
        self._stage.write(changes)

    def _read(self, verb: str, what: Place | Span, call: Callable[[], R]) -> R:
        reads: set[Place | Span] = {what}
        if what in self._stage.watched:
            reads |= {ORDER, _ACKNOWLEDGED}
        return self._stage.step(Footprint(verb, frozenset(reads)), call)


class SteppedBlobs(Blobs):
    """The blobs as actors have them: put, read and listed in steps.

    To discard some is no step: nobody reads blobs that are as old.
    """

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage.blobs.found, stage.records.updates)
        self._stage = stage

    def put(self, name: str, data: bytes) -> None:
        footprint = Footprint("put", writes=frozenset({_blob(name)}))
        self._stage.step(footprint, lambda: Blobs.put(self, name, data))

    def get(self, name: str) -> bytes | None:
        footprint = Footprint("get blob", frozenset({_blob(name)}))
        return self._stage.step(footprint, lambda: Blobs.get(self, name))

    def discard(self, folder: str, **which: Any) -> None:
        Blobs(self.found).discard(folder, **which)

    def names(self, folder: str) -> Iterator[str]:
        span = Span(_BLOBS, folder, None, None)
        footprint = Footprint("names", frozenset({span}))
        return self._stage.step(footprint, lambda: Blobs.names(self, folder))


def lock(place: Place) -> Place:
    """Stands for the item as those who write it or depend on it see it: locked while in flight."""
    return place._replace(room=_LOCKED + place.room)


def showing(task: str, address: Address) -> Footprint:
    """The footprint of showing an item."""
    place = _place(address)
    return Footprint("show", writes=frozenset({place, lock(place), Place("", "in flight", task)}))


def _place(address: Address) -> Place:
    return Place(*address)


def _blob(name: str) -> Place:
    folder, _, last = name.rpartition("/")
    return Place(_BLOBS, folder, last)


def owner(name: str) -> str:
    """The actor who does something, or of whose write an item is shown."""
    return name.partition("/")[0]


class Drawn:
    """Numbers from a seed for actors, and others for the threads of a server that tests share."""

    def __init__(self, seed: str | int) -> None:
        self._drawn, self._own = Random(seed), threading.current_thread()

    def __getattr__(self, name: str) -> Any:
        def draw(*given: Any) -> Any:
            thread = threading.current_thread()
            is_own = isinstance(thread, Seat) or thread is self._own
            return getattr(self._drawn if is_own else SystemRandom(), name)(*given)

        return draw
