"""Protected effects: what a write does, whichever operation makes it (APPROVAL-1)."""

from collections.abc import Callable, Iterable
from typing import Final

from shared.model import api_keys, revocations, signing_keys, status_lists, tenants
from shared.model.callers import Scope
from shared.model.identities import approvals, providers, sessions
from shared.model.identities.approvals import Act, Approval, ApprovalStatus, ProtectedActs
from shared.model.lists import signers
from shared.model.tenants import TenantSettings
from shared.ports.store import At, Change, Check, Delete, Expect, Item, Put, Store

_NONE: Final = frozenset[Act]()
_RESTORES: Final = frozenset({Act.RESTORE, Act.RESTORE_OTHERS})


def find_unproved(store: Store, tenant_id: str, changes: Iterable[Change]) -> Change | None:
    """Return a change with a protected effect that the write does not prove; None if all do."""
    for each in changes:
        acts = find_acts(store, tenant_id, each)
        if acts and not is_proved(store, tenant_id, changes, acts):
            return each
    return None


def find_acts(store: Store, tenant_id: str, change: Change) -> frozenset[Act]:
    """Return the acts that cover the effect of a change: none if it has no protected effect."""
    address = change.address
    if isinstance(change, Delete) and address.pk.startswith(revocations.records_prefix(tenant_id)):
        return _RESTORES
    if isinstance(change, Put | Delete) and (
        address.pk == providers.providers(tenant_id).pk
        or address in (sessions.access_address(tenant_id), approvals.protected_address(tenant_id))
    ):
        return frozenset({Act.CHANGE_ACCESS})
    if isinstance(change, Put):
        for act, is_at, has_effect in _EFFECTS:
            if is_at(tenant_id, change):
                before = None if change.expect is Expect.ABSENT else store.get(address)
                expected = change.expect.version if isinstance(change.expect, At) else None
                if expected is not None and (before is None or before["version"] != expected):
                    # The record has changed since, so the store refuses the write.
                    return _NONE
                return frozenset({act}) if has_effect(before, change.item) else _NONE
    return _NONE


def _activates(before: Item | None, after: Item) -> bool:
    status = signers.SignerStatus.ACTIVE.value
    return after["status"] == status and (before is None or before["status"] != status)


def _gives_access(before: Item | None, after: Item) -> bool:
    scopes, role = after["scopes"], after.get("role")
    is_wide = role is not None or (isinstance(scopes, list) and Scope.ADMIN.value in scopes)
    held = None if before is None else (before["scopes"], before.get("role"))
    return is_wide and held != (scopes, role)


def _weakens(before: Item | None, after: Item) -> bool:
    if before is None:
        return False
    return TenantSettings.from_item(after).weakens(TenantSettings.from_item(before))


def _revokes_root(before: Item | None, after: Item) -> bool:
    status = signing_keys.KeyStatus.REVOKED.value
    is_root = after["type"] == signing_keys.Type.ROOT.value
    return is_root and after["status"] == status and (before is None or before["status"] != status)


def _replaces(before: Item | None, after: Item) -> bool:
    return before is not None and before["id"] != after["id"]


# Of each effect: the act that covers it, where its item is, and whether a change of it has it.
_EFFECTS: Final[
    tuple[tuple[Act, Callable[[str, Put], bool], Callable[[Item | None, Item], bool]], ...]
] = (
    (Act.FORCE_SIGNER, lambda of, put: put.address.pk == signers.signers(of).pk, _activates),
    (Act.CREATE_ADMIN_KEY, lambda _, put: api_keys.is_credential_at(put.address), _gives_access),
    (
        Act.WEAKEN_SETTINGS,
        lambda of, put: put.address == tenants.settings_address(of),
        _weakens,
    ),
    (Act.REVOKE_ROOT, lambda of, put: put.address.pk == signing_keys.keys(of).pk, _revokes_root),
    (
        Act.ROTATE_STATUS_SIGNER,
        lambda of, put: put.address == status_lists.signer_address(of),
        _replaces,
    ),
)


def is_proved(
    store: Store, tenant_id: str, changes: Iterable[Change], acts: frozenset[Act]
) -> bool:
    """Return whether a write proves that its operation asked the policy about one of the acts."""
    policy, asked = approvals.protected_address(tenant_id), approvals.approvals(tenant_id).pk
    # A change of the policy needs an approval as soon as the policy protects anything.
    is_free = not any(isinstance(each, Put) and each.address == policy for each in changes)
    if not is_free:
        stored = ProtectedActs.from_optional(store.get(policy))
        is_free = stored is None or not stored.protects
    for each in changes:
        if is_free and isinstance(each, Check) and each.address == policy:
            return True
        if isinstance(each, Put) and each.address.pk == asked:
            used = Approval.from_item(each.item)
            is_used = used.status is ApprovalStatus.APPROVED and used.remaining < used.count
            if is_used and used.act in acts and each.expect == At(used.version - 1):
                return True
    return False
