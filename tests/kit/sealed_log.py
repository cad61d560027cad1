"""Entries for the sealed log, and checks of what it has, apart from the code that wrote it."""

import hashlib
from collections.abc import Sequence
from datetime import timedelta

from functions.transparency_log import checkpoint, log, merkle, sealing, signers
from functions.transparency_log.checkpoint import Checkpoint
from functions.transparency_log.head import LogHead
from shared.model.audit import audit_log as entry_model
from shared.model.audit import records
from shared.model.audit.audit_log import AuditAction, AuditEntry
from shared.model.identifiers import AUDIT_ENTRY
from shared.ports import Ports
from shared.ports.store import Expect, Put
from tests.kit.worlds import Clock


def entry_made(ports: Ports, clock: Clock, tenant_id: str, *, ago: float = 0) -> tuple[str, Put]:
    """An entry of that many seconds ago, and the change that stores it."""
    moment = clock() - timedelta(seconds=ago)
    entry_id = ports.new_id(AUDIT_ENTRY, at=moment)
    made = AuditEntry(
        id=entry_id,
        timestamp=moment,
        actor="a@acme.svc",
        action=AuditAction.KEY_SUSPEND,
        resource_id="svc_key_1",
        result="success",
        source_ip=None,
        request_id=None,
        details={},
        expires=int(moment.timestamp()) + 400 * 24 * 3600,
    )
    address = entry_model.address(tenant_id, entry_id, moment)
    return entry_id, Put(address, made.to_item(), Expect.ABSENT)


def entered(ports: Ports, clock: Clock, tenant_id: str, *, ago: float = 0) -> str:
    """An entry that became visible now."""
    entry_id, change = entry_made(ports, clock, tenant_id, ago=ago)
    ports.store.write(change)
    return entry_id


def many_entered(ports: Ports, clock: Clock, tenant_id: str, number: int) -> list[str]:
    """As many entries that became visible now."""
    changes = [entry_made(ports, clock, tenant_id)[1] for _ in range(number)]
    for start in range(0, number, 100):
        ports.store.write(*changes[start : start + 100])
    return [each.address.sk for each in changes]


def many_sealed(ports: Ports, clock: Clock, tenant_id: str, number: int) -> list[str]:
    """The same, and a pass that seals them."""
    made = many_entered(ports, clock, tenant_id, number)
    sealing.extend(ports, tenant_id)
    return made


def head_of(ports: Ports, tenant_id: str) -> LogHead:
    """The head of the log, which there must be."""
    head = log.head(ports, tenant_id)
    assert head is not None
    return head


def sealed(ports: Ports, tenant_id: str) -> list[str]:
    """The identifiers of all sealed entries, after a check of the whole log."""
    head = head_of(ports, tenant_id)
    found = log.records(ports, tenant_id, 0, head.size)
    leaves = [records.leaf(each.data) for each in found]
    stated = Checkpoint.parse(head.checkpoint)
    assert stated.origin == checkpoint.origin(tenant_id, head.generation)
    assert (stated.size, len(found)) == (head.size, head.size)
    root = merkle.root(head.size, lambda a, b: merkle.perfect(leaves[b << a : (b + 1) << a]))
    assert stated.root == root == head.root
    for each in signers.all_of(ports, tenant_id):
        assert checkpoint.is_signed_by(head.checkpoint, each.key(stated.origin))
    return [each.id for each in found]


def root_by_path(leaf: bytes, index: int, size: int, path: Sequence[bytes]) -> bytes | None:
    """Return the root that the path of a leaf leads to, or None if it has the wrong length.

    This is the verification of RFC 9162, 2.1.3.2.
    """
    last, found = size - 1, leaf
    for each in path:
        if last == 0:
            return None
        if index & 1 or index == last:
            found = hashlib.sha256(b"\x01" + each + found).digest()
            while not index & 1 and index:
                index, last = index >> 1, last >> 1
        else:
            found = hashlib.sha256(b"\x01" + found + each).digest()
        index, last = index >> 1, last >> 1
    return found if last == 0 else None
