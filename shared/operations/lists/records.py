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

from collections.abc import Collection, Iterator, Mapping, Sequence
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
from shared.ports.store import Change, Check, Delete, Expect, Increment, Item, Put, VersionIs

# The most expired warrants moved per SRL. This takes about ten seconds of writes.
MOVED_A_LIST: Final = 10_000

_Ends = dict[str, datetime | None]


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
    ends: _Ends = {}
    moved: _Ends = {}

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
    return ScanResult(content, _find_misplaced(ends, moved, since))


def _find_misplaced(ends: _Ends, moved: _Ends, since: datetime | None) -> tuple[str, ...]:
    if since is None:
        return ()
    over = (each for each, at in ends.items() if at is not None and at < since - LONG_AGO)
    return tuple(islice(chain(moved, over), MOVED_A_LIST))


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
    if since is None or not is_end_index_complete(ports, tenant_id):
        walk = partial(_read_warrants_of_key, ports, tenant_id)
    else:
        walk = partial(_read_warrants_ending_since, ports, tenant_id, since=since)
    for key_id, versions in by_key(signers).items():
        for warrant_id, version, ends_at in walk(key_id):
            if versions & {None, version}:
                yield warrant_id, ends_at


def _read_warrants_of_key(
    ports: Ports, tenant_id: str, key_id: str
) -> Iterator[tuple[str, int, datetime | None]]:
    """Read all warrants of a key: identifier, key version, expiry."""
    for entry in ports.store.query(warrants.signed_by(tenant_id, key_id)):
        warrant = WarrantRecord.from_item(entry.item)
        yield warrant.warrant_id, warrant.key_version, warrant.ends_at


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
    keys = {each: warrants.warrant_address(tenant_id, each) for each in warrant_ids}
    items = ports.store.get_many(keys.values())
    found = {each: WarrantState.of(items.get(key)) for each, key in keys.items()}
    ends = {each: standing.end for each, standing in found.items()}
    records = _revocations(ports, tenant_id, found)
    limit = since - LONG_AGO
    moves = [
        _move(
            tenant_id,
            each,
            end,
            # Another revocation of the warrant has another record. Another expiry has another
            # version.
            checks=(
                Check(records[each], Expect.PRESENT),
                Check(keys[each], VersionIs(found[each].version)),
            ),
            out=end < limit,
        )
        for each, end in ends.items()
        if each in records and end is not None
    ]
    operation.apply_steps(ports, moves, most=5)


def _revocations(
    ports: Ports, tenant_id: str, standings: Mapping[str, WarrantState]
) -> dict[str, Address]:
    """Return the address of the revocation record of each warrant.

    The record identifies the revocation. The version of a warrant state does not, because it
    restarts when a revocation is removed and a new one is created.
    """
    addresses = {
        revocations.record_address(tenant_id, standing.revocation_id): warrant_id
        for warrant_id, standing in standings.items()
        if standing.revocation_id is not None
    }
    return {addresses[address]: address for address in ports.store.get_many(addresses)}


def _move(
    tenant_id: str, warrant_id: str, ends_at: datetime, *, checks: Sequence[Check], out: bool
) -> Sequence[Change]:
    listed = revocations.shard_of(tenant_id, warrant_id).address(warrant_id)
    moved = ended_address(tenant_id, warrant_id, ends_at)
    item = RevokedWarrant(ends_at).to_item()
    if not out:
        return *checks, Delete(moved, Expect.PRESENT), Put(listed, item, Expect.ABSENT)
    # The removal of an outbox mark requires that its warrant is in the shard.
    unmarked = Check(schedule.warrant_mark_address(tenant_id, warrant_id), Expect.ABSENT)
    return *checks, unmarked, Delete(listed, Expect.PRESENT), Put(moved, item, Expect.ABSENT)


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
    deleted, keys, accounts = ports.gather(
        lambda: [
            Tombstone.from_item(each)
            for each in _items(ports, tombstone_model.deleted_partition(tenant_id))
        ],
        lambda: [_key_tombstone(key) for key in _read_ended_keys(ports, tenant_id)],
        lambda: [
            Tombstone(each.id, TombstoneStatus.DISABLED)
            for each in _read_disabled_accounts(ports, tenant_id)
        ],
    )
    signing = [replace(key, sealed_seed=None) for key in _read_changed_keys(ports, tenant_id)]
    return Tombstones(
        changes=changes,
        api_keys=tombstone_model.sorted_by_id([*keys, *_sort_by_kind(deleted, API_KEY)]),
        accounts=tombstone_model.sorted_by_id(
            [*accounts, *_sort_by_kind(deleted, SERVICE_ACCOUNT)]
        ),
        keys=tuple(signing),
    )


def _key_tombstone(key: ApiKey) -> Tombstone:
    if key.status is api_keys.ApiKeyStatus.REVOKED:
        return Tombstone(key.id, TombstoneStatus.REVOKED, key.revoked_at, key.digest)
    return Tombstone(key.id, TombstoneStatus.ROTATED, key.expires_at, key.digest, key.successor_id)


def _items(ports: Ports, partition: Partition) -> Iterator[Item]:
    return (entry.item for entry in ports.store.query(partition))


def _read_ended_keys(ports: Ports, tenant_id: str) -> Iterator[ApiKey]:
    """Read the API keys that are revoked or were rotated."""
    keys = map(ApiKey.from_item, _items(ports, api_keys.records(tenant_id)))
    return (key for key in keys if key.status is api_keys.ApiKeyStatus.REVOKED or key.successor_id)


def _read_disabled_accounts(ports: Ports, tenant_id: str) -> Iterator[ServiceAccount]:
    found = map(ServiceAccount.from_item, _items(ports, service_accounts.accounts(tenant_id)))
    return (each for each in found if each.status is service_accounts.AccountStatus.DISABLED)


def _read_changed_keys(ports: Ports, tenant_id: str) -> Iterator[SigningKey]:
    """Read the signing keys that are not active or were rotated."""
    keys = map(SigningKey.from_item, _items(ports, signing_keys.keys(tenant_id)))
    return (
        key
        for key in keys
        if key.status is not signing_keys.KeyStatus.ACTIVE or key.key_version > 1
    )


def _sort_by_kind(tombstones: list[Tombstone], kind: str) -> list[Tombstone]:
    return [each for each in tombstones if is_identifier(each.id, kind=kind)]
