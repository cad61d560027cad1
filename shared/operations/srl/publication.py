"""Publishing a Signed Revocation List, in an order that loses no revocation (docs/adr/0004).

1. read the head          2. read the changes, or all   3. build, sign, check
4. store the blob         5. replace the head, expecting the one that was read

If it stops at any point, the old list stays in force, and at most an unused blob is left.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from shared.errors import Corrupt
from shared.model import times
from shared.model.audit_log import Action
from shared.model.callers import Caller
from shared.model.items import Address
from shared.model.srl import schedule
from shared.model.srl.encoding import Payload
from shared.model.srl.head import Head, head_address
from shared.model.srl.schedule import Turn
from shared.model.srl.signers import ListSigner
from shared.model.srl.state import LeftMark, State
from shared.model.tenants import TenantSettings
from shared.operations.rules import audit
from shared.operations.rules.operation import reread
from shared.operations.srl import content, signing, storage
from shared.operations.srl import snapshot as snapshots
from shared.operations.srl.content import Found
from shared.operations.srl.snapshot import Snapshot
from shared.ports import Ports
from shared.ports.store import At, Change, Check, Delete, Expect, Put

_log = logging.getLogger(__name__)


def first(ports: Ports, settings: TenantSettings, list_signer: ListSigner) -> list[Change]:
    """Store version 1, an empty list, and return the changes that publish it (SRL-6)."""
    now = times.whole(ports.now())
    tenant_id, list_signers = settings.tenant_id, (replace(list_signer, sealed_seed=None),)
    payload = Payload(1, now, now + settings.srl_ttl, [])
    state = State(tenant_id, 1, now, list_signers=list_signers)
    signed = signing.sign(ports, list_signer, payload, state)
    return _writes(tenant_id, storage.store(ports, signed, changes=0), Expect.ABSENT)


def publish(
    ports: Ports,
    caller: Caller,
    *,
    above: int | None = None,
    anew: bool = False,
    tidy: Callable[[Snapshot, Found], object] | None = None,
) -> Head:
    """Publish the next version, whether or not anything changed (SRL-6); return its head.

    `above` is the highest version ever published, given after a restore. If it is given, or if
    `anew` is true, the list is made from all records. `tidy` is called after the publication (by
    the schedule). Without it, the state of the list names the marks that it leaves.

    Raises `ExpectationLost` if another publication or a rotation of the list signer came first
    (see `settle`), `Unavailable` if a port does not answer, `Corrupt` if the list would be wrong.
    In each case the old list stays in force.
    """
    snapshot = snapshots.take(ports, caller.tenant_id, above=above or 0)
    anew = anew or above is not None
    found, head = _made(ports, snapshot, anew=anew, keeps_marks=tidy is None)
    action, resource, settings = Action.SRL_REGENERATE, f"srl/{head.version}", snapshot.settings
    entry = audit.entry(ports, caller, action, resource, settings=settings, count=head.count)
    signer = snapshot.list_signer
    _move_head(ports, snapshot, head, [Check(signer.address, At(signer.version)), entry])
    if tidy is not None:
        tidy(snapshot, found)
    return head


def hand_over(
    ports: Ports, caller: Caller, head: Head, list_signer: ListSigner, changes: Iterable[Change]
) -> None:
    """Publish the next version, signed by `list_signer`, and apply `changes` in the same write.

    `head` is the head that the caller read; the write expects it. Raises what `publish` raises.
    """
    changes = list(changes)
    on = head, list_signer
    snapshot = snapshots.take(ports, caller.tenant_id, on=on, changes=changes)
    _, made = _made(ports, snapshot)
    _move_head(ports, snapshot, made, changes)


def _made(
    ports: Ports, snapshot: Snapshot, *, anew: bool = False, keeps_marks: bool = True
) -> tuple[Found, Head]:
    """Make and store the next list, from the list in force if possible, else from all records."""

    def stored(found: Found) -> tuple[Found, Head]:
        return found, _store(ports, snapshot, found, keeps_marks=keeps_marks)

    if snapshot.follows and not anew:
        try:
            return stored(content.followed(ports, snapshot))
        except Corrupt:
            _log.exception("the list before cannot be followed; reading all records instead")
    # A revoked warrant may be missing because its write is in flight: then read once more.
    return stored(reread(lambda: content.rebuilt(ports, snapshot)))


def _store(ports: Ports, snapshot: Snapshot, found: Found, *, keeps_marks: bool) -> Head:
    issued_at, expires_at = snapshot.issued_at, snapshot.issued_at + snapshot.lifetime
    listed = found.content.at(issued_at, ttl=snapshot.lifetime)
    state = State(
        snapshot.tenant_id,
        snapshot.version,
        issued_at,
        listed.ends,
        listed.signers,
        snapshot.list_signers,
        found.tombstones,
        _left(snapshot.cleared, found.revoked) if keeps_marks else (),
    )
    payload = Payload(snapshot.version, issued_at, expires_at, listed.revoked_ids)
    signed = signing.sign(ports, snapshot.list_signer, payload, state)
    changes = snapshot.counted.changes
    return storage.store(ports, signed, changes=changes, in_force=snapshot.head)


def _left(read: Mapping[Address, At], revoked: Collection[str]) -> tuple[LeftMark, ...]:
    """Return the marks that a list covers and the schedule is to remove (docs/adr/0037).

    `read` are the marks as read before the list was made; `revoked` are the warrants that are in
    the list by their own revocation.
    """
    return tuple(
        LeftMark(key.pk, key.sk, at.version, key.sk in revoked) for key, at in read.items()
    )


def _move_head(ports: Ports, snapshot: Snapshot, head: Head, changes: Iterable[Change]) -> None:
    """Replace the head of the snapshot by `head`, in one write with `changes`."""
    tenant_id, before = snapshot.tenant_id, snapshot.head
    ports.store.write(
        *_writes(tenant_id, head, At(before.version)),
        Delete(Turn.after(before, tenant_id).address, Expect.ANYTHING),
        Delete(schedule.issue_address(before, tenant_id), Expect.ANYTHING),
        *changes,
    )


def _writes(tenant_id: str, head: Head, expected: At | Expect) -> list[Change]:
    turn, item = Turn.after(head, tenant_id), head.to_item()
    return [
        Put(turn.address, turn.to_item(), Expect.ABSENT),
        Put(schedule.issue_address(head, tenant_id), {}, Expect.ABSENT),
        Put(head_address(tenant_id), item, expected),
        Put(head.history_address(tenant_id), item, Expect.ANYTHING),
    ]
