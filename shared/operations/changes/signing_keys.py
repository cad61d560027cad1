"""Signing keys: create, get, rotate, suspend, enable (KEY-6)."""

from collections import Counter
from datetime import datetime
from itertools import repeat
from typing import Final, NamedTuple

from shared.errors import Conflict, InvalidRequest, InvalidState, NotFound
from shared.model import signing_keys as model
from shared.model import times
from shared.model.audit.audit_log import AuditAction
from shared.model.callers import Caller, Scope
from shared.model.identifiers import SIGNING_KEY
from shared.model.signing_keys import (
    PARENTS,
    TRANSITIONS,
    KeyFilters,
    KeyStatus,
    SigningKey,
    SigningKeyType,
)
from shared.operations.base import allowance, audit, counters, seals
from shared.operations.base.allowance import find
from shared.operations.base.idempotency import Keep, idempotent, of_record
from shared.operations.base.operation import operation
from shared.operations.base.paging import Page, PageQueryPlan, count, newest
from shared.operations.base.seals import SeedUnavailable
from shared.operations.lists import marks, records
from shared.ports import Ports
from shared.ports.store import Change, Check, Expect, Increment, Put, VersionIs

# The wrapped seed is never returned and not stored twice.
_KEPT: Final = of_record(SigningKey, but=["sealed_seed", "certificate"])

_MOVED: Final = {
    KeyStatus.SUSPENDED: AuditAction.KEY_SUSPEND,
    KeyStatus.ACTIVE: AuditAction.KEY_ENABLE,
}


@operation(Scope.ADMIN, Scope.READ_ONLY, Scope.SIGNER, Scope.AUDITOR)
def get(ports: Ports, caller: Caller, *, key_id: str) -> SigningKey:
    """Return a signing key, or a superseded version, of the tenant. Raises `NotFound`."""
    return find_key(ports, caller, key_id)


@operation(Scope.ADMIN, Scope.READ_ONLY, Scope.SIGNER, Scope.AUDITOR)
def versions(ports: Ports, caller: Caller, *, key_id: str) -> list[SigningKey]:
    """Return all versions of a key, newest first; `key_id` may name any. Raises `NotFound`."""
    key = find_key(ports, caller, key_id)
    current = key if key.current_id is None else find_key(ports, caller, key.current_id)
    entries = ports.store.query(
        model.versions(caller.tenant_id, current.id),
        # If the key was rotated after the read, its version would otherwise occur twice.
        before=model.version_sk(current.key_version),
        newest_first=True,
    )
    addresses = [model.keys(caller.tenant_id).address(str(entry.item["id"])) for entry in entries]
    items = ports.store.get_many(addresses)
    return [current, *(SigningKey.from_item(items[address]) for address in addresses)]


@idempotent(Scope.ADMIN, keeps=_KEPT)
def create(  # noqa: PLR0913 (callers pass no `keep`)
    ports: Ports,
    caller: Caller,
    keep: Keep[SigningKey],
    *,
    type_: SigningKeyType,
    name: str,
    parent_id: str | None = None,
    expires_at: datetime | None = None,
) -> SigningKey:
    """Create an active signing key (KEY-3).

    Raises `InvalidRequest` if the type may not have this parent or the key would outlive it. Raises
    `InvalidState` if the parent is not active or has expired, and `Conflict` if the tenant has the
    maximum number of keys.
    """
    allowance.check_end(ports, expires_at)
    parent = _find_parent(ports, caller, type_, parent_id)
    living = (KeyStatus.ACTIVE, KeyStatus.SUSPENDED)
    names = [model.count_name(each, status) for each in SigningKeyType for status in living]
    if count(ports, model.counts_address(caller.tenant_id), names=names) >= model.KEYS_MAX:
        raise Conflict(f"A tenant has at most {model.KEYS_MAX} active or suspended keys.")
    if parent is not None and parent.expires_at is not None:
        if expires_at is not None and expires_at > parent.expires_at:
            raise InvalidRequest("expires_at: must not be later than the expiry of the parent.")
        expires_at = expires_at or parent.expires_at
    key_id, now = ports.new_id(SIGNING_KEY), ports.now()
    public_key, sealed = seals.create(ports, SigningKey, caller.tenant_id, key_id)
    key = SigningKey(
        id=key_id,
        tenant_id=caller.tenant_id,
        type=type_,
        name=name,
        status=KeyStatus.ACTIVE,
        parent_id=parent.id if parent else None,
        ancestors=(parent.id, *parent.ancestors) if parent else (),
        public_key=public_key,
        created_at=now,
        version_created_at=now,
        expires_at=expires_at,
        sealed_seed=sealed,
    )
    key = key if parent is None else _certify_version(ports, key, parent)
    ports.store.write(
        Put(key.address, key.to_item(), Expect.ABSENT),
        *([Check(parent.address, VersionIs(parent.version))] if parent else []),
        count_change(caller.tenant_id, (key, 1)),
        marks.trust_mark(caller.tenant_id),
        audit.entry(
            ports,
            caller,
            AuditAction.KEY_CREATE,
            key.id,
            type=type_.value,
            name=name,
            parent_id=parent_id,
            expires_at=times.format_utc(key.expires_at) if key.expires_at else None,
        ),
        *keep(key),
    )
    return key


@idempotent(Scope.ADMIN, keeps=_KEPT, rate_limited=True)
def rotate(ports: Ports, caller: Caller, keep: Keep[SigningKey], *, key_id: str) -> SigningKey:
    """Create a new key version. The old version becomes a separate record and stops signing.

    Raises `NotFound`; `InvalidState` if the key is not active.
    """
    key = find_key(ports, caller, key_id)
    _check_transition(key, KeyStatus.ROTATED)
    now = ports.now()
    superseded = key.supersede(now, record_id=ports.new_id(SIGNING_KEY))
    version = key.key_version + 1
    public_key, sealed = seals.create(ports, SigningKey, key.tenant_id, key.id, version=version)
    rotated = key.rotate(now, public_key=public_key, sealed_seed=sealed)
    rotated = _certify_version(ports, rotated, key)
    address = model.versions(caller.tenant_id, key.id).address(model.version_sk(key.key_version))
    ports.store.write(
        Put(key.address, rotated.to_item(), VersionIs(key.version)),
        Put(superseded.address, superseded.to_item(), Expect.ABSENT),
        Put(address, {"id": superseded.id}, Expect.ABSENT),
        count_change(caller.tenant_id, (superseded, 1)),
        *records.tombstone_counter_changes(caller.tenant_id),
        audit.entry(
            ports,
            caller,
            AuditAction.KEY_ROTATE,
            key.id,
            superseded_id=superseded.id,
            key_version=rotated.key_version,
        ),
        *keep(rotated),
    )
    return rotated


@idempotent(Scope.ADMIN, keeps=_KEPT, rate_limited=True)
def suspend(ports: Ports, caller: Caller, keep: Keep[SigningKey], *, key_id: str) -> SigningKey:
    """Suspend a key. A suspended key is returned unchanged.

    Raises `NotFound`; `InvalidState` if the key is neither active nor suspended.
    """
    return _move(ports, caller, keep, key_id, KeyStatus.SUSPENDED)


@idempotent(Scope.ADMIN, keeps=_KEPT, rate_limited=True)
def enable(ports: Ports, caller: Caller, keep: Keep[SigningKey], *, key_id: str) -> SigningKey:
    """Enable a suspended key. An active key is returned unchanged.

    Raises `NotFound`; `InvalidState` if the key is neither suspended nor active.
    """
    return _move(ports, caller, keep, key_id, KeyStatus.ACTIVE)


def find_key(ports: Ports, caller: Caller, key_id: str) -> SigningKey:
    """Read a signing key of the caller's tenant. Raises `NotFound`, `InsufficientScope`."""
    keys = model.keys(caller.tenant_id)
    key = find(ports, keys, key_id, kind=SIGNING_KEY, record=SigningKey)
    allowance.check_key(caller, (key.signer.key_id, *key.ancestors))
    return key


def count_change(tenant_id: str, *amounts: tuple[SigningKey, int]) -> Change:
    """Return the change that adds each amount to the count of its kind of key.

    Keys are counted by type and status.
    """
    sums = Counter[str]()
    for key, amount in amounts:
        sums[model.count_name(key.type, key.status)] += amount
    return Increment(model.counts_address(tenant_id), sums, Expect.ANYTHING)


def _move(
    ports: Ports, caller: Caller, keep: Keep[SigningKey], key_id: str, target: KeyStatus
) -> SigningKey:
    key = find_key(ports, caller, key_id)
    if key.status is target:
        return key
    _check_transition(key, target)
    moved = key.enable() if target is KeyStatus.ACTIVE else key.suspend(ports.now())
    ports.store.write(
        Put(key.address, moved.to_item(), VersionIs(key.version)),
        count_change(caller.tenant_id, (key, -1), (moved, 1)),
        *records.tombstone_counter_changes(caller.tenant_id),
        audit.entry(ports, caller, _MOVED[target], key.id),
        *keep(moved),
    )
    return moved


def _check_transition(key: SigningKey, target: KeyStatus) -> None:
    allowed = TRANSITIONS[target]
    if key.status not in allowed:
        states = " or ".join(sorted(allowed))
        raise InvalidState(f"The key is {key.status}; this action requires a key that is {states}.")


def _find_parent(
    ports: Ports, caller: Caller, type_: SigningKeyType, parent_id: str | None
) -> SigningKey | None:
    allowed = PARENTS[type_]
    if not allowed:
        if parent_id is not None:
            raise InvalidRequest(f"parent_id: a {type_} key has no parent; omit it.")
        return None
    if parent_id is None:
        raise InvalidRequest(f"parent_id: is required for a key of type {type_}.")
    try:
        parent = find_key(ports, caller, parent_id)
    except NotFound:
        parent = None
    if parent is None or parent.type not in allowed:
        raise InvalidRequest("parent_id: must be the identifier of a root or issuer key.")
    if parent.status is not KeyStatus.ACTIVE or parent.has_expired(ports.now()):
        raise InvalidState("The parent must be active and unexpired.")
    if len(parent.ancestors) >= model.ANCESTORS_MAX:
        raise Conflict(f"A key has at most {model.ANCESTORS_MAX} ancestors.")
    return parent


def _certify_version(ports: Ports, key: SigningKey, signer: SigningKey) -> SigningKey:
    """Return the new version, with a certificate if the signer's seed can be unwrapped."""
    try:
        return key.certify(signer, seed=seals.unwrap_seed(ports, signer))
    except SeedUnavailable:
        # The next trust document covers the key.
        return key


class ListedKey(NamedTuple):
    """A key, and how many warrants it signed, or None if that was not requested."""

    key: SigningKey
    warrant_count: int | None


@operation(Scope.ADMIN, Scope.READ_ONLY, Scope.SIGNER, Scope.AUDITOR)
def page(
    ports: Ports,
    caller: Caller,
    *,
    before: str | None,
    limit: int,
    filters: KeyFilters,
    with_count: bool = False,
) -> Page[ListedKey]:
    """Return a page of the tenant's keys that match `filters`, newest first (KEY-13).

    With `with_count`, each has the number of warrants that it signed (KEY-15).
    """
    keys = model.keys(caller.tenant_id)
    walk = PageQueryPlan(keys, SigningKey.from_item, before, limit, keep=filters.hold)
    counts = model.counts_address(caller.tenant_id)
    result = newest(ports, walk, total=lambda: count(ports, counts, names=filters.count_names))
    signers = [key.signer for key in result.entries]
    signed = counters.of_signers(ports, caller.tenant_id, signers) if with_count else repeat(None)
    return Page(list(map(ListedKey, result.entries, signed)), result.total, result.next_before)
