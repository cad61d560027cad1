"""One world: machines with clocks of their own, the network between them, and what goes wrong.

Nothing in it reads the time of this machine, sleeps, or draws from another source than the seed.
"""

import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import count
from random import Random
from threading import current_thread
from types import SimpleNamespace
from typing import Any, Final, TypeVar
from unittest.mock import patch

from functions.webhooks import records as webhooks
from infra.server import feed, sealing, timer, trust, waits
from shared.authorizer import follower, view
from shared.authorizer.answers import NoResponse
from shared.authorizer.formats import ed25519
from shared.errors import Unavailable
from shared.model import feed as feed_model
from shared.model import revocations as revocation_model
from shared.model import seeds, service_accounts
from shared.model.audit import audit_log
from shared.model.deployment import SCHEMA
from shared.model.identifiers import before_all_of
from shared.model.lists import schedule as schedule_model
from shared.operations.base import operation
from shared.operations.lists import decisions
from tests.kit.faults import Crash
from tests.world.memory import Blobs, Records
from tests.world.stage import Drawn, Footprint, Perils, Seat, Stage, SteppedBlobs, SteppedStore

R = TypeVar("R")

EPOCH: Final = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
# The longest time that a request is waited for.
TIMEOUT: Final = 5.0
# How many API keys an account may have, how many webhooks a tenant, how many authorizers an owner.
QUOTA: Final = 2
_MARKS: Final = schedule_model.mark_partitions()[0].pk.rstrip("0")
# The same for the same arguments: many clients verify one head, and most lives begin alike.
_IS_SIGNED: Final = lru_cache(5000)(ed25519.is_signed)
_SIGNATURE: Final = lru_cache(5000)(seeds.signature)
_CALLS_A_FAULT: Final = ("get", "query", "count", "write", "put", "get blob", "names")


@dataclass
class Machine:
    """A machine: whether it runs, and how wrong its clock is, in seconds."""

    name: str
    world: "World"
    skew: float = 0.0
    is_up: bool = True
    # The highest schema that its release knows.
    release: int = SCHEMA
    stopped_until: float = 0.0
    # Of an earlier life, nothing goes on.
    life: int = 0
    # How many of its next calls fail, and how: see `World.making`.
    perils: list[str] = field(default_factory=list)
    cut_until: float = 0.0
    slow_until: float = 0.0
    memory: dict[str, Any] = field(default_factory=dict)

    def wall(self) -> datetime:
        """What its clock says."""
        return EPOCH + timedelta(seconds=self.world.now + self.skew)

    def new_id(self, kind: str, at: datetime | None = None) -> str:
        """Make an identifier, the same in each replay."""
        return f"{before_all_of(at or self.wall(), kind=kind)}z{next(self.world.numbers):015d}"

    def die(self) -> None:
        """Lose all that is in memory."""
        self.life += 1
        self.is_up = False
        self.perils.clear()
        self.memory.clear()
        self.world.on_death(self)


class World(Perils):
    """What happens, by the seed; `story` tells it."""

    def __init__(self, seed: str, records: Records, blobs: Blobs) -> None:
        self.seed = seed
        self.now = 0.0
        self.numbers = count()
        self.random = Random(f"{seed} schedule")
        self.story: list[str] = []
        self.tally: Counter[str] = Counter()
        self.steps = 0
        self.is_torn = self.is_over = False
        # The latest moment that a clock has said at a write.
        self.stamp = 0.0
        self.on_death: Callable[[Machine], object] = lambda _machine: None
        self.machines: dict[str, Machine] = {}
        self.observe: Callable[[], object] = lambda: None
        # What is wrong with a call of a machine, asked for at some time; None if nothing is.
        self.fault: Callable[[Machine, Footprint, float], str | None] = lambda *_: None
        self.faults: list[str] = []
        self._asked_at: dict[Seat, float] = {}
        self.stage = Stage(
            records,
            blobs,
            self._choose,
            observe=self._observed,
            perils=self,
            torn=lambda _name: self.is_torn,
        )
        self.store, self.blobs = SteppedStore(self.stage), SteppedBlobs(self.stage)
        self._homes: dict[Seat, list[tuple[Machine, int]]] = {}
        self._last: str | None = None
        # Who goes first, if that is not drawn at each step.
        self._ranks: dict[str, float] | None = {} if self.random.random() < 0.5 else None
        self._shown_at: dict[str, float] = {}
        # Who is woken by a mark.
        self._listening: dict[Seat, None] = {}

    def _observed(self) -> None:
        self.observe()

    def machine(self, name: str) -> Machine:
        """A new machine."""
        made = self.machines[name] = Machine(name, self)
        return made

    def tell(self, text: str) -> None:
        """Add a sentence to the story."""
        self.story.append(f"{self.now:8.2f} s  {text}")

    # --- actors ---

    def start(self, name: str, machine: Machine | None, run: Callable[[], object]) -> Seat:
        """Let an actor come in, who lives as long as its machine."""
        seat = self.stage.enter(f"{name}~{next(self.numbers)}", run)
        self._homes[seat] = [(machine, machine.life)] if machine else []
        return seat

    def sleep(self, seconds: float) -> None:
        """Let time pass for the actor whose thread this is."""
        seat = current_thread()
        assert isinstance(seat, Seat)
        seat.wakes_at = self.now + max(0.0, seconds)
        self.stage.step(Footprint("sleep"), lambda: None)

    def listen(self, seconds: float) -> None:
        """Let time pass until a mark is set, and so long at most."""
        seat = current_thread()
        assert isinstance(seat, Seat)
        self._listening[seat] = None
        self.sleep(seconds)
        self._listening.pop(seat)

    def wake(self, seat: Seat) -> None:
        """Let an actor go on who lets time pass."""
        seat.wakes_at = self.now

    def here(self) -> Machine:
        """The machine on which the actor runs whose thread this is."""
        return self._homes[current_thread()][-1][0]  # type: ignore[index]

    @contextmanager
    def off_stage(self) -> Iterator[None]:
        """Let the actor make its calls at once, while nobody else goes on."""
        seat = current_thread()
        assert isinstance(seat, Seat)
        seat.is_off_stage = True
        try:
            yield
        finally:
            seat.is_off_stage = False

    @contextmanager
    def on(self, machine: Machine) -> Iterator[None]:
        """Let the actor go on, on another machine."""
        homes = self._homes[current_thread()]  # type: ignore[index]
        homes.append((machine, machine.life))
        try:
            yield
        finally:
            homes.pop()

    def ready(self, seats: Iterable[Seat]) -> dict[str, Footprint]:
        now, homes, found = self.now, self._homes, dict[str, Footprint]()
        for seat in seats:
            if seat.wakes_at <= now and seat.pending is not None:
                on = homes[seat]
                lives = not on or on[0][0].life == on[0][1]
                if lives and all(machine.stopped_until <= now for machine, _ in on):
                    found[seat.name] = seat.pending
        return found

    def idle(self) -> bool:
        for seat in [each for each in self.stage.seats.values() if not self.lives(each)]:
            self.stage.bury(seat)
        ahead = [self._next(each) for each in self.stage.seats.values() if each.pending]
        ahead += [self._shown_at[each] for each in self.stage.tasks]
        later = [each for each in ahead if each > self.now]
        if not later or self.is_over:
            return False
        self.now = min(later)
        return True

    def lives(self, seat: Seat) -> bool:
        """Whether the machine of an actor has not died since it came in."""
        homes = self._homes[seat]
        return not homes or homes[0][0].life == homes[0][1]

    def _next(self, seat: Seat) -> float:
        stopped = [machine.stopped_until for machine, _ in self._homes[seat]]
        return max([seat.wakes_at, *stopped])

    def _choose(self, pending: Mapping[str, Footprint]) -> str | None:
        if self.is_over:
            return None
        self.steps += 1
        self.now += self.random.random() * 0.002
        if self._ranks is not None:
            return self._first(self._ranks, pending)
        if self._last not in pending or self.random.random() < 0.3:
            self._last = self.random.choice(list(pending))
        return self._last

    def _first(self, ranks: dict[str, float], pending: Iterable[str]) -> str:
        """The one who is ahead of the others, until it falls behind all of them."""
        first = max(pending, key=lambda each: ranks.setdefault(each, self.random.random()))
        if self.random.random() < 0.03:
            ranks[first] = -self.random.random()
        return first

    def may_show(self, task: str) -> bool:
        if task not in self._shown_at:
            # Most writes are shown at once, and a few are in flight for seconds.
            late = self.random.random() < 0.05
            self._shown_at[task] = self.now + self.random.random() * (5.0 if late else 0.05)
        return self._shown_at[task] <= self.now

    # --- what goes wrong at a call ---

    def arriving(self, seat: Seat) -> None:
        self._asked_at[seat] = self.now

    def making(self, seat: Seat, footprint: Footprint) -> None:
        homes = self._homes[seat]
        if any(machine.life != life for machine, life in homes):
            raise Crash
        if homes and (fault := self.fault(homes[-1][0], footprint, self._asked_at[seat])):
            self.faults.append(fault)
        if homes and homes[-1][0].perils and footprint.call in _CALLS_A_FAULT:
            self._strike(seat, homes[-1][0], footprint, "before")

    def answered(self, seat: Seat, footprint: Footprint) -> None:
        homes = self._homes[seat]
        if any(each.folder.startswith(_MARKS) for each in footprint.writes):
            for each in self._listening:
                each.wakes_at = min(each.wakes_at, self.now + self.random.random() * 0.01)
        if homes:
            self.stamp = max(self.stamp, self.now + homes[-1][0].skew)
        if homes and homes[-1][0].perils and footprint.call in ("write", "put"):
            self._strike(seat, homes[-1][0], footprint, "after")

    def _strike(self, seat: Seat, machine: Machine, footprint: Footprint, when: str) -> None:
        peril = machine.perils[0]
        is_late = peril in ("lose an answer", "die after a write")
        is_of_writes = is_late or peril == "die before a write"
        if is_late != (when == "after") or (
            is_of_writes and footprint.call not in ("write", "put")
        ):
            return
        machine.perils.pop(0)
        self.tally[peril] += 1
        self.tell(f"{machine.name}: {peril} ({footprint.call})")
        if peril == "stall":
            self.sleep(self.random.uniform(0.1, 10))
            self.making(seat, footprint)
            return
        if peril.startswith("die"):
            machine.die()
            raise Crash
        raise Unavailable(peril)

    # --- the network ---

    def request(
        self,
        server: Machine,
        serve: Callable[[], R],
        link: Machine,
        *,
        patience: float = TIMEOUT,
    ) -> R:
        """Have a server do something for the actor; `link` is whose network it is.

        Raises `NoResponse` if no answer comes in time; then it may have been done.
        """
        began = self.now
        self._pass(link, server)
        try:
            with self.on(server):
                result = serve()
        except Crash:
            raise NoResponse("the connection was closed") from None
        if link.perils and link.perils[0] == "lose a response":
            self._strike_link(link)
            self.sleep(TIMEOUT)
            raise NoResponse("timeout")
        self._pass(link, server)
        if self.now - began > patience:
            raise NoResponse("timeout")
        return result

    def _pass(self, link: Machine, server: Machine) -> None:
        self.sleep(self.random.random() * (2.4 if link.slow_until > self.now else 0.02))
        if max(link.cut_until, server.cut_until) > self.now:
            self.sleep(TIMEOUT)
            raise NoResponse("timeout")
        if not server.is_up:
            raise NoResponse("connection refused")

    def _strike_link(self, link: Machine) -> None:
        peril = link.perils.pop(0)
        self.tally[peril] += 1
        self.tell(f"{link.name}: {peril}")

    def take_peril(self, link: Machine, *names: str) -> str | None:
        """The next peril of a link, if it is one of these."""
        if link.perils and link.perils[0] in names:
            peril = link.perils[0]
            self._strike_link(link)
            return peril
        return None

    # --- time and chance for the code that runs in it ---

    def monotonic(self) -> float:
        """A clock that nobody sets."""
        return self.now + 1000.0

    def wall(self) -> float:
        """The clock of the machine on which the actor runs."""
        seat = current_thread()
        homes = self._homes.get(seat) if isinstance(seat, Seat) else None
        return self.now + EPOCH.timestamp() + (homes[-1][0].skew if homes else 0.0)

    @contextmanager
    def in_force(self, *others: tuple[Any, str, Any]) -> Iterator[None]:
        """Let all code read these clocks, and draw from the seed; `others` are patched too."""
        drawn: Any = Drawn(f"{self.seed} secrets")
        pacing = operation.RetryPacing(sleep=self._pause, clock=self.monotonic)
        time = SimpleNamespace(monotonic=self.monotonic, thread_time=lambda: 0.0, sleep=self._pause)
        with ExitStack() as stack:
            for target, name, value in (
                (secrets, "randbits", drawn.getrandbits),
                (secrets, "token_bytes", drawn.randbytes),
                (operation, "PACING", pacing),
                (operation, "_RANDOM", drawn),
                (revocation_model, "SHARDS", 3),
                (schedule_model, "MARK_PARTITIONS", 2),
                (feed_model, "ENTRY_MAX", 3),
                (decisions, "INLINE_MAX", 3),
                (audit_log, "SHARDS", 2),
                (service_accounts, "API_KEYS_MAX", QUOTA),
                (webhooks, "WEBHOOKS_MAX", QUOTA),
                (ed25519, "is_signed", _IS_SIGNED),
                (seeds, "signature", _SIGNATURE),
                (view, "monotonic", self.monotonic),
                (view, "now", self.wall),
                (follower, "_random", drawn),
                *((each, "time", time) for each in (feed, sealing, timer, trust, waits)),
                *others,
            ):
                stack.enter_context(patch.object(target, name, value))
            yield

    def _pause(self, seconds: float) -> None:
        seat = current_thread()
        if isinstance(seat, Seat) and not seat.is_off_stage:
            self.sleep(seconds)
