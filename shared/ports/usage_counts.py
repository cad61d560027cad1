"""The counts of how often API keys are used."""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Used:
    """A number of uses of an API key, the last of them at `last_used_at`.

    `late`: another instance may have written a later use already.
    """

    tenant_id: str
    key_id: str
    requests: int
    last_used_at: datetime
    late: bool = False


class UsageCounts(Protocol):
    """How often each API key was used, and when it was last used.

    - A count is written in one short attempt. If its outcome is unknown, the attempt is not
      repeated: a count that is too low is better than one that is too high, or a caller who waits.
    - A late count does not replace a later `last_used_at`.
    - The count of a deleted key changes nothing and raises nothing.
    - `Unavailable` is raised if a count could not be written; it may have been counted
      nevertheless.
    - It is safe to share between threads.
    """

    def add(self, used: Used) -> None:
        """Add to the count. Raises `Unavailable`."""
        ...
