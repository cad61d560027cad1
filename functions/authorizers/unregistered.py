"""Clients with rejected registrations, which propagation does not cover (FLEET-34)."""

import hashlib
import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from functions.authorizers.records import STORED_EVERY, Authorizer, AuthorizerDescription
from shared.errors import PreconditionFailed, RequestError
from shared.model import times
from shared.model.callers import Caller
from shared.model.items import Partition, Table
from shared.model.records import Record
from shared.ports import Ports
from shared.ports.store import Delete, Expect, Put, VersionIs

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


def note(
    ports: Ports, caller: Caller, description: AuthorizerDescription, refusal: RequestError
) -> None:
    """Store that the registration of a client was refused, if there is room. Not audited.

    Raises `DataCorrupt`, `Unavailable`.
    """
    name, key, now = description.name, description.public_key, times.truncate_to_second(ports.now())
    new = UnregisteredClient(name, caller.identity, key, refusal.code, now)
    stored = {each.sk: each for each in _read(ports, caller.tenant_id)}
    before = stored.pop(new.sk, None)
    if before and before.code == new.code and now - before.last_seen_at < STORED_EVERY:
        return
    owners = [each.owner for each in stored.values() if each.is_recent(now)]
    has_room = len(owners) < ALL_MAX and owners.count(new.owner) < OF_OWNER_MAX
    if before is None and not has_room:
        return
    partition = unregistered_partition(caller.tenant_id)
    item = new.to_item() | {"version": before.version + 1 if before else 0}
    expected = VersionIs(before.version) if before else Expect.ABSENT
    gone = [each for each in stored.values() if not each.is_recent(now)]
    # Another request of the client recorded it.
    with suppress(PreconditionFailed):
        ports.store.write(
            Put(partition.address(new.sk), item, expected),
            *(Delete(partition.address(each.sk), VersionIs(each.version)) for each in gone),
        )


def read(
    ports: Ports, tenant_id: str, authorizers: Iterable[Authorizer]
) -> tuple[UnregisteredClient, ...]:
    """Return the refused clients that are not among `authorizers`, by name.

    Raises `DataCorrupt`, `Unavailable`.
    """
    known = {(each.owner, each.name, each.any_key) for each in authorizers}
    recent = (each for each in _read(ports, tenant_id) if each.is_recent(ports.now()))
    unknown = (each for each in recent if each.identity not in known)
    return tuple(sorted(unknown, key=lambda each: (each.name, each.sk)))


def _read(ports: Ports, tenant_id: str) -> list[UnregisteredClient]:
    rows = ports.store.query(unregistered_partition(tenant_id))
    return list(UnregisteredClient.from_rows(rows))
