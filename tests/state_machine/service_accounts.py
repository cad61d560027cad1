"""Service accounts: create, disable, enable, delete."""

from datetime import datetime

from hypothesis import strategies as st

from tests.state_machine.api_keys import ApiKeyRules
from tests.state_machine.attempts import CONFLICT, CREATED, Done, Outcome
from tests.state_machine.machine import step
from tests.state_machine.service import How, between
from tests.state_machine.strategies import HANDLE, HOW, PICK

_NAMES = st.sampled_from(["billing", "ci", "gateway", *(f"job-{number}" for number in range(9))])
_TARGETS = {"disable": "disabled", "enable": "active"}


class ServiceAccountRules(ApiKeyRules):
    """What can be done with service accounts."""

    @step(handle=HANDLE, how=HOW, name=_NAMES)
    def create_account(self, handle: str, how: How, name: str) -> None:
        """F30: a name is one account's for ever, also when that is deleted."""
        books = self.books[handle]
        body = {"name": name, "description": f"of {handle}"}

        def outcome(_now: datetime) -> Outcome:
            return CONFLICT if name in books.names else CREATED

        def effect(done: Done) -> None:
            account = done.fields
            generated = {"id": account["id"], "created_at": account["created_at"]}
            email = f"{name}@{handle}.svc"
            assert account == body | generated | {"email": email, "status": "active"}
            assert between(account["created_at"], done.span)
            books.accounts[account["id"]] = account
            books.names.add(name)
            books.enter("service_account.create", account["id"], done.actor)

        self.attempt(
            books,
            how,
            "POST",
            "/v1/service-accounts",
            outcome,
            body=body,
            effect=effect,
            evidence=lambda: self.new_record(books, "accounts"),
        )

    @step(handle=HANDLE, how=HOW, pick=PICK)
    def disable_account(self, handle: str, how: How, pick: int) -> None:
        """Disabling stops all keys of the account with the same call."""
        self._switch_account(handle, how, pick, "disable")

    @step(handle=HANDLE, how=HOW, pick=PICK)
    def enable_account(self, handle: str, how: How, pick: int) -> None:
        """Enabling restores the keys that were not revoked, and no others."""
        self._switch_account(handle, how, pick, "enable")

    @step(handle=HANDLE, how=HOW, pick=PICK)
    def delete_account(self, handle: str, how: How, pick: int) -> None:
        """An account goes only when it owns no key."""
        books = self.books[handle]
        self.delete(books, how, "accounts", pick, is_kept=books.owned)

    def _switch_account(self, handle: str, how: How, pick: int, action: str) -> None:
        books = self.books[handle]

        def look(account_id: str, done: Done) -> None:
            assert done.fields == books.accounts[account_id]
            for key_id in books.owned(account_id):
                self.knock(books, key_id)

        self.switch(books, how, "accounts", pick, (action, _TARGETS[action]), look)
