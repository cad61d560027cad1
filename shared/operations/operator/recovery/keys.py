"""Recovery of rotated, revoked and suspended signing keys (docs/adr/14)."""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from shared.model import signing_keys as model
from shared.model.audit.audit_log import AuditAction
from shared.model.identifiers import SIGNING_KEY
from shared.model.revocations import SignerRevocation, marker_address
from shared.model.signing_keys import KeyStatus, SigningKey
from shared.operations.base import seals
from shared.operations.changes.signing_keys import count_change
from shared.operations.lists import marks, records, verdicts
from shared.operations.operator.recovery.run import RecoveryRun
from shared.ports.store import Change, Expect, Put, VersionIs

# Each version takes two changes; a write may have a hundred.
_VERSIONS_A_WRITE = 40


def apply(run: RecoveryRun, signing_keys: Iterable[SigningKey], *, is_behind: bool) -> None:
    """Rotate, revoke or suspend the keys of these tombstones again.

    A rotated key gets an unused version number, and the records of earlier versions are restored.
    Keys are suspended again only if the table of keys is behind the newest SRL. Otherwise they may
    have been enabled since. A key without a record is restored without a seed.
    """
    keys = sorted(signing_keys, key=lambda key: key.key_version)
    superseded: dict[str, list[SigningKey]] = {}
    for recorded in keys:
        if recorded.current_id is not None:
            superseded.setdefault(recorded.current_id, []).append(recorded)
    for recorded in keys:
        if recorded.current_id is None:
            run.settle(partial(_rotate_key, run, recorded, superseded.get(recorded.id, [])))
    for recorded in keys:
        if recorded.status is KeyStatus.REVOKED:
            run.settle(partial(_revoke_key, run, recorded))
        elif recorded.status is KeyStatus.SUSPENDED and is_behind:
            run.settle(partial(_suspend_key, run, recorded))


def _read_key(run: RecoveryRun, key_id: str) -> SigningKey | None:
    return SigningKey.from_optional(run.ports.store.get(model.keys(run.tenant_id).address(key_id)))


def _rotate_key(run: RecoveryRun, record: SigningKey, versions: list[SigningKey]) -> str | None:
    """Restore the lost versions, then rotate the key to a version above all of them."""
    key = _read_key(run, record.id)
    if key is None:
        return _restore_without_seed(run, record, versions)
    if key.key_version >= record.key_version:
        return None
    now = run.ports.now()
    last = record.supersede(now, record_id=run.ports.new_id(SIGNING_KEY))
    # The key may have been suspended or revoked later, but this version of it was not.
    last = replace(last, suspended_at=None, revoked_at=None, revoked_reason=None)
    _restore_versions(run, versions)
    number = record.key_version + 1
    public_key, sealed = seals.create(run.ports, SigningKey, run.tenant_id, key.id, version=number)
    rotated = replace(
        key.rotate(now, public_key=public_key, sealed_seed=sealed), key_version=number
    )
    run.ports.store.write(
        Put(key.address, rotated.to_item(), VersionIs(key.version)),
        *_version_changes(last),
        count_change(run.tenant_id, (last, 1)),
        *records.tombstone_counter_changes(run.tenant_id),
        run.entry(AuditAction.KEY_ROTATE, key.id, superseded_id=last.id, key_version=number),
    )
    return (
        f'Rotated again: signing key {key.id} "{key.name}", because version '
        f"{record.key_version - 1} was superseded; it now signs under version {number}, with a new "
        "public key"
    )


def _restore_without_seed(
    run: RecoveryRun, record: SigningKey, versions: list[SigningKey]
) -> str | None:
    """Restore a missing key as suspended, because its seed is lost."""
    _restore_versions(run, versions)
    if record.status is KeyStatus.REVOKED:
        return None
    suspended = replace(
        record,
        status=KeyStatus.SUSPENDED,
        suspended_at=record.suspended_at or run.ports.now(),
        sealed_seed=None,
    )
    run.ports.store.write(
        Put(suspended.address, suspended.to_item(), Expect.ABSENT),
        count_change(run.tenant_id, (suspended, 1)),
        *records.tombstone_counter_changes(run.tenant_id),
        run.entry(AuditAction.KEY_SUSPEND, record.id),
    )
    return (
        f'Restored as suspended: signing key {record.id} "{record.name}", without its lost seed; '
        "to use it, enable and rotate it"
    )


def _restore_versions(run: RecoveryRun, versions: list[SigningKey]) -> None:
    """Store missing records of superseded versions; `apply` revokes the revoked ones later."""
    missing = [
        replace(each, status=KeyStatus.ROTATED, revoked_at=None, revoked_reason=None)
        for each in versions
        if _read_key(run, each.id) is None
    ]
    while missing:
        batch, missing = missing[:_VERSIONS_A_WRITE], missing[_VERSIONS_A_WRITE:]
        run.ports.store.write(
            *(change for each in batch for change in _version_changes(each)),
            count_change(run.tenant_id, *((each, 1) for each in batch)),
        )


def _version_changes(version: SigningKey) -> list[Change]:
    """Return the writes that store a superseded version and its pointer."""
    versions = model.versions(version.tenant_id, version.current_id or version.id)
    return [
        Put(version.address, version.to_item(), Expect.ABSENT),
        Put(
            versions.address(model.version_sk(version.key_version)),
            {"id": version.id},
            Expect.ANYTHING,
        ),
    ]


def _revoke_key(run: RecoveryRun, record: SigningKey) -> str | None:
    key = _read_key(run, record.id)
    is_marked = run.ports.store.get(marker_address(run.tenant_id, record.signer)) is not None
    if is_marked and key is not None and key.status is KeyStatus.REVOKED:
        return None
    at = record.revoked_at or run.ports.now()
    revoked = (key or record).revoke(at, reason=record.revoked_reason or run.reason)
    marker = SignerRevocation(at, revoked.revoked_reason or run.reason)
    before = [] if key is None else [(key, -1)]
    run.ports.store.write(
        Put(revoked.address, revoked.to_item(), VersionIs(key.version) if key else Expect.ABSENT),
        *verdicts.signer_revocation_changes(run.ports, run.tenant_id, {record.signer: marker}),
        marks.signers_mark(run.tenant_id, [record.signer]),
        marks.keys_mark(run.tenant_id),
        count_change(run.tenant_id, *before, (revoked, 1)),
        run.entry(AuditAction.KEY_REVOKE, record.id, reason=revoked.revoked_reason),
    )
    return f'Revoked again: signing key {record.id} "{record.name}"'


def _suspend_key(run: RecoveryRun, record: SigningKey) -> str | None:
    key = _read_key(run, record.id)
    if key is None or key.status is not KeyStatus.ACTIVE:
        return None
    suspended = key.suspend(record.suspended_at or run.ports.now())
    run.ports.store.write(
        Put(key.address, suspended.to_item(), VersionIs(key.version)),
        count_change(run.tenant_id, (key, -1), (suspended, 1)),
        *records.tombstone_counter_changes(run.tenant_id),
        run.entry(AuditAction.KEY_SUSPEND, key.id),
    )
    return f'Suspended again: signing key {key.id} "{key.name}"'
