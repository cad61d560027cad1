"""Authorizers: register, remove."""

from datetime import datetime

from tests.state_machine.attempts import (
    AUTHORIZERS,
    CREATED,
    DELETED,
    NOT_FOUND,
    Done,
    Outcome,
)
from tests.state_machine.machine import Machine, step
from tests.state_machine.service import How
from tests.state_machine.strategies import HANDLE, HOW, PICK

_PATH = "/v1/authorizers"


class AuthorizerRules(Machine):
    """What can be done with authorizers."""

    @step(handle=HANDLE, how=HOW)
    def register_authorizer(self, handle: str, how: How) -> None:
        """A name of its own is an authorizer of its own."""
        books = self.books[handle]
        self.registered += 1
        name = f"edge-{self.registered}"

        def effect(done: Done) -> None:
            made = self.ask(books, f"{_PATH}/{done.fields['id']}").json()
            assert (made["name"], made["owner"]) == (name, done.actor)
            books.authorizers[made["id"]] = made
            books.enter("authorizer.register", made["id"], done.actor)

        self.attempt(
            books,
            how,
            "POST",
            f"{_PATH}/register",
            lambda _: CREATED,
            body={"name": name},
            scopes=AUTHORIZERS,
            effect=effect,
            evidence=lambda: self.new_record(books, _PATH, "authorizers"),
        )

    @step(handle=HANDLE, how=HOW, pick=PICK)
    def remove_authorizer(self, handle: str, how: How, pick: int) -> None:
        """A removed authorizer is in no list."""
        books = self.books[handle]
        authorizer_id = self.choose(books, "authorizers", pick)
        path = f"{_PATH}/{authorizer_id}"

        def outcome(_now: datetime) -> Outcome:
            return DELETED if authorizer_id in books.authorizers else NOT_FOUND

        def effect(done: Done) -> None:
            del books.authorizers[authorizer_id]
            books.enter("authorizer.remove", authorizer_id, done.actor)

        self.attempt(
            books,
            how,
            "DELETE",
            path,
            outcome,
            effect=effect,
            evidence=lambda: self.gone(books, path),
        )
