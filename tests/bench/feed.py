"""The feed: its publication beside that of the list that follows, and what a client does with it.

The client is our own, without a network: `deny` measures the way from a revocation to a refusal.
"""

import gzip
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from shared.authorizer import AuthorizerClient, Verdict
from shared.authorizer import state as client
from shared.authorizer.answers import Answer
from shared.authorizer.floor import MemoryFloor
from shared.authorizer.policy import NeedsBase
from shared.authorizer.state import State, Trusted
from shared.authorizer.view import Moment, View
from shared.operations.lists import in_force, publication
from tests.bench.measure import Taken, alternate, timed
from tests.bench.publication import Watched, from_all_records
from tests.bench.report import NotMeasured, Row, progress, took
from tests.bench.revoked import Tenant, revoke, tenant, warrant_ids
from tests.bench.scratch import scratch
from tests.kit.processes import HOST
from tests.kit.processes import run as run_python

_SECONDS: Final = ("s", 1.0)
_MILLISECONDS: Final = ("ms", 1e3)
_MILLION: Final = 1_000_000
_LOOKUPS: Final = 200_000
_MB_MAX: Final = 60.0
_MICROSECONDS_MAX: Final = 0.6


@dataclass(frozen=True)
class Size:
    """How many warrants are revoked, and how often it is measured."""

    revoked: int
    rounds: int


SIZES = (Size(1_000, 9), Size(100_000, 7), Size(_MILLION, 5))
CHANGES = (1, 100, 1_000)


def run(sizes: Sequence[Size] = SIZES, changes: Sequence[int] = CHANGES) -> Iterator[Row]:
    """Publications at each size, and then a client of the largest."""
    for size in sizes:
        progress(f"a feed beside {size.revoked:,}")
        with scratch() as folder, tenant(folder / "data", revoked=size.revoked) as filled:
            from_all_records(filled.ports, filled.operator)
            names = warrant_ids("n")
            for number in changes:
                yield from _published(filled, size, number, names)
            if size is sizes[-1]:
                yield from _followed(filled, size, names, changes)
                base = folder / "base"
                base.write_bytes(_base(filled))
                yield from _memory(str(base), size)


def answer(filled: Tenant, *, after: int) -> Answer:
    """Return what the service answers to a poll after this sequence."""
    ports, tenant_id = filled.ports, filled.operator.tenant_id
    head = in_force.feed_head(ports, tenant_id)
    if head is None:
        raise NotMeasured("the tenant has no feed")
    entries = in_force.entries(ports, tenant_id, after=after, until=head.sequence)
    return Answer(head.payload, head.signature, tuple(each.entry for each in entries))


def _published(filled: Tenant, size: Size, changes: int, names: Iterator[str]) -> Iterator[Row]:
    name = f"feed of {size.revoked:,}, {changes:,} changes"
    progress(name)
    tenant_id = filled.operator.tenant_id
    watched = Watched(filled.ports.store)
    ports = replace(filled.ports, store=watched)

    def entry() -> Taken:
        revoke(filled.ports, filled.operator, names, changes)
        return timed(lambda: publication.publish_feed(ports, tenant_id))()

    def the_list() -> Taken:
        revoke(filled.ports, filled.operator, names, changes)
        publication.publish_feed(filled.ports, tenant_id)
        return timed(lambda: publication.publish(filled.ports, filled.operator))()

    figures = alternate(entry, the_list, rounds=size.rounds)
    goal = "≤ 0.05" if (size.revoked, changes) == (_MILLION, 1_000) else ""
    against = "the list that follows"
    yield took(name, figures[0], against=against, of=figures[1], unit=_MILLISECONDS, goal=goal)
    if changes > 1:
        read = watched.read / size.rounds
        goal = "≤ 3" if changes == max(CHANGES) else ""
        yield Row(f"{name}, items read", read, "items", "changes", read / changes, goal=goal)


def _followed(
    filled: Tenant, size: Size, names: Iterator[str], changes: Sequence[int]
) -> Iterator[Row]:
    publication.publish(filled.ports, filled.operator)
    held, loading = _load(filled)
    name = f"client of {size.revoked:,}"
    yield took(
        f"{name}, verify and load", [loading], unit=_SECONDS, against="1 s", of=1.0, goal="≤ 1"
    )
    for number in changes:
        revoke(filled.ports, filled.operator, names, number)
        publication.publish_feed(filled.ports, filled.operator.tenant_id)
        told = answer(filled, after=held.sequence)
        said = len(told.payload) + len(told.signature) + sum(map(len, told.entries))
        trusted, now = _trusted(filled), filled.ports.now()
        step = partial(client.advance, held, told, now=now, trusted=trusted)
        applied = [timed(step)() for _ in range(9)]
        yield took(f"{name}, apply {number:,} changes", applied, unit=_MILLISECONDS)
        yield Row(f"{name}, bytes signed and chained for {number:,} changes", said, "B")
        held = step()
    yield from _checks(held, name)


def _load(filled: Tenant) -> tuple[State, Taken]:
    """Return the state of a newcomer, and what it took to verify and load it."""
    told, now, trusted = (
        answer(filled, after=_covered(filled)),
        filled.ports.now(),
        _trusted(filled),
    )
    packed = _base(filled)
    started = Taken.now()
    try:
        client.advance(None, told, now=now, trusted=trusted)
    except NeedsBase:
        data = gzip.decompress(packed)
        held = client.advance(None, told, base=data, now=now, trusted=trusted)
        return held, Taken.now().since(started)
    raise NotMeasured("a newcomer needed no base")


def _checks(held: State, name: str) -> Iterator[Row]:
    """The time of a check by the client.

    The chains are of one identifier and of three, the last of which is revoked or not.
    """
    # Sorted, so that they are in no order of the set; copies, as those of requests are.
    known = itertools.islice(itertools.cycle(sorted(held.revoked.ids())), _LOOKUPS)
    revoked = [each.encode().decode() for each in known]
    others = [*itertools.islice(warrant_ids("x"), _LOOKUPS)]
    asked = _client(held)
    for length, (verdict, last) in itertools.product(
        (1, 3), ((Verdict.CLEAR, others), (Verdict.REVOKED, revoked))
    ):
        chains = [[*others[: length - 1], each] for each in last]
        if {asked.check(each) for each in chains} != {verdict}:
            raise NotMeasured(f"not every chain is {verdict.name}")
        ours = [timed(partial(_each_chain, asked.check, chains))() for _ in range(9)]
        said = f"{name}, check of {length}, {verdict.name}"
        goal = "≤ 1" if length == 1 else ""
        most = _MICROSECONDS_MAX * _LOOKUPS / 1e6
        scale = ("µs", 1e6 / _LOOKUPS)
        against = f"{_MICROSECONDS_MAX} µs"
        yield took(said, ours, against=against, of=most, unit=scale, goal=goal)


def _client(held: State) -> AuthorizerClient:
    """A client that holds this state for longer than the benchmark takes."""
    made = AuthorizerClient(
        f"http://{HOST}",
        api_key="bench",
        tenant=held.head.tenant_id,
        trust_root="0" * 64,
        floor=MemoryFloor(),
        report=False,
    )
    made._follower.view = View.of(held, Moment.now(), 3600, end=held.head.expires_at)
    return made


def _each_chain(check: Callable[[list[str]], Verdict], chains: Sequence[list[str]]) -> None:
    for chain in chains:
        check(chain)


def _memory(base: str, size: Size) -> Iterator[Row]:
    name = f"client of {size.revoked:,}, memory"
    if sys.platform != "linux":
        yield Row.missing(name, "read from Linux's /proc")
        return
    done = run_python("-m", "tests.bench.client_memory", base)
    if done.returncode:
        raise NotMeasured(done.stderr)
    held, most = map(float, done.stdout.split())
    yield Row(name, held, "MB", f"{_MB_MAX:.0f} MB", held / _MB_MAX, goal="≤ 1")
    yield Row(f"{name} at most, while it loads", most, "MB")


def _base(filled: Tenant) -> bytes:
    head = in_force.head(filled.ports, filled.operator.tenant_id)
    return in_force.read(filled.ports, head.base)


def _covered(filled: Tenant) -> int:
    return in_force.head(filled.ports, filled.operator.tenant_id).sequence or 0


def _trusted(filled: Tenant) -> Trusted:
    signer = in_force.signer(filled.ports, filled.operator.tenant_id)
    return Trusted(filled.operator.tenant_id, [signer.public_bytes])
