"""Recovery after the records were restored from a backup (OPS-9, docs/adr/14).

Verifiers reject a version below one that they have seen, and revocations that the backup lacks
would be lost. The blobs are not restored with the records. The newest SRL has the version and the
revoked warrants. Its state has the other revocations, deletions and suspensions (docs/adr/14).
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from shared.capabilities import INSTALLED, RecoveryPhase
from shared.model import api_keys, signing_keys, times
from shared.model.api_keys import ApiKey
from shared.model.audit import audit_log
from shared.model.audit.audit_log import AuditAction, AuditEntry, EntryFilters
from shared.model.callers import Caller
from shared.model.feed import LEAP
from shared.model.lists.head import SrlHead, head_address
from shared.model.lists.schedule import ISSUES, TURNS, PublicationDeadline, issue_address, tenant_of
from shared.model.lists.signers import SrlSigner, SrlSignerStatus, signers_partition
from shared.model.lists.tombstones import Tombstone, TombstoneStatus, counter_address
from shared.model.records import moment
from shared.model.signing_keys import SigningKey
from shared.operations.access import api_key_end
from shared.operations.base import counters, tenants
from shared.operations.base.operation import settle
from shared.operations.changes import revocation_changes as changes
from shared.operations.changes import revocations
from shared.operations.identities import sessions
from shared.operations.lists import in_force, journal, publication
from shared.operations.lists import records as srl_records
from shared.operations.lists import signers as srl_signers
from shared.operations.lists.publication import RestoredPosition
from shared.operations.lists.verdicts import read_statuses
from shared.operations.operator import consistency, restored
from shared.operations.operator.recovery import access, keys
from shared.operations.operator.recovery import newest as srl_newest
from shared.operations.operator.recovery import unknown as recovery_unknown
from shared.operations.operator.recovery.newest import NewestPublication
from shared.operations.operator.recovery.run import RecoveryRun
from shared.operations.operator.recovery.unknown import StaleTables, UnknownReason
from shared.ports import Ports
from shared.ports.store import Change, Check, Delete, Expect, Increment, Put, VersionIs

# A warrant that returns to the SRL stays in it for at least this time and one SRL lifetime.
_SOON: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class RecoveryResult:
    """The result of a recovery. `head` is the head of the SRL that was published.

    `revoked_again` are the warrants with revocations that the records lacked. `locked_out` is true
    if no admin key is accepted.
    """

    head: SrlHead
    revoked_again: list[str]
    unknown: UnknownReason
    locked_out: bool


def recover(  # noqa: PLR0913 (each is an option of the command)
    ports: Ports,
    operator: Caller,
    *,
    report: Callable[[str], None] = lambda _line: None,
    trusted_keys: Collection[bytes] = (),
    reviewed: bool = False,
    is_copy: bool = False,
    trust_version: int = 0,
) -> RecoveryResult:
    """Repair the records, apply the newest SRL and its state, and publish a higher version.

    A recovery may be repeated. A restored tenant stays marked until a recovery that is `reviewed`
    follows one that was not.

    - `report` is called with a line for each change. Before the publication, it is called for each
      unknown, because a repeated recovery would not find it.
    - `trusted_keys` are public keys (32 bytes) of SRL signers that the operator names.
    - `is_copy` is true if newer blobs may have been served in another region, which was copied.
    - `trust_version` is a version of the trust document that clients have.

    Raises `Unavailable`; `DataCorrupt` if the newest SRL is not signed by a trusted signer.
    """
    tenant_id = operator.tenant_id
    restored.mark_restored_tables(ports)
    for read in (read for each in INSTALLED for read in each.recovery_signers()):
        trusted_keys = (*trusted_keys, *read(ports, tenant_id))
    newest = srl_newest.find(ports, tenant_id, trusted_keys=trusted_keys)
    tables = recovery_unknown.find_stale_tables(ports, tenant_id, newest)
    settings = tenants.settings(ports, tenant_id)
    added = [each.added for each in newest.states]
    known = max(trust_version, newest.journal.trust)
    run = RecoveryRun(
        ports, operator, settings, newest.version, newest.issued_at, added, known, is_copy, report
    )
    # First, because each step of the recovery writes entries.
    _run_steps(run, "started")
    # The restored sessions may include a session that was ended since.
    settle(lambda: sessions.end_all(ports, tenant_id))
    _repair(run)
    _apply(run, newest, tables)
    lost = _revoke_again(run, newest, end_keys(run, newest.issued_at) if is_copy else ())
    if is_copy:
        # Changes to records that have arrived only partly may contradict the repairs.
        _repair(run)
    mark = restored.read_review(ports, tenant_id)
    is_reviewed = reviewed and mark is not None and mark.recovered_at is not None
    open_mark = None if is_reviewed else mark
    if mark is None or mark.recovered_at is None:
        _run_steps(run, "restored")
    unknown = recovery_unknown.unknown(ports, tenant_id, newest, tables, open_mark)
    for line in unknown.lines():
        report(line)
    _run_steps(run, "publishing")
    above = RestoredPosition(newest.version, newest.sequence)
    if is_copy:
        above = far_above(ports, tenant_id, above)
    head = settle(lambda: publication.publish(ports, operator, restored_position=above))
    settle(lambda: _remove_other_turns(ports, tenant_id))
    journal.write_restart_record(ports, tenant_id)
    # The first pass creates the audit signer that the trust document names.
    _run_steps(run, "published")
    if mark is not None and is_reviewed:
        settle(lambda: restored.complete_review(run, mark))
    restored.record_recovery(run)
    # Each step of the recovery writes entries.
    _run_steps(run, "recorded")
    return RecoveryResult(head, lost, unknown, not api_key_end.is_left(ports, tenant_id))


def _run_steps(run: RecoveryRun, phase: RecoveryPhase) -> None:
    """Run the steps of all capabilities in this phase. Raises `DataCorrupt`, `Unavailable`."""
    for time, step in (each for added in INSTALLED for each in added.recovery_steps()):
        if time == phase:
            settle(partial(step, run))


def _repair(run: RecoveryRun) -> None:
    for each in consistency.repair(run.ports, run.operator):
        run.report(f"Repaired: {each}")


def _apply(run: RecoveryRun, newest: NewestPublication, tables: StaleTables) -> None:
    """Apply the tombstones and the SRL signers of the newest states to the records."""
    for tombstones in newest.tombstones:
        keys.apply(run, tombstones.keys, is_behind=tables.keys)
        access.apply_to_keys(run, tombstones.api_keys)
        access.apply_to_accounts(run, tombstones.accounts, is_behind=tables.keys)
    until = max((each.expires_at for each in newest.lists), default=run.ports.now())
    for state in newest.states:
        restore_signers(run, state.srl_signers, listed_until=until)
    settle(lambda: _raise_counter(run, newest.changes))


def _raise_counter(run: RecoveryRun, changes: int) -> None:
    """Increase the counter of tombstones to its value before the loss.

    The watermarks of the next SRL and journal record are then above the earlier ones.
    """
    behind = changes - counters.of_tombstones(run.ports, run.tenant_id)
    if behind > 0:
        address = counter_address(run.tenant_id)
        run.ports.store.write(Increment(address, {"changes": behind}, Expect.ANYTHING))


def _revoke_again(
    run: RecoveryRun, newest: NewestPublication, warrant_ids: Collection[str]
) -> list[str]:
    """Revoke warrants of the newest SRL or `warrant_ids` that the records lack; return them.

    A revocation with too early an expiry in the records gets the later expiry of the newest state.
    """
    listed = sorted({*newest.revoked_ids, *warrant_ids})
    statuses = read_statuses(run.ports, run.tenant_id, listed)
    lost = [each for each in listed if not statuses[each].revoked]
    # The expiries in the newest states and the journal, as RFC 3339 text in UTC.
    recorded = {each: at for state in newest.states for each, at in state.ends.items()}
    for warrant_id, ends_at in newest.journal.revoked.items():
        recorded.pop(warrant_id, None)
        if ends_at is not None:
            recorded[warrant_id] = times.format_utc(ends_at)
    for warrant_id in lost:
        is_signed = statuses[warrant_id].ends_at is not None
        _revoke(run, warrant_id, None if is_signed else _read_end(run, recorded.get(warrant_id)))
        run.report(f"Revoked again: {warrant_id}")
    if any(each.version >= newest.version for each in newest.states):
        ended = [each for each, verdict in statuses.items() if verdict.revoked and verdict.ends_at]
        standings = changes.standings(run.ports, run.tenant_id, ended)
        extended = [
            each
            for each, standing in standings.items()
            if standing.is_extended_by(moment(recorded.get(each), "ends"))
        ]
        for warrant_id in extended:
            _revoke(run, warrant_id, _read_end(run, recorded.get(warrant_id)))
            run.report(f"Extended again to its later expiry: {warrant_id}")
    return lost


def _revoke(run: RecoveryRun, warrant_id: str, end: datetime | None) -> None:
    revocations.create(
        run.ports, run.operator, warrant_id=warrant_id, reason=run.reason, warrant_expires_at=end
    )


def _read_end(run: RecoveryRun, recorded_end: str | None) -> datetime | None:
    """Return the expiry of a warrant in the newest state, but at least a little after now."""
    end = moment(recorded_end, "ends")
    return end and max(end, times.truncate_to_second(run.ports.now()) + _SOON)


def _remove_other_turns(ports: Ports, tenant_id: str) -> None:
    """Delete all deadlines and issue times of the tenant except the current ones.

    If only one table was restored, the others may belong to another time than the SRL head.
    """
    head = in_force.read_srl_head(ports, tenant_id)
    own = (
        PublicationDeadline.after_publication(head, tenant_id).address,
        issue_address(head, tenant_id),
    )
    # If the scheduler publishes concurrently, its deadline must not be deleted.
    unchanged = Check(head_address(tenant_id), VersionIs(head.version))
    for partition in (TURNS, ISSUES):
        for entry in ports.store.query(partition):
            address = partition.address(entry.sk)
            if address not in own and tenant_of(entry.sk) == tenant_id:
                ports.store.write(Delete(address, Expect.ANYTHING), unchanged)


_ORDER = [
    SrlSignerStatus.STANDBY,
    SrlSignerStatus.PENDING,
    SrlSignerStatus.ACTIVE,
    SrlSignerStatus.RETIRED,
    SrlSignerStatus.REVOKED,
]


def restore_signers(
    run: RecoveryRun, signers: tuple[SrlSigner, ...], *, listed_until: datetime
) -> None:
    """Restore the status of `signers`, and create a signer if none is active.

    A signer without a record has lost its seed. It is listed as retired until `listed_until`, the
    expiry of the newest SRL. If a record is pending or active but its signer was archived, the
    signer is revoked, because it may have been either retired or revoked.
    """
    records = {each.id: each for each in _read_signers(run)}
    archived = [each.revoke() for each in srl_signers.find_archived(records.values(), signers)]
    signers = (*signers, *archived)
    records |= srl_signers.read_by_ids(run.ports, run.tenant_id, [each.id for each in signers])
    # The newest signer with a seed in the records that is not revoked makes statements.
    revoked = {each.id for each in signers if each.status is SrlSignerStatus.REVOKED}
    sound = [
        each
        for each in records.values()
        if each.sealed_seed is not None
        and each.id not in revoked
        and each.status in (SrlSignerStatus.ACTIVE, SrlSignerStatus.RETIRED)
    ]
    for each in signers:
        run.settle(partial(_restore_signer_status, run, records.get(each.id), each, listed_until))
    if not any(each.status is SrlSignerStatus.ACTIVE for each in _read_signers(run)):
        run.report(settle(partial(_start_signer, run, sound[-1] if sound else None)))
    settle(partial(_require_one_active_signer, run, listed_until))


def _require_one_active_signer(run: RecoveryRun, listed_until: datetime) -> None:
    """Make exactly one signer active, and add the pending signer to it.

    An interrupted publication may have declared another signer active. The previous active signer
    may be the only one that names the pending signer.
    """
    current, records = in_force.read_active_signer(run.ports, run.tenant_id), _read_signers(run)
    others = [each for each in records if each.status is SrlSignerStatus.ACTIVE and each != current]
    pending = [each.id for each in records if each.status is SrlSignerStatus.PENDING]
    changes: list[Change] = []
    for each in others:
        changes += srl_signers.replacement_changes(each, each.retire(listed_until=listed_until))
        changes.append(run.entry(AuditAction.SRL_ROTATE_KEY, each.id))
    if pending and current.pending_id is None:
        after = current.with_successor(pending[-1])
        changes.append(Put(after.address, after.to_item(), VersionIs(current.version)))
    if changes:
        run.ports.store.write(*changes, *srl_records.tombstone_counter_changes(run.tenant_id))


def _read_signers(run: RecoveryRun) -> list[SrlSigner]:
    entries = run.ports.store.query(signers_partition(run.tenant_id))
    standby = srl_signers.read_standby(run.ports, run.tenant_id)
    signers = [SrlSigner.from_item(entry.item) for entry in entries]
    return [*([standby] if standby else []), *signers]


def _restore_signer_status(
    run: RecoveryRun, record: SrlSigner | None, srl_signer: SrlSigner, listed_until: datetime
) -> str | None:
    if record is None:
        lost = replace(srl_signer, sealed_seed=None, pending_id=None)
        if lost.status is not SrlSignerStatus.RETIRED:
            lost = replace(lost, listed_until=listed_until)
        if lost.status is not SrlSignerStatus.REVOKED:
            lost = replace(lost, status=SrlSignerStatus.RETIRED)
        run.ports.store.write(
            Put(lost.address, lost.to_item(), Expect.ABSENT),
            *srl_records.tombstone_counter_changes(run.tenant_id),
        )
        return f"Listed again: SRL signer {lost.id}, {lost.status}; its seed is lost"
    if _ORDER.index(record.status) >= _ORDER.index(srl_signer.status):
        return None
    if srl_signer.status is SrlSignerStatus.REVOKED:
        moved, action = record.revoke(), AuditAction.SRL_REVOKE_KEY
    elif srl_signer.status is SrlSignerStatus.RETIRED:
        moved = record.retire(listed_until=srl_signer.listed_until or listed_until)
        action = AuditAction.SRL_ROTATE_KEY
    else:
        moved = record.activate(srl_signer.activated_at or run.ports.now())
        action = AuditAction.SRL_ACTIVATE_KEY
    run.ports.store.write(
        *_replacement_changes(run, record, moved),
        *srl_records.tombstone_counter_changes(run.tenant_id),
        run.entry(action, moved.id),
    )
    return f"Again {moved.status}: SRL signer {moved.id}"


def _replacement_changes(run: RecoveryRun, old: SrlSigner, new: SrlSigner) -> list[Change]:
    """Return the writes that replace a signer. A standby is replaced by another standby."""
    if old.status is not SrlSignerStatus.STANDBY:
        return srl_signers.replacement_changes(old, new)
    standby = srl_signers.standby_change(run.ports, run.tenant_id, after=old)
    return [Put(new.address, new.to_item(), Expect.ABSENT), standby]


def _start_signer(run: RecoveryRun, vouching: SrlSigner | None) -> str:
    """Activate the standby, or create a signer, with a statement by `vouching` if possible."""
    standby = srl_signers.read_standby(run.ports, run.tenant_id)
    new = standby or srl_signers.create_signer(run.ports, run.tenant_id)
    if vouching is not None:
        new = srl_signers.add_statement(run.ports, new, vouching, _read_signers(run))
    changes: list[Change] = [Put(new.address, new.to_item(), Expect.ABSENT)]
    if standby is not None:
        new = new.activate(run.ports.now())
        changes = _replacement_changes(run, standby, new)
    run.ports.store.write(
        *changes,
        *srl_records.tombstone_counter_changes(run.tenant_id),
        run.entry(AuditAction.SRL_ROTATE_KEY, new.id),
    )
    return (
        f"New SRL signer: {new.id}, because the current signer is revoked or its seed is lost. "
        f"Give its public key to verifiers before they need it: {new.public_key}"
    )


# Clocks of instances differ by less, and an entry is older than its SRL by less.
_MARGIN: Final = timedelta(minutes=10)

_REVOKED: Final = (
    AuditAction.REVOCATION_CREATE,
    AuditAction.REVOCATION_CREATE_BATCH,
    AuditAction.REVOCATION_EXTEND,
    AuditAction.REVOCATION_EXTEND_BATCH,
)
_UNREVOKED: Final = (AuditAction.REVOCATION_DELETE, AuditAction.REVOCATION_DELETE_BATCH)


# Versions and sequences that may have been served without the knowledge of a copy.
_LOST: Final = 8 * LEAP


def far_above(
    ports: Ports, tenant_id: str, restored_position: RestoredPosition
) -> RestoredPosition:
    """Return a version and a sequence above all versions and sequences of the original.

    Neither the records nor the blobs contain all of them. Within the delay of the copy, versions
    rise by less than one sequence jump. Only few recoveries can end in that time, and each jumps.
    Raises `DataCorrupt`, `Unavailable`.
    """
    listed = in_force.read_srl_head(ports, tenant_id)
    feed = in_force.read_feed_head(ports, tenant_id)
    sequence = max(restored_position.sequence, feed.sequence if feed else 0)
    return RestoredPosition(
        max(restored_position.version, listed.version) + _LOST, sequence + _LOST
    )


def end_keys(run: RecoveryRun, since: datetime | None) -> list[str]:
    """Revoke the keys in entries since `since` again; return the warrants to revoke.

    An entry is stored in one write with its change, so the change was made. `since` is the issue
    time of the newest SRL, which contains older changes. Raises `DataCorrupt`, `Unavailable`.
    """
    if since is None:
        return []
    span = EntryFilters(since - _MARGIN, max(since - _MARGIN, run.ports.now()))
    rows = (
        row
        for _, partitions in audit_log.months(run.tenant_id, span)
        for partition in partitions
        for row in run.ports.store.query(partition, after=span.lower_bound)
    )
    # The warrants that were revoked and not unrevoked later.
    named: dict[str, None] = {}
    for entry in sorted((AuditEntry.from_item(row.item) for row in rows), key=lambda each: each.id):
        if entry.action in _REVOKED:
            named |= dict.fromkeys(audit_log.warrants_of({"details": entry.details}))
        elif entry.action in _UNREVOKED:
            for warrant_id in audit_log.warrants_of({"details": entry.details}):
                named.pop(warrant_id, None)
        else:
            _end_key(run, entry)
    statuses = read_statuses(run.ports, run.tenant_id, named) if named else {}
    return [each for each in named if not statuses[each].revoked]


def _end_key(run: RecoveryRun, entry: AuditEntry) -> None:
    """Revoke or delete the key of an entry again, if the entry ended a key that has a record."""
    if entry.action is AuditAction.KEY_REVOKE:
        address = signing_keys.keys(run.tenant_id).address(entry.resource_id)
        signing_key = SigningKey.from_optional(run.ports.store.get(address))
        if signing_key is not None:
            revoked = signing_key.revoke(entry.timestamp, reason=run.reason)
            keys.apply(run, [revoked], is_behind=False)
    elif entry.action in (AuditAction.API_KEY_REVOKE, AuditAction.API_KEY_DELETE):
        address = api_keys.records(run.tenant_id).address(entry.resource_id)
        api_key = ApiKey.from_optional(run.ports.store.get(address))
        if api_key is not None:
            status = TombstoneStatus.REVOKED
            if entry.action is AuditAction.API_KEY_DELETE:
                status = TombstoneStatus.DELETED
            tombstone = Tombstone(api_key.id, status, entry.timestamp, api_key.digest)
            access.apply_to_keys(run, [tombstone])
