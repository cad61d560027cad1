"""Consistency of signing keys: records, counts, superseded versions, and markers.

If the record or the marker of a key shows that it is revoked, the repair revokes it.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from shared.capabilities.inconsistency import Inconsistency, RepairEvent, check_counter
from shared.model import identifiers, revocations
from shared.model import signing_keys as model
from shared.model.audit.audit_log import AuditAction
from shared.model.lists import schedule
from shared.model.lists.schedule import SignerOutboxMark
from shared.model.revocations import LOST, RevokedSignerCount, SignerRevocation
from shared.model.signing_keys import KeyStatus, SigningKey, SigningKeyType, WarrantSigner
from shared.operations.base import seals
from shared.operations.changes.signing_keys import count_change
from shared.operations.lists import marks, verdicts
from shared.operations.lists import records as srl_records
from shared.ports import Ports
from shared.ports.store import Change, Check, Delete, Expect, Increment, Put, VersionIs

# The public key of a version without a record.
_UNKNOWN = ""


def check(ports: Ports, tenant_id: str) -> Iterator[Inconsistency]:
    """Yield inconsistencies of the tenant's signing keys. Raises `DataCorrupt`, `Unavailable`."""
    counts = model.counts_address(tenant_id)
    before = ports.store.get(counts)
    keys = {key.id: key for key in SigningKey.from_rows(ports.store.query(model.keys(tenant_id)))}
    if ports.store.get(counts) == before:
        recount = Counter(model.count_name(key.type, key.status) for key in keys.values())
        yield from check_counter(counts, before, recount, what="signing keys")
    for key in keys.values():
        if key.current_id is None:
            yield from _check_versions(ports, key, keys)
        lost_ids = [each for each in key.ancestors if each not in keys]
        if lost_ids:
            above = key.ancestors[key.ancestors.index(lost_ids[0]) + 1 :]
            ancestor = _suspend_lost_key(ports, tenant_id, lost_ids[0], above)
            ancestor = replace(ancestor, created_at=key.created_at)
            yield Inconsistency(
                f"the signing key {key.id} has the ancestor {ancestor.id}, which is missing",
                (
                    Put(ancestor.address, ancestor.to_item(), Expect.ABSENT),
                    *srl_records.tombstone_counter_changes(tenant_id),
                ),
            )
    yield from _check_markers(ports, tenant_id, keys)


def _suspend_lost_key(
    ports: Ports, tenant_id: str, key_id: str, ancestors: tuple[str, ...] = ()
) -> SigningKey:
    """Return a suspended record for a key if only its identifier is known."""
    now = ports.now()
    return SigningKey(
        id=key_id,
        tenant_id=tenant_id,
        type=SigningKeyType.ISSUER if ancestors else SigningKeyType.ROOT,
        name=LOST,
        status=KeyStatus.SUSPENDED,
        parent_id=ancestors[0] if ancestors else None,
        ancestors=ancestors,
        public_key=_UNKNOWN,
        created_at=now,
        version_created_at=now,
        expires_at=None,
        sealed_seed=None,
        suspended_at=now,
    )


def _check_versions(
    ports: Ports, key: SigningKey, keys: dict[str, SigningKey]
) -> Iterator[Inconsistency]:
    """Check that each version before the current one has a record and a pointer to it."""
    partition = model.versions(key.tenant_id, key.id)
    pointers = {int(e.sk): str(e.item["id"]) for e in ports.store.query(partition)}
    own = [each for each in keys.values() if each.current_id == key.id]
    records = {each.key_version: each for each in sorted(own, key=_rank)}
    for record in records.values():
        same = [each for each in own if each.key_version == record.key_version]
        if len(same) > 1:
            yield _merge_records(record, [each for each in same if each is not record])
    for version in sorted({*pointers, *records, *range(1, key.key_version)}):
        address = partition.address(model.version_sk(version))
        stored = records.get(version)
        name = f"version {version} of the signing key {key.id}"
        if version >= key.key_version:
            marker = revocations.marker_address(key.tenant_id, WarrantSigner(key.id, version))
            # A version with a marker was superseded.
            if ports.store.get(marker) is not None:
                yield _repair_rotation(ports, key, version + 1)
            else:
                yield _undo_rotation(key, version, stored, Delete(address, Expect.ANYTHING))
        elif stored is None:
            stub = replace(
                key,
                # Keep the identifier that clients know, if the pointer has it.
                id=pointers.get(version) or ports.new_id(identifiers.SIGNING_KEY),
                status=KeyStatus.ROTATED,
                current_id=key.id,
                key_version=version,
                public_key=_UNKNOWN,
                sealed_seed=None,
                suspended_at=None,
                revoked_at=None,
                revoked_reason=None,
                version=1,
            )
            changes = (
                Put(stub.address, stub.to_item(), Expect.ABSENT),
                Put(address, {"id": stub.id}, Expect.ANYTHING),
                *srl_records.tombstone_counter_changes(key.tenant_id),
            )
            yield Inconsistency(f"{name} has no record", changes)
        elif pointers.get(version) != stored.id:
            change = Put(address, {"id": stored.id}, Expect.ANYTHING)
            yield Inconsistency(f"{name} is missing from the list of the key's versions", (change,))


def _rank(record: SigningKey) -> tuple[bool, bool, str]:
    """Return a sort key for the records of one version. The last record is kept."""
    return record.status is KeyStatus.REVOKED, record.public_key != _UNKNOWN, record.id


def _merge_records(record: SigningKey, others: list[SigningKey]) -> Inconsistency:
    """Delete duplicate records of a version: a repair created one before the lost one arrived."""
    known = (each.public_key for each in (record, *others) if each.public_key != _UNKNOWN)
    whole = replace(record, public_key=next(known, _UNKNOWN), version=record.version + 1)
    return Inconsistency(
        f"version {record.key_version} of the signing key {record.current_id} has several records",
        (
            *(Delete(each.address, VersionIs(each.version)) for each in others),
            Put(record.address, whole.to_item(), VersionIs(record.version)),
            *srl_records.tombstone_counter_changes(record.tenant_id),
        ),
    )


def _undo_rotation(
    key: SigningKey, version: int, record: SigningKey | None, pointer: Delete
) -> Inconsistency:
    """Undo a rotation that stored only the superseded version."""
    changes: list[Change] = [
        pointer,
        Check(key.address, VersionIs(key.version)),
        *srl_records.tombstone_counter_changes(key.tenant_id),
    ]
    if record is not None:
        changes.append(Delete(record.address, VersionIs(record.version)))
    return Inconsistency(
        f"the rotation of the signing key {key.id} from version {version} is incomplete and will "
        "be undone; then rotate the key again",
        tuple(changes),
    )


def _check_markers(
    ports: Ports, tenant_id: str, keys: dict[str, SigningKey]
) -> Iterator[Inconsistency]:
    """Check that exactly the revoked keys have markers, and that the count is right."""
    address = revocations.marker_count_address(tenant_id)
    before = ports.store.get(address)
    marked = {entry.sk for entry in ports.store.query(revocations.markers(tenant_id))}
    if ports.store.get(address) == before:
        current = RevokedSignerCount.of(before)
        counted = RevokedSignerCount.counting(map(WarrantSigner.parse, marked))
        signers = counted.signers - current.signers
        versions = counted.versions - current.versions
        if signers or versions:
            amounts = {"signers": signers, "versions": versions, "version": 1}
            yield Inconsistency(
                f"the count of revoked signing keys is wrong by {signers:+}, the count of versions "
                f"by {versions:+}",
                (Increment(address, amounts, Expect.ANYTHING), marks.keys_mark(tenant_id)),
            )
    # Signers can block the feed although no other record shows that they are revoked.
    for row in ports.store.query(schedule.signers_marks(tenant_id)):
        for name in sorted({*SignerOutboxMark.from_item(row.item).signers} - marked):
            marker = SignerRevocation(ports.now(), LOST)
            yield Inconsistency(
                f"the feed waits for the revoked signing key {name}, which has no marker",
                (verdicts.signer_revocation_change(tenant_id, WarrantSigner.parse(name), marker),),
            )
    by_signer = {str(key.signer): key for key in keys.values()}
    revoked = {name for name, key in by_signer.items() if key.status is KeyStatus.REVOKED}
    for name in sorted(revoked - marked):
        key = by_signer[name]
        marker = SignerRevocation(key.revoked_at or ports.now(), key.revoked_reason or LOST)
        yield Inconsistency(
            f"the signing key {key.id} is revoked, but its marker {key.signer} is missing",
            (
                verdicts.signer_revocation_change(tenant_id, key.signer, marker),
                marks.signers_mark(tenant_id, [key.signer]),
                *srl_records.tombstone_counter_changes(tenant_id),
            ),
        )
    for name in sorted(marked - revoked):
        yield from _check_marker(ports, tenant_id, WarrantSigner.parse(name), by_signer.get(name))


def _check_marker(
    ports: Ports, tenant_id: str, signer: WarrantSigner, key: SigningKey | None
) -> Iterator[Inconsistency]:
    """Revoke the key of a marker, or restore or rotate it if the version has no record.

    If a superseded version has no record, `_check_versions` creates it.
    """
    if key is not None:
        revoked = key.revoke(ports.now(), reason=LOST)
        yield Inconsistency(
            f"the signing key {key.id} is revoked, but its record is not",
            (
                Put(key.address, revoked.to_item(), VersionIs(key.version)),
                count_change(tenant_id, (key, -1), (revoked, 1)),
                *srl_records.tombstone_counter_changes(tenant_id),
            ),
            RepairEvent(AuditAction.KEY_REVOKE, key.id, {"reason": LOST}),
        )
        return
    item = ports.store.get(model.keys(tenant_id).address(signer.key_id))
    number = signer.key_version or 0
    if item is None:
        lost = _suspend_lost_key(ports, tenant_id, signer.key_id)
        lost = replace(lost, key_version=number + 1)
        problem = f"the signing key {signer} is revoked, but has no record"
        yield Inconsistency(problem, (Put(lost.address, lost.to_item(), Expect.ABSENT),))
        return
    current = SigningKey.from_item(item)
    if current.key_version <= number:
        yield _repair_rotation(ports, current, number + 1)


def _repair_rotation(ports: Ports, key: SigningKey, number: int) -> Inconsistency:
    """Rotate a key with a new seed, because its previous version was superseded and revoked."""
    public_key, sealed = seals.create(ports, SigningKey, key.tenant_id, key.id, version=number)
    rotated = key.rotate(ports.now(), public_key=public_key, sealed_seed=sealed)
    rotated = replace(rotated, key_version=number)
    return Inconsistency(
        f"version {number} of the signing key {key.id} is missing; it will get another public key",
        (
            Put(key.address, rotated.to_item(), VersionIs(key.version)),
            *srl_records.tombstone_counter_changes(key.tenant_id),
        ),
    )
