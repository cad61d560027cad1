"""Consistency of signed warrants: warrant states, warrants by key and by expiry, counts."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import chain, islice

from shared.capabilities.inconsistency import Inconsistency, check_counter
from shared.model import signing_keys
from shared.model import warrants as model
from shared.model.audit import audit_log
from shared.model.audit.audit_log import AuditAction, AuditEntry, EntryFilters
from shared.model.identifiers import WARRANT
from shared.model.items import Address
from shared.model.records import integer
from shared.model.signing_keys import SigningKey
from shared.model.warrants import WarrantRecord, WarrantState
from shared.operations.base import counters
from shared.operations.lists import records
from shared.ports import Ports
from shared.ports.store import MOST_CHANGES, Expect, Put, expect_version

_BATCH = 1000
# Sort key of the counter item that repairs add to.
_RECOUNTED = "00"


def check(ports: Ports, tenant_id: str) -> Iterator[Inconsistency]:
    """Yield inconsistencies of the tenant's signed warrants.

    Raises `DataCorrupt`, `Unavailable`.
    """
    is_in_order = True
    for key in SigningKey.from_rows(ports.store.query(signing_keys.keys(tenant_id))):
        if key.current_id is None:
            yield from _check_key(ports, key)
            for inconsistency in _check_order(ports, key):
                is_in_order = False
                yield inconsistency
    if is_in_order and not records.is_end_index_complete(ports, tenant_id):
        problem = "the note that the index of signed warrants by expiry is complete is missing"
        yield Inconsistency(problem, (records.end_index_complete_change(tenant_id),))


def _check_key(ports: Ports, key: SigningKey) -> Iterator[Inconsistency]:
    """Check the state of each warrant that a key signed, and the counts of the key."""
    before = counters.of_signed(ports, key.tenant_id, key.id)
    recount: Counter[str] = Counter()
    known: set[str] = set()
    rest = ports.store.query(model.signed_by(key.tenant_id, key.id))
    while batch := [WarrantRecord.from_item(entry.item) for entry in islice(rest, _BATCH)]:
        known.update(each.warrant_id for each in batch)
        recount.update(model.version_count(each.key_version) for each in batch)
        addresses = {
            each.warrant_id: model.warrant_address(key.tenant_id, each.warrant_id) for each in batch
        }
        items = ports.store.get_many(addresses.values())
        for warrant in batch:
            address = addresses[warrant.warrant_id]
            standing = WarrantState.of(items.get(address))
            name = f"the warrant {warrant.warrant_id}, signed by {warrant.key_id},"
            if standing.key_id is None:
                change = _put_standing(address, standing, warrant)
                yield Inconsistency(f"the check lacks {name}", (change,))
            elif (standing.key_id, standing.key_version) != (warrant.key_id, warrant.key_version):
                yield Inconsistency(
                    f"{name} belongs to {standing.key_id} in the check; if one of these keys is "
                    "revoked, revoke the warrant itself"
                )
    if known:
        recount["count"] = sum(recount.values())
    if counters.of_signed(ports, key.tenant_id, key.id) != before:
        return  # The key signed during the check.
    address = model.signed_counts(key.tenant_id, key.id).address(_RECOUNTED)
    miscounted = list(check_counter(address, before, recount, what=f"warrants signed by {key.id}"))
    # Only if the counts differ, because reading the audit log is slow.
    unlisted = list(_find_unlisted(ports, key, known)) if miscounted else []
    yield from unlisted or miscounted


def _check_order(ports: Ports, key: SigningKey) -> Iterator[Inconsistency]:
    """Check that the index by expiry, which SRLs read, has exactly the warrants of a key."""
    tenant_id, order = key.tenant_id, model.by_end(key.tenant_id, key.id)
    signed = model.signed_by(tenant_id, key.id)
    rest = ports.store.query(signed)
    while batch := [WarrantRecord.from_item(entry.item) for entry in islice(rest, MOST_CHANGES)]:
        sks = {
            each: order.address(model.by_end_sk(each.warrant_id, each.ends_at)) for each in batch
        }
        items = ports.store.get_many(sks.values())
        lost = [each for each, address in sks.items() if address not in items]
        if lost:
            yield Inconsistency(
                f"SRLs can miss {len(lost)} warrants signed by {key.id}, for example "
                f"{lost[0].warrant_id}",
                tuple(records.end_index_change(tenant_id, each) for each in lost),
            )
    # Read before the signed warrants, which then include warrants signed in between.
    pages = list(ports.store.column(order, "key_version"))
    known = {WarrantRecord.from_item(row.item).warrant_id for row in ports.store.query(signed)}
    for sk, version in ((sk, page.values.get(sk)) for page in pages for sk in page.names):
        warrant_id, ends_at = model.of_by_end(sk)
        if warrant_id in known:
            continue
        number = integer({"key_version": version}, "key_version")
        # The time of signing is unknown. A revocation of a period must include the warrant.
        warrant = WarrantRecord(warrant_id, key.id, number, key.created_at, ends_at)
        name = f"the list of warrants signed by {key.id} lacks the warrant {warrant_id}"
        address = signed.address(ports.new_id(WARRANT, at=key.created_at))
        own = model.warrant_address(tenant_id, warrant.warrant_id)
        standing = WarrantState.of(ports.store.get(own))
        if standing.key_id in (None, warrant.key_id):
            # The state is always written, so two repairs cannot add the warrant twice.
            put = Put(address, warrant.to_item(), Expect.ABSENT)
            yield Inconsistency(name, (_put_standing(own, standing, warrant), put))


def _put_standing(address: Address, standing: WarrantState, warrant: WarrantRecord) -> Put:
    """Return the write that adds the signing key of a warrant to the state at `address`."""
    whole = replace(
        standing,
        key_id=warrant.key_id,
        key_version=warrant.key_version,
        ends_at=warrant.ends_at,
        version=standing.version + 1,
    )
    return Put(address, whole.to_item(), expect_version(standing.version))


def _find_unlisted(ports: Ports, key: SigningKey, known_ids: set[str]) -> Iterator[Inconsistency]:
    """Yield warrants that a key signed according to the audit log, but that it does not list."""
    # One more day, because a clock may have been ahead.
    end = max(ports.now(), key.created_at) + timedelta(days=1)
    months = audit_log.months(key.tenant_id, EntryFilters(start=key.created_at, end=end))
    signed = {
        str(entry.details["warrant_id"]): entry
        for partition in chain.from_iterable(partitions for _, partitions in months)
        for entry in AuditEntry.from_rows(ports.store.query(partition))
        if entry.action is AuditAction.KEY_SIGN
        and entry.resource_id == key.id
        and entry.details.get("warrant_id") not in known_ids
    }
    addresses = {each: model.warrant_address(key.tenant_id, each) for each in signed}
    items = ports.store.get_many(addresses.values())
    for warrant_id, entry in signed.items():
        standing = WarrantState.of(items.get(addresses[warrant_id]))
        if standing.key_id != key.id or standing.key_version is None:
            continue
        warrant = WarrantRecord(
            warrant_id, key.id, standing.key_version, entry.timestamp, standing.ends_at
        )
        # Derived from the entry, so two repairs cannot add the warrant twice.
        address = model.signed_by(key.tenant_id, key.id).address(entry.id.replace("_evt_", "_wrt_"))
        yield Inconsistency(
            f"the list of warrants signed by {key.id} lacks the warrant {warrant_id}",
            (Put(address, warrant.to_item(), Expect.ABSENT),),
        )
