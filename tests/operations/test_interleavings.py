"""Publication in every schedule of a few actors: what is served at each moment, what is left.

Each actor is an operation as it is deployed, with its retries, over five shards;
`tests/world/explore.py` says what a schedule is. A list *begins* where its publisher reads the head
that it replaces. What is revoked then, check says; each change asks it at once about itself.

A client follows the feed in each schedule: it asks as soon as the feed moves. An *entry* begins
where its publisher begins to read the marks.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from shared.authorizer.policy import RejectionReason, ResponseRejectedError
from shared.authorizer.state import FeedState as ClientState
from shared.errors import DataCorrupt, InvalidSrl, InvalidState
from shared.model import revocations as revocation_model
from shared.model.callers import Caller
from shared.model.feed import HEAD, FeedHead
from shared.model.items import Address, Item
from shared.model.lists import schedule as schedule_model
from shared.model.lists.head import SrlHead, head_address
from shared.model.lists.schedule import IN_FLIGHT_MAX
from shared.model.lists.signers import (
    SrlSigner,
    SrlSignerStatus,
    SuccessionStatement,
    signers_partition,
)
from shared.operations.base import operation
from shared.operations.changes import key_revocation, list_signers, revocations, srl, warrants
from shared.operations.changes.warrants import SignedWarrant, SignRequest
from shared.operations.lists import in_force, publication, storage, verdicts
from shared.operations.lists import marks as srl_marks
from shared.operations.lists import schedule as srl_schedule
from shared.operations.lists.publication import ListPublication
from shared.ports import Ports
from shared.ports.store import Change, Delete, Expect, Put, VersionIs
from tests.kit.faults import Crash
from tests.kit.intercepted import Call, Intercepted
from tests.kit.tenants import Tenant
from tests.kit.worlds import Clock
from tests.operations.followers import Follower, current
from tests.world.explore import Actor, Run, Start, explore, explore_stops, in_memory, rest
from tests.world.stage import Span

BEFORE, NEW, SIGNED = WARRANTS = ("svc_wrt_before", "svc_wrt_new", "svc_wrt_signed")
# What a signer signs meanwhile.
LAST = "svc_wrt_last"


class Moment(NamedTuple):
    """What holds after so many steps: what is revoked, and what is served (None: nothing valid).

    `revoked` leaves out what a write concerns that is not acknowledged yet, `possible` has it.
    """

    step: int
    revoked: frozenset[str]
    possible: frozenset[str]
    head: SrlHead
    listed: frozenset[str] | None
    signer_id: str
    feed: FeedHead
    # What a client refuses that follows the feed; the same as before if it is told to wait.
    held: frozenset[str]


class Stated(NamedTuple):
    """An entry: after how many steps it began, what holds once it is out, and what held before."""

    began: int
    moment: Moment
    previous: Moment


class Published(NamedTuple):
    """A list: by whom, after how many steps it began and was in force, and what came before it."""

    by: str
    began: int
    moment: Moment
    previous: Moment


@dataclass
class History:
    """A tenant whose list is as it should be, and what happened to it in the present schedule."""

    world: Start
    clock: Clock
    tenant: Tenant
    revocation_id: str
    key_id: str
    signer_id: str
    pending_id: str
    marked_id: str = ""
    moments: list[Moment] = field(default_factory=list)
    torn: frozenset[str] = frozenset()
    # What is revoked, and what of it depends on the writes in flight of these actors.
    accepted: frozenset[str] = frozenset()
    unsure: dict[str, frozenset[str]] = field(default_factory=dict)
    # Whether an actor revokes or restores: what it concerns depends then on when marks are read.
    changing: bool = False
    # Revoked by the start, though neither the list nor the feed says so.
    marked: frozenset[str] = frozenset()
    follower: Follower = field(init=False)
    # What it refused at each sequence.
    sets: dict[int, frozenset[str]] = field(default_factory=dict)
    # Why it refused what it was given.
    refusals: list[RejectionReason] = field(default_factory=list)
    followed: ClientState | None = None

    @classmethod
    def set(cls, folder: Path) -> "History":
        clock = Clock()
        ports = in_memory(folder, clock)
        tenant = Tenant.create(ports)
        key = tenant.key(ports)
        tenant.sign(ports, key, SIGNED)
        revocation_id = tenant.revoke(ports, BEFORE)
        assert publication.publish_if_due(ports, tenant.id)
        signer_id = in_force.read_active_signer(ports, tenant.id).id
        world = Start(ports)
        return cls(world, clock, tenant, revocation_id, key.id, signer_id, "")

    def make_pending(self) -> None:
        """A key that waits for its activation in each schedule from here on."""
        self.pending_id = list_signers.create(self.ports, self.tenant.operator).record.id
        self.world = Start(self.ports)

    def make_marked(self) -> None:
        """A warrant is revoked that the feed has yet to state, in each schedule from here on."""
        self.marked_id = self.tenant.revoke(self.ports, NEW)
        self.marked = frozenset({NEW})
        self.world = Start(self.ports)

    @property
    def ports(self) -> Ports:
        """The ports themselves, which no schedule holds up."""
        return self.world.ports

    @property
    def head_address(self) -> Address:
        return head_address(self.tenant.id)

    def observe(self, run: Run) -> None:
        if not run.steps:
            self.moments.clear()
            self.unsure.clear()
            self.clock.moment = Clock().moment
            self._meet_client()
        unsure = self._look(run)
        ports, tenant_id = self.ports, self.tenant.id
        head = in_force.read_srl_head(ports, tenant_id)
        signer_id = in_force.read_active_signer(ports, tenant_id).id
        revoked, possible = self.accepted - unsure, self.accepted | unsure
        newest = current(ports, tenant_id)
        if self.moments and newest != self.moments[-1].feed:
            self._follow()
        self.moments.append(
            Moment(
                len(run.steps),
                revoked,
                possible,
                head,
                self._listed(),
                signer_id,
                newest,
                frozenset(self.follower.refuses),
            )
        )

    def _meet_client(self) -> None:
        """A client that has asked once, before anything happened."""
        self.follower = Follower(self.tenant, self.followed)
        self.sets.clear()
        self.refusals.clear()
        self._follow()
        self.followed = self.follower.state

    def _follow(self) -> None:
        try:
            state = self.follower.poll(self.ports).state
            assert state is not None
            self.sets.setdefault(state.sequence, frozenset(self.follower.refuses))
        except ResponseRejectedError as refused:
            # Until there is a list that covers the break, a client waits for it.
            if refused.reason is not RejectionReason.BREAK:
                self.refusals.append(refused.reason)

    def explore(self, actors: dict[str, Actor], mortal: str = "") -> Iterator[Run]:
        """Every schedule; if some are mortal, every one in which one of them dies."""
        how: Any = {"watched": self._watched, "observe": self.observe, "torn": self.torn}
        if mortal:
            return explore_stops(self.world, actors, mortal.split(", "), **how)
        return explore(self.world, actors, **how)

    def lists(self, run: Run) -> Iterator[Published]:
        for previous, moment in zip(self.moments, self.moments[1:], strict=False):
            if moment.head.blob != previous.head.blob:
                by = run.steps[moment.step - 1].actor
                yield Published(by, self._began(run, by, moment.step - 1), moment, previous)

    def entries(self, run: Run) -> Iterator[Stated]:
        for previous, moment in zip(self.moments, self.moments[1:], strict=False):
            if moment.feed.sequence != previous.feed.sequence:
                by = run.steps[moment.step - 1].actor
                yield Stated(self._read_marks(run, by, moment.step - 1), moment, previous)

    def _read_marks(self, run: Run, by: str, end: int) -> int:
        """The last step until `end` in which the actor began to read the marks on warrants."""
        steps = enumerate(run.steps[:end])
        reads = (n for n, each in steps if each.actor == by and self._walk in each.footprint.reads)
        return max(reads)

    @property
    def _walk(self) -> Span:
        """The walk with which every reader of the marks on warrants begins."""
        return Span(*schedule_model.warrant_marks(self.tenant.id)[0], None, None)

    @property
    def _watched(self) -> list[Address | Span]:
        return [self.head_address, *([self._walk] if self.changing else [])]

    def between(self, start: int, end: int) -> list[Moment]:
        """Each moment from one step to another."""
        later = [each for each in self.moments if start < each.step <= end]
        return [self.at(start), *later]

    def at(self, step: int) -> Moment:
        """The last moment until this step."""
        return next(each for each in reversed(self.moments) if each.step <= step)

    def _began(self, run: Run, by: str, end: int) -> int:
        steps = enumerate(run.steps[:end])
        return max(n for n, each in steps if each.actor == by and each.reads(self.head_address))

    def _look(self, run: Run) -> frozenset[str]:
        """See what is revoked now, and return what of it is not acknowledged."""
        before, self.accepted = self.accepted, self._revoked()
        if run.steps and run.steps[-1].footprint.call == "acknowledged":
            self.unsure.pop(run.steps[-1].actor)
        elif run.steps and run.steps[-1].actor in self.torn:
            self.unsure[run.steps[-1].actor] = before ^ self.accepted
        return frozenset().union(*self.unsure.values())

    def _revoked(self) -> frozenset[str]:
        found = verdicts.read_statuses(self.ports, self.tenant.id, WARRANTS)
        return frozenset(each for each, verdict in found.items() if verdict.revoked)

    def _listed(self) -> frozenset[str] | None:
        try:
            return frozenset(self.tenant.published(self.ports).revoked_ids)
        except (DataCorrupt, InvalidSrl):
            return None


@pytest.fixture
def history(monkeypatch: pytest.MonkeyPatch) -> Iterator[History]:
    # A schedule takes as long as this machine is busy.
    pacing = operation.RetryPacing(limit=3600, pause=0, in_flight=1, sleep=_pause)
    monkeypatch.setattr(operation, "PACING", pacing)
    # Each warrant is in a shard of its own, and there are others.
    monkeypatch.setattr(revocation_model, "SHARDS", 5)
    monkeypatch.setattr(schedule_model, "MARK_PARTITIONS", 4)
    assert len(set(map(revocation_model.shard_number, WARRANTS))) == len(WARRANTS)
    # In memory where there is such a folder: thousands of schedules wait for the disk otherwise.
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield History.set(Path(folder))


def _pause(seconds: float) -> None:
    # That a race was lost is no reason to wait; that records disagree is one.
    if seconds:
        rest()


def _publisher(history: History, ports: Ports) -> object:
    return srl.regenerate(ports, history.tenant.operator)


def _worker(history: History, ports: Ports) -> object:
    return publication.publish_if_due(ports, history.tenant.id)


def _revoker(history: History, ports: Ports) -> object:
    revocation_id = history.tenant.revoke(ports, NEW)
    assert history.tenant.is_revoked(history.ports, NEW)
    return revocation_id


def _remover(history: History, ports: Ports) -> object:
    history.tenant.unrevoke(ports, history.revocation_id)
    assert not history.tenant.is_revoked(history.ports, BEFORE)
    return None


def _waverer(history: History, ports: Ports) -> object:
    _remover(history, ports)
    revocation_id = history.tenant.revoke(ports, BEFORE)
    assert history.tenant.is_revoked(history.ports, BEFORE)
    return revocation_id


def _checker(history: History, ports: Ports) -> object:
    return revocations.check_batch(ports, history.tenant.operator, warrant_ids=WARRANTS)


def _rotator(history: History, ports: Ports) -> object:
    return list_signers.rotate(ports, history.tenant.operator)


def _maker(history: History, ports: Ports) -> object:
    try:
        return list_signers.create(ports, history.tenant.operator)
    except InvalidState:
        return None


def _activator(history: History, ports: Ports) -> object:
    """Activates the key that was pending at the start, unless somebody else ended its wait."""
    try:
        return list_signers.activate(
            ports, history.tenant.operator, key_id=history.pending_id, force=True
        )
    except InvalidState:
        return None


def _thief_taker(history: History, ports: Ports) -> object:
    """Revokes the key that signed the list at the start."""
    return list_signers.revoke(ports, history.tenant.operator, key_id=history.signer_id)


def _withdrawer(history: History, ports: Ports) -> object:
    """Revokes the key that was pending at the start."""
    return list_signers.revoke(ports, history.tenant.operator, key_id=history.pending_id)


def _key_revoker(history: History, ports: Ports) -> object:
    key = key_revocation.revoke(
        ports, history.tenant.operator, key_id=history.key_id, reason="lost"
    )
    assert history.tenant.is_revoked(history.ports, SIGNED)
    return key


def _signer(history: History, ports: Ports) -> object:
    """Signs with the key, unless that is revoked meanwhile."""
    order = SignRequest(b"grant", warrant_id=LAST)
    try:
        return warrants.sign(ports, history.tenant.operator, key_id=history.key_id, order=order)
    except InvalidState:
        return None


def _feeder(history: History, ports: Ports) -> object:
    return publication.publish_feed(ports, history.tenant.id)


def _announcer(history: History, ports: Ports) -> object:
    """Revokes a warrant, and then publishes the feed."""
    _revoker(history, ports)
    return _feeder(history, ports)


def _taker(history: History, ports: Ports) -> object:
    """Takes back what was revoked at the start, and then publishes the feed."""
    history.tenant.unrevoke(ports, history.marked_id)
    return _feeder(history, ports)


_ACTORS = {
    each.__name__.strip("_").replace("_", " "): each
    for each in (
        *(_publisher, _worker, _revoker, _remover, _waverer, _checker, _rotator, _maker),
        *(_activator, _thief_taker, _withdrawer, _key_revoker, _signer),
        *(_feeder, _announcer, _taker),
    )
}

# Without one of these, a feeder finds something that was revoked before.
_CHANGERS = ("revoker", "remover", "waverer", "announcer")


def cast(history: History, names: str) -> dict[str, Actor]:
    """The actors of these names; a number tells one from its like."""
    if any(name in names for name in ("activator", "withdrawer", "thief taker")):
        history.make_pending()
    history.changing = any(each in names for each in (*_CHANGERS, "taker"))
    if "taker" in names or ("feeder" in names and not any(each in names for each in _CHANGERS)):
        history.make_marked()
    roles = {name: _ACTORS[name.rstrip("123")] for name in names.split(", ")}
    return {name: partial(role, history) for name, role in roles.items()}


def outcomes(history: History, run: Run) -> None:
    """Nobody fails, and what a publisher hands out is a list that was in force."""
    in_force = [moment.head for moment in history.moments]
    for outcome in run.outcomes.values():
        if isinstance(outcome, BaseException) and not isinstance(outcome, Crash):
            raise outcome
        assert not isinstance(outcome, SrlHead) or outcome in in_force


def served(history: History, run: Run) -> None:
    """F01, F02: at every moment a list is served that its signer's key verifies."""
    assert all(moment.listed is not None for moment in history.moments)


def rising(history: History, run: Run) -> None:
    """F03: versions rise; what a list has and is still revoked, each later list has."""
    for each in history.lists(run):
        assert each.moment.head.version > each.previous.head.version
        start = next(m.step for m in history.moments if m.head == each.previous.head)
        between = history.between(start, each.moment.step)
        kept = frozenset.intersection(*(moment.revoked for moment in between))
        assert kept & (each.previous.listed or set()) <= (each.moment.listed or set())


def complete(history: History, run: Run) -> None:
    """F04, F05: a list has what was revoked while it was made, and nothing that never was."""
    for each in history.lists(run):
        between = history.between(each.began, each.moment.step)
        listed: frozenset[str] = each.moment.listed or frozenset()
        assert frozenset.intersection(*(moment.revoked for moment in between)) <= listed
        assert frozenset.union(*(moment.possible for moment in between)) >= listed


def fenced(history: History, run: Run) -> None:
    """F07: a list follows the one that its publisher read, under the key that signs then."""
    for each in history.lists(run):
        assert history.at(each.began).head == each.previous.head
        assert each.moment.head.key_id == each.moment.signer_id


def staged(history: History, run: Run) -> None:
    """F61: one signer is active, that of the list in force; one at most waits, and is vouched for.

    A key whose time is over has no seed.
    """
    found = [
        SrlSigner.from_item(entry.item)
        for entry in history.ports.store.query(signers_partition(history.tenant.id))
    ]
    head = in_force.read_srl_head(history.ports, history.tenant.id)
    assert [each.id for each in found if each.status is SrlSignerStatus.ACTIVE] == [head.key_id]
    active = next(each for each in found if each.id == head.key_id)
    pending = [each for each in found if each.status is SrlSignerStatus.PENDING]
    assert [each.id for each in pending] == ([active.pending_id] if active.pending_id else [])
    for each in pending:
        assert each.statement is not None
        assert SuccessionStatement.parse(each.statement).previous == active.public_bytes
    alive = {each.id for each in (active, *pending)}
    assert all((each.sealed_seed is not None) == (each.id in alive) for each in found)


def nothing_lost(history: History, run: Run) -> None:
    """F05, F08, F36: what the list lacks is due; the next list has it, and then nothing is due."""
    ports, tenant = history.ports, history.tenant
    last = history.moments[-1]
    right = last.listed == last.revoked
    named = srl_schedule.read_due_tenants(ports).tenant_ids == [tenant.id]
    if history.torn and not named:
        # A worker saw a part of a write; it looks again when the rest must be visible.
        history.clock.moment += IN_FLIGHT_MAX
        named = srl_schedule.read_due_tenants(ports).tenant_ids == [tenant.id]
    assert right or named
    if not publication.publish_if_due(ports, tenant.id):
        assert right
        srl.regenerate(ports, tenant.operator)
    published = tenant.published(ports)
    assert published.version == last.head.version + 1
    assert set(published.revoked_ids) == last.revoked
    assert publication.publish_due(ports) == publication.PublicationRun()
    assert srl_schedule.read_due_tenants(ports).tenant_ids == []
    _assert_quiet(history)
    tenant.check_totals(ports)


def _assert_quiet(history: History) -> None:
    """After one more look, and one more list if keys were revoked, nobody is named any more."""
    history.clock.moment += IN_FLIGHT_MAX
    publication.publish_due(history.ports)
    assert srl_schedule.read_due_tenants(history.ports).tenant_ids == []
    assert history.tenant.published(history.ports).revoked_ids == sorted(
        history.moments[-1].revoked
    )
    history.clock.moment += IN_FLIGHT_MAX
    assert publication.publish_due(history.ports) == publication.PublicationRun()
    assert srl_schedule.read_due_tenants(history.ports) == srl_schedule.DueTenants([], late=0)


def no_churn(history: History, run: Run) -> None:
    """F08: no worker publishes more than one list, and none without a change."""
    changed = len({moment.revoked for moment in history.moments}) > 1 or bool(history.marked)
    publishers = Counter(each.by for each in history.lists(run))
    assert all(publishers[name] <= changed for name in run.outcomes if name.startswith("worker"))


def one_by_one(history: History, run: Run) -> None:
    """F230: Each entry has the next number, but for a break; its chain follows from the last.

    After a break, the same write states again what was published while its list was made.
    """
    assert not history.refusals
    feeds = [moment.feed for moment in history.moments]
    for before, after in pairwise(feeds):
        gone = after.sequence - before.sequence
        assert gone in {0, 1} or before.sequence < after.broke_at <= after.sequence
        assert gone or after.signed_head.chain == before.signed_head.chain
        assert after.signed_head.issued_at >= before.signed_head.issued_at


def based(history: History, run: Run) -> None:
    """F231: The base of the feed is the list in force; its content is what the feed makes of it."""
    for moment in history.moments:
        head, base = moment.head, moment.feed.base
        stated = bytes.fromhex(head.payload_sha256)
        assert base.sequence == head.sequence is not None
        assert (base.version, base.count, base.sha256) == (head.version, head.count, stated)
        if moment.feed.broke_at <= base.sequence:
            known = history.sets.get(base.sequence, moment.listed)
            assert moment.listed == known


def told(history: History, run: Run) -> None:
    """F232: Who holds an entry refuses what was revoked before it began, unless it was restored."""
    for each in history.entries(run):
        if each.moment.feed.needs_list:
            continue
        between = history.between(each.began, each.moment.step)
        held = each.moment.held
        assert frozenset.intersection(*(moment.revoked for moment in between)) <= held
        assert frozenset.union(*(moment.possible for moment in history.moments)) >= held


def kept(history: History, run: Run) -> None:
    """F233: No client accepts what it refused before, unless the revocation was taken back."""
    start = history.moments[0]
    for last, moment in pairwise(history.moments):
        if moment.held != last.held:
            between = history.between(start.step, moment.step)
            always = frozenset.intersection(*(each.revoked for each in between))
            assert last.held & always <= moment.held
            start = moment


def caught_up(history: History, run: Run) -> None:
    """F234: One more publication of the feed brings every client to what a check says."""
    ports, tenant_id = history.ports, history.tenant.id
    now = Start(ports)
    published = publication.publish_feed(ports, tenant_id)
    assert published is not None
    if published.head.needs_list:
        publication.publish_if_due(ports, tenant_id)
    right = history._revoked()
    for state in (None, history.followed, history.follower.state):
        assert Follower(history.tenant, state).poll(ports).refuses == right
    assert not srl_marks.read_warrant_marks(ports, tenant_id, limit=1)[0]
    now.restore()


Guarantee = Callable[[History, Run], None]
GUARANTEES: tuple[Guarantee, ...] = (
    outcomes,
    served,
    rising,
    complete,
    fenced,
    no_churn,
    staged,
    one_by_one,
    based,
    told,
    kept,
    caught_up,
    nothing_lost,
)


def prove(history: History, names: str, runs: Iterable[Run]) -> None:
    """Every guarantee, after every one of the runs."""
    number = 0
    for run in runs:
        number += 1
        for guarantee in GUARANTEES:
            with _reporting(guarantee, run):
                guarantee(history, run)
    print(f"{names}: {number} schedules")
    assert number


@contextmanager
def _reporting(guarantee: Guarantee, run: Run) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        error.add_note(f"{guarantee.__name__}, in this schedule:\n{run}")
        raise


_SMALL = [
    "publisher1, publisher2",
    "publisher, revoker",
    "worker, revoker",
    "publisher, waverer",
    "publisher, rotator",
    "publisher, key revoker",
    "maker, rotator",
    "maker1, maker2",
    "activator, withdrawer",
    "feeder, revoker",
    "feeder, remover",
    "feeder, key revoker",
    "feeder, rotator",
    "feeder1, feeder2",
]
_LARGE = [
    "activator, rotator",
    "rotator1, rotator2",
    "publisher, activator",
    "announcer, feeder",
]
# Thousands of schedules each: run by hand, with `-m long`.
_HUGE = [
    "activator, thief taker",
    "publisher, thief taker",
    "publisher1, publisher2, revoker",
    "worker1, worker2, revoker",
    "worker, publisher, revoker",
    "worker, revoker, remover",
    "publisher1, publisher2, rotator",
    "publisher1, publisher2, key revoker",
    "publisher1, publisher2, publisher3",
    "worker1, worker2, key revoker",
    "rotator1, rotator2, publisher",
    "maker, rotator, thief taker",
    "publisher, activator, thief taker",
    "publisher1, publisher2, revoker, remover",
    "publisher1, publisher2, waverer",
    "worker1, worker2, waverer",
    # Those of torn writes are these and more.
    "feeder, publisher",
    "feeder, waverer",
    "feeder, worker",
    "feeder, taker",
    "feeder, thief taker",
    "feeder, publisher, revoker",
    "feeder1, feeder2, waverer",
    "feeder, publisher, key revoker",
    "feeder, worker, remover",
]


@pytest.mark.slow_on("feeder, rotator")
@pytest.mark.parametrize(
    "names",
    [
        *_SMALL,
        *(pytest.param(each, marks=pytest.mark.slow) for each in _LARGE),
        *(pytest.param(each, marks=pytest.mark.long) for each in _HUGE),
    ],
)
def test_every_schedule(history: History, names: str) -> None:
    """F03a, F04a, F05a, F07a, F61a, F230a, F231a, F232a, F233a, F234a: No revocation is lost.

    Neither the lists do, nor the feed: a client that holds an entry refuses what was revoked before
    it began, and keeps refusing it.
    """
    prove(history, names, history.explore(cast(history, names)))


_TORN_SMALL = {
    "feeder, revoker": "revoker",
    "feeder, remover": "remover",
    "feeder, key revoker": "key revoker",
    "checker, revoker": "revoker",
    "checker, key revoker": "key revoker",
}
_TORN_LARGE = {
    "worker, revoker": "revoker",
    "publisher, revoker": "revoker",
    "worker, remover": "remover",
    "worker, key revoker": "key revoker",
    "feeder1, feeder2": "feeder1, feeder2",
    "feeder, waverer": "waverer",
    "feeder, publisher": "publisher",
}
_TORN_HUGE = {
    "publisher, rotator": "rotator",
    "publisher, activator": "activator",
    "rotator1, rotator2": "rotator1, rotator2",
    "worker, waverer": "waverer",
    "publisher1, publisher2": "publisher1, publisher2",
    "worker1, worker2, revoker": "revoker",
    "publisher, thief taker": "publisher, thief taker",
}


@pytest.mark.parametrize(
    ("names", "torn"),
    [
        *_TORN_SMALL.items(),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in _TORN_LARGE.items()),
        *(pytest.param(*each, marks=pytest.mark.long) for each in _TORN_HUGE.items()),
    ],
)
def test_every_schedule_of_torn_writes(history: History, names: str, torn: str) -> None:
    """OPS-2, F36a, F234b: No schedule loses a revocation while items of a write appear singly."""
    history.torn = frozenset(torn.split(", "))
    prove(history, names, history.explore(cast(history, names)))


@pytest.mark.slow
@pytest.mark.parametrize("names", ["publisher, key revoker", "worker, key revoker"])
def test_a_key_revocation_that_is_seen_in_part(history: History, names: str) -> None:
    """F128a: If a list sees a part of a key's revocation, it or the next list has all of it.

    Nobody waits for the second look, which comes minutes later.
    """
    history.torn = frozenset({"key revoker"})
    for run in history.explore(cast(history, names)):
        outcomes(history, run)
        publication.publish_if_due(history.ports, history.tenant.id)
        assert SIGNED in history.tenant.published(history.ports).revoked_ids, run


@pytest.mark.slow_on("signer, key revoker, publisher")
@pytest.mark.parametrize(
    ("names", "torn"),
    [
        ("signer, key revoker", ""),
        ("signer, key revoker", "signer, key revoker"),
        ("signer, key revoker, publisher", ""),
        pytest.param("signer, key revoker, publisher", "key revoker", marks=pytest.mark.long),
    ],
)
def test_no_warrant_escapes_the_revocation_of_its_key(
    history: History, names: str, torn: str
) -> None:
    """F135a: A warrant that a key signs while it is revoked is listed or never handed out.

    What is handed out is on the next list: nobody waits for the second look.
    """
    history.torn = frozenset(filter(None, torn.split(", ")))
    found = set[bool]()
    for run in history.explore(cast(history, names)):
        outcomes(history, run)
        publication.publish_due(history.ports)
        listed = history.tenant.published(history.ports).revoked_ids
        assert SIGNED in listed, run
        found.add(isinstance(run.outcomes["signer"], SignedWarrant))
        if isinstance(run.outcomes["signer"], SignedWarrant):
            assert history.tenant.is_revoked(history.ports, LAST), run
            assert LAST in listed, run
    assert found == {True, False}


_SMALL_STOPS = {
    "feeder": "feeder",
    "feeder, revoker": "feeder, revoker",
    "publisher, revoker": "publisher, revoker",
}
# Of actors that are alike, one stands for the others.
_LARGE_STOPS = {"worker, revoker": "worker, revoker", "feeder, publisher": "feeder, publisher"}
_HUGE_STOPS = {
    "publisher, rotator": "publisher, rotator",
    "publisher, thief taker": "publisher, thief taker",
    "publisher, waverer": "publisher, waverer",
    "worker, waverer": "worker, waverer",
    "publisher1, publisher2, revoker": "publisher1, revoker",
    "worker1, worker2, revoker": "worker1, revoker",
    "publisher1, publisher2, key revoker": "publisher1, key revoker",
    "worker, revoker, remover": "worker, revoker",
}


@pytest.mark.slow_on("publisher, revoker")
@pytest.mark.parametrize(
    ("names", "mortal"),
    [
        *_SMALL_STOPS.items(),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in _LARGE_STOPS.items()),
        *(pytest.param(*each, marks=pytest.mark.long) for each in _HUGE_STOPS.items()),
    ],
)
def test_every_schedule_in_which_one_dies(history: History, names: str, mortal: str) -> None:
    """F01a, F02a, SRL-15, S5, F234c: If one dies at any step, versions rise and nothing is lost."""
    prove(history, names, history.explore(cast(history, names), mortal))


def _blobs_last(ports: Ports, caller: Caller, **how: Any) -> object:
    """Store the blobs of a list only when its head is in force."""
    late: list[Call] = []

    def put(call: Call) -> object:
        if call.verb != "put":
            done: object = call()
            return done
        late.append(call)
        return None

    elsewhere = replace(ports, blobs=Intercepted(ports.blobs, put))
    made: object = _RIGHT.publish(elsewhere, caller, **how)
    for each in late:
        each()
    return made


def _over_any_head(srl: Any, head: SrlHead, _plan: Any, changes: Iterable[Change]) -> None:
    address = head_address(srl.before.tenant_id)
    srl.feed.ports.store.write(Put(address, head.to_item(), Expect.ANYTHING), *changes)


def _cleared_as_they_are(ports: Ports, *marked: Any, ids: Collection[str] | None = None) -> int:
    if marks := marked[-1]:
        ports.store.write(*(Delete(key, Expect.ANYTHING) for key in marks))
    return 0


def _put_anyway(address: Address, item: Item, expected: VersionIs | Expect) -> Put:
    """Replace the head of a feed, whatever it is."""
    return Put(address, item, Expect.ANYTHING if address.sk == HEAD else expected)


_RIGHT: Any = SimpleNamespace(publish=publication.publish)


@pytest.mark.parametrize(
    ("names", "function", "way", "breaks"),
    [
        ("publisher", (publication, "publish"), _blobs_last, served),
        ("publisher, rotator", (ListPublication, "_replace_heads"), _over_any_head, rising),
        ("worker, waverer", (srl_marks, "acknowledge"), _cleared_as_they_are, nothing_lost),
        ("feeder, taker", (srl_marks, "remove_published"), _cleared_as_they_are, caught_up),
        ("feeder, publisher", (storage, "Put"), _put_anyway, one_by_one),
    ],
)
def test_another_way_is_caught(
    history: History,
    monkeypatch: pytest.MonkeyPatch,
    names: str,
    function: tuple[object, str],
    way: Callable[..., object],
    breaks: Guarantee,
) -> None:
    """If a function of the product does it in another way, some schedule breaks its guarantee."""
    monkeypatch.setattr(*function, way)
    runs = history.explore(cast(history, names))
    assert any(not _holds(breaks, history, run) for run in runs)


def _holds(guarantee: Guarantee, history: History, run: Run) -> bool:
    try:
        guarantee(history, run)
    except (AssertionError, DataCorrupt):
        return False
    return True
