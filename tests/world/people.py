"""What people do, and what happens to their machines: one function for each kind."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeVar

from functions.batches import operations as revocation_batches
from shared.authorizer.answers import NoResponse
from shared.errors import RequestError, RescindError
from shared.model.callers import Caller
from shared.model.revocation_batches import BatchAction, BatchOutcome, BatchRequest
from shared.model.signing_keys import SigningKeyType
from shared.operations.changes import (
    key_revocation,
    list_signers,
    revocations,
    signing_keys,
    srl,
    warrants,
)
from shared.operations.changes.warrants import SignRequest
from shared.ports import Ports
from tests.world import chores, holders, moves, relays, upgrades
from tests.world.audit import Asked, rob
from tests.world.broken import Broken
from tests.world.keys import Held, admitted
from tests.world.oracle import Books
from tests.world.world import Machine

if TYPE_CHECKING:
    from tests.world.run import Life

R = TypeVar("R")

_WARRANTS: Final = [f"svc_wrt_{number}" for number in range(8)]


class Unknown(Exception):
    """Nobody knows whether it was done."""


@dataclass
class Deed:
    """Somebody does something: in which life, for whom, and what chance says of the rest."""

    life: "Life"
    books: Books
    random: Random
    name: str

    _caller: Caller | None = None
    # The last request.
    asked: Asked | None = None

    @property
    def caller(self) -> Caller:
        """Who asks, as the server took the key for."""
        assert self._caller is not None
        return self._caller

    def pick(self, found: Sequence[R]) -> R | None:
        """One of them, if there is one."""
        return self.random.choice(found) if found else None

    def ask(
        self, words: str, call: Callable[[Ports], R], *marks: str, key: Held | None = None
    ) -> R | None:
        """Have a server do something. Return None if it refuses; raises `Unknown`.

        If it is done, the audit log has an entry for each of the `marks`.
        """
        life, server, asked = self.life, self.life.server(), self.books.ledger.ask(marks)
        text = f"{self.name} asks {server.machine.name} to {words}"
        ring, restores = self.books.ring, life.restores
        self.asked = asked

        def serve() -> R:
            self._caller = admitted(server, ring, key or ring.own, asked.id)
            return call(server.ports)

        try:
            done = life.world.request(server.machine, serve, life.people)
            if life.restores != restores:
                raise NoResponse("the service was stopped")
        except RequestError as error:
            life.world.tell(f"{text}: refused ({type(error).__name__})")
            asked.is_done = False
            return None
        except (NoResponse, RescindError) as error:
            life.world.tell(f"{text}: not known ({error})")
            raise Unknown from None
        life.world.tell(f"{text}: done")
        asked.is_done = True
        return done

    def leaves(self, *marks: str) -> None:
        """What was asked last has an entry for each of these marks, as its answer says."""
        assert self.asked is not None
        self.asked.marks = marks

    def change(
        self,
        words: str,
        ids: Sequence[str],
        call: Callable[[Ports], Any],
        *marks: str,
        revokes: bool,
    ) -> Any:
        """Revoke or restore warrants, and enter that in the books."""
        oracle, books, outcome = self.life.oracle, self.books, None
        before = {each: books.warrants[each].revoked for each in ids}
        # What was asked before, and is in flight, may come after this.
        in_flight = {each for each in ids if before[each] is None and self.life.in_flight}
        oracle.begin(books, ids, revokes=revokes)
        done, known = None, False
        try:
            done = self.ask(words, call, *marks)
            known = True
        except Unknown:
            pass
        for each in ids:
            is_known = known and each not in in_flight
            outcome = None if not is_known else revokes if done is not None else before[each]
            oracle.end(books, [each], outcome)
        return done


def revoke(deed: Deed) -> None:
    free = [each for each in _WARRANTS if not deed.books.busy[each]]
    signed = [each for each, found in deed.books.warrants.items() if found.key_id]
    warrant_id = deed.pick([*free, *(each for each in signed if not deed.books.busy[each])])
    if warrant_id is None:
        return

    def call(ports: Ports) -> Any:
        return revocations.create(ports, deed.caller, warrant_id=warrant_id, reason="stolen")

    done = deed.change(f"revoke {warrant_id}", [warrant_id], call, revokes=True)
    if done is not None:
        deed.books.warrants[warrant_id].revocation_id = done[0].id
        deed.leaves(*(["revocation.create"] if done[1] else []))


def unrevoke(deed: Deed) -> None:
    books = deed.books
    found = [each for each, held in books.warrants.items() if held.revoked and held.revocation_id]
    warrant_id = deed.pick([each for each in found if not books.busy[each]])
    if warrant_id is None:
        return
    revocation_id = books.warrants[warrant_id].revocation_id
    assert revocation_id is not None

    def call(ports: Ports) -> bool:
        revocations.delete(ports, deed.caller, revocation_id=revocation_id)
        return True

    words = f"take back {warrant_id}"
    deed.change(words, [warrant_id], call, "revocation.delete", revokes=False)


def waver(deed: Deed) -> None:
    """Revoke something, take it back, and revoke it again."""
    for each in (revoke, unrevoke, revoke):
        each(deed)


def revoke_many(deed: Deed) -> None:
    free = [each for each in _WARRANTS if not deed.books.busy[each]]
    ids = tuple(deed.random.sample(free, min(3, len(free))))
    if not ids:
        return
    batch = BatchRequest(BatchAction.REVOKE, ids, "stolen")

    def call(ports: Ports) -> Any:
        applied = revocation_batches.apply(ports, deed.caller, batch=batch)
        if any(each.error is not None for each in applied.results):
            raise NoResponse("a part of it failed")
        return applied

    done = deed.change(f"revoke {', '.join(ids)}", ids, call, revokes=True)
    results = done.results if done else ()
    new = (each.id for each in results if each.outcome is BatchOutcome.REVOKED)
    deed.leaves(*(f"revocation.create_batch {each}" for each in new))
    for each in results:
        deed.books.warrants[each.id].revocation_id = each.revocation_id


def make_key(deed: Deed) -> None:
    parent = deed.pick([None, *(each for each, lost in deed.books.keys.items() if lost is False)])
    type_ = SigningKeyType.ISSUER if parent else SigningKeyType.ROOT

    def call(ports: Ports) -> Any:
        return signing_keys.create(ports, deed.caller, type_=type_, name="k", parent_id=parent)

    made = deed.ask("make a signing key", call, "key.create")
    if made is not None:
        deed.books.keys[made.id] = False


def sign(deed: Deed) -> None:
    key_id = deed.pick([each for each, lost in deed.books.keys.items() if lost is False])
    if key_id is None:
        return
    warrant_id = f"svc_wrt_s{next(deed.life.world.numbers)}"
    standing = deed.books.warrants[warrant_id]
    standing.key_id, standing.is_shown = key_id, False
    deed.books.busy[warrant_id] += 1

    def call(ports: Ports) -> Any:
        return warrants.sign(
            ports, deed.caller, key_id=key_id, order=SignRequest(b"grant", warrant_id=warrant_id)
        )

    done = None
    try:
        done = deed.ask(f"sign {warrant_id}", call, "key.sign")
    finally:
        deed.books.busy[warrant_id] -= 1
        if done is None:
            # Whether it exists is of no importance, if it is not asked for again.
            deed.books.unsigned.add(warrant_id)
        # If the key stopped meanwhile, the warrant is refused after it was stored (docs/adr/07).
        if deed.asked is not None and deed.asked.is_done is False:
            deed.asked.is_done = None
    restores = deed.life.restores
    again = deed.ask(f"sign {warrant_id} again", call) if deed.random.random() < 0.2 else None
    standing.is_shown = bool(done or again)
    if done and again and restores == deed.life.restores:
        raise Broken(f"{warrant_id} is signed twice")


def revoke_key(deed: Deed) -> None:
    key_id = deed.pick([each for each, lost in deed.books.keys.items() if lost is False])
    if key_id is None:
        return
    books, oracle = deed.books, deed.life.oracle
    books.keys[key_id], done = None, None
    books.busy[key_id] += 1
    for each in books.signed_by(key_id):
        books.warrants[each].ever = True

    def call(ports: Ports) -> Any:
        return key_revocation.revoke(ports, deed.caller, key_id=key_id, reason="lost")

    try:
        done = deed.ask(f"revoke the key {key_id[-3:]}", call, "key.revoke")
    finally:
        books.busy[key_id] -= 1
        books.keys[key_id] = True if done is not None else None
        if done is not None:
            books.lost_at[key_id] = deed.life.oracle.marked_at()
        for each in books.signed_by(key_id):
            oracle.know(books, each, books.warrants[each].revoked)


def lose_key(deed: Deed) -> None:
    """Revoke a signing key while somebody signs with it."""
    make_key(deed)
    beside = replace(deed)

    def signs() -> None:
        with suppress(Unknown):
            for _ in range(5):
                sign(beside)

    sign(deed)
    deed.life.world.start("sign beside", deed.life.people, signs)
    revoke_key(deed)


def rotate_key(deed: Deed) -> None:
    key_id = deed.pick([each for each, lost in deed.books.keys.items() if lost is False])
    if key_id is not None:
        deed.ask(
            "rotate a key",
            lambda ports: signing_keys.rotate(ports, deed.caller, key_id=key_id),
            "key.rotate",
        )


def regenerate(deed: Deed) -> None:
    asked_at = deed.life.world.now
    made = deed.ask("publish a list", lambda ports: srl.regenerate(ports, deed.caller))
    if made is not None:
        deed.life.oracle.check_list(deed.books, made.version, asked_at)


def list_at_once(deed: Deed) -> None:
    """Revoke something, and publish a list while the feed is on the way."""
    warrant_id = deed.pick([each for each in _WARRANTS if not deed.books.busy[each]])
    if warrant_id is None:
        return
    versions = list[int]()

    def call(ports: Ports) -> Any:
        made = revocations.create(ports, deed.caller, warrant_id=warrant_id, reason="stolen")
        try:
            versions.append(srl.regenerate(ports, deed.caller).version)
        except RequestError as error:
            raise NoResponse(str(error)) from None
        return made

    done = deed.change(f"revoke {warrant_id}, and list it", [warrant_id], call, revokes=True)
    if done is not None:
        deed.books.warrants[warrant_id].revocation_id = done[0].id
        deed.life.oracle.check_listed(deed.books, versions[0], warrant_id)


def rotate_signer(deed: Deed) -> None:
    deed.ask(
        "rotate the list signer", lambda p: list_signers.rotate(p, deed.caller), "srl.rotate_key"
    )


def lose_signer(deed: Deed) -> None:
    if deed.books.listed is None:
        return
    key_id = deed.books.listed.key_id
    deed.ask(
        "revoke the list signer, which was stolen",
        lambda ports: list_signers.revoke(ports, deed.caller, key_id=key_id),
    )


def make_signer(deed: Deed) -> None:
    made = deed.ask(
        "make a list signer", lambda p: list_signers.create(p, deed.caller), "srl.create_key"
    )
    if made is None:
        return
    deed.life.world.sleep(deed.random.uniform(0, 20))
    deed.ask(
        "activate it",
        lambda p: list_signers.activate(p, deed.caller, key_id=made.record.id, force=True),
    )


DEEDS: Final[dict[str, tuple[Callable[[Deed], None], int]]] = {
    each.__name__.replace("_", " "): (each, weight)
    for each, weight in (
        (revoke, 8),
        (unrevoke, 4),
        (revoke_many, 2),
        (waver, 3),
        (make_key, 2),
        (sign, 4),
        (revoke_key, 2),
        (lose_key, 3),
        (rotate_key, 1),
        (regenerate, 2),
        (list_at_once, 3),
        (rotate_signer, 4),
        (lose_signer, 4),
        (make_signer, 4),
        (chores.set_settings, 1),
        (chores.register, 2),
        (chores.remove, 1),
        (chores.rotate_audit_signer, 1),
        (chores.check, 3),
        (chores.lay_up, 1),
        (holders.make_api_key, 4),
        (holders.rotate_api_key, 2),
        (holders.revoke_api_key, 2),
        (holders.delete_api_key, 1),
        (holders.make_account, 2),
        (holders.switch_account, 2),
        (holders.use_api_key, 4),
        (holders.pry, 1),
    )
}


# --- what goes wrong ---

Fault = Callable[["Life", Random], None]


def _peril(name: str, *, of: str) -> Fault:
    def strike(life: "Life", random: Random) -> None:
        machine = random.choice(life.of_kind(of))
        machine.perils.append(name)

    return strike


def crash(life: "Life", random: Random) -> None:
    machine = random.choice([each for each in life.world.machines.values() if each.is_up])
    if machine is life.people:
        return
    life.world.tell(f"{machine.name} dies")
    machine.die()


def stop(life: "Life", random: Random) -> None:
    machine = random.choice(list(life.world.machines.values()))
    seconds = random.uniform(1, 40)
    machine.stopped_until = life.world.now + seconds
    life.world.tell(f"{machine.name} stands still for {seconds:.0f} s")


def cut(life: "Life", random: Random) -> None:
    machine: Machine = random.choice(list(life.world.machines.values()))
    seconds = random.uniform(1, 30)
    machine.cut_until = life.world.now + seconds
    life.world.tell(f"{machine.name} is cut off for {seconds:.0f} s")


def slow(life: "Life", random: Random) -> None:
    machine = random.choice(life.of_kind("link"))
    machine.slow_until = life.world.now + random.uniform(1, 30)
    life.world.tell(f"the network of {machine.name} is slow")


def set_clock(life: "Life", random: Random) -> None:
    machine = random.choice(list(life.world.machines.values()))
    wrong = [0.0, 0.7, -0.7, 20.0, -20.0]
    if machine in life.of_kind("client"):
        wrong += [400.0, -400.0, 5000.0, -5000.0]
    machine.skew = random.choice(wrong)
    life.world.tell(f"the clock of {machine.name} is wrong by {machine.skew} s")


# What strikes at a later call of a machine of this kind.
PERILS: Final = {
    **dict.fromkeys(("stall", "throttled", "lose an answer"), "server"),
    **dict.fromkeys(("die before a write", "die after a write"), "server"),
    "lose a response": "link",
    **dict.fromkeys(("corrupt", "replay", "forge"), "client"),
}
FAULTS: Final[dict[str, Fault]] = {
    **{name: _peril(name, of=of) for name, of in PERILS.items()},
    "slow": slow,
    "crash": crash,
    "stop": stop,
    "cut": cut,
    "set clock": set_clock,
    "upgrade": upgrades.upgrade,
    **moves.FAULTS,
    **relays.FAULTS,
    "rob": rob,
}
