"""The witnesses of the sealed log, as the service asks them (LOG-31)."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

# The longest time of a request, in seconds.
PATIENCE_SECONDS = 10.0


class WitnessAnswer(NamedTuple):
    """The answer of a witness: an HTTP status and at most 64 KiB; status 0 if there is none."""

    status: int
    body: bytes = b""


class WitnessClient(Protocol):
    """Requests to witnesses, whose answers are believed by their signatures alone.

    - It follows no redirect, and sends no credential of the service.
    - A request ends after about `PATIENCE_SECONDS`. A failure is an answer: nothing is raised.
    - It is safe to share between threads.
    """

    def ask(self, asked: Sequence[tuple[str, bytes]]) -> list[WitnessAnswer]:
        """Post these bodies to these addresses at the same time; return the answers in order."""
        ...
