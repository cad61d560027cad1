"""The queue that passes work to other processes."""

from collections.abc import Iterable
from typing import Protocol


class Queue(Protocol):
    """Messages, each delivered at least once, in any order.

    - When `send` returns, all messages will be delivered.
    - Every failure raises `Unavailable`. Some messages may be delivered nevertheless.
    - It is safe to share between threads.
    """

    def send(self, messages: Iterable[str]) -> None:
        """Send any number of short texts, none of them empty. Raises `Unavailable`."""
        ...
