"""What keys signed, in order of when it ends: a list does not read what ended long ago.

Releases before this order left it out. Until a migration has added it, and noted that it has, lists
read all that a revoked key ever signed (docs/adr/0036).
"""

from collections.abc import Iterator
from datetime import datetime
from itertools import chain, islice

from shared.model import signing_keys, times
from shared.model import warrants as model
from shared.model.records import integer
from shared.model.warrants import Warrant
from shared.ports import Ports
from shared.ports.store import MOST_CHANGES, Expect, Put


def put(tenant_id: str, warrant: Warrant) -> Put:
    """The change that adds a warrant, for the write that stores it."""
    address = model.by_end(tenant_id, warrant.key_id)
    sk = model.by_end_sk(warrant.warrant_id, warrant.ends_at)
    return Put(address.address(sk), {"key_version": warrant.key_version}, Expect.ANYTHING)


def complete(tenant_id: str) -> Put:
    """The change that notes that all warrants of a tenant are in this order."""
    return Put(model.is_by_end_address(tenant_id), {}, Expect.ANYTHING)


def is_complete(ports: Ports, tenant_id: str) -> bool:
    """Whether all warrants of a tenant are in this order. Raises `Unavailable`."""
    return ports.store.get(model.is_by_end_address(tenant_id)) is not None


def signed(
    ports: Ports, tenant_id: str, key_id: str, *, since: datetime
) -> Iterator[tuple[str, int, datetime | None]]:
    """What a key signed that ends at `since`, later or never: identifier, version of the key, end.

    Reads nothing else, if the order is complete. Raises `Corrupt`, `Unavailable`.
    """
    partition = model.by_end(tenant_id, key_id)
    pages = ports.store.column(partition, "key_version", after=times.text(since))
    for sk, version in chain.from_iterable(pages):
        warrant_id, ends_at = model.of_by_end(sk)
        yield warrant_id, integer({"key_version": version}, "key_version"), ends_at


def migrate(ports: Ports, tenant_id: str) -> None:
    """Add all that the tenant's keys signed before there was this order, then note that it is so.

    Raises `Corrupt`, `Unavailable`.
    """
    if is_complete(ports, tenant_id):
        return
    for entry in ports.store.query(signing_keys.keys(tenant_id)):
        signed_by = ports.store.query(model.signed_by(tenant_id, entry.sk))
        rest = (put(tenant_id, Warrant.from_item(each.item)) for each in signed_by)
        while batch := list(islice(rest, MOST_CHANGES)):
            ports.store.write(*batch)
    ports.store.write(complete(tenant_id))
