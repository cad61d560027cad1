"""Note and read the clients whose registration was refused (FLEET-34)."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

from shared.errors import ExpectationLost, RequestError
from shared.model import times
from shared.model.callers import Caller
from shared.model.fleet import unregistered as model
from shared.model.fleet.authorizers import Authorizer
from shared.model.fleet.heartbeats import Description
from shared.model.fleet.unregistered import UnregisteredClient
from shared.ports import Ports
from shared.ports.store import At, Delete, Expect, Put


def note(ports: Ports, caller: Caller, described: Description, refusal: RequestError) -> None:
    """Store that the registration of a client was refused, if there is room. Not audited.

    Raises `Corrupt`, `Unavailable`.
    """
    partition, now = model.unregistered(caller.tenant_id), times.whole(ports.now())
    new = UnregisteredClient.of(described, owner=caller.identity, code=refusal.code, now=now)
    rows = ports.store.query(partition)
    stored = {row.sk: UnregisteredClient.from_item(row.item) for row in rows}
    before = stored.pop(new.sk, None)
    if before is not None and new.is_stored_by(before, now):
        return
    gone = [each for each in stored.values() if not each.counts(now)]
    left = [each for each in stored.values() if each.counts(now)]
    if before is None and not model.has_room(left, new.owner):
        return
    expected: Expect | At = Expect.ABSENT
    if before is not None:
        new, expected = replace(new, version=before.version + 1), At(before.version)
    # Another request of the client noted it.
    with suppress(ExpectationLost):
        ports.store.write(
            Put(partition.address(new.sk), new.to_item(), expected),
            *(Delete(partition.address(each.sk), At(each.version)) for each in gone),
        )


def read(
    ports: Ports, tenant_id: str, registered: Iterable[Authorizer]
) -> tuple[UnregisteredClient, ...]:
    """Return the clients that are not among `registered`. Raises `Corrupt`, `Unavailable`."""
    rows = ports.store.query(model.unregistered(tenant_id))
    stored = [UnregisteredClient.from_item(row.item) for row in rows]
    return model.still_unregistered(stored, registered, ports.now())
