"""Writes with a protected effect prove that their operation asked the policy (APPROVAL-1)."""

from dataclasses import fields, replace
from typing import Any

import pytest

from functions.batches import operations as revocation_batches
from functions.status_lists.records import signer_address
from shared.errors import PreconditionFailed
from shared.model import revocations as revocation_model
from shared.model.api_keys import credential_address
from shared.model.callers import Scope
from shared.model.identities.approvals import (
    Approval,
    ApprovalStatus,
    ProtectedAction,
    ProtectedActions,
    protected_address,
)
from shared.model.identities.people import people
from shared.model.identities.providers import providers
from shared.model.identities.sessions import AccessRecord, access_address
from shared.model.items import Value
from shared.model.lists.signers import signers_partition
from shared.model.revocation_batches import BatchAction, BatchRequest
from shared.model.signing_keys import keys
from shared.model.tenants import (
    WEAKNESS,
    SettingsChange,
    SrlPublicationPolicy,
    TenantSettings,
    UnrevokePolicy,
)
from shared.operations.base import tenants
from shared.operations.base.effects import find_actions
from shared.operations.base.guard import PolicyAsked, UnguardedWrite, guard_writes
from shared.ports import Ports
from shared.ports.store import Change, Check, Delete, Expect, Put, VersionIs
from tests.kit.faults import Script, scripted
from tests.kit.tenants import Tenant
from tests.operations.mutations import person

_CREDENTIAL = credential_address("0" * 64)


def written(ports: Ports, tenant: Tenant, *changes: Change) -> None:
    """Write as an operation of Bob's does."""
    guard_writes(ports, person(ports, tenant)).store.write(*changes)


def asked(tenant: Tenant, version: int = 0) -> PolicyAsked:
    return PolicyAsked(
        protected_address(tenant.id), VersionIs(version) if version else Expect.ABSENT
    )


def effects(ports: Ports, tenant: Tenant) -> list[tuple[ProtectedAction, Change]]:
    """Changes with a protected effect, each with an action that covers it."""
    settings = tenants.settings(ports, tenant.id)
    weak = [
        replace(settings, srl_ttl_seconds=3601),
        replace(settings, audit_retention_days=399),
        replace(settings, unrevoke_policy=UnrevokePolicy.ANY),
        replace(settings, person_key_max_days=settings.person_key_max_days + 1),
    ]
    access = AccessRecord(version=1).to_item()
    wide: list[dict[str, Value]] = [
        {"scopes": ["revoker", "admin"]},
        {"scopes": [], "role": "paris"},
    ]
    root, put = {"type": "root", "status": "revoked"}, Expect.ABSENT
    return [
        (
            ProtectedAction.FORCE_SIGNER,
            Put(signers_partition(tenant.id).address("k"), {"status": "active"}, put),
        ),
        *((ProtectedAction.CREATE_ADMIN_KEY, Put(_CREDENTIAL, each, put)) for each in wide),
        (ProtectedAction.CHANGE_ACCESS, Put(providers(tenant.id).address("p"), {}, put)),
        (ProtectedAction.CHANGE_ACCESS, Delete(providers(tenant.id).address("p"), Expect.ANYTHING)),
        (ProtectedAction.CHANGE_ACCESS, Put(access_address(tenant.id), access, put)),
        (
            ProtectedAction.CHANGE_ACCESS,
            Put(people(tenant.id).address("p"), {"status": "active"}, VersionIs(1)),
        ),
        (
            ProtectedAction.CHANGE_ACCESS,
            Put(protected_address(tenant.id), ProtectedActions().to_item(), put),
        ),
        (
            ProtectedAction.UNREVOKE,
            Delete(revocation_model.record_address(tenant.id, "svc_rev_1"), put),
        ),
        *(
            (ProtectedAction.WEAKEN_SETTINGS, Put(each.address, each.to_item(), VersionIs(1)))
            for each in weak
        ),
        (ProtectedAction.REVOKE_ROOT, Put(keys(tenant.id).address("k"), root, put)),
        (
            ProtectedAction.ROTATE_STATUS_SIGNER,
            Put(signer_address(tenant.id), {"id": "b"}, VersionIs(1)),
        ),
    ]


def test_an_effect_without_a_proof(ports: Ports) -> None:
    """APPROVAL-1, F2110b: A write with a protected effect is refused unless it has a proof."""
    tenant = Tenant.another(ports)
    disabled: dict[str, Value] = {"status": "disabled", "version": 1}
    ports.store.write(
        Put(signer_address(tenant.id), {"id": "a", "version": 1}, Expect.ABSENT),
        Put(people(tenant.id).address("p"), disabled, Expect.ABSENT),
    )
    lost = Check(_CREDENTIAL._replace(sk="x"), VersionIs(7))
    for action, change in effects(ports, tenant):
        assert action in find_actions(ports.store, tenant.id, change)
        with pytest.raises(UnguardedWrite):
            written(ports, tenant, change)
        assert ports.store.get(change.address) != getattr(change, "item", 0)
        # With a proof the guard admits the write, and the store refuses it.
        with pytest.raises(PreconditionFailed):
            written(ports, tenant, change, lost, asked(tenant))


def test_an_unrevocation_by_anybody_is_an_effect(ports: Ports) -> None:
    """APPROVAL-1, F2110c: To let anybody take back is an effect; the reverse is none."""
    tenant = Tenant.another(ports)
    own = tenants.settings(ports, tenant.id)
    free = replace(own, unrevoke_policy=UnrevokePolicy.ANY, version=2)
    ports.store.write(Put(free.address, free.to_item(), VersionIs(1)))
    written(ports, tenant, Put(own.address, replace(own, version=3).to_item(), VersionIs(2)))
    with pytest.raises(UnguardedWrite):
        written(ports, tenant, Put(free.address, replace(free, version=4).to_item(), VersionIs(3)))


# Of each setting a strong value and a weaker one, or two that protect alike.
STRENGTHS: list[tuple[str, Any, Any, bool]] = [
    ("name", "a", "b", False),
    ("srl_ttl_seconds", 3600, 3601, True),
    ("audit_retention_days", 400, 399, True),
    ("rotation_grace_seconds", 3600, 3599, True),
    ("feed_window_ms", 500, 501, True),
    ("srl_publication", SrlPublicationPolicy.IMMEDIATE, SrlPublicationPolicy.SCHEDULED, True),
    ("max_authorizers", 200, 201, False),
    ("unrevoke_policy", UnrevokePolicy.OWN, UnrevokePolicy.ANY, True),
    ("person_key_max_days", 365, 366, True),
    ("unused_key_days", 30, 31, True),
    ("unused_key_days", 30, 0, True),
]


@pytest.mark.parametrize(("name", "strong", "weak", "weakens"), STRENGTHS)
def test_settings_that_weaken(
    ports: Ports, name: str, strong: Any, weak: Any, *, weakens: bool
) -> None:
    """APPROVAL-1, F2850a: A setting weakens in the direction of less protection alone."""
    made = TenantSettings.initial("svc_tnt_1", "acme", ports.now())
    before = replace(made, **({"rotation_grace_seconds": 3600} | {name: strong}))
    after = replace(before, **{name: weak})
    assert (after.weakens(before), before.weakens(after)) == (weakens, False)


def test_each_setting_has_a_strength() -> None:
    """APPROVAL-1, F2850b: Of each setting it is decided in which direction it protects less."""
    names = {each.name for each in fields(SettingsChange)}
    assert names == {*WEAKNESS} == {name for name, *_ in STRENGTHS}


def test_shorter_lists_shorten_the_grace(ports: Ports) -> None:
    """APPROVAL-1, F2850c: A shorter life of lists weakens if the grace of list signers follows."""
    follows = TenantSettings.initial("svc_tnt_1", "acme", ports.now())
    assert replace(follows, srl_ttl_seconds=300).weakens(follows)
    fixed = replace(follows, rotation_grace_seconds=3600)
    assert not replace(fixed, srl_ttl_seconds=300).weakens(fixed)


def test_what_has_no_protected_effect(ports: Ports) -> None:
    """APPROVAL-1, F2110d: A credential that is disabled or has less is no effect; its return is."""
    tenant = Tenant.another(ports)
    wide: dict[str, Value] = {"scopes": ["admin"], "version": 1}
    ports.store.write(Put(_CREDENTIAL, wide, Expect.ABSENT))
    written(ports, tenant, Put(_CREDENTIAL, wide | {"disabled": True}, Expect.PRESENT))
    with pytest.raises(UnguardedWrite):
        written(ports, tenant, Put(_CREDENTIAL, wide, Expect.PRESENT))
    written(ports, tenant, Put(_CREDENTIAL, wide | {"scopes": ["signer"]}, Expect.PRESENT))
    with pytest.raises(UnguardedWrite):
        written(ports, tenant, Put(_CREDENTIAL, wide, Expect.PRESENT))


def approval(tenant: Tenant, action: ProtectedAction = ProtectedAction.FORCE_SIGNER) -> Approval:
    """An approval of Bob's for one action, which is in use."""
    now = "2026-11-21T12:00:00Z"
    item: dict[str, Value] = {
        "id": "svc_apr_1",
        "tenant_id": tenant.id,
        "action": action.value,
        "subject": "s",
    }
    item |= {"reason": "r", "requested_by": "bob", "created_at": now, "expires_at": now}
    more: dict[str, Value] = {
        "count": 1,
        "remaining": 0,
        "expires": 1,
        "details": {},
        "version": 3,
        "record_version": 0,
    }
    return Approval.from_item(item | more | {"status": "approved"})


@pytest.mark.parametrize(
    "forged",
    [
        {"status": ApprovalStatus.PENDING},
        {"status": ApprovalStatus.REJECTED},
        {"action": ProtectedAction.CREATE_ADMIN_KEY},
        {"remaining": 1},
        {"version": 4},
    ],
    ids=lambda each: next(iter(each)),
)
def test_an_approval_that_is_no_proof(ports: Ports, forged: dict[str, object]) -> None:
    """APPROVAL-1, F2110e: Only the use of an approved approval for the action is a proof."""
    tenant = Tenant.another(ports)
    change = Put(signers_partition(tenant.id).address("k"), {"status": "active"}, Expect.ABSENT)
    good, bad = approval(tenant), replace(approval(tenant), **forged)  # type: ignore[arg-type]
    with pytest.raises(UnguardedWrite):
        written(ports, tenant, change, Put(bad.address, bad.to_item(), VersionIs(2)))
    with pytest.raises(PreconditionFailed):
        written(ports, tenant, change, Put(good.address, good.to_item(), VersionIs(2)))


def test_the_policy_is_guarded_by_itself(ports: Ports) -> None:
    """APPROVAL-1, F2110f: While something is protected, the policy changes by an approval alone."""
    tenant = Tenant.another(ports)
    first, second = (
        ProtectedActions((ProtectedAction.REMOVE_TENANT,), version=each) for each in (1, 2)
    )
    written(
        ports,
        tenant,
        Put(protected_address(tenant.id), first.to_item(), Expect.ABSENT),
        asked(tenant),
    )
    change = Put(protected_address(tenant.id), second.to_item(), VersionIs(1))
    with pytest.raises(UnguardedWrite):
        written(ports, tenant, change, asked(tenant, 1))
    used = approval(tenant, ProtectedAction.CHANGE_ACCESS)
    with pytest.raises(PreconditionFailed):
        written(ports, tenant, change, Put(used.address, used.to_item(), VersionIs(2)))


def test_free_restores_check_no_common_item(ports: Ports) -> None:
    """APPROVAL-1, F2110g: Take-backs that need no approval depend on no common item.

    Otherwise two of them at once conflict in DynamoDB.
    """
    tenant, script = Tenant.another(ports), Script()
    revoked = tuple(tenant.revoke(ports, f"svc_wrt_{each}") for each in range(20))
    caller = replace(person(ports, tenant), scopes=(Scope.ADMIN,))
    batch = BatchRequest(BatchAction.UNREVOKE, revoked, "r", by_revocation=True)
    revocation_batches.apply(scripted(ports, script), caller, batch=batch)
    writes = [call.arguments for call in script.made if call.verb == "write"]
    assert len(writes) > 1
    assert not any(isinstance(change, Check) for each in writes for change in each)
