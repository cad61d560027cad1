"""Protected effects of a write, regardless of the operation that makes it (APPROVAL-1)."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from shared.capabilities import INSTALLED
from shared.errors import InsufficientScope, InvalidApiKey
from shared.model import api_keys, revocations, signing_keys, tenants
from shared.model.callers import Caller, Scope
from shared.model.identities import approvals, people, providers, sessions
from shared.model.identities.approvals import (
    Approval,
    ApprovalStatus,
    ProtectedAction,
    ProtectedActions,
)
from shared.model.items import Address
from shared.model.lists import signers
from shared.model.tenants import TenantSettings
from shared.ports.store import Change, Check, Delete, Expect, Item, Put, Store, VersionIs

_NONE: Final = frozenset[ProtectedAction]()
_RESTORES: Final = frozenset({ProtectedAction.UNREVOKE, ProtectedAction.UNREVOKE_OTHERS})
_OF_DISABLED: Final = (
    "A person who created or rotated the calling key is disabled; use a key that another person "
    "created."
)


def find_unproved(store: Store, tenant_id: str, changes: Iterable[Change]) -> Change | None:
    """Return a write with a protected effect that is not proved, or None."""
    for each in changes:
        actions = find_actions(store, tenant_id, each)
        if actions and not is_proved(store, tenant_id, changes, actions):
            return each
    return None


def find_actions(store: Store, tenant_id: str, change: Change) -> frozenset[ProtectedAction]:
    """Return the protected actions that cover the effect of a write, or an empty set."""
    address = change.address
    if isinstance(change, Delete) and address.pk.startswith(revocations.records_prefix(tenant_id)):
        return _RESTORES
    if isinstance(change, Put | Delete) and (
        address.pk == providers.providers(tenant_id).pk
        or address in (sessions.access_address(tenant_id), approvals.protected_address(tenant_id))
    ):
        return frozenset({ProtectedAction.CHANGE_ACCESS})
    effects: dict[Address | str, tuple[ProtectedAction, Callable[[Item | None, Item], bool]]] = {
        signers.signers_partition(tenant_id).pk: (ProtectedAction.FORCE_SIGNER, _activates),
        people.people(tenant_id).pk: (ProtectedAction.CHANGE_ACCESS, _enables),
        tenants.settings_address(tenant_id): (ProtectedAction.WEAKEN_SETTINGS, _weakens),
        signing_keys.keys(tenant_id).pk: (ProtectedAction.REVOKE_ROOT, _revokes_root),
    }
    for each in INSTALLED:
        for added in each.protected_effects():
            effects[added.address(tenant_id)] = (added.action, added.is_effect)
    effect = effects.get(address) or effects.get(address.pk)
    if api_keys.is_credential_at(address):
        effect = ProtectedAction.CREATE_ADMIN_KEY, _gives_access
    if effect is None or not isinstance(change, Put):
        return _NONE
    action, has_effect = effect
    before = None if change.expect is Expect.ABSENT else store.get(address)
    expected = change.expect.version if isinstance(change.expect, VersionIs) else None
    if expected is not None and (before is None or before["version"] != expected):
        # The record has changed since, so the store will reject the write.
        return _NONE
    return frozenset({action}) if has_effect(before, change.item) else _NONE


def check_caller(store: Store, caller: Caller, changes: Sequence[Change]) -> list[Check]:
    """Return preconditions that the people behind the calling key are still active.

    Returns an empty list if no key calls, or if the write only deletes revocations. Raises the same
    errors as `check_makers`, and `InvalidApiKey` if the key is gone.
    """
    if caller.key_id is None:
        return []
    actions = (find_actions(store, caller.tenant_id, each) - _RESTORES for each in changes)
    if not any(actions):
        return []
    item = store.get(api_keys.records(caller.tenant_id).address(caller.key_id))
    key = api_keys.ApiKey.from_optional(item)
    if key is None:
        raise InvalidApiKey
    checked = {each.address for each in changes}
    return [each for each in check_makers(store, key) if each.address not in checked]


def check_makers(store: Store, key: api_keys.ApiKey) -> list[Check]:
    """Return preconditions that all people who may know the secret of a key are active.

    Raises `InsufficientScope` if one is disabled, because the key then gives no access
    (IDENTITY-9).
    """
    places = [people.people(key.tenant_id).address(each) for each in key.people_ids]
    makers = [people.Person.from_item(each) for each in store.get_many(places).values()]
    if len(makers) < len(places) or not all(each.is_active for each in makers):
        raise InsufficientScope([Scope.ADMIN], _OF_DISABLED)
    return [Check(each.address, VersionIs(each.version)) for each in makers]


def _activates(old: Item | None, new: Item) -> bool:
    status = signers.SrlSignerStatus.ACTIVE.value
    return new["status"] == status and (old is None or old["status"] != status)


def _gives_access(old: Item | None, new: Item) -> bool:
    scopes, role = new["scopes"], new.get("role")
    is_wide = role is not None or (isinstance(scopes, list) and Scope.ADMIN.value in scopes)
    was_enabled = old is not None and not old.get("disabled")
    previous = (old["scopes"], old.get("role")) if old and was_enabled else None
    return is_wide and not new.get("disabled") and previous != (scopes, role)


def _weakens(old: Item | None, new: Item) -> bool:
    before = TenantSettings.from_optional(old)
    return before is not None and TenantSettings.from_item(new).weakens(before)


def _revokes_root(old: Item | None, new: Item) -> bool:
    status = signing_keys.KeyStatus.REVOKED.value
    is_root = new["type"] == signing_keys.SigningKeyType.ROOT.value
    return is_root and new["status"] == status and (old is None or old["status"] != status)


def _enables(old: Item | None, new: Item) -> bool:
    disabled = people.PersonStatus.DISABLED.value
    return old is not None and old["status"] == disabled != new["status"]


def is_proved(
    store: Store, tenant_id: str, changes: Iterable[Change], actions: frozenset[ProtectedAction]
) -> bool:
    """Return whether a write proves that its operation checked the policy for these actions.

    A proof for one action is enough.
    """
    policy, asked = approvals.protected_address(tenant_id), approvals.approvals(tenant_id).pk
    # A change of the policy needs an approval as soon as the policy protects any action.
    is_free = not any(isinstance(each, Put) and each.address == policy for each in changes)
    if not is_free:
        stored = ProtectedActions.from_optional(store.get(policy))
        is_free = stored is None or not stored.protects
    for each in changes:
        if is_free and isinstance(each, Check) and each.address == policy:
            return True
        if isinstance(each, Put) and each.address.pk == asked:
            used = Approval.from_item(each.item)
            is_used = used.status is ApprovalStatus.APPROVED and used.remaining < used.count
            if is_used and used.action in actions and each.expect == VersionIs(used.version - 1):
                return True
    return False
