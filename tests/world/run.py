"""One life of a world, from its seed: who lives in it, what happens, and how it ends."""

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple
from unittest.mock import patch

from functions.feed import handler as feed_endpoints
from functions.trust import documents, publishing
from shared.adapters.local.file_sealer import FileSealer
from shared.model.deployment import SCHEMA
from shared.model.tenants import SettingsChange
from shared.operations.access import tenant_settings
from shared.operations.access.api_key_creation import CreatedKey
from shared.operations.operator import consistency
from shared.ports import Ports
from tests.kit.roots import OFFLINE
from tests.kit.tenants import Tenant
from tests.world import chores, relays, upgrades
from tests.world.broken import Broken
from tests.world.machines import (
    OF_A_RELAY,
    AdviceOfEach,
    Client,
    FreshnessOfEach,
    Publisher,
    Server,
    ports_of,
)
from tests.world.memory import Blobs, Records
from tests.world.oracle import Oracle
from tests.world.people import DEEDS, FAULTS, PERILS, Deed, Unknown
from tests.world.relays import House
from tests.world.world import QUOTA, Machine, World

HORIZON: Final = 27.0
HAPPENINGS: Final = 22
# How long it takes, once all is quiet, until everything is current: if a write was in flight for
# seconds, a mark is looked at again after six minutes (docs/adr/02).
QUIET: Final = 450.0
# How long after a change what was made beside it is made again.
SECOND_LOOK: Final = 430.0

# The folders of relays are written to as to a disk.
_MEMORY: Final = Path("/dev/shm")


class Happening(NamedTuple):
    """Something that happens, and chance for its details."""

    at: float
    kind: str
    chance: int
    tenant: int = 0


@dataclass(frozen=True)
class Genesis:
    """The records and blobs with which each life begins."""

    records: Records
    blobs: Blobs
    tenants: Sequence[Tenant]
    admins: Sequence[CreatedKey]
    pins: Sequence[str]


@cache
def sealer() -> FileSealer:
    """What seals the seeds of every world."""
    with TemporaryDirectory() as folder:
        return FileSealer.create(Path(folder) / "key")


@cache
def genesis() -> Genesis:
    """Two tenants with a list, a feed and a trust document."""
    world = World("genesis", Records(), Blobs())
    machine = world.machine("genesis")
    ports = ports_of(world, machine, sealer(), OFFLINE)
    with world.in_force(*upgrades.patches(world)):
        tenants = [Tenant.create(ports, name) for name in ("acme", "globex")]
        admins = [each.api_key(ports) for each in tenants]
        pins = []
        for each in tenants:
            change = SettingsChange(max_authorizers=QUOTA)
            tenant_settings.update(ports, each.operator, change=change)
            publishing.keep(ports, each.id)
            head = documents.read_head(ports, each.id)
            assert head is not None
            pins.append(documents.read_document(ports, each.id, head.version).document.roots.pin)
    return Genesis(world.stage.records, world.stage.blobs, tenants, admins, pins)


def plan(seed: int, *, happenings: int = HAPPENINGS, horizon: float = HORIZON) -> list[Happening]:
    """What happens: each seed switches a random half of the kinds on."""
    random = Random(f"{seed} plan")
    deeds = {name: weight for name, (_, weight) in DEEDS.items() if random.random() < 0.6}
    deeds |= {"revoke": DEEDS["revoke"][1]}
    faults = {name: 1 for name in FAULTS if random.random() < 0.5}
    is_torn = random.random() < 0.5
    found = [Happening(0.0, "torn", 0)] if is_torn else []
    number = random.choice([2, 4, 8, happenings])
    moments = [(random.uniform(0, horizon), random.randrange(2)) for _ in range(number)]
    for _ in range(happenings):
        kinds = faults if faults and random.random() < 0.4 else deeds
        (kind,) = random.choices(list(kinds), list(kinds.values()))
        # What happens at the same moment is what races.
        at, tenant = random.choice(moments)
        at += random.choice([0.0, 0.0, 0.01, 0.1])
        found.append(Happening(at, kind, random.getrandbits(32), tenant))
    return sorted(found)


class Life:
    """A world with its inhabitants."""

    def __init__(self, seed: int, happenings: Collection[Happening], order: int = 0) -> None:
        start = genesis()
        self.world = World(f"{seed} {order}", start.records.copy(), Blobs(dict(start.blobs.found)))
        self.world.numbers = iter(range(10**6, 10**9))  # type: ignore[assignment]
        self.happenings = sorted(happenings)
        self.random = Random(f"{seed} life")
        self.oracle = Oracle(self.world, zip(start.tenants, start.admins, strict=True))
        self.people = self.world.machine("the office")
        self.servers = [
            self._server(f"server {each}") for each in range(self.random.choice([1, 2, 3]))
        ]
        self.oracle.is_sealed = self.random.random() < 0.5
        self.publishers = [
            self._publisher(f"publisher {n}") for n in range(self.random.choice([1, 2]))
        ]
        self.folder = TemporaryDirectory(dir=_MEMORY if _MEMORY.exists() else None)
        self.relays = [self._relay(f"relay {n}") for n in range(self.random.choice([0, 0, 1]))]
        self.clients = [self._client(f"client {n}") for n in range(self.random.choice([1, 2, 3]))]
        self.oracle.clients = self.clients
        if any(each.kind == "upgrade" for each in self.happenings):
            upgrades.prepare(self)
        self.backup: Records | None = None
        self.is_restoring = self.is_calm = self.has_moved = self.has_failed_over = False
        # Who follows a server that reads what was moved away.
        self.left: dict[str, Server] = {}
        self.restores = 0
        self._rebase()
        self.running: list[Publisher | Client | House] = [
            *self.publishers,
            *self.relays,
            *self.clients,
        ]
        self.world.observe = self.oracle.look
        self.world.on_death = lambda machine: self.revive(machine, self.random.uniform(0.1, 8))

    def ports(self, machine: Machine, root: object = None) -> Ports:
        """The ports as a machine has them."""
        return ports_of(self.world, machine, sealer(), root)

    def _server(self, name: str) -> Server:
        machine = self.world.machine(name)
        return Server(machine, self.ports(machine))

    def _relay(self, name: str) -> House:
        tenant, pin = self._tenant()
        machine, folder = self.world.machine(name), Path(self.folder.name) / name
        up = partial(self.server_of, machine)
        return House(self.world, machine, tenant, pin, up, folder)

    def _client(self, name: str) -> Client:
        tenant, pin = self._tenant()
        machine = self.world.machine(name)
        near = next((each for each in self.relays if each.tenant is tenant), None)
        if near is not None:
            return Client(self.world, machine, tenant, pin, lambda: near, OF_A_RELAY)
        return Client(self.world, machine, tenant, pin, partial(self.server_of, machine))

    def _tenant(self) -> tuple[Tenant, str]:
        return self.random.choice(list(zip(genesis().tenants, genesis().pins, strict=True)))

    @property
    def followers(self) -> list[Client | House]:
        """Those who follow the feed, and have a disk."""
        return [*self.clients, *self.relays]

    def _publisher(self, name: str) -> Publisher:
        machine = self.world.machine(name)
        ports = self.ports(machine, OFFLINE)
        return Publisher(self.world, machine, ports, seals=self.oracle.is_sealed)

    @property
    def in_flight(self) -> bool:
        """Whether a write was accepted that is not shown yet."""
        return bool(self.world.stage.records.hidden)

    def server(self) -> Server:
        """One of the servers, as a balancer chooses it."""
        left = self.left.values()
        there = [each for each in self.servers if each not in left or not each.is_left]
        return self.world.random.choice(there)

    def server_of(self, follower: Machine) -> Server:
        """The server of one who follows."""
        left = self.left.get(follower.name)
        return left if left and left.is_left else self.server()

    def of_kind(self, kind: str) -> list[Machine]:
        """The machines of a kind."""
        clients = [each.machine for each in self.followers]
        if kind == "client":
            return clients
        if kind == "link":
            return [*clients, self.people]
        return [*(each.machine for each in self.servers), *(p.machine for p in self.publishers)]

    def revive(self, machine: Machine, seconds: float) -> None:
        """Let a machine start again after so long."""
        self.world.start(f"{machine.name} starts", None, lambda: self._revived(machine, seconds))

    def _revived(self, machine: Machine, seconds: float) -> None:
        self.world.sleep(seconds)
        while self.is_restoring and machine.name != "desk":
            self.world.sleep(1)
        if machine.is_up:
            return
        begins = upgrades.begin(self, machine)
        if machine.is_up:
            return
        if not begins or (self.is_restoring and machine.name != "desk"):
            machine.memory.clear()
            self.revive(machine, 1)
            return
        machine.is_up = True
        self.world.tell(f"{machine.name} starts again")
        if machine is self.world.machines.get("desk") and self.is_restoring:
            self.world.start("recover", machine, self._start_again)
        for each in self.running:
            if each.machine is machine:
                each.start()

    def stop(self, words: str, recover: Callable[[Ports], object]) -> None:
        """Stop the service; it starts again when `recover` has ended."""
        self.is_restoring, self._recover = True, recover
        self.restores += 1
        self.world.tell(words)
        for machine in self.of_kind("server"):
            if machine.is_up:
                machine.die()
        self.world.start("recover", self.world.machine("desk"), self._start_again)

    def go_on_with(
        self, records: Records, blobs: Blobs | None = None, *, is_moved: bool = False
    ) -> None:
        """Let other records, and blobs, be those of the service; they have all if `is_moved`."""
        stage = self.world.stage
        if blobs is not None:
            stage.blobs.found.clear()
            stage.blobs.found.update(blobs.found)
        if not is_moved:
            self.oracle.before_restore(self.ports(Machine("desk", self.world)))
        stage.tasks.clear()
        stage.records.become(records)
        self._rebase()

    def _rebase(self) -> None:
        """From now on a copy in another region gets what changes in these records and blobs."""
        stage = self.world.stage
        self.base = stage.records.copy(), dict(stage.blobs.found)
        stage.records.updates.clear()

    def _start_again(self) -> None:
        self._recover(self.ports(self.world.machines["desk"], OFFLINE))
        self.world.tell("the service starts again")
        self.oracle.is_suspended = self.is_restoring = False
        # A second region is not lost before it has what the takeover wrote.
        self._rebase()
        # Nobody may write before the next restore.
        self.oracle.look()

    def live(self) -> None:
        """Let it all happen. Raises `Broken`."""
        with (
            self.folder,
            _quiet(),
            self.world.in_force(*upgrades.patches(self.world), *relays.patches()),
            patch.object(feed_endpoints, "FRESHNESS", FreshnessOfEach(self.world)),
            patch.object(feed_endpoints, "_ADVICE", AdviceOfEach(self.world)),
        ):
            for each in self.running:
                each.start()
            self.world.start("time", None, self._direct)
            self.world.stage.play()
        for name, outcome in self.world.stage.outcomes.items():
            if isinstance(outcome, Broken):
                raise outcome
            if isinstance(outcome, Exception):
                raise Broken(f"{name} fails: {outcome!r}") from outcome

    def _direct(self) -> None:
        try:
            for each in self.happenings:
                self.world.sleep(each.at - self.world.now)
                self._happen(each)
                self.oracle.settle()
            self.world.sleep(HORIZON - self.world.now)
            self._calm()
            self._end()
        finally:
            self.world.is_over = True

    def _happen(self, happening: Happening) -> None:
        random = Random(happening.chance)
        # A peril counts when it strikes.
        self.world.tally[happening.kind] += happening.kind not in PERILS
        if happening.kind == "torn":
            self.world.is_torn = True
        elif happening.kind in FAULTS:
            FAULTS[happening.kind](self, random)
        else:
            books = list(self.oracle.books.values())[happening.tenant]
            run, _ = DEEDS[happening.kind]
            deed = Deed(self, books, random, books.tenant.operator.identity.partition("@")[2])

            def act() -> None:
                try:
                    run(deed)
                except Unknown:
                    return

            self.world.start(happening.kind, self.people, act)

    def _calm(self) -> None:
        """Let nothing go wrong any more."""
        self.world.tell("from now on nothing goes wrong")
        self.is_calm = True
        for each in self.relays:
            each.taken_until = 0.0
        for server in self.left.values():
            server.machine.die()
        for machine in self.world.machines.values():
            machine.perils.clear()
            machine.skew = machine.slow_until = machine.cut_until = machine.stopped_until = 0.0
            upgrades.install(self, machine, SCHEMA)
            if not machine.is_up:
                self.revive(machine, 0.5)

    def _end(self) -> None:
        until = self.world.now + QUIET
        while behind := self._behind():
            if self.world.now > until:
                raise Broken(f"after {QUIET:.0f} s: {behind}")
            self.world.sleep(2)
        if self._problems():
            # What was in flight while a list was made has a second look (docs/adr/02).
            self.world.sleep(SECOND_LOOK)
        for found in self._problems():
            raise Broken(found)

    def _problems(self) -> list[str]:
        """Hold all records against each other, as the operator's commands do."""
        desk = self.ports(self.world.machine("desk"))
        while self.in_flight:
            self.world.sleep(1)
        found = list[str]()
        with self.world.off_stage():
            for each in self.oracle.books.values():
                chores.count_again(desk, each.tenant.id)
                found += chores.compare_ways(desk, each.tenant.id)
                each.tenant.check_totals(desk, is_torn=self.has_failed_over)
                found += [it.problem for it in consistency.examine(desk, each.tenant.id)]
                each.ledger.examine(self.world.stage.records, desk)
                for register in each.registers:
                    register.check(self.world.stage.records)
        return found

    def _behind(self) -> list[str]:
        if self.is_restoring:
            return ["the records are being restored"]
        self.oracle.settle()
        behind = self.oracle.releases.behind(self)
        return [*self.oracle.open(), *self.oracle.behind(), *behind]


@contextmanager
def _quiet() -> Iterator[None]:
    """That faults are logged is no news here."""
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
