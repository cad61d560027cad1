"""Reads of revoked warrants, the warrants of revoked signers, and tombstones.

*By end* is an index of signed warrants by expiry, so an SRL can skip warrants past retention. A
note records that the index is complete. If the note is missing, for example after a partial
restore, an SRL reads every warrant that a revoked key ever signed (docs/adr/07).

*Ended* warrants are past retention, and a full rebuild does not read them. The scheduler moves them
to separate partitions, sorted by expiry. An SRL reads those partitions for warrants that it may
still have to contain. A clock that was ahead may have moved some too early; the scheduler moves
them back (docs/adr/09).

*Tombstones* record keys and accounts that were revoked, disabled or deleted (docs/adr/14). For
revoked and disabled ones they are derived from the records. For deleted ones they are stored as
items.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from itertools import chain, islice
from typing import Final, NamedTuple

from shared.errors import DataCorrupt
from shared.model import (
    api_keys,
    identifiers,
    revocations,
    service_accounts,
    signing_keys,
    times,
    warrants,
)
from shared.model.api_keys import ApiKey
from shared.model.identifiers import API_KEY, SERVICE_ACCOUNT, is_identifier
from shared.model.items import Address, Partition
from shared.model.lists import schedule
from shared.model.lists import tombstones as tombstone_model
from shared.model.lists.content import RevokedSet
from shared.model.lists.tombstones import Tombstone, Tombstones, TombstoneStatus
from shared.model.records import integer, moment
from shared.model.revocations import LONG_AGO, RevokedSignerCount, RevokedWarrant, by_key
from shared.model.service_accounts import ServiceAccount
from shared.model.signing_keys import SigningKey
from shared.model.warrants import WarrantRecord, WarrantState, is_past_retention
from shared.operations.base import operation
from shared.operations.base.operation import reread
from shared.operations.lists import marks, verdicts
from shared.ports import Ports
from shared.ports.store import Change, Check, Delete, Expect, Increment, Put, VersionIs

# The most expired warrants moved per SRL. This takes about ten seconds of writes.
MOVED_A_LIST: Final = 10_000


class ScanResult(NamedTuple):
    """The content from all records, and the warrants in it that are in the wrong partition.

    A misplaced warrant belongs in the other partition: the shard, or its partition of expired
    warrants.
    """

    content: RevokedSet
    misplaced: tuple[str, ...]


def scan_for_srl(
    ports: Ports, tenant_id: str, ids: Sequence[str], *, at: datetime, ttl: timedelta
) -> ScanResult:
    """Return the content of all records, without warrants past retention (SRL-9).

    `at` is the issue time, and `ids` are the warrants of the current SRL. Raises `DataCorrupt` if
    one of them is missing but still revoked; `Unavailable`.
    """
    signers = read_revoked_signers(ports, tenant_id)
    found = scan_revoked(ports, tenant_id, signers, since=at - ttl)
    gone = found.content.missing(ids)
    still_revoked = [
        warrant_id
        for warrant_id, verdict in verdicts.read_statuses(ports, tenant_id, gone).items()
        if verdict.revoked and not is_past_retention(verdict.ends_at, at, ttl=ttl)
    ]
    if still_revoked:
        raise DataCorrupt(f"a revoked warrant is missing from its shard: {min(still_revoked)}")
    return found._replace(content=found.content.at(at, ttl=ttl))


def scan_revoked(
    ports: Ports, tenant_id: str, signers: tuple[str, ...], *, since: datetime | None = None
) -> ScanResult:
    """Return every warrant that has a revocation or a signer in `signers`.

    Warrants that expired before `since` may be omitted. Raises `DataCorrupt`, `Unavailable`.
    """
    ends: dict[str, datetime | None] = {}
    moved: dict[str, datetime | None] = {}

    def scan_shard(shard: Partition) -> list[str]:
        ids: list[str] = []
        start = identifiers.BEFORE_WARRANT_IDS
        for page in ports.store.column(shard, "ends_at", after=start):
            ids += page.names
            ends.update((each, moment(at, "ends_at")) for each, at in page.values.items())
        # Read after the shard: a warrant that moves during the scan is then found at least once.
        moved.update(read_ended(ports, shard, since=since))
        return ids

    walks = ports.gather(*(partial(scan_shard, each) for each in revocations.shards(tenant_id)))
    signed = dict(read_signed_by(ports, tenant_id, signers, since=since))
    # The set removes duplicates. Without `signed` and `moved` there are none, and sorting is fast.
    ids = {*chain(*walks), *signed, *moved} if signed or moved else chain(*walks)
    # The expiry given with a revocation does not count if the key is revoked, too.
    content = RevokedSet.of(ids, moved | ends | signed, signers=signers)
    if since is None:
        return ScanResult(content, ())
    over = (each for each, at in ends.items() if at is not None and at < since - LONG_AGO)
    return ScanResult(content, tuple(islice(chain(moved, over), MOVED_A_LIST)))


def read_revoked_signers(ports: Ports, tenant_id: str) -> tuple[str, ...]:
    """Return all revoked signers of the tenant as text, sorted.

    Raises `DataCorrupt` if fewer exist than the count states, even after `reread`; `Unavailable`.
    """
    return reread(lambda: _read_signers(ports, tenant_id))


def _read_signers(ports: Ports, tenant_id: str) -> tuple[str, ...]:
    # Read before the markers: every marker counted here must then be found.
    item = ports.store.get(revocations.marker_count_address(tenant_id))
    pages = ports.store.column(revocations.markers(tenant_id), "revoked_at")
    found = tuple(signer for page in pages for signer in page.names)
    if len(found) < RevokedSignerCount.of(item).signers:
        raise DataCorrupt("the marker of a revoked signing key is missing")
    return found


def read_signed_by(
    ports: Ports, tenant_id: str, signers: Collection[str], *, since: datetime | None = None
) -> Iterator[tuple[str, datetime | None]]:
    """Read the warrants that these signers signed, with their expiries.

    Warrants that expired before `since` may be omitted. Raises `DataCorrupt`, `Unavailable`.
    """
    if not signers:
        return
    is_indexed = since is not None and is_end_index_complete(ports, tenant_id)
    for key_id, versions in by_key(signers).items():
        if since is not None and is_indexed:
            signed = _read_warrants_ending_since(ports, tenant_id, key_id, since=since)
        else:
            rows = ports.store.query(warrants.signed_by(tenant_id, key_id))
            signed = (
                (each.warrant_id, each.key_version, each.ends_at)
                for each in WarrantRecord.from_rows(rows)
            )
        for warrant_id, version, ends_at in signed:
            if versions & {None, version}:
                yield warrant_id, ends_at


def end_index_change(tenant_id: str, warrant: WarrantRecord) -> Put:
    """Return the write that adds a warrant to the index, for the transaction that stores it."""
    address = warrants.by_end(tenant_id, warrant.key_id)
    sk = warrants.by_end_sk(warrant.warrant_id, warrant.ends_at)
    return Put(address.address(sk), {"key_version": warrant.key_version}, Expect.ANYTHING)


def end_index_complete_change(tenant_id: str) -> Put:
    """Return the write that records that the index contains all warrants of a tenant."""
    return Put(warrants.is_by_end_address(tenant_id), {}, Expect.ANYTHING)


def is_end_index_complete(ports: Ports, tenant_id: str) -> bool:
    """Return whether the index contains all warrants of a tenant. Raises `Unavailable`."""
    return ports.store.get(warrants.is_by_end_address(tenant_id)) is not None


def _read_warrants_ending_since(
    ports: Ports, tenant_id: str, key_id: str, *, since: datetime
) -> Iterator[tuple[str, int, datetime | None]]:
    """Read the warrants of a key that expire at `since`, later or never, from the index.

    Yields warrant identifier, key version, expiry. Raises `DataCorrupt`, `Unavailable`.
    """
    partition = warrants.by_end(tenant_id, key_id)
    for page in ports.store.column(partition, "key_version", after=times.format_utc(since)):
        for sk in page.names:
            warrant_id, ends_at = warrants.of_by_end(sk)
            version = integer({"key_version": page.values.get(sk)}, "key_version")
            yield warrant_id, version, ends_at


def ended_address(tenant_id: str, warrant_id: str, ends_at: datetime) -> Address:
    """Return the address of a moved warrant."""
    return revocations.ended_partition(revocations.shard_of(tenant_id, warrant_id)).address(
        warrants.by_end_sk(warrant_id, ends_at)
    )


def read_ended(
    ports: Ports, shard: Partition, *, since: datetime | None = None
) -> Iterator[tuple[str, datetime | None]]:
    """Read the moved warrants of a shard with their expiries, optionally only since `since`.

    Raises `DataCorrupt`, `Unavailable`.
    """
    after = None if since is None else times.format_utc(since)
    pages = ports.store.column(revocations.ended_partition(shard), "ends_at", after=after)
    return (warrants.of_by_end(sk) for page in pages for sk in page.names)


def move_ended(
    ports: Ports, tenant_id: str, warrant_ids: Collection[str], *, since: datetime
) -> None:
    """Move warrants past retention out of their shards, and move the others back.

    A warrant is past retention if it expired long before `since`. A warrant stays in place if its
    revocation changes during the move. Raises `DataCorrupt`, `Unavailable`.
    """
    addresses = {each: warrants.warrant_address(tenant_id, each) for each in warrant_ids}
    items = ports.store.get_many(addresses.values())
    states = {each: WarrantState.of(items.get(at)) for each, at in addresses.items()}
    # The record identifies the revocation. The version of a warrant state does not, because it
    # restarts when a revocation is removed and a new one is created.
    records = {
        each: revocations.record_address(tenant_id, state.revocation_id)
        for each, state in states.items()
        if state.revocation_id is not None
    }
    existing = ports.store.get_many(records.values())
    moves: list[Sequence[Change]] = []
    for warrant_id, record in records.items():
        state, ends_at = states[warrant_id], states[warrant_id].end
        if record not in existing or ends_at is None:
            continue
        listed = revocations.shard_of(tenant_id, warrant_id).address(warrant_id)
        moved = ended_address(tenant_id, warrant_id, ends_at)
        item = RevokedWarrant(ends_at).to_item()
        changes: list[Change] = [
            # Another revocation of the warrant has another record. Another expiry has another
            # version.
            Check(record, Expect.PRESENT),
            Check(addresses[warrant_id], VersionIs(state.version)),
        ]
        if ends_at < since - LONG_AGO:
            # The removal of an outbox mark requires that its warrant is in the shard.
            mark = schedule.warrant_mark_address(tenant_id, warrant_id)
            changes.append(Check(mark, Expect.ABSENT))
            changes += [Delete(listed, Expect.PRESENT), Put(moved, item, Expect.ABSENT)]
        else:
            changes += [Delete(moved, Expect.PRESENT), Put(listed, item, Expect.ABSENT)]
        moves.append(changes)
    operation.apply_steps(ports, moves, most=5)


def tombstone_counter_changes(tenant_id: str) -> list[Change]:
    """Return writes for a transaction that revokes, suspends, disables, rotates or enables.

    They make the next SRL due. Its state then contains the new tombstones.
    """
    counter = Increment(tombstone_model.counter_address(tenant_id), {"changes": 1}, Expect.ANYTHING)
    return [counter, marks.keys_mark(tenant_id)]


def tombstone_changes(tenant_id: str, tombstone: Tombstone) -> list[Change]:
    """Return writes for a transaction that deletes the subject of `tombstone`."""
    address = tombstone_model.deleted_partition(tenant_id).address(tombstone.id)
    return [
        Put(address, tombstone.to_item(), Expect.ANYTHING),
        *tombstone_counter_changes(tenant_id),
    ]


def read_tombstones(ports: Ports, tenant_id: str, *, changes: int) -> Tombstones:
    """Read all tombstones of the tenant.

    `changes` is their counter, which must be read before. Raises `DataCorrupt`, `Unavailable`.
    """
    query = ports.store.query
    deleted, keys, accounts = ports.gather(
        lambda: list(Tombstone.from_rows(query(tombstone_model.deleted_partition(tenant_id)))),
        lambda: list(ApiKey.from_rows(query(api_keys.records(tenant_id)))),
        lambda: list(ServiceAccount.from_rows(query(service_accounts.accounts(tenant_id)))),
    )
    ended_keys: list[Tombstone] = []
    for key in keys:
        if key.status is api_keys.ApiKeyStatus.REVOKED:
            status, at = TombstoneStatus.REVOKED, key.revoked_at
            ended_keys.append(Tombstone(key.id, status, at, key.digest))
        elif key.successor_id:
            status, at = TombstoneStatus.ROTATED, key.expires_at
            ended_keys.append(Tombstone(key.id, status, at, key.digest, key.successor_id))
    ended_keys += [each for each in deleted if is_identifier(each.id, kind=API_KEY)]
    ended_accounts = [
        Tombstone(account.id, TombstoneStatus.DISABLED)
        for account in accounts
        if account.status is service_accounts.AccountStatus.DISABLED
    ]
    ended_accounts += [each for each in deleted if is_identifier(each.id, kind=SERVICE_ACCOUNT)]
    # Signing keys that are not active or were rotated.
    signing = [
        replace(each, sealed_seed=None)
        for each in SigningKey.from_rows(query(signing_keys.keys(tenant_id)))
        if each.status is not signing_keys.KeyStatus.ACTIVE or each.key_version > 1
    ]
    return Tombstones(
        changes=changes,
        api_keys=tombstone_model.sorted_by_id(ended_keys),
        accounts=tombstone_model.sorted_by_id(ended_accounts),
        keys=tuple(signing),
    )
