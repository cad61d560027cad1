"""Traces of docs/spec/model, done by the real code, and compared with its state after each step.

A publication, or a request of a client, is a thread that stands before the calls of the store which
the model knows. A write of which one item is visible is made in two writes.
"""

import hashlib
import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from infra.server.leader import Leader, LeaderItem
from shared.authorizer import Policy, follower, view
from shared.authorizer.answers import Answer, Response
from shared.authorizer.belief import Belief
from shared.authorizer.floor import MemoryFloor
from shared.authorizer.follower import Follower
from shared.authorizer.formats import documents as formats
from shared.authorizer.formats import wire
from shared.authorizer.formats.trust import NamedSigner
from shared.authorizer.transport import Transport
from shared.errors import ExpectationLost
from shared.model import feed, seeds, warrants
from shared.model import revocations as revocation_model
from shared.model.lists import content, head, schedule
from shared.operations.base import operation, seals
from shared.operations.changes import list_signers, revocations
from shared.operations.lists import in_force, publication, signers
from shared.operations.trust import documents, publishing
from shared.ports.store import Change
from shared.web.freshness import FRESHNESS
from tests.kit.api import Tenant, serve
from tests.kit.faults import Crash
from tests.kit.intercepted import Call, Intercepted
from tests.kit.roots import pin_of
from tests.kit.worlds import Clock, close, embedded

_BOUND: Final = 3
_WARRANTS: Final = ("svc_wrt_a", "svc_wrt_b")
_FEED: Final = "/v1/revocations/feed"
_FORGED: Final = 10**9
_LOST: Final = (Crash, ExpectationLost)
_thread: Final = threading.local()


class Actor:
    """Code in a thread. `at` is the call before which it stands, "idle" if it has ended."""

    def __init__(self, run: Callable[[], Any] = str, at: str = "") -> None:
        self.at, self._lives = at, True
        self.result: Any = None
        self._may_go, self._stands = threading.Semaphore(0), threading.Semaphore(0)
        threading.Thread(target=self._live, args=(run,), daemon=True).start()
        self._stands.acquire()

    def go(self, *, lives: bool = True) -> Any:
        """Let it go on to the next stop, or die here; return what it returned, or raised."""
        self._lives = lives
        self._may_go.release()
        self._stands.acquire()
        if isinstance(self.result, BaseException) and not isinstance(self.result, _LOST):
            raise self.result
        return self.result

    def stand(self, at: str, *, waits: bool) -> None:
        """Be at a call, in its thread; wait before it if this is a stop."""
        self.at = at
        if not waits:
            return
        self._stands.release()
        self._may_go.acquire()
        if not self._lives:
            raise Crash

    def _live(self, run: Callable[[], Any]) -> None:
        _thread.actor = self
        try:
            self.result = run()
        except BaseException as error:  # noqa: BLE001 (`go` raises it)
            self.result = error
        self.at = "idle"
        self._stands.release()


class _Asked(BaseException):
    """A client asks for a path. It polls again once the answer has arrived."""


class _Client(Transport):
    """A client, and the way between it and the service: `answer` is what arrives."""

    def __init__(self, world: "World", pin: str) -> None:
        super().__init__("http://127.0.0.1", api_key="any")
        belief, policy = Belief.of(world.tenant.id, pin, ()), Policy(max_staleness=_BOUND)
        self.follower = Follower(self, MemoryFloor(), belief, policy, lambda _: None)
        self.request, self.answer, self.asked_at, self.offered = Actor(), _NO_ANSWER, 0.0, 0
        self._world = world

    def get(self, path: str, **_: object) -> Response:
        if not path.startswith(_FEED):
            return Response(200, {}, self._world.document(self.offered))
        if self.answer is _NO_ANSWER:
            raise _Asked(path)
        self._world.read_at = None
        return self.answer

    def get_far(self, path: str, **_: object) -> bytes:
        forged = self._world.forged.get(int(path.rpartition("/")[2]))
        return forged or bytes(self._world.tenant.authorizer.get(path).content)

    def state(self) -> tuple[Any, ...]:
        seen, position = self.follower.view, self.follower._position
        fresh = {each for each in _WARRANTS if seen.is_fresh() and each not in seen.revoked}
        confirmed = self._world.ticks(seen.confirmed.wall) if seen.is_trusted else None
        trust, sequence = self.follower.belief.version, position.sequence if position else 0
        revoked, has_gap = {*seen.revoked.ids()}, self.follower._has_gap
        waits = self.request.at if self.answer is _NO_ANSWER else self.answer.age
        return trust, sequence, confirmed, revoked, fresh, has_gap, waits


_NO_ANSWER: Final = Response(500, {}, b"")


class World:
    """A tenant on an embedded store. It has a method for each action of the model."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.clock = Clock()
        self.read_at: float | None = None
        self._rules = list[tuple[str, str, set[Any], str]]()
        self._inner = embedded(folder, self.clock)
        self._ports = replace(self._inner, store=Intercepted(self._inner.store, self._around))
        self.tenant = Tenant(self._ports, serve(self._ports), handle="acme")
        self._began, self._id, pin = self._now(), self.tenant.id, pin_of(self.tenant)
        self._rules = self._stops()
        self._keys = [in_force.signer(self._ports, self._id).public_bytes, self._standby()]
        self.forged, self._stolen = dict[int, bytes](), dict[int, bytes]()
        self._records, self._rest = dict[str, str](), dict[str, list[Change]]()
        self._kept = _NO_ANSWER, 0.0
        patch.setattr(operation, "PACING", operation.Pacing(sleep=lambda _: None))
        patch.setattr(follower, "datetime", SimpleNamespace(now=lambda _: self.clock()))
        for name in ("now", "monotonic"):
            patch.setattr(view, name, self._read_clock)
        self._leaders = {each: self._leader() for each in ("one", "two")}
        self._publications = {each: Actor() for each in self._leaders}
        self._clients = {each: _Client(self, pin) for each in ("near", "far")}
        self.lead(server="one")

    def _now(self) -> float:
        return self.clock().timestamp()

    def _read_clock(self) -> float:
        return self._now() if self.read_at is None else self.read_at

    def ticks(self, seconds: float) -> int:
        return round(seconds - self._began)

    def _leader(self) -> Leader:
        return Leader(LeaderItem(self._ports.store, self._now), clock=self._now)

    def _standby(self) -> bytes:
        found = signers.standby(self._ports, self._id)
        assert found is not None
        return found.public_bytes

    def _stops(self) -> list[tuple[str, str, set[Any], str]]:
        """The stops: their names, the verb of the call, what it touches, and the stops before."""
        heads = {feed.head_address(self._id)}
        marks = {schedule.warrant_mark_address(self._id, each) for each in _WARRANTS}
        standings = {warrants.warrant_address(self._id, each) for each in _WARRANTS}
        return [
            ("move", "write", {head.head_address(self._id)}, "head clear move all"),
            ("entry", "write", heads, "records"),
            ("clear", "write", marks, "entry"),
            ("marks", "query_many", {*schedule.warrant_marks(self._id)}, "begun clear"),
            ("head", "get", heads, "marks"),
            ("records", "get_many", standings, "head entry"),
            # A list from all records, which loses, since another one has been published.
            ("all", "query", {*revocation_model.shards(self._id)}, "head clear"),
            ("look", "query", {feed.feed(self._id)}, "asked"),
        ]

    def _around(self, call: Call) -> Any:
        actor: Actor | None = getattr(_thread, "actor", None)
        for stop, verb, places, before in self._rules:
            if actor and call.verb == verb and actor.at in before.split(" "):
                touched = call.arguments[0] if verb.endswith("many") else call.arguments
                if verb == "write":
                    touched = [each.address for each in touched]
                if not places.isdisjoint(touched):
                    actor.stand(stop, waits=stop != "all")
                    break
        return call.complete()

    def end(self) -> None:
        """Let what still stands die."""
        actors = [*self._publications.values(), *(each.request for each in self._clients.values())]
        for each in actors:
            if each.at != "idle":
                each.go(lives=each.at == "look")
        close(self._inner)

    # --- actions ---

    def tick(self, **_: Any) -> None:
        self.clock.advance(seconds=1)

    def change(self, *, warrant: str, flag: bool, **_: Any) -> None:
        marked = schedule.warrant_mark_address(self._id, warrant)

        def torn(call: Call) -> Any:
            if call.verb != "write":
                return call()
            parts = [
                [each for each in call.arguments if (each.address == marked) is part]
                for part in (flag, not flag)
            ]
            self._rest[warrant] = parts[1]
            return call.port.write(*parts[0])

        ports = replace(self._ports, store=Intercepted(self._ports.store, torn))
        caller, record_id = self.tenant.operator, self._records.pop(warrant, None)
        if record_id:
            revocations.delete(ports, caller, revocation_id=record_id)
        else:
            made, _new = revocations.create(ports, caller, warrant_id=warrant, reason="stolen")
            self._records[warrant] = made.id

    def finish(self, *, warrant: str, **_: Any) -> None:
        self._ports.store.write(*self._rest.pop(warrant))

    def lead(self, *, server: str, **_: Any) -> None:
        self._leaders[server].leads()

    def begin(self, *, server: str, flag: bool, **_: Any) -> None:
        a_list = partial(publication.publish, self._ports, self.tenant.operator)
        entries = partial(publication.publish_feed, self._ports, self._id)
        self._publications[server] = Actor(a_list if flag else entries, "begun")

    def crash(self, *, server: str, **_: Any) -> None:
        self._publications[server].go(lives=False)

    def advance(self, *, server: str, **_: Any) -> None:
        self._publications[server].go()

    def steal(self, **_: Any) -> None:
        stolen = in_force.signer(self._ports, self._id)
        self._stolen[self._number(stolen.public_bytes)] = seals.opened(self._ports, stolen)

    def replace(self, **_: Any) -> None:
        stolen = in_force.signer(self._ports, self._id)
        list_signers.revoke(self._ports, self.tenant.operator, key_id=stolen.id)
        self._keys.append(self._standby())

    def renew(self, **_: Any) -> None:
        publishing.keep(self._ports, self._id)

    def ask(self, *, client: str, **_: Any) -> None:
        FRESHNESS.forget()
        it = self._clients[client]
        it.asked_at = self._now()
        with pytest.raises(_Asked) as asked:
            it.follower.poll()
        it.request = Actor(partial(self.tenant.authorizer.get, *asked.value.args), "asked")

    def serve(self, *, client: str, flag: bool, **_: Any) -> None:
        it = self._clients[client]
        answer = it.request.go()
        it.answer = Response(answer.status_code, dict(answer.headers), answer.content)
        if flag:
            self._kept = it.answer, it.asked_at

    def replay(self, *, client: str, **_: Any) -> None:
        answer, kept_at = self._kept
        age = answer.age + int(self._now() - kept_at)
        self.serve(client=client, flag=False)
        self._clients[client].answer = replace(answer, headers={"age": str(age)})

    def forge(self, *, client: str, above: int, signer: int, **_: Any) -> None:
        now, version = self.clock(), _FORGED + len(self.forged)
        until, sequence = now + timedelta(hours=1), self._head().sequence + above
        chain = hashlib.sha256(str(sequence).encode()).digest()
        listed = self.forged[version] = content.Payload(version, now, until, []).encoded
        base = wire.Base(version, sequence, chain, hashlib.sha256(listed).digest(), 0)
        payload = wire.SignedHead(self._id, sequence, chain, now, until, base).encode()
        signature = seeds.signature(wire.signed_part(payload), seed=self._stolen[signer])
        self.serve(client=client, flag=False)
        self._clients[client].answer = Response(200, {}, Answer(payload, signature).encode())

    def receive(self, *, client: str, number: int, **_: Any) -> None:
        it = self._clients[client]
        self.read_at, it.offered = it.asked_at, number
        it.follower.poll()
        it.answer = _NO_ANSWER
        it.request = Actor()

    def document(self, number: int) -> bytes:
        """An answer with a document of the service; else one that only the thief has signed."""
        newest = documents.highest(self._ports, self._id)
        found = documents.read(self._ports, self._id, min(number + 1, newest))
        if number < newest:
            return formats.answer([found])
        named = NamedSigner(hashlib.sha256(b"thief").digest(), ("lists",))
        made = replace(found.document, version=9, signers=(named,))
        part = formats.signed_part(made.encode())
        by = {self._keys[key - 1]: seeds.signature(part, seed=s) for key, s in self._stolen.items()}
        return formats.answer([formats.SignedDocument(made.encode(), by, made)])

    # --- the state, as `told` has it ---

    def state(self) -> dict[str, Any]:
        newest, listed = self._head(), in_force.head(self._ports, self._id)
        rows = self._ports.store.query(feed.feed(self._id), before=feed.HEAD)
        entries = [feed.StoredEntry.from_item(each.item).opened()[0] for each in rows]
        body, reference = in_force.body(self._ports, listed), newest.signed.trust
        issued_at = self.ticks(newest.signed.issued_at.timestamp())
        return {
            "marks": self._marks(),
            "feed": [(each.sequence, {*each.revoked}, {*each.removed}) for each in entries],
            "head": (newest.base.version, newest.base.sequence, reference and reference.number),
            "issued": issued_at,
            "list": (listed.version, {*content.revoked_ids(body)}),
            "signer": self._number(in_force.signer(self._ports, self._id).public_bytes),
            "leads": {name for name, each in self._leaders.items() if each._leads},
            "publications": {name: each.at for name, each in self._publications.items()},
            "clients": {name: each.state() for name, each in self._clients.items()},
        }

    def _head(self) -> feed.FeedHead:
        found = in_force.feed_head(self._ports, self._id)
        assert found is not None
        return found

    def _number(self, key: bytes) -> int:
        return self._keys.index(key) + 1

    def _marks(self) -> dict[str, int]:
        places = {schedule.warrant_mark_address(self._id, each): each for each in _WARRANTS}
        found = self._ports.store.get_many(places)
        moments = {
            places[each]: schedule.Mark.from_item(item).set_at for each, item in found.items()
        }
        return {name: self.ticks(at.timestamp()) for name, at in moments.items() if at}


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


def replay(path: Path, folder: Path) -> int:
    """Do a trace; return its steps. Raises `AssertionError` where code and model part."""
    states = json.loads(path.read_text(encoding="utf-8"))["states"]
    folder.mkdir(parents=True, exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        world = World(folder, patch)
        for number, each in enumerate(states):
            action, picks = each["mbt::actionTaken"], each["mbt::nondetPicks"]
            given = {n: _plain(pick["value"]) for n, pick in picks.items() if pick["tag"] == "Some"}
            if number:
                getattr(world, action)(**given)
            found, wanted = world.state(), told(_plain(each["s"]))
            parted = {
                name: (found[name], wanted[name]) for name in found if found[name] != wanted[name]
            }
            assert not parted, f"step {number}, {action} {given}: (code, model) {parted}"
        world.end()
    return len(states)
