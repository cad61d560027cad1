"""Where the usage of API keys is counted."""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Used:
    """That an API key was used for so many `requests` more, the last of them at this time.

    `late`: another instance may have written a later use meanwhile.
    """

    tenant_id: str
    key_id: str
    requests: int
    last_used_at: datetime
    late: bool = False


class UsageCounts(Protocol):
    """How often each API key was used, and when last.

    - A count is written in one short attempt, which is not repeated if its outcome is unknown: a
      count too few is a lesser fault than a count too many, or than a caller who waits.
    - A late count leaves a later `last_used_at` as it is: another instance has written that one.
    - The count of a key that was deleted changes nothing, and is no fault.
    - Whatever cannot be written is `Unavailable`, after which it may have been counted or not.
    - Safe to share between threads.
    """

    def add(self, used: Used) -> None:
        """Count what was used. Raises `Unavailable`."""
        ...
