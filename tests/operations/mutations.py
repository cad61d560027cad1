"""Every mutation: what it needs to exist, how it is made, and the audit action that it leaves."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from functions.authorizers import operations as authorizers
from functions.authorizers import registering
from functions.authorizers.records import AuthorizerDescription
from functions.batches import operations as revocation_batches
from functions.status_lists import operations as status_lists
from functions.webhooks import operations as managing
from shared.model.callers import Caller, Scope
from shared.model.identities.approvals import ProtectedAction
from shared.model.identities.people import Person, PersonStatus
from shared.model.identities.roles import Role
from shared.model.revocation_batches import BatchAction, BatchRequest
from shared.model.signing_keys import SigningKey
from shared.model.tenants import SettingsChange
from shared.operations.access import api_key_rotation, api_keys, service_accounts, tenant_settings
from shared.operations.changes import key_revocation, list_signers, signing_keys, warrants
from shared.operations.changes.warrants import SignRequest
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
from shared.ports import Ports
from shared.ports.store import Expect, Put
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


def _create_as_key(ports: Ports, tenant: Tenant, key_id: str) -> object:
    """A key that another one makes, in whose list it is."""
    return api_keys.create(
        ports, replace(tenant.operator, key_id=key_id), name="k", scopes=(Scope.ADMIN,)
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


def register(ports: Ports, tenant: Tenant) -> str:
    described = AuthorizerDescription("edge")
    return registering.register(ports, tenant.operator, description=described).authorizer.id


def _of_key(ports: Ports, tenant: Tenant) -> str:
    caller = replace(tenant.operator, key_id=_KEY)
    return registering.register(
        ports, caller, description=AuthorizerDescription("edge")
    ).authorizer.id


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
    return in_force.read_active_signer(ports, tenant.id).id


def pending_signer(ports: Ports, tenant: Tenant) -> str:
    return list_signers.create(ports, tenant.operator).record.id


def _revoke_batch(ports: Ports, tenant: Tenant) -> object:
    batch = BatchRequest(BatchAction.REVOKE, ("svc_wrt_a",), reason="stolen")
    return revocation_batches.apply(ports, tenant.operator, batch=batch)


def _revoked_one(ports: Ports, tenant: Tenant) -> str:
    return tenant.revoke(ports, "svc_wrt_a")


def _unrevoke(ports: Ports, tenant: Tenant, revocation_id: str) -> object:
    batch = BatchRequest(BatchAction.UNREVOKE, (revocation_id,), "r", by_revocation=True)
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


def _create_status_list(ports: Ports, tenant: Tenant, _id: str = "") -> str:
    return status_lists.create(ports, tenant.operator, name="l", url="https://rescind.example").id


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


def _put_role(ports: Ports, tenant: Tenant, _: str, *, scope: Scope = Scope.SIGNER) -> str:
    return roles.put_role(ports, tenant.operator, role=Role("paris", (scope,))).name


def _role(ports: Ports, tenant: Tenant) -> str:
    return _put_role(ports, tenant, "", scope=Scope.REVOKER)


def _two_people(ports: Ports, tenant: Tenant) -> str:
    provider = identities.bound(ports, tenant.operator)
    first, _ = (identities.signed_in(ports, provider, sub=each) for each in "ab")
    return first.session.id


def _protect(ports: Ports, tenant: Tenant, _id: str) -> object:
    actions = (ProtectedAction.REMOVE_TENANT,)
    return protected_acts.update(ports, tenant.operator, actions=actions, unrevoke_threshold=5)


def _asked(ports: Ports, tenant: Tenant) -> str:
    action = ProtectedAction.REMOVE_TENANT
    made = approvals.create_request(
        ports, tenant.operator, action, tenant.id, reason="r", details={}
    )
    return made.id


def _asked_bob(ports: Ports, tenant: Tenant) -> str:
    person(ports, tenant)
    return _asked(ports, tenant)


def _approve(ports: Ports, tenant: Tenant, approval_id: str) -> object:
    return approvals.approve(ports, calling(ports, tenant, "bob"), approval_id=approval_id)


def _reject(ports: Ports, tenant: Tenant, approval_id: str) -> object:
    return approvals.reject(ports, calling(ports, tenant, "bob"), approval_id=approval_id)


def person(ports: Ports, tenant: Tenant, name: str = "bob") -> Caller:
    """A person with the role `admin` who has just signed in, without a session."""
    of = Person(
        f"svc_usr_{name}",
        tenant.id,
        "svc_idp_x",
        "https://x",
        name,
        name,
        name,
        "admin",
        PersonStatus.ACTIVE,
        ports.now(),
    )
    if ports.store.get(of.address) is None:
        ports.store.write(Put(of.address, of.to_item(), Expect.ABSENT))
    return calling(ports, tenant, name)


def calling(ports: Ports, tenant: Tenant, name: str) -> Caller:
    """The caller that a person is."""
    return replace(
        tenant.operator,
        identity=f"{name}@example.com",
        owner_id=f"svc_usr_{name}",
        session_id=f"of-{name}",
        authenticated_at=ports.now(),
    )


def _on(
    action: str,
    prepare: Callable[[Ports, Tenant], str],
    run: Callable[..., object],
    name: str,
    **more: object,
) -> Case:
    """A case whose mutation takes the identifier of what it is about by this name."""
    return Case(action, prepare, lambda p, t, i: run(p, t.operator, **{name: i}, **more))


CASES = [
    Case("api_key.create", _nothing, _create_key),
    Case("api_key.create", _key, _create_as_key),
    _on("api_key.rotate", _key, api_key_rotation.rotate, "key_id", grace_seconds=60),
    _on("api_key.rotate", _key, api_key_rotation.rotate, "key_id", grace_seconds=0),
    _on("api_key.revoke", _key, api_keys.revoke, "key_id"),
    _on("api_key.delete", _key, api_keys.delete, "key_id"),
    Case("revocation.create", _nothing, lambda p, t, _: t.revoke(p, "svc_wrt_a")),
    Case("revocation.create_batch", _nothing, lambda p, t, _: _revoke_batch(p, t)),
    Case("revocation.delete_batch", _revoked_one, _unrevoke),
    Case(
        "revocation.delete",
        lambda p, t: t.revoke(p, "svc_wrt_a"),
        lambda p, t, i: t.unrevoke(p, i),
    ),
    Case("srl.rotate_key", _nothing, lambda p, t, _: list_signers.rotate(p, t.operator)),
    Case("srl.rotate_key", pending_signer, lambda p, t, _: list_signers.rotate(p, t.operator)),
    Case("srl.create_key", _nothing, lambda p, t, _: list_signers.create(p, t.operator)),
    _on("srl.activate_key", pending_signer, list_signers.activate, "key_id", force=True),
    _on("srl.revoke_key", pending_signer, list_signers.revoke, "key_id"),
    _on("srl.revoke_key", _signer, list_signers.revoke, "key_id"),
    Case(
        "srl.revoke_key",
        _nothing,
        lambda p, t, _: list_signers.rotate(p, t.operator, compromised=True),
    ),
    Case("key.create", _nothing, lambda p, t, _: t.key(p)),
    Case("key.create", _root, _create_child),
    _on("key.rotate", _busy, signing_keys.rotate, "key_id"),
    _on("key.suspend", _busy, signing_keys.suspend, "key_id"),
    _on("key.enable", _suspended, signing_keys.enable, "key_id"),
    _on("key.revoke", _busy, key_revocation.revoke, "key_id", reason="lost"),
    _on("key.revoke", _suspended, key_revocation.revoke, "key_id", reason="lost"),
    _on("key.revoke", _superseded, key_revocation.revoke, "key_id", reason="lost"),
    _on("key.sign", _busy, warrants.sign, "key_id", order=SignRequest(b"grant")),
    Case("service_account.create", _nothing, lambda p, t, _: _account(p, t)),
    _on("service_account.disable", _staffed, service_accounts.disable, "account_id"),
    _on("service_account.enable", _disabled, service_accounts.enable, "account_id"),
    _on("service_account.delete", _account, service_accounts.delete, "account_id"),
    Case("authorizer.register", _nothing, lambda p, t, _: register(p, t)),
    Case(
        "authorizer.remove_batch",
        _of_key,
        lambda p, t, _: authorizers.remove_of_owner(p, t.operator, owner=_KEY),
    ),
    Case("authorizer.register", _removed_authorizer, lambda p, t, _: register(p, t)),
    _on("authorizer.remove", register, authorizers.remove, "authorizer_id"),
    Case("tenant.update_settings", _nothing, _update_settings),
    Case("status_list.create", _nothing, _create_status_list),
    Case("status_list.create", _create_status_list, _create_status_list),
    _on("status_list.allocate", _create_status_list, status_lists.allocate, "list_id", count=2),
    Case(
        "status_list.rotate_key",
        _create_status_list,
        lambda p, t, _: status_lists.rotate(p, t.operator),
    ),
    Case("identity_provider.create", _nothing, lambda p, t, _: _provider(p, t)),
    _on(
        "identity_provider.update",
        _provider,
        identity_providers.update,
        "provider_id",
        change=ProviderChange(client_secret="new", session_seconds=300),
    ),
    _on("identity_provider.delete", _provider, identity_providers.delete, "provider_id"),
    Case("session.create", _provider, _sign_in),
    _on("session.delete", _session, sessions.delete, "session_id"),
    _on("person.disable", _person, people.disable, "person_id"),
    _on("person.enable", _disabled_person, people.enable, "person_id"),
    _on("person.sign_out", _person, people.sign_out, "person_id"),
    Case("role.put", _nothing, _put_role),
    Case("role.put", _role, _put_role),
    _on("role.delete", _role, roles.delete, "name"),
    Case("tenant.update_protected_actions", _two_people, _protect),
    Case("approval.request", _nothing, lambda p, t, _: _asked(p, t)),
    Case("approval.approve", _asked_bob, _approve),
    Case("approval.reject", _asked_bob, _reject),
    _on("approval.override", _asked, approvals.override, "approval_id", reason="ill"),
    Case("webhook.create", _nothing, lambda p, t, _: _webhook(p, t)),
    _on("webhook.update", _webhook, managing.update, "webhook_id", events=("key.sign",)),
    _on("webhook.rotate_secret", _webhook, managing.rotate_secret, "webhook_id", grace_seconds=60),
    _on("webhook.enable", _disabled_webhook, managing.enable, "webhook_id"),
    _on("webhook.disable", _webhook, managing.disable, "webhook_id"),
    _on("webhook.test", _webhook, managing.test, "webhook_id"),
    _on("webhook.replay", _webhook, managing.replay, "webhook_id", from_index=0),
    _on("webhook.delete", _webhook, managing.delete, "webhook_id"),
]
EACH_CASE = pytest.mark.parametrize(
    "case", CASES, ids=[f"{case.action}-{case.prepare.__name__}" for case in CASES]
)
