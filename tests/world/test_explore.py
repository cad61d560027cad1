"""The scheduler: it leaves out no schedule that matters, and repeats none that does not."""

import secrets
from collections.abc import Iterable
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from shared.errors import BlobExists, PreconditionFailed
from shared.model.items import Address, Partition, Table
from shared.ports import Ports
from shared.ports.store import Check, Expect, Increment, Put, VersionIs
from tests.kit.worlds import Clock
from tests.world.explore import Actor, Run, Start, explore, explore_stops, in_memory, rest

SHELF = Partition(Table.KEYS, "shelf")
A, B = PLACES = (SHELF.address("a"), SHELF.address("b"))


def make_world(folder: Path) -> Start:
    ports = in_memory(folder, Clock())
    for key in PLACES:
        ports.store.write(Put(key, {"version": 1}, Expect.ABSENT))
    return Start(ports)


@pytest.fixture
def world(tmp_path: Path) -> Start:
    return make_world(tmp_path)


# --- what an actor may do, each in one or a few calls ---


def look(address: Address, ports: Ports) -> object:
    return ports.store.get(address)


def put(address: Address, ports: Ports) -> object:
    ports.store.write(Put(address, {"version": 10}, Expect.ANYTHING))
    return None


def add(address: Address, ports: Ports) -> object:
    ports.store.write(Increment(address, {"version": 1}, Expect.ANYTHING))
    return None


def copy(address: Address, ports: Ports) -> object:
    """Put what is there in the other place."""
    item = ports.store.get(address) or {}
    ports.store.write(Put(B if address == A else A, item, Expect.ANYTHING))
    return item


def bump(address: Address, ports: Ports) -> object:
    """Read, then write what follows if it is still so; give up where it is not."""
    version = int(str((ports.store.get(address) or {}).get("version")))
    try:
        ports.store.write(Put(address, {"version": version + 1}, VersionIs(version)))
    except PreconditionFailed:
        return "lost"
    return version


def walk(address: Address, ports: Ports) -> object:
    """What is there, up to this place."""
    return [(sk, dict(item)) for sk, item in ports.store.query(SHELF, before=address.sk + "~")]


def keep(address: Address, ports: Ports) -> object:
    """Store a blob, unless it is there."""
    try:
        ports.blobs.put(address.sk, b"blob")
    except BlobExists:
        return "taken"
    return None


def find(address: Address, ports: Ports) -> object:
    return ports.blobs.get(address.sk)


def swap(address: Address, ports: Ports) -> object:
    """Write both in one, knowing what is in this place."""
    item = ports.store.get(address) or {}
    version = int(str(item.get("version")))
    other = B if address == A else A
    try:
        ports.store.write(
            Put(address, {"version": version + 1}, VersionIs(version)),
            Increment(other, {"version": 100}, Expect.ANYTHING),
        )
    except PreconditionFailed:
        return "lost"
    return version


def guard(address: Address, ports: Ports) -> object:
    """Write in the other place, as long as this one is as it was."""
    version = int(str((ports.store.get(address) or {}).get("version")))
    try:
        ports.store.write(
            Check(address, VersionIs(version)),
            Increment(B if address == A else A, {"version": 1000}, Expect.ANYTHING),
        )
    except PreconditionFailed:
        return "lost"
    return version


def resting(_key: Address, _ports: Ports) -> object:
    """Wait until nothing is in flight."""
    rest()
    return None


ACTS = (look, put, add, copy, bump, walk, keep, find)
TORN_ACTS = (look, put, add, bump, walk, swap, swap, guard, resting)


def doing(acts: Iterable[partial[object]]) -> Actor:
    """An actor that does one after another, and tells what came of each."""
    return lambda ports: [act(ports) for act in acts]


def end(world: Start, run: Run) -> str:
    """What the actors saw, and what they left."""
    return repr((sorted(run.outcomes.items()), [world.ports.store.get(key) for key in PLACES]))


def list_ends(
    world: Start, actors: dict[str, Actor], *, reduced: bool, torn: Iterable[str] = ()
) -> list[str]:
    """How each schedule ends."""
    return [end(world, run) for run in explore(world, actors, torn=torn, reduced=reduced)]


_acts = st.builds(partial, st.sampled_from(ACTS), st.sampled_from(PLACES))
_torn_acts = st.builds(partial, st.sampled_from(TORN_ACTS), st.sampled_from(PLACES))
# As many as can be explored in full: about three calls each.
_casts = st.one_of(
    st.lists(st.lists(_acts, min_size=2, max_size=2), min_size=2, max_size=2),
    st.lists(st.lists(_acts, min_size=1, max_size=1), min_size=3, max_size=3),
)


def test_nothing_that_matters_is_left_out(world: Start) -> None:
    """All schedules end in the ways in which the few do that are explored."""
    acts = {"bumps": bump, "bumps too": bump, "copies": copy}
    actors = {name: doing([partial(act, A)]) for name, act in acts.items()}
    full, few = list_ends(world, actors, reduced=False), list_ends(world, actors, reduced=True)
    assert set(few) == set(full)
    assert len(few) < len(full) == 90


@pytest.mark.slow
@given(_casts)
@hypothesis_settings(max_examples=50)
def test_whatever_the_actors_do(acts: list[list[partial[object]]]) -> None:
    """Nothing that matters is left out of any exploration."""
    actors = {str(number): doing(each) for number, each in enumerate(acts)}
    with TemporaryDirectory() as folder:
        world = make_world(Path(folder))
        full, few = list_ends(world, actors, reduced=False), list_ends(world, actors, reduced=True)
        assert set(few) == set(full)


@pytest.mark.slow
@given(st.lists(_torn_acts, min_size=2, max_size=3), st.integers(1, 3))
@hypothesis_settings(max_examples=15)
def test_whatever_the_actors_do_torn(acts: list[partial[object]], split: int) -> None:
    """Nothing that matters is left out where writes are seen item by item, of one actor or all."""
    actors = {str(number): doing([each]) for number, each in enumerate(acts)}
    torn = list(actors)[:split]
    with TemporaryDirectory() as folder:
        world = make_world(Path(folder))
        full = list_ends(world, actors, reduced=False, torn=torn)
        few = list_ends(world, actors, reduced=True, torn=torn)
        assert set(few) == set(full)
        assert len(few) <= len(full)


def test_a_torn_write_is_seen_item_by_item(world: Start) -> None:
    """Each of its items may be seen before any other; a single one of them is old or new."""
    actors = {
        "reader": lambda ports: [
            int(str((ports.store.get(key) or {})["version"])) for key in (A, B)
        ],
        "writer": doing([partial(swap, A)]),
    }
    seen = [run.outcomes["reader"] for run in explore(world, actors)]
    assert {str(each) for each in seen} == {"[1, 1]", "[1, 101]", "[2, 101]"}
    torn = {str(run.outcomes["reader"]) for run in explore(world, actors, torn=["writer"])}
    assert torn == {"[1, 1]", "[1, 101]", "[2, 101]", "[2, 1]"}


def test_a_write_outlives_its_actor(world: Start) -> None:
    """What was accepted is shown, also if nobody hears of it; and the run ends only then."""
    actors = {"writer": doing([partial(swap, A)]), "reader": doing([partial(look, A)])}
    runs = [
        ([step.footprint.call for step in run.steps], run.outcomes["reader"])
        for run in explore_stops(world, actors, ["writer"], torn=["writer"])
    ]
    accepted = [calls for calls, _ in runs if "write" in calls]
    assert accepted
    assert all(calls.count("show") == 2 for calls in accepted)
    assert {str(seen) for _, seen in runs} == {"[{'version': 1}]", "[{'version': 2}]"}


def test_calls_that_do_not_mind_each_other(world: Start) -> None:
    """Actors on different items make one schedule, where all would be 20."""
    actors = {"a": doing([partial(look, A)] * 3), "b": doing([partial(look, B)] * 3)}
    assert len(list(explore(world, actors))) == 1
    assert len(list(explore(world, actors, reduced=False))) == 20


def test_what_is_drawn_at_random_is_the_same_in_each_schedule(world: Start) -> None:
    """Items named at random come in the same order in each replay, so a walk meets as many."""

    def drawing(ports: Ports) -> object:
        for _ in range(4):
            name = f"{secrets.randbits(62):x}-{secrets.token_urlsafe()}"
            ports.store.write(Put(SHELF.address(name), {}, Expect.ABSENT))
        return None

    actors = {"drawer": drawing, "walker": doing([partial(walk, Address(*SHELF, "~"))])}
    assert list_ends(world, actors, reduced=True) == list_ends(world, actors, reduced=True)


def test_an_actor_that_does_something_else_is_caught(world: Start) -> None:
    """An exploration fails if a call differs in a replay, even in nothing but its item."""
    names = count()

    def changing(ports: Ports) -> object:
        ports.store.write(Put(SHELF.address(f"new-{next(names)}"), {}, Expect.ABSENT))
        return None

    actors = {"changing": changing, "walker": doing([partial(walk, Address(*SHELF, "~"))])}
    with pytest.raises(AssertionError, match=r"not do the same again: changing: .*new-0.*new-1"):
        list_ends(world, actors, reduced=True)


def test_reads_that_are_watched(world: Start) -> None:
    """What a proof looks at is not taken for the same in another order."""
    actors = {"reader": doing([partial(look, A)]), "writer": doing([partial(add, B)])}
    assert len(list(explore(world, actors))) == 1
    assert len(list(explore(world, actors, watched=[A]))) == 2


def test_no_read_of_many_is_a_snapshot(world: Start) -> None:
    """Writes come between the items of a walk, and between those of one batch."""

    def both(ports: Ports) -> object:
        return [item["version"] for item in ports.store.get_many(PLACES).values()]

    def walked(ports: Ports) -> object:
        return [entry.item["version"] for entry in ports.store.query(SHELF)]

    for reader in (both, walked):
        actors = {"reader": reader, "writer": doing([partial(add, A), partial(add, B)])}
        seen = {str(run.outcomes["reader"]) for run in explore(world, actors)}
        assert seen == {"[1, 1]", "[2, 1]", "[2, 2]", "[1, 2]"}


def test_an_actor_dies_at_any_step(world: Start) -> None:
    """Before its first change, and after each, whether or not it hears of it."""
    trace: list[str] = []

    def actor(ports: Ports) -> None:
        trace.clear()
        for key in PLACES:
            add(key, ports)
            trace.append(key.sk)

    left = set()
    for _ in explore_stops(world, {"actor": actor}, ["actor"]):
        versions = [(world.ports.store.get(key) or {}).get("version") for key in PLACES]
        left.add((*versions, "".join(trace)))
    assert left == {(1, 1, ""), (2, 1, ""), (2, 1, "a"), (2, 2, "a")}


def test_an_observer_is_asked_after_each_change(world: Start) -> None:
    """And what it raises ends the exploration."""
    seen: list[int] = []

    def observe(run: Run) -> None:
        seen.append(len(run.steps))
        assert len(run.steps) < 3

    actors = {"actor": doing([partial(add, A), partial(look, A), partial(add, A)])}
    with pytest.raises(AssertionError):
        list(explore(world, actors, observe=observe))
    assert seen == [0, 1, 3]


def test_a_schedule_is_described(world: Start) -> None:
    """By the calls that changed something or that others mind, and who lost."""
    actors = {name: doing([partial(look, B), partial(bump, A)]) for name in "ab"}
    told = "  a: get shelf/a\n  b: get shelf/a\n  a: write shelf/a\n  b: write shelf/a (lost)"
    assert told in {str(run) for run in explore(world, actors)}
