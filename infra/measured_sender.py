"""A sender that counts what came of the messages of another one."""

from collections.abc import Sequence

from infra.local_metrics import WEBHOOK_DELIVERIES
from shared.model.deliveries import Answer, Message, judge
from shared.ports.sender import Sender


class MeasuredSender:
    """Counts each attempt by what follows from it (HOOK-9)."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def send(self, url: str, messages: Sequence[Message]) -> list[Answer]:
        """Send the messages and count the answers."""
        answers = self._sender.send(url, messages)
        for answer in answers:
            WEBHOOK_DELIVERIES.labels(judge(answer).value).inc()
        return answers
