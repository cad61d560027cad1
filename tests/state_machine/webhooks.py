"""Webhooks: create, disable, enable, delete."""

from datetime import datetime

from tests.state_machine.attempts import (
    CONFLICT,
    CREATED,
    DELETED,
    NOT_FOUND,
    OK,
    Done,
    Outcome,
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
            evidence=lambda: self.new_record(books, _PATH, "webhooks"),
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
        books = self.books[handle]
        webhook_id = self.choose(books, "webhooks", pick)
        path = f"{_PATH}/{webhook_id}"

        def effect(done: Done) -> None:
            del books.webhooks[webhook_id]
            books.enter("webhook.delete", webhook_id, done.actor)

        self.attempt(
            books,
            how,
            "DELETE",
            path,
            lambda _: DELETED if webhook_id in books.webhooks else NOT_FOUND,
            effect=effect,
            evidence=lambda: self.gone(books, path),
        )

    def _switch_webhook(self, handle: str, how: How, pick: int, action: str) -> None:
        books = self.books[handle]
        status = f"{action}d"
        webhook_id = self.choose(books, "webhooks", pick, lambda each: each["status"] != status)
        path = f"{_PATH}/{webhook_id}"
        changes = books.webhooks.get(webhook_id, {}).get("status") != status

        def outcome(_now: datetime) -> Outcome:
            return OK if webhook_id in books.webhooks else NOT_FOUND

        def effect(done: Done) -> None:
            books.webhooks[webhook_id] = self.ask(books, path).json()
            assert books.webhooks[webhook_id]["status"] == status
            if changes:
                books.enter(f"webhook.{action}", webhook_id, done.actor)

        self.attempt(
            books,
            how,
            "POST",
            f"{path}/{action}",
            outcome,
            effect=effect,
            evidence=lambda: self.moved(books, path, status),
        )
