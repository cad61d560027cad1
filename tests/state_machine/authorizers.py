"""Authorizers: register, remove."""

from tests.state_machine.attempts import (
    AUTHORIZERS,
    CREATED,
    Done,
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
            evidence=lambda: self.new_record(books, "authorizers"),
        )

    @step(handle=HANDLE, how=HOW, pick=PICK)
    def remove_authorizer(self, handle: str, how: How, pick: int) -> None:
        """A removed authorizer is in no list."""
        self.delete(self.books[handle], how, "authorizers", pick, verb="remove")
