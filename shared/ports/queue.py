"""Work that is handed to other processes."""

from collections.abc import Iterable
from typing import Protocol


class Queue(Protocol):
    """Messages, each delivered at least once, in any order.

    - `send` returns when all of them will be delivered.
    - Whatever cannot be answered is `Unavailable`; then some may be delivered all the same.
    - Safe to share between threads.
    """

    def send(self, messages: Iterable[str]) -> None:
        """Hand over any number of short texts, none of them empty. Raises `Unavailable`."""
        ...
