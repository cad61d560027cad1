"""Index of signed warrants by their ends, so that lists skip what ended long ago.

Earlier releases did not write it. Until a migration has completed the index and recorded that,
lists read all that a revoked key ever signed (docs/adr/0036).
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
    """Return the change that adds a warrant to the index, for the write that stores it."""
    address = model.by_end(tenant_id, warrant.key_id)
    sk = model.by_end_sk(warrant.warrant_id, warrant.ends_at)
    return Put(address.address(sk), {"key_version": warrant.key_version}, Expect.ANYTHING)


def complete(tenant_id: str) -> Put:
    """Return the change that records that the index has all warrants of a tenant."""
    return Put(model.is_by_end_address(tenant_id), {}, Expect.ANYTHING)


def is_complete(ports: Ports, tenant_id: str) -> bool:
    """Return whether the index has all warrants of a tenant. Raises `Unavailable`."""
    return ports.store.get(model.is_by_end_address(tenant_id)) is not None


def signed(
    ports: Ports, tenant_id: str, key_id: str, *, since: datetime
) -> Iterator[tuple[str, int, datetime | None]]:
    """Read the warrants of a key that end at `since`, later or never, from the index.

    Yields warrant identifier, version of the key, end. Raises `Corrupt`, `Unavailable`.
    """
    partition = model.by_end(tenant_id, key_id)
    pages = ports.store.column(partition, "key_version", after=times.text(since))
    for sk, version in chain.from_iterable(pages):
        warrant_id, ends_at = model.of_by_end(sk)
        yield warrant_id, integer({"key_version": version}, "key_version"), ends_at


def migrate(ports: Ports, tenant_id: str) -> None:
    """Add all warrants of a tenant to the index, then record that it is complete.

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
