"""The Signed Revocation List: read, regenerate, the schedule."""

import base64
from datetime import timedelta
from typing import Final

from hypothesis import strategies as st
from hypothesis.stateful import precondition

from shared.errors import Unavailable
from shared.model.lists import verification as srl_verification
from shared.operations.lists import publication
from tests.kit.faults import Crash, Fault
from tests.state_machine.attempts import CHECKERS, NOT_MODIFIED, OK, Done, Span
from tests.state_machine.books import Books, Fields, moment
from tests.state_machine.machine import Machine, step
from tests.state_machine.service import How, between
from tests.state_machine.strategies import FAULTS, HANDLE, HANDLES, HOW

# The audit log reaches no further ahead of the clock than a day.
_BEHIND_MAX: Final = timedelta(hours=20)
_PATHS = st.sampled_from(["/v1/revocations/srl", "/v1/revocations/srl/signed"])


class SrlRules(Machine):
    """What can be done with the list."""

    @step(handle=HANDLE, how=HOW, path=_PATHS, held=st.booleans())
    def read_srl(self, handle: str, how: How, path: str, held: bool) -> None:
        """The list in force; who holds it already is not sent it again."""
        books = self.books[handle]

        def effect(done: Done) -> None:
            assert done.fields == books.srl

        self.attempt(
            books,
            how,
            "GET",
            path,
            lambda _: NOT_MODIFIED if held else OK,
            headers={"If-None-Match": books.etag} if held else {},
            scopes=CHECKERS,
            effect=effect,
            goal=NOT_MODIFIED if held else OK,
        )

    @step(handle=HANDLE, how=HOW)
    def read_status(self, handle: str, how: How) -> None:
        """F436: The status is that of the list in force; what the list lacks is pending."""
        books = self.books[handle]

        def effect(done: Done) -> None:
            payload = books.srl["payload"]
            issued_at, expires_at = moment(payload["IssuedAt"]), moment(payload["ExpiresAt"])
            assert done.fields["version"] == payload["Version"]
            assert done.fields["count"] == len(payload["RevokedIDs"])
            assert moment(done.fields["expires_at"]) == expires_at
            is_whole = books.listed(issued_at, expires_at - issued_at) == payload["RevokedIDs"]
            assert is_whole or done.fields["pending"] > 0

        path = "/v1/revocations/srl/status"
        scopes = ("admin", "read-only", "revoker", "auditor")
        self.attempt(books, how, "GET", path, lambda _: OK, scopes=scopes, effect=effect)

    @step(handle=HANDLE, how=HOW)
    def regenerate(self, handle: str, how: How) -> None:
        """F01, F02: a regeneration raises the version by one, or changes nothing."""
        books = self.books[handle]

        def effect(done: Done) -> None:
            self.enter_list(books, done.span)
            self._enter_publication(books, done.actor)
            assert done.fields == _summary(books.srl)

        self.attempt(
            books,
            how,
            "POST",
            "/v1/revocations/srl/regenerate",
            lambda _: OK,
            effect=effect,
            evidence=lambda: self._newer(books),
        )

    @step(faults=FAULTS)
    def run_the_schedule(self, faults: tuple[Fault, ...]) -> None:
        """F08: the schedule publishes for who is due, once; who fails holds back no other."""
        start = self.clock()
        with self.service.storming(faults):
            try:
                tick: publication.Tick | None = publication.publish_due(self.service.ports)
            except (Crash, Unavailable):
                assert self.service.broke()
                tick = None
        broke, span = self.service.broke(), (start, self.clock())
        for books in self.books.values():
            self._check_schedule(books, tick, span, broke=broke)
        self.touched.update(self.books)
        self.count_success(bool(tick and tick.published))

    @precondition(lambda self: self.latest - self.clock() < _BEHIND_MAX - timedelta(hours=2))
    @step(seconds=st.sampled_from([1, 30, 600, 7200]))
    def step_back(self, seconds: int) -> None:
        """F09: the clock is set back."""
        self.clock.advance(seconds=-seconds)
        self.touched.update(self.books)
        self.count_success()
        # Until the next list, it is not known what the one in force lacks (FEED-12).
        for handle in HANDLES:
            self.regenerate(handle=handle, how=How())

    def end(self) -> None:
        """Whatever was revoked in the end is in a list."""
        for handle in HANDLES:
            self.regenerate(handle=handle, how=How())
        super().end()

    def _check_schedule(
        self, books: Books, tick: publication.Tick | None, span: Span, *, broke: bool
    ) -> None:
        due = {books.is_due(each) for each in span}
        published = self._newer(books) is not None
        if published and True not in due:
            assert books.may_be_marked
            books.may_be_marked = False
        assert published or False in due or broke
        if tick is not None:
            assert published or books.id not in tick.published
            assert books.id in {*tick.published, *tick.failed} or not published
            assert broke or not tick.failed
        if published:
            books.may_be_marked |= broke
            self.enter_list(books, span)
            self._enter_publication(books, f"system+schedule@{books.handle}.svc")

    def _newer(self, books: Books) -> Fields | None:
        """What a regeneration would say of the list in force, if that is not in the books."""
        document = self.ask(books, "/v1/revocations/srl").json()
        return None if document == books.srl else _summary(document)

    def enter_list(self, books: Books, span: Span) -> None:
        """Hold a new list to what it must say, and enter it."""
        answer = self.ask(books, "/v1/revocations/srl/signed")
        before, says = books.srl["payload"], answer.json()["payload"]
        payload = srl_verification.verify(
            answer.content,
            public_key=base64.b64decode(books.signers[books.signer_id]["public_key"]),
            now=moment(says["IssuedAt"]),
            min_version=before["Version"] + 1,
        )
        assert payload.version == before["Version"] + 1
        expected = [books.issue_time(now) for now in span]
        assert between(payload.issued_at, (min(expected), max(expected)))
        lifetime = timedelta(seconds=books.settings["srl_ttl_seconds"])
        assert payload.expires_at == payload.issued_at + lifetime
        assert payload.revoked_ids == books.listed(payload.issued_at, lifetime)
        assert answer.headers["etag"] != books.etag
        assert answer.headers["x-srl-key-id"] == books.signer_id
        books.srl, books.etag, books.changed = answer.json(), answer.headers["etag"], False

    def _enter_publication(self, books: Books, actor: str) -> None:
        books.enter("srl.regenerate", f"srl/{books.srl['payload']['Version']}", actor)


def _summary(document: Fields) -> Fields:
    """A list as the answer to its regeneration tells of it."""
    payload = document["payload"]
    return {
        "version": payload["Version"],
        "issued_at": payload["IssuedAt"],
        "expires_at": payload["ExpiresAt"],
        "revocation_count": len(payload["RevokedIDs"]),
    }
