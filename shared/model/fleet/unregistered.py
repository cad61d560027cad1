"""Clients without a registration: the service refused it, so they are in no proof (FLEET-34)."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Self

from shared.model.fleet.authorizers import STORED_EVERY, Authorizer
from shared.model.fleet.heartbeats import Description
from shared.model.items import Partition, Table
from shared.model.records import Record

# Bounds the number that one API key can store, and the number of all.
OF_OWNER_MAX: Final = 10
ALL_MAX: Final = 50
# A client repeats its request more often than this.
_COUNTED_FOR: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class UnregisteredClient(Record):
    """A client whose registration was refused last at `seen_at`, with this error code."""

    name: str
    owner: str
    public_key: str
    code: str
    seen_at: datetime
    version: int = 0

    @classmethod
    def of(cls, described: Description, *, owner: str, code: str, now: datetime) -> Self:
        """Return the client that describes itself so."""
        return cls(described.name, owner, described.public_key, code, now)

    @property
    def sk(self) -> str:
        """The sort key of its item."""
        named = json.dumps([self.owner, self.name, self.public_key])
        return hashlib.sha256(named.encode()).hexdigest()

    def counts(self, now: datetime) -> bool:
        """Return whether the client asked recently."""
        return now - self.seen_at < _COUNTED_FOR

    def is_stored_by(self, before: Self, now: datetime) -> bool:
        """Return whether `before` says the same, so that nothing is written."""
        return self.code == before.code and now - before.seen_at < STORED_EVERY


def unregistered(tenant_id: str) -> Partition:
    """Return the partition of a tenant's clients without a registration."""
    return Partition(Table.REVOCATIONS, f"{tenant_id}#unregistered-clients")


def has_room(stored: Iterable[UnregisteredClient], owner: str) -> bool:
    """Return whether one more client of this owner is stored."""
    owners = [each.owner for each in stored]
    return len(owners) < ALL_MAX and owners.count(owner) < OF_OWNER_MAX


def still_unregistered(
    stored: Iterable[UnregisteredClient], registered: Iterable[Authorizer], now: datetime
) -> tuple[UnregisteredClient, ...]:
    """Return the clients that asked recently and did not register since, by name."""
    names = {(each.owner, each.name, each.any_key) for each in registered}
    found = (each for each in stored if each.counts(now))
    left = (each for each in found if (each.owner, each.name, each.public_key) not in names)
    return tuple(sorted(left, key=lambda each: (each.name, each.sk)))
