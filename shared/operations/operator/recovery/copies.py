"""The recovery of a copy of the store in another region, which may lack anything new (OPS-24)."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from shared.model import api_keys, signing_keys
from shared.model.api_keys import ApiKey
from shared.model.audit import audit_log
from shared.model.audit.audit_log import Action, AuditEntry, EntryFilters
from shared.model.feed import LEAP
from shared.model.lists.tombstones import Tombstone, TombstoneStatus
from shared.model.signing_keys import SigningKey
from shared.operations.lists import in_force
from shared.operations.lists.publication import Above
from shared.operations.lists.verdicts import verdicts
from shared.operations.operator.recovery import access, keys
from shared.operations.operator.recovery.run import Run
from shared.ports import Ports

# The clocks of instances differ by less, and an entry is older than its list by less.
_MARGIN: Final = timedelta(minutes=10)

_REVOKED: Final = (
    Action.REVOCATION_CREATE,
    Action.REVOCATION_CREATE_BATCH,
    Action.REVOCATION_EXTEND,
    Action.REVOCATION_EXTEND_BATCH,
)
_TAKEN_BACK: Final = (Action.REVOCATION_DELETE, Action.REVOCATION_DELETE_BATCH)


# Versions and sequences that may have been served, and of which a copy knows nothing.
_LOST: Final = 8 * LEAP


def far_above(ports: Ports, tenant_id: str, known: Above) -> Above:
    """Return a version and a sequence above all those that the original served.

    Neither the records nor the blobs have all of that. Within the delay of the copy, versions rise
    by less than a leap, and few recoveries can end; each leaps. Raises `Corrupt`,
    `Unavailable`.
    """
    listed, feed = in_force.head(ports, tenant_id), in_force.feed_head(ports, tenant_id)
    sequence = max(known.sequence, feed.sequence if feed else 0)
    return Above(max(known.version, listed.version) + _LOST, sequence + _LOST)


def ended(run: Run, since: datetime | None) -> list[str]:
    """End again the keys that the entries since `since` name; return the warrants to be revoked.

    An entry is stored in one write with its change, so the change was made. `since` is when the
    newest list was issued, which has what is older. Raises `Corrupt`, `Unavailable`.
    """
    if since is None:
        return []
    entries = sorted(_entries(run, since - _MARGIN), key=lambda each: each.id)
    for each in entries:
        if each.action is Action.KEY_REVOKE:
            _revoke_key(run, each)
        elif each.action in (Action.API_KEY_REVOKE, Action.API_KEY_DELETE):
            _end_api_key(run, each)
    named = _revoked(entries)
    found = verdicts(run.ports, run.tenant_id, named) if named else {}
    return [each for each in named if not found[each].revoked]


def _entries(run: Run, since: datetime) -> Iterator[AuditEntry]:
    span = EntryFilters(since, max(since, run.ports.now()))
    for _, partitions in audit_log.months(run.tenant_id, span):
        for partition in partitions:
            for row in run.ports.store.query(partition, after=span.after):
                yield AuditEntry.from_item(row.item)


def _revoked(entries: list[AuditEntry]) -> list[str]:
    """Return the warrants that were revoked and not taken back afterwards."""
    named: dict[str, None] = {}
    for each in entries:
        ids = audit_log.warrants_of({"details": each.details})
        if each.action in _REVOKED:
            named |= dict.fromkeys(ids)
        elif each.action in _TAKEN_BACK:
            for warrant_id in ids:
                named.pop(warrant_id, None)
    return list(named)


def _revoke_key(run: Run, entry: AuditEntry) -> None:
    item = run.ports.store.get(signing_keys.keys(run.tenant_id).address(entry.resource_id))
    if item is not None:
        revoked = SigningKey.from_item(item).revoked(entry.timestamp, reason=run.reason)
        keys.apply(run, [revoked], is_behind=False)


def _end_api_key(run: Run, entry: AuditEntry) -> None:
    item = run.ports.store.get(api_keys.records(run.tenant_id).address(entry.resource_id))
    if item is not None:
        key = ApiKey.from_item(item)
        status = TombstoneStatus.REVOKED
        if entry.action is Action.API_KEY_DELETE:
            status = TombstoneStatus.DELETED
        tombstone = Tombstone(key.id, status, entry.timestamp, key.digest)
        access.apply_to_keys(run, [tombstone])
