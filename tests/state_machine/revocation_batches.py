"""Batches of revocations: what they changed is read back, whatever they answered."""

from typing import Any

from hypothesis import strategies as st

from tests.state_machine.attempts import OK, REVOKERS, Done
from tests.state_machine.books import Books, Fields
from tests.state_machine.machine import Machine, step
from tests.state_machine.recount import walk
from tests.state_machine.service import How
from tests.state_machine.strategies import HANDLE, HOW, WARRANT

_WARRANTS = st.lists(WARRANT, min_size=1, max_size=4, unique=True)


class BatchRules(Machine):
    """What can be done with many revocations at once."""

    @step(handle=HANDLE, how=HOW, warrant_ids=_WARRANTS)
    def revoke_many(self, handle: str, how: How, warrant_ids: list[str]) -> None:
        """Each warrant is revoked by its own record, and each record is in one audit entry."""
        self._change(handle, how, "revoke", warrant_ids)

    @step(handle=HANDLE, how=HOW, warrant_ids=_WARRANTS)
    def take_back_many(self, handle: str, how: How, warrant_ids: list[str]) -> None:
        """Each revocation that is taken back is gone, and is in one audit entry."""
        self._change(handle, how, "take_back", warrant_ids)

    def _change(self, handle: str, how: How, action: str, warrant_ids: list[str]) -> None:
        books, batch_id = self.books[handle], self.service.plain.new_id("bat")
        body = {"action": action, "warrant_ids": warrant_ids, "batch_id": batch_id, "reason": "r"}
        before = dict(books.revocations)

        def effect(done: Done) -> None:
            changed = self._read_changes(books, batch_id, action, done.actor)
            assert changed <= {*warrant_ids}
            was = {each["warrant_id"] for each in before.values()}
            for result in done.fields.get("results", []):
                _check(result, changed, was, may_fail=bool(how.faults))

        self.attempt(
            books,
            how,
            "POST",
            "/v1/revocations/batch",
            lambda _: OK,
            body=body,
            scopes=REVOKERS,
            effect=effect,
            # What a batch did before it broke is always looked up.
            evidence=dict,
        )

    def _read_changes(self, books: Books, batch_id: str, action: str, actor: str) -> set[str]:
        """Enter in the books what the batch did; the warrants that it changed."""
        ever = "from=2000-01-01T00:00:00Z&to=2999-01-01T00:00:00Z"
        path = f"/v1/audit-logs?resource_id={batch_id}&{ever}"
        named: list[Fields] = []
        for entry in walk(self.ask_of(books), path):
            books.enter(entry["action"], batch_id, actor)
            if entry["action"] == "revocation.batch":
                continue
            if entry["action"] == "revocation.extend_batch":
                for each in entry["details"]["revocations"]:
                    del books.said_to_end[each["id"]]
            else:
                named += entry["details"]["revocations"]
        listed = {each["id"]: each for each in walk(self.ask_of(books), "/v1/revocations")}
        if action == "revoke":
            new = {i: each for i, each in listed.items() if i not in books.revocations}
            assert all(each["batch_id"] == batch_id for each in new.values())
        else:
            new = {i: each for i, each in books.revocations.items() if i not in listed}
        assert sorted(each["id"] for each in named) == sorted(new)
        assert books.revocations.keys() - new.keys() <= listed.keys()
        added = {i: new[i] for i in reversed(listed) if i in new}
        kept = {i: each for i, each in books.revocations.items() if i in listed}
        books.revocations = kept | added
        return {str(each["warrant_id"]) for each in new.values()}


def _check(result: dict[str, Any], changed: set[str], was: set[str], *, may_fail: bool) -> None:
    """A result says what happened, except that a fault may hide it."""
    done = result["id"] in changed
    match result["outcome"]:
        case "revoked" | "taken_back":
            assert done
        case "already_revoked" | "extended":
            assert not done
            assert result["id"] in was
        case "not_revoked":
            assert result["id"] not in was
        case outcome:
            assert outcome == "failed"
            assert may_fail
