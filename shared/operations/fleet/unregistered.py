"""Record and read clients with a refused registration (FLEET-34)."""

from collections.abc import Iterable
from contextlib import suppress

from shared.errors import PreconditionFailed, RequestError
from shared.model import times
from shared.model.callers import Caller
from shared.model.fleet import unregistered as model
from shared.model.fleet.authorizers import STORED_EVERY, Authorizer
from shared.model.fleet.heartbeats import AuthorizerDescription
from shared.model.fleet.unregistered import UnregisteredClient
from shared.ports import Ports
from shared.ports.store import Delete, Expect, Put, VersionIs


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
    has_room = len(owners) < model.ALL_MAX and owners.count(new.owner) < model.OF_OWNER_MAX
    if before is None and not has_room:
        return
    partition = model.unregistered_partition(caller.tenant_id)
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
    rows = ports.store.query(model.unregistered_partition(tenant_id))
    return list(UnregisteredClient.from_rows(rows))
