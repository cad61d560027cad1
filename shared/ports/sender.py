"""The sender, which posts messages to addresses that callers chose."""

from collections.abc import Sequence
from typing import Protocol

from shared.model.webhooks.deliveries import DeliveryAnswer, EventMessage


class Sender(Protocol):
    """Requests to the programs of tenants.

    - It connects only to addresses that `shared.model.webhooks.destinations` allows, checked at
    each
      attempt, by TLS with a valid certificate for the name in the URL.
    - It follows no redirect, uses no proxy, and sends no credential of the service.
    - An attempt ends after `PATIENCE_SECONDS`, whatever the other side does.
    - A failure is in the answer: nothing is raised.
    - It is safe to share between threads.
    """

    def send(self, url: str, messages: Sequence[EventMessage]) -> list[DeliveryAnswer]:
        """Post the messages at the same time, each by one attempt; return the answers in order."""
        ...


# The longest time of an attempt, in seconds (HOOK-7).
PATIENCE_SECONDS = 15.0
