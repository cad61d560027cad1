"""Counting the revocations of each day, in the write of the pass that seals their entries.

That write decides which entries are in the log, and each is there once. So each is counted once,
whatever fails (REVOKE-31, docs/adr/0068).
"""

from collections.abc import Iterable
from dataclasses import replace

from shared.model import revocation_counts as model
from shared.model.items import Item
from shared.model.records import integer
from shared.model.sealed_log.head import LogHead
from shared.operations.rules import tenants
from shared.ports import Ports
from shared.ports.store import At, Change, Expect, Put


def begun(ports: Ports, tenant_id: str, log: LogHead) -> LogHead:
    """Return the head before a pass with the day from which revocations are counted.

    Raises `Unavailable`.
    """
    if log.counted_from is not None:
        return log
    created_at = tenants.settings(ports, tenant_id).created_at
    return replace(log, counted_from=model.begin(log, created_at=created_at, now=ports.now()))


def counted(ports: Ports, tenant_id: str, log: LogHead, entries: Iterable[Item]) -> list[Change]:
    """Return the changes that count the revocations in entries that are appended to `log`.

    Each expects the item that was read: the write of the pass before may be visible in part.
    Raises `Corrupt`, `Unavailable`.
    """
    sums = model.tally(entries, tenant_id=tenant_id, log=log)
    items = ports.store.get_many(sums)
    return [
        Put(
            address,
            model.added(items.get(address, {}), amounts),
            At(integer(items[address], "version")) if address in items else Expect.ABSENT,
        )
        for address, amounts in sums.items()
    ]
