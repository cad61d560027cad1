"""The signers of lists: create, activate, rotate, revoke."""

from datetime import datetime

from hypothesis import strategies as st

from tests.state_machine.attempts import CREATED, NOT_FOUND, OK, WRONG_STATE, Done, Outcome
from tests.state_machine.books import Books, Fields
from tests.state_machine.machine import step
from tests.state_machine.service import How, between
from tests.state_machine.srl import SrlRules
from tests.state_machine.strategies import HANDLE, HOW, PICK

_KEYS = "/v1/revocations/srl/keys"


class SignerRules(SrlRules):
    """What can be done with the keys that sign lists."""

    @step(handle=HANDLE, how=HOW)
    def create_signer(self, handle: str, how: How) -> None:
        """A pending key is listed, and signs nothing; there is one at most."""
        books = self.books[handle]

        def effect(done: Done) -> None:
            signer = done.fields
            assert signer["status"] == "pending"
            assert between(signer["created_at"], done.span)
            books.signers[signer["key_id"]] = signer
            books.enter("srl.create_key", signer["key_id"], done.actor)

        self.attempt(
            books,
            how,
            "POST",
            _KEYS,
            lambda _: WRONG_STATE if books.pending_signer() else CREATED,
            effect=effect,
            evidence=lambda: self._unknown_signer(books),
        )

    @step(handle=HANDLE, how=HOW, pick=PICK, force=st.booleans())
    def activate_signer(self, handle: str, how: How, pick: int, force: bool) -> None:
        """A pending key signs the list in force from the same step on."""
        books = self.books[handle]
        key_id = self.choose(books, "signers", pick, lambda each: each["status"] == "pending")
        before = dict(books.signers.get(key_id) or {})

        def outcome(now: datetime) -> Outcome:
            if not before:
                return NOT_FOUND
            if before["status"] != "pending":
                return OK if before["status"] == "active" else WRONG_STATE
            return OK if force or books.signer_activates_at(before) <= now else WRONG_STATE

        def effect(done: Done) -> None:
            if before["status"] == "active":
                assert done.fields == before
                return
            self._hand_over(books, done, old_status="retired")
            books.enter("srl.activate_key", key_id, done.actor)

        self.attempt(
            books,
            how,
            "POST",
            f"{_KEYS}/{key_id}/activate",
            outcome,
            body={"force": force},
            effect=effect,
            evidence=lambda: self._signs_by_now(books, key_id),
        )

    @step(handle=HANDLE, how=HOW)
    def rotate_signer(self, handle: str, how: How) -> None:
        """The pending key, or else a new one, signs the list in force from the same step on."""
        books = self.books[handle]

        def effect(done: Done) -> None:
            pending = books.pending_signer()
            assert pending is None or pending["key_id"] == done.fields["key_id"]
            self._hand_over(books, done, old_status="retired")
            books.enter("srl.rotate_key", books.signer_id, done.actor)

        self.attempt(
            books,
            how,
            "POST",
            f"{_KEYS}/rotate",
            lambda _: CREATED,
            effect=effect,
            evidence=lambda: self._signs_by_now(books),
        )

    @step(handle=HANDLE, how=HOW, pick=PICK)
    def revoke_signer(self, handle: str, how: How, pick: int) -> None:
        """A revoked key is told as such for good; if it signed, another one does from then on."""
        books = self.books[handle]
        key_id = self.choose(books, "signers", pick)
        before = dict(books.signers.get(key_id) or {})

        def evidence() -> Fields | None:
            signer = self._listed(books).get(key_id)
            return signer if signer and signer["status"] != before["status"] else None

        def effect(done: Done) -> None:
            assert done.fields == before | {"status": "revoked", "activates_at": None}
            if before["status"] == "revoked":
                return
            if before["status"] == "active":
                signer = next(iter(self._listed(books).values()))
                assert signer["statement"] is None
                self._hand_over(books, Done(signer, done.actor, done.span), old_status="revoked")
            books.signers[key_id] = done.fields
            books.enter("srl.revoke_key", key_id, done.actor)
            # The key in force was replaced with a list; of any other key the next list tells.
            books.changed = before["status"] != "active"

        self.attempt(
            books,
            how,
            "POST",
            f"{_KEYS}/{key_id}/revoke",
            lambda _: OK if before else NOT_FOUND,
            effect=effect,
            evidence=evidence,
        )

    def _hand_over(self, books: Books, done: Done, *, old_status: str) -> None:
        """A signer that is active now, and the list that it published."""
        assert done.fields["status"] == "active"
        assert between(done.fields["activates_at"], done.span)
        books.hand_over(done.fields, old_status=old_status)
        self.enter_list(books, done.span)

    def _listed(self, books: Books) -> dict[str, Fields]:
        listed = self.ask(books, _KEYS).json()["keys"]
        return {each["key_id"]: each for each in listed}

    def _unknown_signer(self, books: Books) -> Fields | None:
        new = [each for i, each in self._listed(books).items() if i not in books.signers]
        assert len(new) <= 1
        return new[0] if new else None

    def _signs_by_now(self, books: Books, key_id: str | None = None) -> Fields | None:
        """The signer of the list in force, if that is another one than before."""
        signer = next(iter(self._listed(books).values()))
        if signer["key_id"] == books.signer_id:
            return None
        assert key_id in (None, signer["key_id"])
        return signer
