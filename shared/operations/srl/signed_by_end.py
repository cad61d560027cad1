"""Index of signed warrants by their ends, so that lists skip what ended long ago.

If the note is missing that it is complete, as after a restore of a part of the records, lists read
all that a revoked key ever signed (docs/adr/0036).
"""

from collections.abc import Iterator
from datetime import datetime
from itertools import chain

from shared.model import times
from shared.model import warrants as model
from shared.model.records import integer
from shared.model.warrants import Warrant
from shared.ports import Ports
from shared.ports.store import Expect, Put


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
