"""Consistency of signing keys: records, counts, superseded versions, and markers.

If the record or the marker of a key shows that it is revoked, the repair revokes it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

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
from shared.operations.operator.consistency.inconsistency import (
    Inconsistency,
    RepairEvent,
    check_counter,
)
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
        found = Counter(model.count_name(key.type, key.status) for key in keys.values())
        yield from check_counter(counts, before, found, what="signing keys")
    for key in keys.values():
        if key.current_id is None:
            yield from _versions(ports, key, keys)
        lost = [each for each in key.ancestors if each not in keys]
        if lost:
            yield _without_ancestor(ports, key, lost[0])
    yield from _check_markers(ports, tenant_id, keys)


def _without_ancestor(ports: Ports, key: SigningKey, key_id: str) -> Inconsistency:
    """Restore a missing ancestor of a key, suspended and without its lost seed."""
    above = key.ancestors[key.ancestors.index(key_id) + 1 :]
    found = replace(_of_lost(ports, key.tenant_id, key_id, above), created_at=key.created_at)
    return Inconsistency(
        f"the signing key {key.id} has the ancestor {key_id}, which is missing",
        (
            Put(found.address, found.to_item(), Expect.ABSENT),
            *srl_records.tombstone_counter_changes(key.tenant_id),
        ),
    )


def _of_lost(
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


def _versions(
    ports: Ports, key: SigningKey, keys: dict[str, SigningKey]
) -> Iterator[Inconsistency]:
    """Check that each version before the current one has a record and a pointer to it."""
    partition = model.versions(key.tenant_id, key.id)
    pointers = {int(e.sk): str(e.item["id"]) for e in ports.store.query(partition)}
    own = [each for each in keys.values() if each.current_id == key.id]
    records = {each.key_version: each for each in sorted(own, key=_says_less)}
    for kept in records.values():
        same = [each for each in own if each.key_version == kept.key_version]
        if len(same) > 1:
            yield _twice(kept, [each for each in same if each is not kept])
    for version in sorted({*pointers, *records, *range(1, key.key_version)}):
        address = partition.address(model.version_sk(version))
        record = records.get(version)
        name = f"version {version} of the signing key {key.id}"
        if version >= key.key_version and _is_marked(ports, key, version):
            yield _repair_rotation(ports, key, version + 1)
        elif version >= key.key_version:
            yield _undo_rotation(key, version, record, Delete(address, Expect.ANYTHING))
        elif record is None:
            # Keep the identifier that clients know, if the pointer has it.
            record_id = pointers.get(version) or ports.new_id(identifiers.SIGNING_KEY)
            stub = _stub(key, version, record_id)
            changes: list[Change] = [
                Put(stub.address, stub.to_item(), Expect.ABSENT),
                Put(address, {"id": record_id}, Expect.ANYTHING),
                *srl_records.tombstone_counter_changes(key.tenant_id),
            ]
            yield Inconsistency(f"{name} has no record", tuple(changes))
        elif pointers.get(version) != record.id:
            change = Put(address, {"id": record.id}, Expect.ANYTHING)
            yield Inconsistency(f"{name} is missing from the list of the key's versions", (change,))


def _says_less(record: SigningKey) -> tuple[bool, bool, str]:
    """Return a sort key for the records of one version. The last record is kept."""
    return record.status is KeyStatus.REVOKED, record.public_key != _UNKNOWN, record.id


def _twice(other: SigningKey, others: list[SigningKey]) -> Inconsistency:
    """Delete duplicate records of a version: a repair created one before the lost one arrived."""
    known = (each.public_key for each in (other, *others) if each.public_key != _UNKNOWN)
    whole = replace(other, public_key=next(known, _UNKNOWN), version=other.version + 1)
    return Inconsistency(
        f"version {other.key_version} of the signing key {other.current_id} has several records",
        (
            *(Delete(each.address, VersionIs(each.version)) for each in others),
            Put(other.address, whole.to_item(), VersionIs(other.version)),
            *srl_records.tombstone_counter_changes(other.tenant_id),
        ),
    )


def _is_marked(ports: Ports, key: SigningKey, version: int) -> bool:
    """Return whether a version has a marker, and was therefore superseded."""
    marker = revocations.marker_address(key.tenant_id, WarrantSigner(key.id, version))
    return ports.store.get(marker) is not None


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


def _stub(key: SigningKey, version: int, record_id: str) -> SigningKey:
    """Create a record for a superseded version if only its number is known."""
    return replace(
        key,
        id=record_id,
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


def _check_markers(
    ports: Ports, tenant_id: str, keys: dict[str, SigningKey]
) -> Iterator[Inconsistency]:
    """Check that exactly the revoked keys have markers, and that the count is right."""
    address = revocations.marker_count_address(tenant_id)
    before = ports.store.get(address)
    marked = {entry.sk for entry in ports.store.query(revocations.markers(tenant_id))}
    if ports.store.get(address) == before:
        yield from _check_quota_count(
            tenant_id, RevokedSignerCount.of(before), map(WarrantSigner.parse, marked)
        )
    yield from _waiting(ports, tenant_id, marked)
    by_signer = {str(key.signer): key for key in keys.values()}
    revoked = {name for name, key in by_signer.items() if key.status is KeyStatus.REVOKED}
    for name in sorted(revoked - marked):
        yield _missing_marker(ports, by_signer[name])
    for name in sorted(marked - revoked):
        yield from _check_revoked_state(ports, tenant_id, name, by_signer.get(name))


def _waiting(ports: Ports, tenant_id: str, marked_ids: set[str]) -> Iterator[Inconsistency]:
    """Find signers that block the feed although no other record shows that they are revoked."""
    for row in ports.store.query(schedule.signers_marks(tenant_id)):
        for name in sorted({*SignerOutboxMark.from_item(row.item).signers} - marked_ids):
            marker = SignerRevocation(ports.now(), LOST)
            yield Inconsistency(
                f"the feed waits for the revoked signing key {name}, which has no marker",
                (verdicts.signer_revocation_change(tenant_id, WarrantSigner.parse(name), marker),),
            )


def _check_quota_count(
    tenant_id: str, revoked_signer_count: RevokedSignerCount, marked: Iterable[WarrantSigner]
) -> Iterator[Inconsistency]:
    counted = RevokedSignerCount.counting(marked)
    signers, versions = (
        counted.signers - revoked_signer_count.signers,
        counted.versions - revoked_signer_count.versions,
    )
    if signers or versions:
        amounts = {"signers": signers, "versions": versions, "version": 1}
        change = Increment(revocations.marker_count_address(tenant_id), amounts, Expect.ANYTHING)
        yield Inconsistency(
            f"the count of revoked signing keys is wrong by {signers:+}, the count of versions by "
            f"{versions:+}",
            (change, marks.keys_mark(tenant_id)),
        )


def _missing_marker(ports: Ports, key: SigningKey) -> Inconsistency:
    marker = SignerRevocation(key.revoked_at or ports.now(), key.revoked_reason or LOST)
    changes = [
        verdicts.signer_revocation_change(key.tenant_id, key.signer, marker),
        marks.signers_mark(key.tenant_id, [key.signer]),
        *srl_records.tombstone_counter_changes(key.tenant_id),
    ]
    return Inconsistency(
        f"the signing key {key.id} is revoked, but its marker {key.signer} is missing",
        tuple(changes),
    )


def _of_marker(ports: Ports, tenant_id: str, signer: WarrantSigner) -> Iterator[Inconsistency]:
    """Restore or rotate the key of a marker without a record.

    If a superseded version has no record, `_versions` creates it.
    """
    item = ports.store.get(model.keys(tenant_id).address(signer.key_id))
    number = signer.key_version or 0
    if item is None:
        lost = replace(_of_lost(ports, tenant_id, signer.key_id), key_version=number + 1)
        problem = f"the signing key {signer} is revoked, but has no record"
        yield Inconsistency(problem, (Put(lost.address, lost.to_item(), Expect.ABSENT),))
        return
    key = SigningKey.from_item(item)
    if key.key_version <= number:
        yield _repair_rotation(ports, key, number + 1)


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


def _check_revoked_state(
    ports: Ports, tenant_id: str, name: str, key: SigningKey | None
) -> Iterator[Inconsistency]:
    if key is None:
        yield from _of_marker(ports, tenant_id, WarrantSigner.parse(name))
        return
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
