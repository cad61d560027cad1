"""Read, replace and create the SRL signers of a tenant (SIGNER-2)."""

import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from shared.errors import DataCorrupt
from shared.model.identifiers import SIGNING_KEY
from shared.model.lists.signers import (
    ENDED,
    SrlSigner,
    SrlSignerStatus,
    SuccessionStatement,
    archive,
    highest,
    signers_partition,
    standby_address,
)
from shared.operations.base import operation, seals
from shared.ports import Ports
from shared.ports.store import Change, Delete, Expect, Put, VersionIs

_log = logging.getLogger(__name__)


# How many retired signers and how many revoked signers are not archived. A publication reads them
# all. After a restore, their succession statements prove the signer of the newest SRL.
KEPT: Final = 100

# How many signers one write moves. Each takes two changes.
_MOVED_AT_ONCE: Final = 20

_PAGE: Final = 100
# Sorts after every identifier.
_AFTER_ALL: Final = "~"


def read_by_ids(ports: Ports, tenant_id: str, key_ids: Collection[str]) -> dict[str, SrlSigner]:
    """Read the signers with these identifiers, archived or not; omit identifiers without a signer.

    Reads all again if a signer is missing, because a write may be moving it into or out of the
    archive.
    """
    addresses = [signers_partition(tenant_id), *(archive(tenant_id, status) for status in ENDED)]
    keys = [address.address(each) for address in addresses for each in key_ids]
    items = ports.store.get_many(keys)
    if len({key.sk for key in items}) < len(set(key_ids)):
        operation.wait_for_writes()
        items = ports.store.get_many(keys)
    return {key.sk: SrlSigner.from_item(item) for key, item in items.items()}


def replacement_changes(old: SrlSigner, new: SrlSigner) -> list[Change]:
    """Return the writes that replace `old`, at the version that was read, with `new`."""
    if old.address == new.address:
        return [Put(new.address, new.to_item(), VersionIs(old.version))]
    moved = Put(new.address, new.to_item(), Expect.ABSENT)
    return [moved, Delete(old.address, VersionIs(old.version))]


def add_statement(
    ports: Ports, new: SrlSigner, by: SrlSigner, records: Iterable[SrlSigner]
) -> SrlSigner:
    """Add a succession statement by the signer `by` to a new signer.

    Returns the signer unchanged if the seed of `by` cannot be unwrapped. `records` are all signers
    except archived ones. The number of the statement is above all numbers so far. Raises
    `Unavailable`.
    """
    try:
        seed = seals.unwrap_seed(ports, by)
    except DataCorrupt:
        # If the wrapping key of the seed is lost, only a rotation helps, so this must not fail.
        _log.warning(
            "cannot unwrap the seed of the SRL signer; its successor gets no succession statement"
        )
        return new
    records = list(records)
    last_number = highest(each.statement for each in records if each.statement is not None)
    statement = SuccessionStatement(
        tenant_id=new.tenant_id,
        number=1 + max(len(records), last_number),
        key_id=new.id,
        public_key=new.public_bytes,
        previous=by.public_bytes,
        issued_at=new.created_at,
    )
    return replace(new, statement=statement.sign(seed=seed))


def create_signer(
    ports: Ports, tenant_id: str, status: SrlSignerStatus = SrlSignerStatus.ACTIVE
) -> SrlSigner:
    """Create a signer with a wrapped seed, without storing it. Raises `Unavailable`."""
    key_id = ports.new_id(SIGNING_KEY)
    public_key, sealed = seals.create(ports, SrlSigner, tenant_id, key_id)
    return SrlSigner(key_id, tenant_id, public_key, status, ports.now(), sealed)


def read_standby(ports: Ports, tenant_id: str) -> SrlSigner | None:
    """Read the standby signer, or None if it is lost. Raises `DataCorrupt`, `Unavailable`."""
    return SrlSigner.from_optional(ports.store.get(standby_address(tenant_id)))


def standby_change(ports: Ports, tenant_id: str, *, after: SrlSigner | None = None) -> Put:
    """Return the write that stores a standby signer: the first, or a replacement of `after`."""
    signer = create_signer(ports, tenant_id, SrlSignerStatus.STANDBY)
    if after is None:
        return Put(signer.address, signer.to_item(), Expect.ABSENT)
    signer = replace(signer, version=after.version + 1)
    return Put(signer.address, signer.to_item(), VersionIs(after.version))


def read_unarchived(ports: Ports, tenant_id: str) -> list[SrlSigner]:
    """Read the signers that are not archived, newest first. Raises `DataCorrupt`, `Unavailable`."""
    return list(
        SrlSigner.from_rows(ports.store.query(signers_partition(tenant_id), newest_first=True))
    )


def filter_listed(records: Sequence[SrlSigner], now: datetime) -> list[SrlSigner]:
    """Return the signers that are not retired, or that signed an SRL that may still be valid."""
    return [
        each
        for each in records
        if each.status is not SrlSignerStatus.RETIRED
        or (each.listed_until is not None and now < each.listed_until)
    ]


def first_archive_page(ports: Ports, tenant_id: str) -> str | None:
    """Return `before` for the first page of archived revoked signers, or None if there are none."""
    found = ports.store.query(archive(tenant_id, SrlSignerStatus.REVOKED), limit=1)
    return _AFTER_ALL if any(found) else None


def read_archive_page(
    ports: Ports, tenant_id: str, *, before: str
) -> tuple[list[SrlSigner], str | None]:
    """Read a page of archived revoked signers, newest first, and `before` for the next, or None."""
    partition = archive(tenant_id, SrlSignerStatus.REVOKED)
    entries = ports.store.query(partition, before=before, newest_first=True, limit=_PAGE + 1)
    found = [SrlSigner.from_item(entry.item) for entry in entries]
    return found[:_PAGE], found[_PAGE - 1].id if len(found) > _PAGE else None


def archive_changes(ports: Ports, tenant_id: str, *, ids: Collection[str] = ()) -> list[Change]:
    """Return writes that archive up to 20 of the oldest signers that may be archived.

    Omits signers with an identifier in `ids`, because the same transaction changes them. Raises
    `DataCorrupt`, `Unavailable`.
    """
    records = read_unarchived(ports, tenant_id)
    listed_ids = {each.id for each in filter_listed(records, ports.now())}
    retired = [each for each in records if each.status is SrlSignerStatus.RETIRED]
    revoked = [each for each in records if each.status is SrlSignerStatus.REVOKED]
    surplus = [*(each for each in retired[KEPT:] if each.id not in listed_ids), *revoked[KEPT:]]
    oldest_first = [each for each in reversed(surplus) if each.id not in ids]
    return [
        change
        for each in oldest_first[:_MOVED_AT_ONCE]
        for change in replacement_changes(each, each.archive())
    ]


def find_archived(
    records: Collection[SrlSigner], signers: Collection[SrlSigner]
) -> list[SrlSigner]:
    """Return the pending and active `records` that were archived before a newer SRL state.

    `signers` are the signers in that state. A state contains all signers except archived ones,
    which are older than others in it. A record that is older and missing from the state was
    therefore archived.
    """
    if len(signers) < KEPT:
        return []
    names = {each.id for each in signers}
    signing = [
        each for each in records if each.status in (SrlSignerStatus.PENDING, SrlSignerStatus.ACTIVE)
    ]
    return [each for each in signing if each.id not in names and each.id < max(names)]
