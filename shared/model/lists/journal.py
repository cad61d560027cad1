"""Journal of publications since the newest SRL, in blobs outside the store (OPS-23).

A blob contains a signature (64 bytes), the signed prefix, and a journal record (`JournalRecord`,
TRUST-11). After a loss of the store, recovery uses the SRLs with their states, and the journal.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from shared.authorizer.formats.documents import NotTrusted, RootReason
from shared.authorizer.formats.ed25519 import SIGNATURE_BYTES
from shared.authorizer.formats.journal import JournalRecord
from shared.authorizer.formats.members import NUMBER_MAX
from shared.authorizer.formats.wire import FeedEntry, MalformedBytes
from shared.errors import DataCorrupt
from shared.model import seeds
from shared.model.feed import StoredEntry
from shared.model.lists.tombstones import Tombstone, Tombstones, TombstoneStatus
from shared.model.signing_keys import KeyStatus, SigningKey

PREFIX: Final = JournalRecord.signed_part(b"")
_DIGITS: Final = 20
_LAST: Final = 10**_DIGITS - 1


def sign(record: JournalRecord, *, seed: bytes) -> bytes:
    """Return the blob of a record, signed with the seed (32 bytes) of the SRL signer."""
    part = JournalRecord.signed_part(record.encode())
    return seeds.signature(part, seed=seed) + part


def payload_of(blob: bytes) -> bytes:
    """Return the unverified payload in a blob, or an empty payload if there is none."""
    part = blob[SIGNATURE_BYTES:]
    return part.removeprefix(PREFIX) if part.startswith(PREFIX) else b""


def decode_unverified(blob: bytes, name: str) -> JournalRecord:
    """Return the unverified record in the blob of this name. Raises `DataCorrupt`."""
    try:
        found = JournalRecord.decode(payload_of(blob))
    except MalformedBytes as error:
        raise DataCorrupt(f"a journal record is malformed: {error}") from None
    return _at(found, name)


def verify_and_decode(
    blob: bytes, name: str, *, tenant_id: str, keys: Collection[bytes]
) -> JournalRecord:
    """Return the record in the blob of this name, if any of these keys signed it for the tenant.

    Raises `DataCorrupt`.
    """
    for key in keys:
        try:
            found = JournalRecord.verify_and_decode(
                payload_of(blob), blob[:SIGNATURE_BYTES], public_key=key, tenant_id=tenant_id
            )
        except NotTrusted as error:
            if error.reason is not RootReason.SIGNATURE:
                raise DataCorrupt(f"it is signed but not valid: {error.reason}") from None
        else:
            return _at(found, name)
    raise DataCorrupt("it is not signed by a signer of this tenant")


def _at(record: JournalRecord, name: str) -> JournalRecord:
    if name_of(record.tenant_id, record.number) != name:
        raise DataCorrupt("a journal record is stored in the place of another record")
    entries_of(record), tombstones_of(record)
    return record


def entries_of(record: JournalRecord) -> list[tuple[FeedEntry, list[datetime | None]]]:
    """Return the entries with the expiries of their revoked warrants. Raises `DataCorrupt`."""
    pairs = zip(record.entries, record.ends, strict=True)
    return [StoredEntry(entry, ends, record.issued_at).decode() for entry, ends in pairs]


def tombstones_of(record: JournalRecord) -> Tombstones:
    """Return the tombstones. `changes` is always the current counter. Raises `DataCorrupt`."""
    return Tombstones.of(dict(record.tombstones))


def folder(tenant_id: str) -> str:
    """Return the folder of a tenant's journal."""
    return f"journal/{tenant_id}"


def name_of(tenant_id: str, number: int) -> str:
    """Return the name of a blob. The newest blob is the first in its folder."""
    return f"{folder(tenant_id)}/{_LAST - number:0{_DIGITS}d}"


def number_of(name: str) -> int | None:
    """Return the number in the name of a blob, or None for other names."""
    own = name.rpartition("/")[2]
    if len(own) != _DIGITS or not own.isdecimal():
        return None
    number = _LAST - int(own)
    return number if 0 < number <= NUMBER_MAX else None


def tombstones_since(tombstones: Tombstones, moment: datetime) -> Tombstones:
    """Return the tombstones that an SRL of that time may lack.

    They always include reversible states: suspended keys and disabled accounts.
    """

    def is_new(tombstone: Tombstone) -> bool:
        return tombstone.at is None or tombstone.at >= moment

    def is_new_key(key: SigningKey) -> bool:
        known = (key.rotated_at, key.suspended_at, key.revoked_at, key.version_created_at)
        is_recent = any(at is not None and at >= moment for at in known)
        return is_recent or key.status is KeyStatus.SUSPENDED

    return replace(
        tombstones,
        api_keys=tuple(filter(is_new, tombstones.api_keys)),
        accounts=tuple(filter(is_new, tombstones.accounts)),
        keys=tuple(filter(is_new_key, tombstones.keys)),
    )


def merge_tombstones(all_tombstones: Sequence[Tombstones]) -> Tombstones:
    """Merge tombstones, the newest last. Reversible states come from the last one."""
    last = all_tombstones[-1]
    undone = {each.id for each in last.accounts} | {each.id for each in last.keys}
    api_keys: dict[str, Tombstone] = {}
    accounts: dict[str, Tombstone] = {}
    keys: dict[str, SigningKey] = {}
    for some in all_tombstones:
        api_keys |= {each.id: each for each in some.api_keys}
        accounts |= {each.id: each for each in some.accounts}
        keys |= {each.id: each for each in some.keys}
    return Tombstones(
        changes=last.changes,
        api_keys=tuple(api_keys[each] for each in sorted(api_keys)),
        accounts=tuple(
            each
            for _, each in sorted(accounts.items())
            if each.status is not TombstoneStatus.DISABLED or each.id in undone
        ),
        keys=tuple(
            each
            for _, each in sorted(keys.items())
            if each.status is not KeyStatus.SUSPENDED or each.id in undone
        ),
    )
