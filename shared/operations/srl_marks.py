"""Marks: what changed since the lists were made, for the schedule and the next list to find.

A mark on a tenant tells the schedule (docs/adr/0016), one on a warrant the publication
(docs/adr/0019). Each is set in the write of the change, and removed once a list has it.
"""

import secrets
from collections.abc import Mapping
from functools import partial
from itertools import chain, islice
from typing import Final

from shared.errors import Conflict
from shared.model import srl_schedule as model
from shared.model.items import Key, Partition
from shared.model.records import integer
from shared.ports import Ports
from shared.ports.store import MOST_CHANGES, At, Delete, Expect, Put

_VERSION_BITS: Final = 62


def on_tenant(tenant_id: str, changed: str) -> Put:
    """The mark to set in the write that revokes or restores `changed`, a warrant or a key."""
    return _set(model.mark_key(tenant_id, changed))


def on_warrant(tenant_id: str, warrant_id: str) -> Put:
    """The mark to set in the write that revokes or restores a warrant."""
    return _set(model.changed(tenant_id).key(warrant_id))


def marked(ports: Ports) -> list[str]:
    """The tenants that are marked, each once."""

    def walk(partition: Partition) -> list[str]:
        return [model.tenant_of_mark(entry.sk) for entry in ports.store.query(partition)]

    walks = ports.together(*(partial(walk, partition) for partition in model.marks()))
    return list(dict.fromkeys(chain.from_iterable(walks)))


def marks_of(ports: Ports, tenant_id: str) -> dict[Key, At]:
    """The marks that a tenant has, each as it was last set."""
    items = ports.store.get_many(model.marks_of(tenant_id))
    return {key: At(integer(item, "version")) for key, item in items.items()}


def changed(ports: Ports, tenant_id: str, *, limit: int) -> dict[Key, At]:
    """The marks on warrants of a tenant, each as it was last set: `limit` of them at most."""
    partition = model.changed(tenant_id)
    entries = ports.store.query(partition, limit=limit)
    return {partition.key(entry.sk): At(integer(entry.item, "version")) for entry in entries}


def clear(ports: Ports, marks: Mapping[Key, At]) -> None:
    """Remove the marks, but not those that were set again meanwhile."""
    rest = iter(marks.items())
    while batch := dict(islice(rest, MOST_CHANGES)):
        _clear(ports, batch)


def _clear(ports: Ports, marks: Mapping[Key, At]) -> None:
    left = dict(marks)
    while left:
        try:
            ports.store.write(*(Delete(key, seen) for key, seen in left.items()))
        except Conflict as conflict:
            left = {key: seen for key, seen in left.items() if key not in conflict.lost}
        else:
            return


def _set(key: Key) -> Put:
    # Not counted from 1: a mark that was cleared and set anew must not pass for the one before it.
    return Put(key, {"version": secrets.randbits(_VERSION_BITS)}, Expect.ANYTHING)
