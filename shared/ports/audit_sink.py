"""The sink of the audit log: a place outside that sealed entries are copied to (LOG-27)."""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Copied:
    """The leaves from `first` to `end` of one generation of a tenant's log, as lines of text."""

    tenant_id: str
    generation: int
    first: int
    end: int
    lines: bytes
    keep_until: datetime


class AuditSink(Protocol):
    """Keeps copies that it cannot take back. The service only ever adds to it.

    It is safe to share between threads.
    """

    def add(self, copied: Copied) -> None:
        """Keep a copy durably. The same leaves may come again. Raises `Unavailable`."""
        ...
