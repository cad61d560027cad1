"""Publishing a Signed Revocation List, in the one order that loses nothing (docs/adr/0004).

1. read the head          2. read what changed, or all  3. build, sign, check
4. store the blob         5. move the head on, expecting the one that was read

Stopped anywhere, it leaves the old list in force and at most a blob that nobody points to.
"""

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import Final, NamedTuple

from shared.errors import Corrupt, Unavailable
from shared.model import times
from shared.model.audit_log import Action
from shared.model.callers import Caller
from shared.model.items import Address
from shared.model.srl import encoding as srl
from shared.model.srl import schedule as srl_schedule
from shared.model.srl.content import Content
from shared.model.srl.encoding import Payload
from shared.model.srl.head import FORMAT, Head, head_address
from shared.model.srl.schedule import Turn
from shared.model.srl.signers import ListSigner
from shared.model.srl.state import State
from shared.model.srl.tombstones import Tombstones
from shared.model.tenants import TenantSettings
from shared.model.warrants import left_behind
from shared.operations.rules import audit, counters, revoked_signers, tenants
from shared.operations.rules.counters import Counted
from shared.operations.rules.operation import reread
from shared.operations.rules.verdicts import verdicts
from shared.operations.srl import blobs as srl_blobs
from shared.operations.srl import content as srl_content
from shared.operations.srl import ended as srl_ended
from shared.operations.srl import heads as srl_heads
from shared.operations.srl import left_marks as srl_left
from shared.operations.srl import marks as srl_marks
from shared.operations.srl import signers as srl_signers
from shared.operations.srl import states as srl_states
from shared.operations.srl import storage as srl_storage
from shared.operations.srl import tombstones
from shared.operations.srl.content import Found
from shared.operations.srl.heads import current as current
from shared.ports import Ports
from shared.ports.store import At, Change, Check, Delete, Expect, Put

_log = logging.getLogger(__name__)

# A list follows from the one before; every so often it is made from all records, to be sure.
_REBUILT_EVERY: Final = 100


@dataclass(frozen=True, slots=True)
class _Draft:
    """What a publication has read before it makes the list, and so takes for granted."""

    settings: TenantSettings
    head: Head
    signer: ListSigner
    counted: Counted
    list_signers: tuple[ListSigner, ...]
    marks: Mapping[Address, At]
    version: int
    issued_at: datetime
    anew: bool = False
    tidies: bool = False

    @property
    def tenant_id(self) -> str:
        return self.settings.tenant_id

    @property
    def cleared(self) -> dict[Address, At]:
        """The marks that are removed with this list, by its publisher or by the schedule."""
        return dict(islice(self.marks.items(), srl_marks.CLEARED_A_LIST))

    @property
    def listed_since(self) -> datetime:
        """What ended before is not on the list (SRL-9)."""
        return self.issued_at - self.settings.srl_ttl


def first(ports: Ports, settings: TenantSettings, list_signer: ListSigner) -> list[Change]:
    """Store version 1, which is empty, and return the writes that publish it (SRL-6)."""
    now = times.whole(ports.now())
    payload = Payload(1, now, now + settings.srl_ttl, [])
    state = State(
        list_signer.tenant_id, 1, now, list_signers=(replace(list_signer, sealed_seed=None),)
    )
    head = srl_storage.store(ports, list_signer, payload, state=state, changes=0)
    return _writes(settings.tenant_id, head, Expect.ABSENT)


class _Made(NamedTuple):
    """A list that is stored, and which of the marked warrants it has by their own revocation.

    `misplaced` is that of `srl_content.Found`.
    """

    head: Head
    revoked: frozenset[str]
    misplaced: tuple[str, ...] = ()


def publish(
    ports: Ports,
    caller: Caller,
    *,
    above: int | None = None,
    anew: bool = False,
    tidies: bool = False,
) -> Head:
    """Publish the next version, whether or not anything changed (one attempt: see `settle`).

    `above` is given after a restore: the highest version that was ever published. Then, or if it is
    to be made `anew`, the list is made from all records. The schedule `tidies`: it removes marks
    on warrants, and moves what ended long ago. Others, who wait, leave both to the schedule.
    Raises `ExpectationLost` where another publication or a rotation of the signer came between,
    `Unavailable` where a port did, `Corrupt` where the list would not be right; the old list stays.
    """
    draft = _draft(ports, caller.tenant_id, above=above or 0)
    draft = replace(draft, anew=anew or above is not None, tidies=tidies)
    made = _followed(ports, draft) or _rebuilt(ports, draft)
    head, settings = made.head, draft.settings
    action, resource = Action.SRL_REGENERATE, f"srl/{head.version}"
    unchanged = Check(draft.signer.address, At(draft.signer.version))
    entry = audit.entry(ports, caller, action, resource, settings=settings, count=head.count)
    _move_head(ports, draft, made, [unchanged, entry])
    return head


def hand_over(
    ports: Ports, caller: Caller, head: Head, list_signer: ListSigner, changes: Iterable[Change]
) -> None:
    """Publish the next version under another signer, and apply `changes` in the same write.

    `head` is that of the list in force when the caller decided. Raises what `publish` raises.
    """
    settings = tenants.settings(ports, caller.tenant_id)
    changes = list(changes)
    draft = _draft_on(ports, settings, head, list_signer, changes=changes)
    made = _followed(ports, draft) or _rebuilt(ports, draft)
    _move_head(ports, draft, made, changes)


def read(ports: Ports, head: Head) -> bytes:
    """The response body that `head` points to, unaltered. Raises `Corrupt` where it is not."""
    return srl_blobs.read(ports, head.form().blob)


def _draft(ports: Ports, tenant_id: str, *, above: int) -> _Draft:
    settings, (head, signer) = ports.gather(
        lambda: tenants.settings(ports, tenant_id),
        lambda: srl_signers.head_and_signer(ports, tenant_id),
    )
    return _draft_on(ports, settings, head, signer, above=above)


def _draft_on(
    ports: Ports,
    settings: TenantSettings,
    head: Head,
    list_signer: ListSigner,
    *,
    above: int = 0,
    changes: Iterable[Change] = (),
) -> _Draft:
    tenant_id = settings.tenant_id
    # Before anything is stored: what is kept of old lists must not stop the next one.
    srl_blobs.discard_old(ports, tenant_id, head)
    # Only now that the head is known: what is revoked after this read is not surely in the list.
    counted = counters.counted(ports, tenant_id)
    list_signers = srl_signers.all_of(ports, tenant_id, changes)
    marks = srl_marks.changed(ports, tenant_id, limit=srl_marks.followable(head))
    version, issued_at = (
        max(head.version, above) + 1,
        srl_heads.next_issue_time(ports, tenant_id, head),
    )
    return _Draft(settings, head, list_signer, counted, list_signers, marks, version, issued_at)


def _followed(ports: Ports, draft: _Draft) -> _Made | None:
    """The list made from the one before; None where that is not possible, or not wise."""
    head, settings = draft.head, draft.settings
    if (
        draft.anew
        # A restore came between, or it is time to be sure.
        or draft.version != head.version + 1
        or head.format != FORMAT
        or draft.version % _REBUILT_EVERY == 0
        # What had left the list may have to come back.
        or head.expires_at - head.issued_at != settings.srl_ttl
        or draft.issued_at < head.issued_at
        or len(draft.marks) >= srl_marks.followable(head)
    ):
        return None
    try:
        base, state = _previous(ports, draft)
        found, signers = state.tombstones, base.signers
        if found.changes != draft.counted.tombstones:
            found = _tombstones(ports, draft)
            signers = revoked_signers.read(ports, draft.tenant_id)
        changed = [key.sk for key in draft.marks]
        content, revoked, _ = srl_content.followed(
            ports,
            draft.tenant_id,
            base,
            changed=changed,
            signers=signers,
            since=draft.listed_since,
        )
        return _Made(_stored(ports, draft, content, found, revoked), revoked)
    except Corrupt:
        _log.exception("the list cannot be made from the one before; reading all records instead")
        return None


def _rebuilt(ports: Ports, draft: _Draft) -> _Made:
    """The list made from all records; they are read once more if one that is revoked is missing."""
    tenant_id = draft.tenant_id
    changed = [key.sk for key in draft.marks]

    def find() -> Found:
        signers = revoked_signers.read(ports, tenant_id)
        found = srl_content.rebuilt(
            ports, tenant_id, signers, changed=changed, since=draft.listed_since
        )
        _check_departures(ports, draft, found.content)
        return found

    content, revoked, misplaced = reread(find)
    head = _stored(ports, draft, content, _tombstones(ports, draft), revoked)
    return _Made(head, revoked, misplaced)


def _tombstones(ports: Ports, draft: _Draft) -> Tombstones:
    return tombstones.gathered(ports, draft.tenant_id, changes=draft.counted.tombstones)


def _previous(ports: Ports, draft: _Draft) -> tuple[Content, State]:
    """What the list in force was made of. Raises `Corrupt` where that cannot be read."""
    body, state = ports.gather(
        lambda: read(ports, draft.head),
        lambda: srl_states.of_head(ports, draft.head, draft.signer),
    )
    return Content(srl.revoked_ids(body), state.ends, state.signers), state


def _check_departures(ports: Ports, draft: _Draft, content: Content) -> None:
    """Let no identifier leave the list that is still revoked. Raises `Corrupt` if one would."""
    try:
        previous = srl.revoked_ids(read(ports, draft.head))
    except Corrupt:
        _log.exception("the previous list cannot be read; publishing without a look at it")
        return
    now, ttl = draft.issued_at, draft.settings.srl_ttl
    gone = content.missing(previous)
    still_revoked = [
        warrant_id
        for warrant_id, verdict in verdicts(ports, draft.tenant_id, gone).items()
        if verdict.revoked and not left_behind(verdict.ends_at, now, ttl=ttl)
    ]
    if still_revoked:
        raise Corrupt(f"a revoked warrant is missing from its shard: {min(still_revoked)}")


def _stored(
    ports: Ports, draft: _Draft, content: Content, found: Tombstones, revoked: Collection[str]
) -> Head:
    ttl = draft.settings.srl_ttl
    content = content.at(draft.issued_at, ttl=ttl)
    payload = Payload(draft.version, draft.issued_at, draft.issued_at + ttl, content.revoked_ids)
    state = State(
        draft.tenant_id,
        draft.version,
        draft.issued_at,
        content.ends,
        content.signers,
        draft.list_signers,
        found,
        () if draft.tidies else srl_left.marks(draft.cleared, revoked),
    )
    return srl_storage.store(
        ports,
        draft.signer,
        payload,
        state=state,
        changes=draft.counted.changes,
        in_force=draft.head,
    )


def _move_head(ports: Ports, draft: _Draft, made: _Made, changes: Iterable[Change]) -> None:
    """Put the list in force that was made from the draft."""
    ports.store.write(
        *_writes(draft.tenant_id, made.head, At(draft.head.version)),
        Delete(Turn.after(draft.head, draft.tenant_id).address, Expect.ANYTHING),
        Delete(srl_schedule.issue_address(draft.head, draft.tenant_id), Expect.ANYTHING),
        *changes,
    )
    if not draft.tidies:
        return
    try:
        srl_marks.clear(ports, draft.tenant_id, draft.cleared, revoked=made.revoked)
        if made.misplaced:
            srl_ended.move(ports, draft.tenant_id, made.misplaced, since=draft.listed_since)
    except Unavailable:
        # The list is out. The next one looks at the same warrants again.
        _log.warning("marks could not be removed, or what ended be moved", exc_info=True)


def _writes(tenant_id: str, head: Head, expected: At | Expect) -> list[Change]:
    turn = Turn.after(head, tenant_id)
    item = head.to_item()
    return [
        Put(head_address(tenant_id), item, expected),
        Put(head.history_address(tenant_id), item, Expect.ANYTHING),
        Put(turn.address, turn.to_item(), Expect.ABSENT),
        Put(srl_schedule.issue_address(head, tenant_id), {}, Expect.ABSENT),
    ]
