"""Two releases on one store: servers are updated one by one (docs/adr/15).

A server of the earlier release is this code, which knows the schema before. It must not write any
more soon after a newer one has started.
"""

from random import Random
from threading import current_thread
from types import SimpleNamespace, TracebackType
from typing import TYPE_CHECKING, Any, Final

from shared.adapters import fenced
from shared.adapters.fenced import AGE_SECONDS_MAX, DeploymentFence
from shared.errors import InvalidSettings, RescindError, StaleProcess
from shared.model.deployment import ADDRESS, SCHEMA, Deployment
from shared.operations.operator import deployment
from shared.ports.store import Expect, Put
from tests.kit.faults import Crash
from tests.world.stage import Footprint, Seat
from tests.world.world import Machine, World

if TYPE_CHECKING:
    from tests.world.run import Life

# The schema that the release before knows.
BEFORE: Final = SCHEMA - 1


class FencedOfEach:
    """The store as a machine has it, from its start on as long as its release may use it."""

    def __init__(self, world: World, machine: Machine) -> None:
        self._world, self._machine = world, machine

    def __getattr__(self, name: str) -> Any:
        self.fence()
        return getattr(self._machine.memory["store"], name)

    def fence(self) -> DeploymentFence:
        """What keeps the process from the store. Raises `StaleProcess`: then it does not start."""
        memory, machine = self._machine.memory, self._machine
        if "fence" not in memory:
            store: Any = self._world.store
            found = Deployment.of(store.get(ADDRESS))
            try:
                found.check_schema(machine.release)
                found.check_in_charge()
            except InvalidSettings as error:
                raise StaleProcess from error
            made = memory["fence"] = DeploymentFence(store, found, schema=machine.release)
            memory["store"] = made.store
        fence: DeploymentFence = memory["fence"]
        return fence


class TurnOfActors:
    """A lock for actors: who waits for it lets others go on. One who has died holds nothing."""

    def __init__(self) -> None:
        self._holder: Seat | None = None

    def __enter__(self) -> None:
        seat = current_thread()
        assert isinstance(seat, Seat)
        world = seat.stage.perils
        assert isinstance(world, World)
        while self._holder and world.lives(self._holder) and not seat.is_off_stage:
            world.sleep(0.01)
        self._holder = seat

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._holder = None


def patches(world: World) -> list[tuple[Any, str, Any]]:
    """What lets the fence read the clocks of the world."""
    time = SimpleNamespace(monotonic=world.monotonic, time=world.wall)
    return [(fenced, "time", time), (fenced, "Lock", TurnOfActors)]


class Watch:
    """Notices a process that writes although a newer release has taken the store over."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._item: Any = self
        self._schema, self._raised_at = 0, 0.0

    def look(self) -> None:
        """Look at what the store says of its schema."""
        item = self._world.stage.records.get(ADDRESS)
        if item is not self._item:
            self._item, schema = item, Deployment.of(item).schema
            if schema != self._schema:
                self._schema, self._raised_at = schema, self._world.now

    def fault(self, machine: Machine, footprint: Footprint, asked_at: float) -> str | None:
        """What is wrong with a call that a machine has asked for at this time, after a check."""
        is_late = asked_at > self._raised_at + AGE_SECONDS_MAX
        if footprint.call == "write" and machine.release < self._schema and is_late:
            return f"{machine.name} writes with the release before, {self._schema} is the schema"
        return None

    def behind(self, life: "Life") -> list[str]:
        """Whether the store does not have the schema of its servers."""
        newest = max(each.release for each in life.of_kind("server"))
        return [] if self._schema == newest else [f"the store has the schema {self._schema}"]


def prepare(life: "Life") -> None:
    """Let all servers be of the release before, and so the store."""
    before = Deployment.of(life.world.stage.records.get(ADDRESS)).next(schema=BEFORE)
    life.world.stage.records.write(Put(ADDRESS, before.to_item(), Expect.PRESENT))
    for each in life.of_kind("server"):
        each.release = BEFORE


def upgrade(life: "Life", random: Random) -> None:
    """Install this release on one server after another; sometimes the one before once more."""
    machines = life.of_kind("server")
    random.shuffle(machines)

    def install_all() -> None:
        for each in machines:
            install(life, each, SCHEMA)
            life.world.sleep(random.uniform(0, 12))
            if random.random() < 0.2 and not life.is_calm:
                install(life, each, BEFORE)

    life.world.start("upgrade", None, install_all)


def install(life: "Life", machine: Machine, release: int) -> None:
    """Stop a server, and start another release in its place."""
    if machine.release == release:
        return
    machine.release = release
    life.world.tell(f"{machine.name} gets the release of schema {release}")
    if machine.is_up:
        machine.die()


def begin(life: "Life", machine: Machine) -> bool:
    """Start a process as `rescind serve` does; return whether it starts."""
    if machine.release != SCHEMA or machine not in life.of_kind("server"):
        # A server of the release before does what it did, and raises no schema.
        return True
    try:
        with life.world.on(machine):
            deployment.mark_schema(life.ports(machine))
    except (RescindError, Crash):
        return False
    return True
