"""The signer of the audit log: replace it, and seal."""

from datetime import datetime, timedelta

from shared.model.audit.checkpoint import NoteKey, is_signed_by
from shared.operations.audit import sealing
from tests.state_machine.attempts import CONFLICT, OK, Done, Outcome
from tests.state_machine.books import Books, Fields, moment, passed
from tests.state_machine.machine import Machine, step
from tests.state_machine.service import How, between
from tests.state_machine.strategies import HANDLE, HOW

_KEYS = "/v1/audit-logs/keys"
_SIGNING_MAX = 4


class AuditLogRules(Machine):
    """What can be done with the audit log."""

    @step(handle=HANDLE, how=HOW)
    def rotate_audit_signer(self, handle: str, how: How) -> None:
        """LOG-9: the new key signs; the one before signs beside it for one retention."""
        books = self.books[handle]

        def outcome(now: datetime) -> Outcome:
            signing = [i for i in books.audit_signers.values() if not passed(i["signs_until"], now)]
            return CONFLICT if len(signing) == _SIGNING_MAX else OK

        def effect(done: Done) -> None:
            listed = {each["key_id"]: each for each in done.fields["keys"]}
            retention = timedelta(days=books.settings["audit_retention_days"])
            for key_id, each in books.audit_signers.items():
                if each["signs_until"] is None:
                    until = listed[key_id]["signs_until"]
                    assert between(moment(until) - retention, done.span)
                    each["signs_until"] = until
            (made,) = listed.keys() - books.audit_signers.keys()
            assert listed[made]["signs_until"] is None
            assert between(listed[made]["created_at"], done.span)
            books.audit_signers[made] = listed[made]
            assert listed == books.audit_signers
            books.enter("audit_log.rotate_key", made, done.actor)
            self._seal(books)

        def evidence() -> Fields | None:
            answered: Fields = self.ask(books, _KEYS).json()
            return answered if len(answered["keys"]) > len(books.audit_signers) else None

        self.attempt(
            books, how, "POST", f"{_KEYS}/rotate", outcome, effect=effect, evidence=evidence
        )

    def _seal(self, books: Books) -> None:
        """Seal; a checkpoint that states more is signed by each key that signs now."""
        extended = sealing.extend(self.service.plain, books.id)
        # What was made before the clock was set back is of the future, and not sealed yet.
        if extended.size > extended.first:
            note, now = self.ask(books, "/v1/audit-logs/checkpoint").text, self.clock()
            for each in books.audit_signers.values():
                signs = not passed(each["signs_until"], now)
                assert is_signed_by(note, NoteKey.parse(each["verifier_key"])) is signs
