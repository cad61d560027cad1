"""Publishing a Signed Revocation List, in an order that loses no revocation (docs/adr/0004).

1. read the head          2. bring the feed up to date  3. build, sign, check
4. store the blob         5. replace the head, expecting the one that was read

If it stops at any point, the old list stays in force, and at most an unused blob is left.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final, NamedTuple

from shared.authorizer import wire
from shared.authorizer.wire import Base
from shared.errors import Corrupt, ExpectationLost, Unavailable
from shared.model import times
from shared.model.audit_log import Action
from shared.model.callers import Caller
from shared.model.srl import schedule
from shared.model.srl.content import Content
from shared.model.srl.encoding import Payload
from shared.model.srl.head import Head, head_address
from shared.model.srl.schedule import Turn
from shared.model.srl.signers import ListSigner
from shared.model.srl.state import State
from shared.model.srl.versions import PublishedVersion, version_address
from shared.model.tenants import TenantSettings
from shared.operations.rules import audit
from shared.operations.srl import content, feed_storage, signing, storage
from shared.operations.srl import snapshot as snapshots
from shared.operations.srl.content import Found
from shared.operations.srl.snapshot import Snapshot
from shared.ports import Ports
from shared.ports.store import At, Change, Check, Delete, Expect, Put

_log = logging.getLogger(__name__)

# How often the head of the feed is read again because an entry was published meanwhile.
_TRIES: Final = 20


class Above(NamedTuple):
    """The highest version of a list, and of the feed the highest sequence, that were published."""

    version: int
    sequence: int


def first(ports: Ports, settings: TenantSettings, list_signer: ListSigner) -> list[Change]:
    """Store version 1, an empty list, and return the changes that publish it (SRL-6)."""
    now = times.whole(ports.now())
    tenant_id, list_signers = settings.tenant_id, (replace(list_signer, sealed_seed=None),)
    payload = Payload(1, now, now + settings.srl_ttl, [])
    state = State(tenant_id, 1, now, list_signers=list_signers)
    signed = signing.sign(ports, list_signer, payload, state)
    head = storage.store(ports, signed, changes=0, sequence=0)
    base = _base(head, 0, wire.first_chain(tenant_id))
    begins = feed_storage.based(ports, None, base, settings, list_signer)
    row = PublishedVersion.of(head, base, Content(), [])
    return [*_writes(tenant_id, head, row, Expect.ABSENT), begins]


def publish(
    ports: Ports,
    caller: Caller,
    *,
    above: Above | None = None,
    anew: bool = False,
    tidy: Callable[[Snapshot, Found], object] | None = None,
    beside: Callable[[Head], Iterable[Change]] = lambda _: (),
) -> Head:
    """Publish the next version, whether or not anything changed (SRL-6); return its head.

    `above` is given after a restore. If it is given, the list is made from all records; if `anew`
    is true, it is compared with them. `tidy` is called after the publication. `beside` returns
    further changes for the write that replaces the head.

    Raises `ExpectationLost` if another publication or a rotation of the list signer came first
    (see `settle`), `Unavailable` if a port does not answer, `Corrupt` if the list would be wrong.
    In each case the old list stays in force.
    """
    snapshot = snapshots.take(ports, caller.tenant_id, above=above.version if above else 0)
    found, head = _made(ports, snapshot, anew=anew, above=above.sequence if above else None)
    action, resource, settings = Action.SRL_REGENERATE, f"srl/{head.version}", snapshot.settings
    entry = audit.entry(ports, caller, action, resource, settings=settings, count=head.count)
    signer = snapshot.list_signer
    changes = [Check(signer.address, At(signer.version)), entry, *beside(head)]
    _move_heads(ports, snapshot, found, head, changes)
    if tidy is not None:
        tidy(snapshot, found)
    return head


def hand_over(
    ports: Ports,
    caller: Caller,
    head: Head,
    list_signer: ListSigner,
    changes: Iterable[Change],
    *,
    leaps: bool = False,
) -> None:
    """Publish the next version, signed by `list_signer`, and apply `changes` in the same write.

    `head` is the head that the caller read; the write expects it. If `leaps` is true, the signer
    before was stolen: the feed breaks in the same write, far above its entries (FEED-7). Raises
    what `publish` raises.
    """
    changes = list(changes)
    on = head, list_signer
    snapshot = snapshots.take(ports, caller.tenant_id, on=on, changes=changes)
    found, made = _made(ports, snapshot, leaps=leaps)
    _move_heads(ports, snapshot, found, made, changes)


def _made(
    ports: Ports,
    snapshot: Snapshot,
    *,
    anew: bool = False,
    above: int | None = None,
    leaps: bool = False,
) -> tuple[Found, Head]:
    """Make and store the next list: from the list in force if possible, else from all records."""

    def stored(found: Found) -> tuple[Found, Head]:
        found = found.leapt(ports.now()) if leaps else found
        return found, _store(ports, snapshot, found)

    found = content.found(ports, snapshot, anew=anew, above=above)
    try:
        return stored(found)
    except Corrupt as error:
        _log.warning("the list before cannot be followed (%s); reading all records instead", error)
    return stored(content.from_all_records(ports, snapshot, above))


def _store(ports: Ports, snapshot: Snapshot, found: Found) -> Head:
    issued_at, expires_at = snapshot.issued_at, snapshot.issued_at + snapshot.lifetime
    listed = found.content
    state = State(
        snapshot.tenant_id,
        snapshot.version,
        issued_at,
        listed.ends,
        listed.signers,
        snapshot.list_signers,
        found.tombstones,
        found.sequence,
        snapshot.log,
    )
    payload = Payload(snapshot.version, issued_at, expires_at, listed.revoked_ids)
    before = snapshot.head
    packs = before.is_packed_next(ports.now())
    signed = signing.sign(ports, snapshot.list_signer, payload, state, packs=packs)
    # Without a sequence, no list follows from this one, and the feed breaks with the next.
    sequence = found.sequence if found.is_exact else None
    changes = snapshot.counted.changes
    made = storage.store(ports, signed, changes=changes, sequence=sequence, in_force=before)
    return replace(made, packs_until=before.packs_until if packs else None)


def _move_heads(
    ports: Ports, snapshot: Snapshot, found: Found, head: Head, changes: Iterable[Change]
) -> None:
    """Replace the head of the list, and make it the base of the feed, in one write.

    If an entry is published first, only the head of the feed is read and signed again.
    """
    tenant_id, before, changes = snapshot.tenant_id, snapshot.head, list(changes)
    base, settings = _base(head, found.sequence, found.chain), snapshot.settings
    row = PublishedVersion.of(head, base, found.content, snapshot.previous.revoked_ids)
    for _ in range(_TRIES):
        newest = feed_storage.head(ports, tenant_id)
        newest = newest and newest.listed(head.issued_at)
        ends = feed_storage.leapt(ports, tenant_id, newest, found.leap) if found.leap else None
        based = feed_storage.based(ports, newest, base, settings, snapshot.list_signer, ends)
        try:
            ports.store.write(
                *_writes(tenant_id, head, row, At(before.version)),
                Delete(Turn.after(before, tenant_id).address, Expect.ANYTHING),
                Delete(schedule.issue_address(before, tenant_id), Expect.ANYTHING),
                *changes,
                *(ends.entries if ends else ()),
                based,
            )
        except ExpectationLost as lost:
            if set(lost.lost) != {based.address}:
                raise
        else:
            return
    raise Unavailable("entries of the feed were published during every attempt")


def _base(head: Head, sequence: int, chain: bytes) -> Base:
    """Return a list as base of the feed; it covers the feed up to `sequence`."""
    if head.payload_sha256 is None:
        raise Corrupt(f"version {head.version} has no base")
    sha256 = bytes.fromhex(head.payload_sha256)
    return Base(head.version, sequence, chain, sha256, head.count)


def _writes(
    tenant_id: str, head: Head, row: PublishedVersion, expected: At | Expect
) -> list[Change]:
    turn, item = Turn.after(head, tenant_id), head.to_item()
    return [
        Put(turn.address, turn.to_item(), Expect.ABSENT),
        Put(schedule.issue_address(head, tenant_id), {}, Expect.ABSENT),
        Put(head_address(tenant_id), item, expected),
        Put(head.history_address(tenant_id), item, Expect.ANYTHING),
        # After a restore there may be a row of this version already.
        Put(version_address(tenant_id, head.version), row.to_item(), Expect.ANYTHING),
    ]
