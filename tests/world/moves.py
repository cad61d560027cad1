"""Other records take over: a backup, a copy in a second region, the target of a move (docs/adr/14).

A copy has any of the last items and blobs, each as it was at some moment. A move ends while nobody
can write; a process that reads the source all the same soon says nothing any more (OPS-13).
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final

from shared.adapters.fenced import DeploymentFence, ReadOnlyStore
from shared.adapters.stored_usage import StoreUsageCounts
from shared.errors import DataCorrupt, InvalidState
from shared.model.deployment import ADDRESS, Deployment, DeploymentPart
from shared.operations.lists import verdicts
from shared.operations.operator import failover, moving, restored
from shared.operations.operator.recovery import recovery
from shared.ports import Ports
from tests.operations.replicas import Image, Update, arrived, put, revoked_here
from tests.world.broken import Broken
from tests.world.machines import Server
from tests.world.memory import Blobs, Records
from tests.world.world import Machine

if TYPE_CHECKING:
    from tests.world.run import Life

# How often what had not arrived arrives after the failover.
_THEN_THE_REST: Final = 0.2


def back_up(life: "Life", _random: Random) -> None:
    """Copy the records, unless they are not in charge, which the command refuses."""
    if Deployment.of(life.world.stage.records.get(ADDRESS)).part is not DeploymentPart.SERVING:
        return
    life.backup = life.world.stage.records.copy()
    for each in life.oracle.books.values():
        each.ledger.copy()
    life.world.tell("the records are copied")


def restore(life: "Life", _random: Random) -> None:
    """Put the records back to their copy, recover, and start the service again (OPS-9)."""
    backup = life.backup
    if backup is None:
        return

    def begin() -> None:
        if life.is_restoring:
            return
        life.stop("the records are put back", partial(_recover, life))
        life.go_on_with(replace(backup.copy(), made=f"{life.world.now}"))

    life.world.start("restore", None, begin)


def _recover(life: "Life", desk: Ports) -> None:
    # As the command that puts a copy back does.
    restored.mark(desk, copied_at=None)
    for books in life.oracle.books.values():
        try:
            done = recovery.recover(desk, books.tenant.operator)
        except DataCorrupt:
            # After two thefts at once, no document names who signed the newest list.
            trusted = life.oracle.list_keys[books.tenant.id]
            done = recovery.recover(desk, books.tenant.operator, trusted_keys=trusted)
        life.oracle.recovered(books, desk, is_said=bool(done.unknown))
    restored.check_recovered(desk)


def fail_over(life: "Life", random: Random) -> None:
    """The region is lost; its copy goes on, which has any of the last items (OPS-24)."""
    late = int(random.choice([3, 10, 30, 100]) * random.random() + 1)
    comes = random.random() < _THEN_THE_REST

    def begin() -> None:
        if life.is_restoring:
            return
        updates = [Update(*each) for each in life.world.stage.records.updates]
        desk = life.ports(life.world.machine("the copy"))
        copy = _on(desk, life.base[0].copy(), Blobs(dict(life.base[1])))
        put(copy, arrived(updates, random, late=min(late, len(updates))))
        known = _revoked_here(life, copy)
        rest: Image = dict(updates) if comes else {}
        life.stop(
            "the region is lost, and its copy goes on", partial(_take_over, life, known, rest)
        )
        life.backup, life.has_failed_over = None, True
        for each in life.oracle.books.values():
            each.ledger.copied = frozenset()
        life.go_on_with(copy.store, copy.blobs)  # type: ignore[arg-type]  # both are in memory

    life.world.start("fail over", None, begin)


def _on(ports: Ports, records: Records, blobs: Blobs) -> Ports:
    store: Any = records
    return replace(ports, store=store, usage=StoreUsageCounts(store), blobs=blobs)


def _revoked_here(life: "Life", copy: Ports) -> dict[str, set[str]]:
    return {name: revoked_here(copy, it.tenant) for name, it in life.oracle.books.items()}


def _take_over(life: "Life", known: dict[str, set[str]], rest: Image, desk: Ports) -> None:
    _fail_over(life, known, desk)
    if rest:
        stage = life.world.stage
        written = {place for place, _ in stage.records.updates}
        here = _on(desk, stage.records, stage.blobs)
        # Of two regions that write an item, the later write stays.
        put(here, {place: now for place, now in rest.items() if place not in written})
        _fail_over(life, _revoked_here(life, here), desk)
    for books in life.oracle.books.values():
        life.oracle.recovered(books, desk, is_said=True)


def _fail_over(life: "Life", known: dict[str, set[str]], desk: Ports) -> None:
    done = failover.recover(desk)
    if done.failed:
        trusted = [each for found in life.oracle.list_keys.values() for each in found]
        done = failover.recover(desk, trusted_keys=trusted)
    if done.failed:
        raise Broken(f"a copy is not recovered: {done.failed}")
    for tenant_id, ids in known.items():
        with life.world.off_stage():
            found = verdicts.read_statuses(desk, tenant_id, ids)
        if lost := {each for each in ids if not found[each].revoked}:
            raise Broken(f"the failover lost {lost}, which had arrived")


def move(life: "Life", random: Random) -> None:
    """Move all data to an empty store while the service is used, and go on from there (OPS-16)."""
    if life.is_restoring or life.has_moved:
        return
    life.has_moved = True
    is_left, seconds, target = random.random() < 0.7, random.uniform(0, 3), (Records(), Blobs())

    def begin() -> None:
        source, to = _ends(life, life.ports(life.world.machine("the mover")), target)
        try:
            moving.begin(source, to)
        except InvalidState as error:
            life.world.tell(f"no move: {error}")
            return
        moving.copy(source, to)
        life.world.sleep(seconds)
        while life.is_restoring or life.in_flight:
            life.world.sleep(1)
        if life.is_calm:
            return
        life.stop("the source is read-only, to be moved", partial(_finish, life, target))
        if is_left and len(life.servers) > 1:
            _leave(life, life.servers[0], random.choice(life.followers).machine)

    life.world.start("move", None, begin)


def _ends(life: "Life", ports: Ports, target: tuple[Records, Blobs]) -> tuple[Ports, Ports]:
    """The source and the target, as the command has them: without a fence."""
    store: Any = life.world.store
    return replace(ports, store=store), _on(ports, *target)


def _leave(life: "Life", server: Server, follower: Machine) -> None:
    """Let a server read the source, and nothing else, until it dies; who follows it stays there."""
    # The same items until others take over.
    source: Any = Records(life.world.stage.records.rows)
    fence = DeploymentFence(ReadOnlyStore(source), Deployment.of(source.get(ADDRESS)))
    server.machine.memory |= {"fence": fence, "store": fence.store, "left": True}
    server.machine.is_up = True
    life.left[follower.name] = server
    life.world.tell(f"{server.machine.name} serves {follower.name} from the source")


def _finish(life: "Life", target: tuple[Records, Blobs], desk: Ports) -> None:
    while life.in_flight:
        life.world.sleep(1)
    source, to = _ends(life, desk, target)
    try:
        moving.begin(source, to)
    except InvalidState as error:
        # A failover brought back what was before an upgrade: the source goes on.
        life.world.tell(f"no move: {error}")
        return
    moving.finish(source, to)
    life.go_on_with(*target, is_moved=True)


def hang(life: "Life", random: Random) -> None:
    """Nobody does anything for so long that heads, lists and documents may have ended."""
    seconds = random.choice([600.0, 3_600.0, 7_200.0])
    life.world.tell(f"all stand still for {seconds:.0f} s")
    life.world.now += seconds


FAULTS: Final[dict[str, Callable[["Life", Random], None]]] = {
    each.__name__.replace("_", " "): each for each in (back_up, restore, fail_over, move, hang)
}
