"""Copying of sealed entries to the sink, from where the last copy ended (LOG-27)."""

import json
from dataclasses import dataclass
from typing import Final

from shared.model.audit import head as head_model
from shared.model.audit import records as record_model
from shared.model.audit.head import LogHead
from shared.model.items import Address
from shared.model.records import Record
from shared.operations.audit import log
from shared.operations.base import tenants
from shared.operations.base.operation import settle
from shared.ports import Ports
from shared.ports.outside import AuditSink, Copied
from shared.ports.store import At, Expect, Put

# The most leaves in one copy.
_COPIED_MAX: Final = 1000


@dataclass(frozen=True, slots=True)
class SinkCursor(Record):
    """How far the sink has the log: `size` leaves of a generation."""

    generation: int
    size: int
    version: int


def catch_up(ports: Ports, sink: AuditSink, tenant_id: str) -> None:
    """Copy the sealed entries that the sink does not have, with the checkpoint that covers them.

    After a failure, the next call begins where the last one ended, and may repeat a copy. Raises
    `Corrupt`, `Unavailable`.
    """
    while settle(lambda: _copy(ports, sink, tenant_id)):
        pass


def _copy(ports: Ports, sink: AuditSink, tenant_id: str) -> bool:
    """Copy up to `_COPIED_MAX` leaves; return whether there are more. Raises `ExpectationLost`."""
    head = log.head(ports, tenant_id)
    if head is None:
        return False
    place = _address(tenant_id)
    item = ports.store.get(place)
    before = SinkCursor.from_item(item) if item else SinkCursor(head.generation, 0, 0)
    first = before.size if before.generation == head.generation else 0
    end = min(head.size, first + _COPIED_MAX)
    if first == end:
        return False
    keep = ports.now() + tenants.settings(ports, tenant_id).audit_retention
    lines = _lines(ports, tenant_id, head, first, end)
    sink.add(Copied(tenant_id, head.generation, first, end, lines, keep))
    after = SinkCursor(head.generation, end, before.version + 1)
    ports.store.write(Put(place, after.to_item(), At(before.version) if item else Expect.ABSENT))
    return end < head.size


def _lines(ports: Ports, tenant_id: str, head: LogHead, first: int, end: int) -> bytes:
    """Return a line for each leaf, with its entry unless that expired, and the checkpoint."""
    data = log.data(ports, tenant_id, head, first, end)
    ids = [record_model.AuditRecord.parse(each).id for each in data]
    items = log.stored(ports, tenant_id, ids)
    lines = []
    for index, (entry_id, record) in enumerate(zip(ids, data, strict=True), first):
        item = items.get(entry_id)
        entry = b"null" if item is None else record_model.line(item)
        lines.append(
            b'{"entry":%b,"index":%d,"record":"%b"}\n' % (entry, index, record.hex().encode())
        )
    return b"".join(lines) + json.dumps({"checkpoint": head.checkpoint}).encode() + b"\n"


def _address(tenant_id: str) -> Address:
    return head_model.partition(tenant_id).address("sink")
