"""Every mutation: what it needs to exist, how it is made, and the audit action that it leaves."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import pytest

from shared.model.callers import Caller, Scope
from shared.model.fleet.heartbeats import Description
from shared.model.identities.approvals import Act
from shared.model.identities.roles import Role
from shared.model.revocation_batches import Batch, BatchAction
from shared.model.signing_keys import SigningKey
from shared.model.tenants import SettingsChange
from shared.operations.access import api_key_rotation, api_keys, service_accounts, tenant_settings
from shared.operations.changes import (
    key_revocation,
    list_signers,
    revocation_batches,
    signing_keys,
    warrants,
)
from shared.operations.changes.warrants import Order
from shared.operations.fleet import authorizers, registering
from shared.operations.identities import (
    approvals,
    identity_providers,
    people,
    protected_acts,
    roles,
    sessions,
)
from shared.operations.identities.identity_providers import ProviderChange
from shared.operations.lists import in_force
from shared.operations.webhooks import managing
from shared.ports import Ports
from tests.kit import identities
from tests.kit.tenants import Tenant

Mutation = Callable[[Ports, Tenant, str], object]

_KEY = "svc_ak_01kbm4xt3rfz8c5w7y2q9n6d1e"


@dataclass(frozen=True)
class Case:
    """A mutation, what it needs to exist, the audit action that it leaves."""

    action: str
    prepare: Callable[[Ports, Tenant], str]
    run: Mutation


def _key(ports: Ports, tenant: Tenant) -> str:
    created = tenant.api_key(ports)
    return created.api_key.id


def _nothing(_ports: Ports, _tenant: Tenant) -> str:
    return ""


def _create_key(ports: Ports, tenant: Tenant, _id: str) -> object:
    account = api_keys.page(ports, tenant.operator, before=None, limit=1).entries[-1][0]
    return api_keys.create(
        ports,
        tenant.operator,
        name="k",
        scopes=(Scope.ADMIN,),
        service_account_id=account.service_account_id,
    )


def _rotate_key(grace_seconds: int, ports: Ports, tenant: Tenant, key_id: str) -> object:
    return api_key_rotation.rotate(
        ports, tenant.operator, key_id=key_id, grace_seconds=grace_seconds
    )


def _root(ports: Ports, tenant: Tenant) -> str:
    return tenant.key(ports).id


def _suspended(ports: Ports, tenant: Tenant) -> str:
    key_id = _root(ports, tenant)
    signing_keys.suspend(ports, tenant.operator, key_id=key_id)
    return key_id


def _busy(ports: Ports, tenant: Tenant) -> str:
    """A key below another, which has signed, been rotated, and signed again."""
    key = tenant.key(ports, tenant.key(ports))
    tenant.sign(ports, key)
    tenant.rotate(ports, key)
    tenant.sign(ports, key)
    return key.id


def _superseded(ports: Ports, tenant: Tenant) -> str:
    key_id = _busy(ports, tenant)
    return signing_keys.versions(ports, tenant.operator, key_id=key_id)[1].id


def _create_child(ports: Ports, tenant: Tenant, parent_id: str) -> SigningKey:
    parent = signing_keys.get(ports, tenant.operator, key_id=parent_id)
    return tenant.key(ports, parent)


def _revoke_signing_key(ports: Ports, tenant: Tenant, key_id: str) -> object:
    return key_revocation.revoke(ports, tenant.operator, key_id=key_id, reason="lost")


def _sign(ports: Ports, tenant: Tenant, key_id: str) -> object:
    return warrants.sign(ports, tenant.operator, key_id=key_id, order=Order(b"grant"))


def register(ports: Ports, tenant: Tenant) -> str:
    described = Description("edge")
    return registering.register(ports, tenant.operator, described=described).authorizer.id


def _of_key(ports: Ports, tenant: Tenant) -> str:
    caller = replace(tenant.operator, key_id=_KEY)
    return registering.register(ports, caller, described=Description("edge")).authorizer.id


def _removed_authorizer(ports: Ports, tenant: Tenant) -> str:
    authorizer_id = register(ports, tenant)
    authorizers.remove(ports, tenant.operator, authorizer_id=authorizer_id)
    return authorizer_id


def _account(ports: Ports, tenant: Tenant) -> str:
    return tenant.account(ports, "ci").id


def _staffed(ports: Ports, tenant: Tenant) -> str:
    """An account with an admin key, another one, and one that is revoked."""
    account_id = _account(ports, tenant)
    *_, last = [
        api_keys.create(
            ports, tenant.operator, name="k", scopes=(scope,), service_account_id=account_id
        )
        for scope in (Scope.ADMIN, Scope.READ_ONLY, Scope.READ_ONLY)
    ]
    api_keys.revoke(ports, tenant.operator, key_id=last.api_key.id)
    return account_id


def _disabled(ports: Ports, tenant: Tenant) -> str:
    account_id = _staffed(ports, tenant)
    service_accounts.disable(ports, tenant.operator, account_id=account_id)
    return account_id


def _signer(ports: Ports, tenant: Tenant) -> str:
    return in_force.signer(ports, tenant.id).id


def pending_signer(ports: Ports, tenant: Tenant) -> str:
    return list_signers.create(ports, tenant.operator).record.id


def _activate_signer(ports: Ports, tenant: Tenant, key_id: str) -> object:
    return list_signers.activate(ports, tenant.operator, key_id=key_id, force=True)


def _revoke_signer(ports: Ports, tenant: Tenant, key_id: str) -> object:
    return list_signers.revoke(ports, tenant.operator, key_id=key_id)


def _revoke_batch(ports: Ports, tenant: Tenant) -> object:
    batch = Batch(BatchAction.REVOKE, ("svc_wrt_a",), reason="stolen")
    return revocation_batches.apply(ports, tenant.operator, batch=batch)


def _revoked_one(ports: Ports, tenant: Tenant) -> str:
    return tenant.revoke(ports, "svc_wrt_a")


def _take_back(ports: Ports, tenant: Tenant, revocation_id: str) -> object:
    batch = Batch(BatchAction.TAKE_BACK, (revocation_id,), "r", by_revocation=True)
    return revocation_batches.apply(ports, tenant.operator, batch=batch)


def _update_settings(ports: Ports, tenant: Tenant, _id: str) -> object:
    return tenant_settings.update(
        ports, tenant.operator, change=SettingsChange(srl_ttl_seconds=300)
    )


def _webhook(ports: Ports, tenant: Tenant) -> str:
    url = "https://hooks.example.com/"
    made = managing.create(ports, tenant.operator, url=url, events=("*",), description=None)
    return made.webhook.id


def _disabled_webhook(ports: Ports, tenant: Tenant) -> str:
    webhook_id = _webhook(ports, tenant)
    managing.disable(ports, tenant.operator, webhook_id=webhook_id)
    return webhook_id


def _rotate_secret(ports: Ports, tenant: Tenant, webhook_id: str) -> object:
    operator = tenant.operator
    return managing.rotate_secret(ports, operator, webhook_id=webhook_id, grace_seconds=60)


def _person(ports: Ports, tenant: Tenant) -> str:
    provider = identities.bound(ports, tenant.operator)
    return identities.signed_in(ports, provider).session.owner


def _disabled_person(ports: Ports, tenant: Tenant) -> str:
    person_id = _person(ports, tenant)
    people.disable(ports, tenant.operator, person_id=person_id)
    return person_id


def _session(ports: Ports, tenant: Tenant) -> str:
    provider = identities.bound(ports, tenant.operator)
    return identities.signed_in(ports, provider).session.id


def _provider(ports: Ports, tenant: Tenant) -> str:
    return identities.bound(ports, tenant.operator).id


def _sign_in(ports: Ports, tenant: Tenant, provider_id: str) -> object:
    provider = identity_providers.get(ports, tenant.operator, provider_id=provider_id)
    return identities.signed_in(ports, provider)


def _update_provider(ports: Ports, tenant: Tenant, provider_id: str) -> object:
    change = ProviderChange(client_secret="new", session_seconds=300)
    return identity_providers.update(ports, tenant.operator, provider_id=provider_id, change=change)


def _put_role(ports: Ports, tenant: Tenant, _: str, *, scope: Scope = Scope.SIGNER) -> str:
    return roles.put(ports, tenant.operator, role=Role("paris", (scope,))).name


def _role(ports: Ports, tenant: Tenant) -> str:
    return _put_role(ports, tenant, "", scope=Scope.REVOKER)


def _two_people(ports: Ports, tenant: Tenant) -> str:
    provider = identities.bound(ports, tenant.operator)
    first, _ = (identities.signed_in(ports, provider, sub=each) for each in "ab")
    return first.session.id


def _protect(ports: Ports, tenant: Tenant, _id: str) -> object:
    acts = (Act.REMOVE_TENANT,)
    return protected_acts.update(ports, tenant.operator, acts=acts, restore_above=5)


def _asked(ports: Ports, tenant: Tenant) -> str:
    act = Act.REMOVE_TENANT
    made = approvals.requested(ports, tenant.operator, act, tenant.id, reason="r", details={})
    return made.id


def _approve(ports: Ports, tenant: Tenant, approval_id: str) -> object:
    return approvals.approve(ports, person(ports, tenant), approval_id=approval_id)


def _reject(ports: Ports, tenant: Tenant, approval_id: str) -> object:
    return approvals.reject(ports, person(ports, tenant), approval_id=approval_id)


def _override(ports: Ports, tenant: Tenant, approval_id: str) -> object:
    return approvals.override(ports, tenant.operator, approval_id=approval_id, reason="ill")


def person(ports: Ports, tenant: Tenant, name: str = "bob") -> Caller:
    """A person with the role `admin` who has just signed in, without a record."""
    return replace(
        tenant.operator,
        identity=f"{name}@example.com",
        owner_id=f"svc_usr_{name}",
        session_id=f"of-{name}",
        authenticated_at=ports.now(),
    )


CASES = [
    Case("api_key.create", _nothing, _create_key),
    Case("api_key.rotate", _key, partial(_rotate_key, 60)),
    Case("api_key.rotate", _key, partial(_rotate_key, 0)),
    Case("api_key.revoke", _key, lambda p, t, i: api_keys.revoke(p, t.operator, key_id=i)),
    Case("api_key.delete", _key, lambda p, t, i: api_keys.delete(p, t.operator, key_id=i)),
    Case("revocation.create", _nothing, lambda p, t, _: t.revoke(p, "svc_wrt_a")),
    Case("revocation.create_batch", _nothing, lambda p, t, _: _revoke_batch(p, t)),
    Case("revocation.delete_batch", _revoked_one, _take_back),
    Case(
        "revocation.delete",
        lambda p, t: t.revoke(p, "svc_wrt_a"),
        lambda p, t, i: t.take_back(p, i),
    ),
    Case("srl.rotate_key", _nothing, lambda p, t, _: list_signers.rotate(p, t.operator)),
    Case("srl.rotate_key", pending_signer, lambda p, t, _: list_signers.rotate(p, t.operator)),
    Case("srl.create_key", _nothing, lambda p, t, _: list_signers.create(p, t.operator)),
    Case("srl.activate_key", pending_signer, _activate_signer),
    Case("srl.revoke_key", pending_signer, _revoke_signer),
    Case("srl.revoke_key", _signer, _revoke_signer),
    Case(
        "srl.revoke_key",
        _nothing,
        lambda p, t, _: list_signers.rotate(p, t.operator, compromised=True),
    ),
    Case("key.create", _nothing, lambda p, t, _: t.key(p)),
    Case("key.create", _root, _create_child),
    Case("key.rotate", _busy, lambda p, t, i: signing_keys.rotate(p, t.operator, key_id=i)),
    Case("key.suspend", _busy, lambda p, t, i: signing_keys.suspend(p, t.operator, key_id=i)),
    Case("key.enable", _suspended, lambda p, t, i: signing_keys.enable(p, t.operator, key_id=i)),
    Case("key.revoke", _busy, _revoke_signing_key),
    Case("key.revoke", _suspended, _revoke_signing_key),
    Case("key.revoke", _superseded, _revoke_signing_key),
    Case("key.sign", _busy, _sign),
    Case("service_account.create", _nothing, lambda p, t, _: _account(p, t)),
    Case(
        "service_account.disable",
        _staffed,
        lambda p, t, i: service_accounts.disable(p, t.operator, account_id=i),
    ),
    Case(
        "service_account.enable",
        _disabled,
        lambda p, t, i: service_accounts.enable(p, t.operator, account_id=i),
    ),
    Case(
        "service_account.delete",
        _account,
        lambda p, t, i: service_accounts.delete(p, t.operator, account_id=i),
    ),
    Case("authorizer.register", _nothing, lambda p, t, _: register(p, t)),
    Case(
        "authorizer.remove_batch",
        _of_key,
        lambda p, t, _: authorizers.remove_of_owner(p, t.operator, owner=_KEY),
    ),
    Case("authorizer.register", _removed_authorizer, lambda p, t, _: register(p, t)),
    Case(
        "authorizer.remove",
        register,
        lambda p, t, i: authorizers.remove(p, t.operator, authorizer_id=i),
    ),
    Case("tenant.update_settings", _nothing, _update_settings),
    Case("identity_provider.create", _nothing, lambda p, t, _: _provider(p, t)),
    Case("identity_provider.update", _provider, _update_provider),
    Case(
        "identity_provider.delete",
        _provider,
        lambda p, t, i: identity_providers.delete(p, t.operator, provider_id=i),
    ),
    Case("session.create", _provider, _sign_in),
    Case("session.delete", _session, lambda p, t, i: sessions.delete(p, t.operator, session_id=i)),
    Case("person.disable", _person, lambda p, t, i: people.disable(p, t.operator, person_id=i)),
    Case(
        "person.enable", _disabled_person, lambda p, t, i: people.enable(p, t.operator, person_id=i)
    ),
    Case("person.sign_out", _person, lambda p, t, i: people.sign_out(p, t.operator, person_id=i)),
    Case("role.put", _nothing, _put_role),
    Case("role.put", _role, _put_role),
    Case("role.delete", _role, lambda p, t, i: roles.delete(p, t.operator, name=i)),
    Case("tenant.protect_acts", _two_people, _protect),
    Case("approval.request", _nothing, lambda p, t, _: _asked(p, t)),
    Case("approval.approve", _asked, _approve),
    Case("approval.reject", _asked, _reject),
    Case("approval.override", _asked, _override),
    Case("webhook.create", _nothing, lambda p, t, _: _webhook(p, t)),
    Case(
        "webhook.update",
        _webhook,
        lambda p, t, i: managing.update(p, t.operator, webhook_id=i, events=("key.sign",)),
    ),
    Case("webhook.rotate_secret", _webhook, _rotate_secret),
    Case(
        "webhook.enable",
        _disabled_webhook,
        lambda p, t, i: managing.enable(p, t.operator, webhook_id=i),
    ),
    Case(
        "webhook.disable", _webhook, lambda p, t, i: managing.disable(p, t.operator, webhook_id=i)
    ),
    Case("webhook.test", _webhook, lambda p, t, i: managing.test(p, t.operator, webhook_id=i)),
    Case(
        "webhook.replay",
        _webhook,
        lambda p, t, i: managing.replay(p, t.operator, webhook_id=i, from_index=0),
    ),
    Case("webhook.delete", _webhook, lambda p, t, i: managing.delete(p, t.operator, webhook_id=i)),
]
EACH_CASE = pytest.mark.parametrize(
    "case", CASES, ids=[f"{case.action}-{case.prepare.__name__}" for case in CASES]
)
