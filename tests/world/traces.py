"""Traces of docs/spec/model, done by the machines of a world, and compared after each step.

A publication, a change and a client's poll are actors. Who goes on is not drawn: the trace says
it, and when time passes. An actor goes on to the next call that the model knows, and stands there.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from itertools import count
from pathlib import Path
from threading import current_thread
from typing import Any, Final

from functions.feed import handler as feed_endpoints
from infra.server.leader import Leader, LeaderItem
from shared.authorizer.answers import Answer, Response, read_age
from shared.authorizer.formats import documents as formats
from shared.authorizer.formats import wire
from shared.authorizer.formats.trust import NamedSigner
from shared.authorizer.policy import Policy
from shared.errors import ExpectationLost
from shared.model import feed, seeds, warrants
from shared.model import revocations as revocation_model
from shared.model.items import Address
from shared.model.lists import content, head, schedule
from shared.operations.base import seals
from shared.operations.changes import list_signers, revocations
from shared.operations.lists import in_force, publication, signers
from shared.operations.trust import documents, publishing
from tests.kit.roots import OFFLINE
from tests.kit.tenants import Tenant
from tests.world import upgrades
from tests.world.machines import AdviceOfEach, Client, FreshnessOfEach, Server, ports_of
from tests.world.memory import Blobs
from tests.world.run import genesis, sealer
from tests.world.stage import Footprint, Place, Seat, Span, lock, owner
from tests.world.world import EPOCH, Machine, World

_BOUND: Final = 3
_WARRANTS: Final = ("svc_wrt_a", "svc_wrt_b")
_FEED: Final = "/v1/revocations/feed"
_FORGED: Final = 10**9
_NO_ANSWER: Final = Response(500, {}, b"")
_ANSWERED: Final = Footprint("answer", frozenset({Place("", "answer", "")}))

Choice = Callable[[Mapping[str, Footprint]], str | None]


@dataclass(frozen=True)
class Stop:
    """A call that the model knows: its name, what it touches, and before which it may come."""

    at: str
    verb: str
    touches: frozenset[object]
    before: str
    waits: bool = True

    def is_at(self, before: str, footprint: Footprint) -> bool:
        """Whether an actor is there who stood at `before`."""
        places = footprint.reads | footprint.writes
        spans = {each[:2] for each in places if isinstance(each, Span)}
        is_of_it = footprint.call == self.verb and before in self.before.split(" ")
        return is_of_it and not self.touches.isdisjoint(places | spans)


class Told(World):
    """A world in which a trace says who goes on; `at` is the stop at which each actor stands."""

    def __init__(self) -> None:
        start = genesis()
        super().__init__("trace", start.records.copy(), Blobs(dict(start.blobs.found)))
        self.stops: list[Stop] = []
        self.at: dict[Seat, str] = {}
        self._wanted: Choice = lambda _: None
        self._teller = ""

    def tell_all(self, run: Callable[[], None]) -> None:
        """Do what the teller says. Raises what it raises."""
        self._teller = self.start("trace", None, partial(self._told, run)).name
        self.stage.play()
        if isinstance(error := self.stage.outcomes[self._teller], BaseException):
            raise error

    def _told(self, run: Callable[[], None]) -> None:
        try:
            with self.off_stage():
                run()
        finally:
            self.is_over = True

    def let(self, wanted: Choice) -> None:
        """Let those go on who are wanted, until nobody is."""
        seat, self._wanted = current_thread(), wanted
        assert isinstance(seat, Seat)
        seat.is_off_stage = False
        self.stage.step(Footprint("wait"), str)
        seat.is_off_stage = True

    def enter(self, name: str, machine: Machine, run: Callable[[], object], at: str = "") -> Seat:
        """Let an actor come in, and go on to its first stop."""
        seat = self.start(name, machine, run)
        self.at[seat] = at
        self._go(seat, count(1))
        return seat

    def go(self, seat: Seat) -> None:
        """Let an actor go on to its next stop. Raises what it raised but for a lost write."""
        self._go(seat, count())

    def _go(self, seat: Seat, calls: "count[int]") -> None:
        def wanted(pending: Mapping[str, Footprint]) -> str | None:
            # What is in flight may keep it from the call before which it stands.
            call = seat.pending
            if call is None or (next(calls) and self._stands(seat, call)):
                return None
            return seat.name if seat.name in pending else None

        self.let(wanted)
        outcome = self.stage.outcomes.get(seat.name)
        if isinstance(outcome, BaseException) and not isinstance(outcome, ExpectationLost):
            raise outcome

    def _stands(self, seat: Seat, call: Footprint) -> bool:
        stop = next((each for each in self.stops if each.is_at(self.at[seat], call)), None)
        if stop is not None:
            self.at[seat] = stop.at
        return stop is not None and stop.waits

    def where(self, seat: Seat | None) -> str:
        """Where an actor stands: "idle" if it has ended, or there is none."""
        return "idle" if seat is None or seat.name not in self.stage.seats else self.at[seat]

    def _choose(self, pending: Mapping[str, Footprint]) -> str | None:
        return None if self.is_over else self._wanted(pending) or self._teller

    def may_show(self, _task: str) -> bool:
        return True

    def sleep(self, seconds: float) -> None:
        """Pass no time: the trace says when it passes."""

    def request(
        self, server: Machine, serve: Callable[[], Any], link: Machine, *, patience: float = 0
    ) -> Any:
        """Have a server do something; the trace says when the answer arrives."""
        del link, patience
        with self.on(server):
            return serve()


class Service(Server):
    """Who answers a client: `answer` is what arrives, with the document that is `offered`."""

    def __init__(self, trace: "Trace", machine: Machine) -> None:
        super().__init__(machine, trace.ports)
        self._trace = trace
        self.answer, self.asked_at, self.offered = _NO_ANSWER, 0.0, 0

    def get(self, tenant: Tenant, path: str, etag: str | None) -> Response:
        if path.startswith(f"{_FEED}/base/") and (known := self._trace.forged.get(_last(path))):
            return Response(200, {}, known)
        if path.startswith("/v1/trust?"):
            return Response(200, {}, self._trace.document(self.offered))
        if path.startswith((f"{_FEED}/base/", "/v1/trust/")):
            return super().get(tenant, path, etag)
        if self.answer is _NO_ANSWER:
            self.answer = super().get(tenant, path, None)
            self._trace.world.stage.step(_ANSWERED, str)
        return self.answer


def _last(path: str) -> int:
    return int(path.rpartition("/")[2])


class Trace:
    """A tenant of a world. It has a method for each action of the model."""

    def __init__(self, world: Told) -> None:
        self.world = world
        self._desk = self.world.machine("desk")
        self.ports = ports_of(self.world, self._desk, sealer(), OFFLINE)
        start = genesis()
        self._tenant, pin = start.tenants[0], start.pins[0]
        self._id = self._tenant.id
        self.world.stops = self._stops()
        self.forged, self._stolen = dict[int, bytes](), dict[int, bytes]()
        self._leaders = {each: self._leader() for each in ("one", "two")}
        self._publications = dict[str, Seat]()
        self._changes, self._records = dict[str, Seat](), dict[str, str]()
        self._clients = {each: self._client(each, pin) for each in ("near", "far")}
        self._polls = dict[str, Seat]()
        self._kept = _NO_ANSWER, 0.0
        self._keys = [in_force.signer(self.ports, self._id).public_bytes, self._standby()]
        self.lead(server="one")

    def _leader(self) -> Leader:
        clock = self.world.monotonic
        return Leader(LeaderItem(self.world.store, clock), clock=clock)

    def _client(self, name: str, pin: str) -> tuple[Client, Service]:
        service = Service(self, self.world.machine(f"the service for {name}"))
        machine, policy = self.world.machine(name), Policy(max_staleness=_BOUND)
        return Client(self.world, machine, self._tenant, pin, lambda: service, policy), service

    def _standby(self) -> bytes:
        found = signers.standby(self.ports, self._id)
        assert found is not None
        return found.public_bytes

    def _stops(self) -> list[Stop]:
        entries, lists = feed.head_address(self._id), head.head_address(self._id)
        standings = {warrants.warrant_address(self._id, each) for each in _WARRANTS}

        def locks(*addresses: Address) -> frozenset[object]:
            return frozenset(lock(Place(*each)) for each in addresses)

        return [
            Stop("move", "write", locks(lists), "head clear move all"),
            Stop("entry", "write", locks(entries), "records"),
            Stop("clear", "write", locks(*map(self._mark, _WARRANTS)), "entry"),
            Stop("marks", "query", frozenset(schedule.warrant_marks(self._id)), "begun clear"),
            Stop("head", "get", frozenset({entries}), "marks"),
            Stop("records", "get", frozenset(standings), "head entry"),
            # A list from all records, which loses, since another one has been published.
            Stop("all", "query", frozenset(revocation_model.shards(self._id)), "head clear", False),
            Stop("look", "query", frozenset({feed.feed(self._id)}), "asked"),
            Stop("answer", "answer", _ANSWERED.reads, "look"),
        ]

    def _mark(self, warrant: str) -> Address:
        return schedule.warrant_mark_address(self._id, warrant)

    # --- actions ---

    def tick(self, **_: Any) -> None:
        self.world.now += 1

    def change(self, *, warrant: str, flag: bool, **_: Any) -> None:
        caller, record_id = self._tenant.operator, self._records.pop(warrant, None)
        run: Callable[[], object]
        if record_id:
            run = partial(revocations.delete, self.ports, caller, revocation_id=record_id)
        else:
            run = partial(
                revocations.create, self.ports, caller, warrant_id=warrant, reason="stolen"
            )
        self.world.is_torn = True
        seat = self._changes[warrant] = self.world.enter(warrant, self._desk, run)
        self.world.is_torn = False
        tasks, mark = self.world.stage.tasks, self._mark(warrant)

        def first(pending: Mapping[str, Footprint]) -> str | None:
            shown = (it for it in pending if it in tasks and tasks[it][0] is seat)
            return next((it for it in shown if (tasks[it][1] == mark) is flag), None)

        self.world.let(first)

    def finish(self, *, warrant: str, **_: Any) -> None:
        seat = self._changes[warrant]

        def rest(pending: Mapping[str, Footprint]) -> str | None:
            return next((each for each in pending if owner(each) == seat.name), None)

        self.world.let(rest)
        made = self.world.stage.outcomes[seat.name]
        if made is not None:
            assert isinstance(made, tuple), made
            self._records[warrant] = made[0].id

    def lead(self, *, server: str, **_: Any) -> None:
        self._leaders[server].leads()

    def begin(self, *, server: str, flag: bool, **_: Any) -> None:
        a_list = partial(publication.publish, self.ports, self._tenant.operator)
        entries = partial(publication.publish_feed, self.ports, self._id)
        run = a_list if flag else entries
        self._publications[server] = self.world.enter(server, self._desk, run, "begun")

    def crash(self, *, server: str, **_: Any) -> None:
        self.world.stage.bury(self._publications[server])

    def advance(self, *, server: str, **_: Any) -> None:
        self.world.go(self._publications[server])

    def steal(self, **_: Any) -> None:
        stolen = in_force.signer(self.ports, self._id)
        self._stolen[self._number(stolen.public_bytes)] = seals.opened(self.ports, stolen)

    def replace(self, **_: Any) -> None:
        stolen = in_force.signer(self.ports, self._id)
        list_signers.revoke(self.ports, self._tenant.operator, key_id=stolen.id)
        self._keys.append(self._standby())

    def renew(self, **_: Any) -> None:
        publishing.keep(self.ports, self._id)

    def ask(self, *, client: str, **_: Any) -> None:
        it, service = self._clients[client]
        service.machine.memory.clear()
        service.answer, service.asked_at = _NO_ANSWER, self.world.now
        self._polls[client] = self.world.enter(client, it.machine, it.follower.poll, "asked")

    def serve(self, *, client: str, flag: bool, **_: Any) -> None:
        service = self._clients[client][1]
        self.world.go(self._polls[client])
        if flag:
            self._kept = service.answer, service.asked_at

    def replay(self, *, client: str, **_: Any) -> None:
        answer, kept_at = self._kept
        age = read_age(answer) + int(self.world.now - kept_at)
        self.serve(client=client, flag=False)
        headers = {**answer.headers, "age": str(age)}
        self._clients[client][1].answer = replace(answer, headers=headers)

    def forge(self, *, client: str, above: int, signer: int, **_: Any) -> None:
        now, version = self.ports.now(), _FORGED + len(self.forged)
        until, sequence = now + timedelta(hours=1), self._head().sequence + above
        chain = hashlib.sha256(str(sequence).encode()).digest()
        listed = self.forged[version] = content.Payload(version, now, until, []).encoded
        base = wire.Base(version, sequence, chain, hashlib.sha256(listed).digest(), 0)
        payload = wire.SignedHead(self._id, sequence, chain, now, until, base).encode()
        signature = seeds.signature(wire.signed_part(payload), seed=self._stolen[signer])
        self.serve(client=client, flag=False)
        self._clients[client][1].answer = Response(200, {}, Answer(payload, signature).encode())

    def receive(self, *, client: str, number: int, **_: Any) -> None:
        self._clients[client][1].offered = number
        self.world.go(self._polls[client])

    def document(self, number: int) -> bytes:
        """An answer with a document of the service; else one that only the thief has signed."""
        newest = documents.highest(self.ports, self._id)
        found = documents.read(self.ports, self._id, min(number + 1, newest))
        if number < newest:
            return formats.answer([found])
        named = NamedSigner(hashlib.sha256(b"thief").digest(), ("lists",))
        made = replace(found.document, version=9, signers=(named,))
        part = formats.signed_part(made.encode())
        by = {self._keys[key - 1]: seeds.signature(part, seed=s) for key, s in self._stolen.items()}
        return formats.answer([formats.SignedDocument(made.encode(), by, made)])

    # --- the state, as `told` has it ---

    def state(self) -> dict[str, Any]:
        newest, listed = self._head(), in_force.head(self.ports, self._id)
        rows = self.ports.store.query(feed.feed(self._id), before=feed.HEAD)
        entries = [feed.StoredEntry.from_item(each.item).opened()[0] for each in rows]
        body, reference = in_force.body(self.ports, listed), newest.signed.trust
        at = self.world.where
        return {
            "marks": self._marks(),
            "feed": [(each.sequence, {*each.revoked}, {*each.removed}) for each in entries],
            "head": (newest.base.version, newest.base.sequence, reference and reference.number),
            "issued": _ticks(newest.signed.issued_at.timestamp()),
            "list": (listed.version, {*content.revoked_ids(body)}),
            "signer": self._number(in_force.signer(self.ports, self._id).public_bytes),
            "leads": {name for name, each in self._leaders.items() if each._leads},
            "publications": {it: at(self._publications.get(it)) for it in self._leaders},
            "clients": {name: self._held(name) for name in self._clients},
        }

    def _held(self, name: str) -> tuple[Any, ...]:
        it, service = self._clients[name]
        seen, position = it.follower.view, it.follower._position
        with self.world.on(it.machine):
            fresh = {each for each in _WARRANTS if seen.is_fresh() and each not in seen.revoked}
        confirmed = _ticks(seen.confirmed.wall) if seen.is_trusted else None
        trust, sequence = it.follower.trust.version, position.sequence if position else 0
        waits = self.world.where(self._polls.get(name))
        revoked, has_gap = {*seen.revoked.ids()}, it.follower._has_gap
        told = read_age(service.answer) if waits == "answer" else waits
        return trust, sequence, confirmed, revoked, fresh, has_gap, told

    def _head(self) -> feed.FeedHead:
        found = in_force.feed_head(self.ports, self._id)
        assert found is not None
        return found

    def _number(self, key: bytes) -> int:
        return self._keys.index(key) + 1

    def _marks(self) -> dict[str, int]:
        places = {self._mark(each): each for each in _WARRANTS}
        found = self.ports.store.get_many(places)
        moments = {
            places[each]: schedule.Mark.from_item(item).set_at for each, item in found.items()
        }
        return {name: _ticks(at.timestamp()) for name, at in moments.items() if at}


def _ticks(seconds: float) -> int:
    return round(seconds - EPOCH.timestamp())


def told(it: Mapping[str, Any]) -> dict[str, Any]:
    """What the code's state has to be in this state of the model."""
    top, now = it["feed"], it["now"]
    return {
        "marks": {name: each["at"] for name, each in it["marks"].items()},
        "feed": [(each["seq"], each["revoked"], each["removed"]) for each in top["chain"]],
        "head": (top["base"], it["lists"][top["base"]]["seq"], top["trust"]),
        "issued": top["issued"],
        "list": (it["list"], it["lists"][it["list"]]["content"]),
        "signer": top["signer"],
        "leads": it["leads"],
        "publications": {name: each["pc"] for name, each in it["publications"].items()},
        "clients": {k: _told_of(each, it["asks"][k], now) for k, each in it["clients"].items()},
    }


def _told_of(client: Mapping[str, Any], ask: Mapping[str, Any], now: int) -> tuple[Any, ...]:
    is_fresh = client["isTrusted"] and now < client["confirmed"] + _BOUND
    clears = {*_WARRANTS} - client["revoked"] if is_fresh else set()
    confirmed = client["confirmed"] if client["isTrusted"] else None
    sequence = client["chain"][-1]["seq"] if client["chain"] else 0
    waits = ask["answer"]["age"] if ask["step"] == "answer" else ask["step"]
    known = client["doc"]["version"], sequence, confirmed, client["revoked"]
    return *known, clears, client["hasGap"], waits


def _plain(value: Any) -> Any:
    """A value of the Informal Trace Format in Python's types; a set of records is a list."""
    match value:
        case {"#bigint": number}:
            return int(number)
        case {"#set": members} if not any(
            isinstance(each, dict) and "#bigint" not in each for each in members
        ):
            return {*map(_plain, members)}
        case {"#set": list(members)} | list(members):
            return [_plain(each) for each in members]
        case {"#map": pairs}:
            return {_plain(key): _plain(each) for key, each in pairs}
        case dict():
            return {name: _plain(each) for name, each in value.items()}
    return value


def replay(path: Path) -> int:
    """Do a trace; return its steps. Raises `AssertionError` where code and model part."""
    states = json.loads(path.read_text(encoding="utf-8"))["states"]
    world = Told()
    others = [
        *upgrades.patches(world),
        (feed_endpoints, "FRESHNESS", FreshnessOfEach(world)),
        (feed_endpoints, "_ADVICE", AdviceOfEach(world)),
    ]
    with world.in_force(*others):
        world.tell_all(partial(_replayed, world, states))
    return len(states)


def _replayed(world: Told, states: Sequence[Mapping[str, Any]]) -> None:
    trace = Trace(world)
    for number, each in enumerate(states):
        action, picks = each["mbt::actionTaken"], each["mbt::nondetPicks"]
        given = {n: _plain(pick["value"]) for n, pick in picks.items() if pick["tag"] == "Some"}
        if number:
            getattr(trace, action)(**given)
        found, wanted = trace.state(), told(_plain(each["s"]))
        parted = {
            name: (found[name], wanted[name]) for name in found if found[name] != wanted[name]
        }
        assert not parted, f"step {number}, {action} {given}: (code, model) {parted}"
