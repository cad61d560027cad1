"""Webhooks: create, disable, enable, delete."""

from tests.state_machine.attempts import (
    CONFLICT,
    CREATED,
    Done,
)
from tests.state_machine.machine import Machine, step
from tests.state_machine.service import How
from tests.state_machine.strategies import HANDLE, HOW, PICK

_PATH = "/v1/webhooks"
_MOST = 10


class WebhookRules(Machine):
    """What can be done with webhooks."""

    @step(handle=HANDLE, how=HOW)
    def create_webhook(self, handle: str, how: How) -> None:
        """HOOK-2: a tenant has ten at most."""
        books = self.books[handle]
        body = {"url": f"https://{handle}.example.com/", "events": ["key.revoke"]}

        def effect(done: Done) -> None:
            made = self.ask(books, f"{_PATH}/{done.fields['id']}").json()
            assert made["url"] == body["url"]
            books.webhooks[made["id"]] = made
            books.enter("webhook.create", made["id"], done.actor)

        self.attempt(
            books,
            how,
            "POST",
            _PATH,
            lambda _: CONFLICT if len(books.webhooks) == _MOST else CREATED,
            body=body,
            effect=effect,
            evidence=lambda: self.new_record(books, "webhooks"),
        )

    @step(handle=HANDLE, how=HOW, pick=PICK)
    def disable_webhook(self, handle: str, how: How, pick: int) -> None:
        """What is disabled stays so, until it is enabled."""
        self._switch_webhook(handle, how, pick, "disable")

    @step(handle=HANDLE, how=HOW, pick=PICK)
    def enable_webhook(self, handle: str, how: How, pick: int) -> None:
        """What is enabled stays so."""
        self._switch_webhook(handle, how, pick, "enable")

    @step(handle=HANDLE, how=HOW, pick=PICK)
    def delete_webhook(self, handle: str, how: How, pick: int) -> None:
        """A deleted webhook is in no list."""
        self.delete(self.books[handle], how, "webhooks", pick)

    def _switch_webhook(self, handle: str, how: How, pick: int, action: str) -> None:
        books, status = self.books[handle], f"{action}d"

        def look(webhook_id: str, _done: Done) -> None:
            found = self.ask(books, f"{_PATH}/{webhook_id}").json()
            assert found["status"] == status
            books.webhooks[webhook_id] = found

        self.switch(books, how, "webhooks", pick, (action, status), look)
