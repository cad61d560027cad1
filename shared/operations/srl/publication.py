"""Publishing a Signed Revocation List, in an order that loses no revocation (docs/adr/0004).

1. read the head          2. read the changes, or all   3. build, sign, check
4. store the blob         5. replace the head, expecting the one that was read

If it stops at any point, the old list stays in force, and at most an unused blob is left.
"""

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from shared.errors import Corrupt, Unavailable
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
from shared.operations.rules import audit, tenants
from shared.operations.rules.operation import reread
from shared.operations.srl import content, ended, marks, storage
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
    head = storage.store(ports, list_signer, payload, state=state, changes=0)
    return _writes(tenant_id, head, Expect.ABSENT)


def publish(
    ports: Ports,
    caller: Caller,
    *,
    above: int | None = None,
    anew: bool = False,
    tidies: bool = False,
) -> Head:
    """Publish the next version, whether or not anything changed (SRL-6); return its head.

    `above` is the highest version ever published, given after a restore. If it is given, or if
    `anew` is true, the list is made from all records. If `tidies` is true (the schedule), marks on
    warrants are removed and warrants that ended long ago are moved after the publication.

    Raises `ExpectationLost` if another publication or a rotation of the list signer came first
    (see `settle`), `Unavailable` if a port does not answer, `Corrupt` if the list would be wrong.
    In each case the old list stays in force.
    """
    snapshot = snapshots.take(ports, caller.tenant_id, above=above or 0)
    anew = anew or above is not None
    found, head = _made(ports, snapshot, anew=anew, keeps_marks=not tidies)
    action, resource, settings = Action.SRL_REGENERATE, f"srl/{head.version}", snapshot.settings
    entry = audit.entry(ports, caller, action, resource, settings=settings, count=head.count)
    signer = snapshot.list_signer
    _move_head(ports, snapshot, head, [Check(signer.address, At(signer.version)), entry])
    if tidies:
        _tidy(ports, snapshot, found)
    return head


def hand_over(
    ports: Ports, caller: Caller, head: Head, list_signer: ListSigner, changes: Iterable[Change]
) -> None:
    """Publish the next version, signed by `list_signer`, and apply `changes` in the same write.

    `head` is the head that the caller read; the write expects it. Raises what `publish` raises.
    """
    changes = list(changes)
    settings = tenants.settings(ports, caller.tenant_id)
    snapshot = snapshots.of_head(ports, settings, head, list_signer, changes=changes)
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
    return storage.store(
        ports,
        snapshot.list_signer,
        Payload(snapshot.version, issued_at, expires_at, listed.revoked_ids),
        state=state,
        changes=snapshot.counted.changes,
        in_force=snapshot.head,
    )


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


def _tidy(ports: Ports, snapshot: Snapshot, found: Found) -> None:
    """Remove the marks that the list covers, and move warrants that ended long ago."""
    tenant_id, since = snapshot.tenant_id, snapshot.listed_since
    try:
        marks.clear(ports, tenant_id, snapshot.cleared, revoked=found.revoked)
        if found.misplaced:
            ended.move(ports, tenant_id, found.misplaced, since=since)
    except Unavailable:
        # The list is published. The next publication processes the same warrants again.
        _log.warning("marks could not be removed, or what ended be moved", exc_info=True)


def _writes(tenant_id: str, head: Head, expected: At | Expect) -> list[Change]:
    turn, item = Turn.after(head, tenant_id), head.to_item()
    return [
        Put(head_address(tenant_id), item, expected),
        Put(head.history_address(tenant_id), item, Expect.ANYTHING),
        Put(turn.address, turn.to_item(), Expect.ABSENT),
        Put(schedule.issue_address(head, tenant_id), {}, Expect.ABSENT),
    ]
