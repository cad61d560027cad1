"""Marks: which tenants' revocations changed, for the schedule to find them (docs/adr/0016)."""

import secrets
from collections.abc import Mapping
from functools import partial
from itertools import chain
from typing import Final

from shared.errors import Conflict
from shared.model import srl_schedule as model
from shared.model.items import Key, Partition
from shared.model.records import integer
from shared.ports import Ports
from shared.ports.store import At, Delete, Expect, Put

_VERSION_BITS: Final = 62


def mark(tenant_id: str, changed: str) -> Put:
    """The mark to set in the write that revokes or restores `changed`, a warrant or a key."""
    # Not counted from 1: a mark that was cleared and set anew must not pass for the one before it.
    version = secrets.randbits(_VERSION_BITS)
    return Put(model.mark_key(tenant_id, changed), {"version": version}, Expect.ANYTHING)


def marked(ports: Ports) -> list[str]:
    """The tenants that are marked, each once."""

    def walk(partition: Partition) -> list[str]:
        return [entry.sk for entry in ports.store.query(partition)]

    walks = ports.together(*(partial(walk, partition) for partition in model.marks()))
    return list(dict.fromkeys(chain.from_iterable(walks)))


def marks_of(ports: Ports, tenant_id: str) -> dict[Key, At]:
    """The marks that a tenant has, each as it was last set."""
    items = ports.store.get_many(model.marks_of(tenant_id))
    return {key: At(integer(item, "version")) for key, item in items.items()}


def clear(ports: Ports, marks: Mapping[Key, At]) -> None:
    """Remove the marks, but not those that were set again meanwhile."""
    left = dict(marks)
    while left:
        try:
            ports.store.write(*(Delete(key, seen) for key, seen in left.items()))
        except Conflict as conflict:
            left = {key: seen for key, seen in left.items() if key not in conflict.lost}
        else:
            return
