"""Clients with rejected registrations, which propagation does not cover (FLEET-34)."""

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from shared.model.items import Partition, Table
from shared.model.records import Record

# Maximum number of these clients per API key, and in total.
OF_OWNER_MAX: Final = 10
ALL_MAX: Final = 50
# A client repeats its request more often than this.
_RECENT: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class UnregisteredClient(Record):
    """A client with a rejected registration. `last_seen_at` is the time of the last rejection.

    `code` is its error code.
    """

    name: str
    owner: str
    public_key: str
    code: str
    last_seen_at: datetime
    version: int = 0

    @property
    def identity(self) -> tuple[str, str, str]:
        """The properties that identify a registration of the client."""
        return self.owner, self.name, self.public_key

    @property
    def sk(self) -> str:
        """The sort key of its item."""
        return hashlib.sha256(json.dumps(self.identity).encode()).hexdigest()

    def is_recent(self, now: datetime) -> bool:
        """Return whether the last stored rejection is less than an hour old."""
        return now - self.last_seen_at < _RECENT


def unregistered_partition(tenant_id: str) -> Partition:
    """Return the partition of a tenant's clients without a registration."""
    return Partition(Table.REVOCATIONS, f"{tenant_id}#unregistered-clients")
