"""The machine that the rules are made for: how a step asks, what it expects, what it finds out.

Whatever a request was answered, the books say the same as the service afterwards. A mutation that
was answered 503, or not at all, happened or did not: which, is read back; the recount after each
step shows that it was no third thing.
"""

import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial, wraps
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import httpx2
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from shared.operations.operator import onboarding
from tests.state_machine import recount
from tests.state_machine.attempts import (
    CONFLICT,
    CREATED,
    DELETED,
    NOT_FOUND,
    OK,
    Attempt,
    Done,
    Outcome,
    Span,
    outcome_of,
    outcomes,
)
from tests.state_machine.books import Books, Entry, Fields
from tests.state_machine.service import INSTANCES, How, Request, Service
from tests.state_machine.strategies import HANDLES

# The names of all rules.
RULES: Final[set[str]] = set()


def step(**drawn: st.SearchStrategy[Any]) -> Callable[[Callable[..., None]], Any]:
    """A rule whose steps are counted."""

    def mark(method: Callable[..., None]) -> Any:
        RULES.add(method.__name__)

        @wraps(method)
        def counted(self: "Machine", **values: Any) -> None:
            self.name = method.__name__
            self.service.tally.steps[self.name] += 1
            method(self, **values)

        marked: Any = rule(**drawn)  # type: ignore[call-overload]
        return marked(counted)

    return mark


class Machine(RuleBasedStateMachine):
    """The service with two tenants, and their books."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = TemporaryDirectory()
        self.service = Service(Path(self._folder.name))
        self.clock = self.service.clock
        self.earliest = self.latest = self.clock()
        self.name = ""
        # How many authorizers were to be registered, each by a name of its own.
        self.registered = 0
        self._asked = 0
        self.books = {handle: self._onboard(handle) for handle in HANDLES}
        self.touched: set[str] = set(HANDLES)

    def teardown(self) -> None:
        """Leave no file behind; but where nothing has failed yet, look at everything first."""
        try:
            if sys.exc_info()[0] is None:
                self.end()
        finally:
            self._folder.cleanup()

    def end(self) -> None:
        """Recount all that there is."""
        self.touched.update(self.books)
        self.nothing_is_lost()
        for books in self.books.values():
            recount.thoroughly(books, self.ask_of(books))

    @invariant()
    def nothing_is_lost(self) -> None:
        """F31: after each step, the service says of whoever it touched what the books say."""
        now = self.clock()
        self.earliest, self.latest = min(self.earliest, now), max(self.latest, now)
        for handle in self.touched:
            self._recount(self.books[handle])
        self.touched.clear()

    def attempt(
        self,
        books: Books,
        how: How,
        method: str,
        path: str,
        decide: Callable[[datetime], Outcome],
        **options: Any,
    ) -> None:
        """Send a request, hold its answer to the contract, enter in the books what it did."""
        attempt = Attempt(method, path, decide, **options)
        caller = self.caller(books, how)
        actor = books.identity(caller) if caller in books.api_keys else ""
        if method == "POST" and "/srl/" in path:
            # It may publish, and break before it has removed the marks.
            books.may_be_marked |= bool(how.faults)
        start = self.clock()
        secret = books.secrets[caller]
        request = Request(books.handle, secret, method, path, attempt.body, attempt.headers)
        answer = self.service.send(request, how)
        span = start, self.clock()
        expected = outcomes(books, caller, attempt, span)
        self.touched.add(books.handle)
        if answer is None or answer.status_code == 503:
            self._read_back(attempt, expected, actor, span)
            return
        outcome = outcome_of(answer)
        assert outcome in expected, (outcome, expected)
        if answer.is_success:
            attempt.effect(Done(answer.json() if answer.content else {}, actor, span))
        self.count_success(answer.is_success if attempt.goal is None else outcome == attempt.goal)

    def delete(
        self,
        books: Books,
        how: How,
        kind: str,
        pick: int,
        *,
        is_kept: Callable[[str], object] = lambda _: False,
        verb: str = "delete",
        also: Callable[[str], object] = lambda _: None,
    ) -> None:
        """Delete a record, which goes unless something keeps it."""
        (place, noun), held = _LISTED[kind], getattr(books, kind)
        chosen = self.choose(books, kind, pick)
        path = f"{place}/{chosen}"

        def outcome(_now: datetime) -> Outcome:
            if chosen not in held:
                return NOT_FOUND
            return CONFLICT if is_kept(chosen) else DELETED

        def effect(done: Done) -> None:
            del held[chosen]
            books.enter(f"{noun}.{verb}", chosen, done.actor)
            also(chosen)

        evidence = partial(self.gone, books, path)
        self.attempt(books, how, "DELETE", path, outcome, effect=effect, evidence=evidence)

    def switch(
        self,
        books: Books,
        how: How,
        kind: str,
        pick: int,
        move: tuple[str, str],
        also: Callable[[str, Done], None],
    ) -> None:
        """Bring a record to another status by an action; there, it stays as it is."""
        (place, noun), held, (action, status) = _LISTED[kind], getattr(books, kind), move
        chosen = self.choose(books, kind, pick, lambda each: each["status"] != status)
        path = f"{place}/{chosen}"

        def outcome(_now: datetime) -> Outcome:
            return OK if chosen in held else NOT_FOUND

        def effect(done: Done) -> None:
            if held[chosen]["status"] != status:
                held[chosen]["status"] = status
                books.enter(f"{noun}.{action}", chosen, done.actor)
            also(chosen, done)

        evidence, to = partial(self.moved, books, path, status), f"{path}/{action}"
        self.attempt(books, how, "POST", to, outcome, effect=effect, evidence=evidence)

    def ask_of(self, books: Books) -> recount.Ask:
        """What the instances say to this tenant, each in turn, while nothing breaks."""

        def ask(path: str, body: Any = None) -> httpx2.Response:
            self._asked += 1
            method, secret = "GET" if body is None else "POST", books.secrets[books.admin_id]
            request = Request(books.handle, secret, method, path, body)
            answer = self.service.send(request, How(instance=self._asked % INSTANCES))
            assert answer is not None
            return answer

        return ask

    def ask(self, books: Books, path: str) -> httpx2.Response:
        """One such answer."""
        return self.ask_of(books)(path)

    def choose(
        self,
        books: Books,
        kind: str,
        pick: int,
        fits: Callable[[Fields], bool] = lambda _: True,
    ) -> str:
        """An identifier: mostly of a record that fits, or else of any, of another tenant, or none.

        What the observer's own key depends on is never chosen.
        """
        (other,) = (each for each in self.books.values() if each is not books)
        own = {i: each for i, each in getattr(books, kind).items() if i not in books.spared}
        fitting = [i for i, each in own.items() if fits(each)]
        others = [*getattr(other, kind)]
        strange = [*others[-1:], _UNKNOWN[kind]]
        pool: list[str] = [*reversed(fitting)] * 4 + [*own, *strange]
        return pool[pick % len(pool)]

    def new_record(self, books: Books, kind: str) -> Fields | None:
        """The one record that is in its list and not in the books, if any."""
        known = getattr(books, kind)
        listed = recount.walk(self.ask_of(books), _LISTED[kind][0])
        new = [each for each in listed if each["id"] not in known]
        assert len(new) <= 1
        return new[0] if new else None

    def moved(self, books: Books, path: str, status: str) -> Fields | None:
        """The record at a path, if it has this status by now."""
        answer = self.ask(books, path)
        if answer.status_code != 200 or answer.json()["status"] != status:
            return None
        fields: Fields = answer.json()
        return fields

    def list_ids(self, books: Books, path: str) -> list[str]:
        """The identifiers in a list."""
        return [each["id"] for each in recount.walk(self.ask_of(books), path)]

    def gone(self, books: Books, path: str) -> Fields | None:
        """Nothing, if that is what is left at a path."""
        return {} if self.ask(books, path).status_code == 404 else None

    def later(self, minutes: int | None) -> str | None:
        """A moment of the future, as a caller writes it."""
        if minutes is None:
            return None
        return (self.clock() + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")

    def count_success(self, succeeded: bool = True) -> None:
        """Count the present step as one that did what its rule is for."""
        self.service.tally.succeeded[self.name] += succeeded

    def _read_back(self, attempt: Attempt, expected: set[Outcome], actor: str, span: Span) -> None:
        if attempt.method == "GET" or not expected & {OK, CREATED, DELETED}:
            return
        found = attempt.evidence()
        self.service.tally.unknown["not done" if found is None else "done"] += 1
        if found is not None:
            attempt.effect(Done(found, actor, span))

    def _recount(self, books: Books) -> None:
        span = self.earliest, self.latest
        recount.recount(books, self.ask_of(books), span=span, turn=self._asked)

    def caller(self, books: Books, how: How) -> str:
        """Whose key a request comes with: mostly the first admin's, or any that was ever made."""
        pool = [books.admin_id] * (2 * len(books.secrets) + 1) + list(books.secrets)
        return pool[how.caller % len(pool)]

    def _onboard(self, handle: str) -> Books:
        settings, created = onboarding.create_tenant(self.service.plain, handle=handle)
        admin = created.api_key
        books = Books(handle, settings.tenant_id, admin.id, {admin.id: created.secret})
        self.service.meet(handle, settings.tenant_id)
        ask = self.ask_of(books)
        books.settings = ask("/v1/tenant/settings").json()
        books.api_keys = {i["id"]: recount.lasting(i) for i in recount.walk(ask, "/v1/api-keys")}
        accounts = recount.walk(ask, "/v1/service-accounts")
        books.accounts = {each["id"]: each for each in accounts}
        books.owners = dict.fromkeys([admin.id], *books.accounts)
        signers = ask("/v1/revocations/srl/keys").json()["keys"]
        books.signers = {each["key_id"]: each for each in signers}
        books.signer_id = signers[0]["key_id"]
        answer = ask("/v1/revocations/srl")
        books.srl, books.etag = answer.json(), answer.headers["etag"]
        books.spared = {admin.id, *books.accounts}
        operator = f"system+operator@{handle}.svc"
        books.entries[Entry("tenant.create", settings.tenant_id, operator)] = 1
        return books


# Where records are listed, and what the audit log calls them.
_LISTED: Final = {
    "accounts": ("/v1/service-accounts", "service_account"),
    "api_keys": ("/v1/api-keys", "api_key"),
    "authorizers": ("/v1/authorizers", "authorizer"),
    "keys": ("/v1/keys", "key"),
    "revocations": ("/v1/revocations", "revocation"),
    "webhooks": ("/v1/webhooks", "webhook"),
}
_UNKNOWN: Final = {
    kind: f"svc_{prefix}_{'0' * 26}"
    for kind, prefix in {
        "api_keys": "ak",
        "accounts": "sa",
        "authorizers": "azr",
        "webhooks": "whk",
        "keys": "key",
        "signers": "key",
        "revocations": "rev",
        "warrants": "wrt",
    }.items()
}
