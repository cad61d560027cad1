"""Revocations: revoke, take back, check."""

from datetime import datetime
from urllib.parse import urlencode

from hypothesis import strategies as st

from tests.state_machine.attempts import (
    CHECKERS,
    CREATED,
    DELETED,
    INVALID,
    NOT_FOUND,
    OK,
    REVOKERS,
    Done,
    Outcome,
)
from tests.state_machine.books import Books, Fields, moment
from tests.state_machine.machine import Machine, step
from tests.state_machine.recount import in_batch
from tests.state_machine.service import INSTANCES, How, between
from tests.state_machine.strategies import HANDLE, HOW, MINUTES, PICK, WARRANT

_SIGNED = st.none() | PICK


class RevocationRules(Machine):
    """What can be done with revocations."""

    @step(handle=HANDLE, how=HOW, warrant_id=WARRANT, signed=_SIGNED, minutes=MINUTES)
    def revoke_warrant(
        self, handle: str, how: How, warrant_id: str, signed: int | None, minutes: int | None
    ) -> None:
        """A revocation holds at once; repeated, it answers with the first record.

        A later end, or none, takes the place of an end that was said.
        """
        books = self.books[handle]
        if signed is not None:
            warrant_id = self.choose(books, "warrants", signed)
        body = {"warrant_id": warrant_id, "reason": f"stolen from {handle}"}
        said = self.later(minutes)
        end = {"warrant_expires_at": said} if said else {}

        def outcome(_now: datetime) -> Outcome:
            if books.revocation_of(warrant_id):
                return OK
            # What the machine signs says itself when it ends.
            signed_end = books.warrants.get(warrant_id, {"expires_at": said})["expires_at"]
            return INVALID if said and said != signed_end else CREATED

        def effect(done: Done) -> None:
            record = {name: done.fields[name] for name in done.fields if name != "created_by_name"}
            existing = books.revocation_of(warrant_id)
            if existing is None:
                generated = {name: record[name] for name in ("id", "created_at")}
                assert record == body | generated | {"created_by": done.actor}
                assert between(record["created_at"], done.span)
                books.revocations[record["id"]] = record
                if said:
                    books.said_to_end[record["id"]] = said
                books.enter("revocation.create", record["id"], done.actor)
            elif warrant_id not in books.warrants:
                self._extend(books, existing["id"], said, done.actor)
            assert record == (existing or record)
            self._check_everywhere(books, warrant_id)

        self.attempt(
            books,
            how,
            "POST",
            "/v1/revocations",
            outcome,
            body=body | end,
            scopes=REVOKERS,
            effect=effect,
            evidence=lambda: self._evidence(books, warrant_id),
        )

    def _extend(self, books: Books, record_id: str, said: str | None, actor: str) -> None:
        """Enter the later end of a revocation whose end was said, if this one is later."""
        was = books.said_to_end.get(record_id)
        if was is not None and (said is None or moment(said) > moment(was)):
            books.said_to_end |= {record_id: said} if said else {}
            if said is None:
                del books.said_to_end[record_id]
            books.enter("revocation.extend", record_id, actor)

    def _evidence(self, books: Books, warrant_id: str) -> Fields | None:
        """The new record of a warrant; the one that it had if that was extended."""
        existing = books.revocation_of(warrant_id)
        if existing is None:
            return self.new_record(books, "revocations")
        ever = {"from": "2000-01-01T00:00:00Z", "to": "2999-01-01T00:00:00Z"}
        query = {"action": "revocation.extend", "resource_id": existing["id"], **ever}
        total = self.ask(books, f"/v1/audit-logs?{urlencode(query)}").json()["total"]
        known = (
            number
            for entry, number in books.entries.items()
            if (entry.action, entry.resource_id) == ("revocation.extend", existing["id"])
        )
        return existing if total > sum(known) else None

    @step(handle=HANDLE, how=HOW, pick=PICK)
    def take_back(self, handle: str, how: How, pick: int) -> None:
        """A revocation that is taken back revokes no more; that of the warrant's key remains."""
        books = self.books[handle]
        revocation_id = self.choose(books, "revocations", pick)

        def effect(done: Done) -> None:
            record = books.revocations.pop(revocation_id)
            books.enter("revocation.delete", revocation_id, done.actor)
            self._check_everywhere(books, record["warrant_id"])

        def is_gone() -> dict[str, str] | None:
            listed = self.list_ids(books, "/v1/revocations")
            return None if revocation_id in listed else {}

        self.attempt(
            books,
            how,
            "DELETE",
            f"/v1/revocations/{revocation_id}",
            lambda _: DELETED if revocation_id in books.revocations else NOT_FOUND,
            scopes=REVOKERS,
            effect=effect,
            evidence=is_gone,
        )

    @step(handle=HANDLE, how=HOW, warrant_id=WARRANT, signed=_SIGNED)
    def check(self, handle: str, how: How, warrant_id: str, signed: int | None) -> None:
        """Check reads what is true now; a fault is never read as not revoked."""
        books = self.books[handle]
        if signed is not None:
            warrant_id = self.choose(
                books, "warrants", signed, lambda each: books.verdict(each["warrant_id"])["revoked"]
            )

        def effect(done: Done) -> None:
            assert done.fields == books.verdict(warrant_id)

        path = f"/v1/revocations/check?warrant_id={warrant_id}"
        self.attempt(books, how, "GET", path, lambda _: OK, scopes=CHECKERS, effect=effect)

    @step(handle=HANDLE, how=HOW, warrant_ids=st.lists(WARRANT, min_size=1), signed=PICK)
    def check_batch(self, handle: str, how: How, warrant_ids: list[str], signed: int) -> None:
        """The same of many at once, each of them once."""
        books = self.books[handle]
        asked = [*warrant_ids, self.choose(books, "warrants", signed)]

        def effect(done: Done) -> None:
            assert done.fields["results"] == {each: in_batch(books.verdict(each)) for each in asked}

        self.attempt(
            books,
            how,
            "POST",
            "/v1/revocations/check-batch",
            lambda _: OK,
            body={"warrant_ids": asked},
            scopes=CHECKERS,
            effect=effect,
        )

    def _check_everywhere(self, books: Books, warrant_id: str) -> None:
        for _ in range(INSTANCES):
            answer = self.ask(books, f"/v1/revocations/check?warrant_id={warrant_id}")
            assert answer.json() == books.verdict(warrant_id)
