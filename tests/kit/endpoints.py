"""Every endpoint as the contract has it: who may call it, what it answers, what it leaves behind.

Written by hand from the contract, so that no route can vouch for itself. `make written` writes the
table of scopes in AUTH-4 from it.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from http import HTTPStatus
from itertools import chain
from secrets import token_hex
from typing import Any, Final

from functions.transparency_log import log, sealing, signers
from functions.trust.records import head_address
from functions.webhooks import deliveries
from functions.webhooks.deliveries import Delivery, DeliveryState
from shared.errors import InvalidApiKey, Unavailable
from shared.model.audit.audit_log import month
from shared.model.callers import Caller, Scope
from shared.model.identities import providers, sessions
from shared.model.identities.approvals import ProtectedAction
from shared.model.identities.providers import IdentityProvider
from shared.model.identities.roles import Role
from shared.model.outbound import DeliveryOutcome
from shared.operations.access import api_keys
from shared.operations.identities import approvals, identity_providers, people, roles
from shared.operations.identities.identity_providers import ProviderChange
from shared.operations.lists import in_force
from shared.ports import Ports
from shared.ports.store import Delete, Expect, Put
from tests.kit import gates, identities, issuers, roots
from tests.kit.api import Client, Tenant
from tests.kit.asgi import Answer, bearer, send
from tests.kit.feeds import publish_feed
from tests.kit.processes import ROOT

ADMIN, AUTHORIZER, READ_ONLY = Scope.ADMIN, Scope.AUTHORIZER, Scope.READ_ONLY
REVOKER, SIGNER, AUDITOR = Scope.REVOKER, Scope.SIGNER, Scope.AUDITOR
# As the API document lists them.
ANY = (ADMIN, AUTHORIZER, READ_ONLY, REVOKER, SIGNER, AUDITOR)
_READERS = (ADMIN, READ_ONLY, AUDITOR)
_SIGNERS = (ADMIN, READ_ONLY, SIGNER, AUDITOR)
_OBSERVERS = (ADMIN, READ_ONLY, REVOKER, AUDITOR)
_REVIEWERS = (ADMIN, REVOKER, AUDITOR)
_CHECKERS = (ADMIN, AUTHORIZER, REVOKER, AUDITOR)
_REVOKERS = (ADMIN, REVOKER)
_FLEET = (ADMIN, AUTHORIZER)

# The page with AUTH-4, and the rows of its table.
PAGE: Final = ROOT / "docs" / "spec" / "access.md"
_TABLE: Final = re.compile(r"(?<=\| Accepted scopes \|\n\| --- \| --- \|\n)(?:\|.*\n)+")
_IDENTIFIER: Final = re.compile(r"svc_[a-z]+_[0-9a-z]{26}")


# Secrets of people, by their tenant and role.
_SIGNED_IN: dict[tuple[str, Scope], str] = {}


@dataclass(frozen=True)
class Endpoint:
    """One method of one path. `target` prepares what a call acts on, and is the path to call.

    `name` is the operation's in generated clients, which never changes. `fields` is what `shape`
    says of the answer; `resource` names what the audit entry is about, by the path that was called
    and the answer. `unknown` is the status for an unknown resource. `secret` is the field of the
    answer that shows one. `is_kept` is whether a POST or PATCH can be repeated with an
    `Idempotency-Key`; it cannot if it makes no change, or is harmless to repeat. `needs` says
    without which of `blobs` and `keys` it answers 503. `limited` is whether callers whose role has
    limits may call it. If `is_of_people`, `call` has a person call.
    """

    name: str
    scopes: tuple[Scope, ...]
    target: Callable[[Tenant], str]
    status: int = 200
    fields: Any = None
    media_type: str = "application/json"
    body: dict[str, Any] | list[Any] | None = None
    action: str | None = None
    resource: Callable[[str, Any], str] | None = None
    unknown: int = 404
    secret: str | None = None
    is_kept: bool = True
    needs: str = ""
    limited: bool = False
    is_of_people: bool = False


def shape(value: Any) -> Any:
    """The names of all members, at every depth; of a list, each kind of member once."""
    if isinstance(value, dict):
        return {name: shape(member) for name, member in value.items()}
    if isinstance(value, list):
        kinds: list[Any] = []
        for kind in map(shape, value):
            kinds += [] if kind in kinds else [kind]
        return kinds
    return ...


def identifier(path: str) -> str:
    """The identifier in a path."""
    (found,) = _IDENTIFIER.findall(path)
    return str(found)


def at(path: str, resource: str) -> str:
    """The path of a route with this text for the identifier in it."""
    return re.sub(r"\{\w+\}", lambda _: resource, path.replace("{number}", "1"))


def call(key: tuple[str, str], client: Client, target: str) -> Any:
    """Call the endpoint `key` as `client`, so that it can be repeated if it makes a change."""
    body = ENDPOINTS[key].body
    client = as_caller(key, client)
    headers = {"Idempotency-Key": token_hex()} if key[0] in ("POST", "PATCH") else {}
    return client.request(
        key[0], target, headers=headers, **({} if body is None else {"json": body})
    )


def as_caller(key: tuple[str, str], client: Client) -> Client:
    """Who may call the endpoint `key` in the place of `client`.

    Of an endpoint for people it is the person with the scope of the client's key, if that is
    accepted, or the client itself if it has a session.
    """
    if not ENDPOINTS[key].is_of_people or (client.secret or "").startswith(sessions.PREFIX):
        return client
    assert client.http.ports is not None
    try:
        found = api_keys.authenticate(client.http.ports, client.secret or "")
    except (InvalidApiKey, Unavailable):
        return client
    secret = _SIGNED_IN.get((found.tenant_id, found.scopes[0]), client.secret)
    return replace(client, secret=secret)


def call_as_it_stands(key: tuple[str, str], client: Client, target: str) -> Answer:
    """The same, with the path sent just as it is."""
    body = ENDPOINTS[key].body
    return send(
        client.http.app,
        key[0],
        target,
        headers=bearer(client.secret, ("Content-Type", "application/json")),
        chunks=[b"" if body is None else json.dumps(body).encode()],
    )


def audited(tenant: Tenant) -> int:
    """How many entries the audit log of the present month has."""
    partitions = month(tenant.id, tenant.ports.now())
    return sum(map(tenant.ports.store.count, partitions))


def audit_entries(tenant: Tenant) -> list[dict[str, Any]]:
    """The audit log of the present month, oldest first."""
    partitions = month(tenant.id, tenant.ports.now())
    entries = chain.from_iterable(tenant.ports.store.query(each) for each in partitions)
    return [dict(entry.item) for entry in sorted(entries, key=lambda entry: entry.sk)]


def _names(*names: str) -> dict[str, Any]:
    """A member for each word."""
    return dict.fromkeys(" ".join(names).split(), ...)


def _page(name: str, entry: dict[str, Any]) -> dict[str, Any]:
    return {name: [entry], "total": ..., "cursor": ...}


def _row(
    head: str,
    fields: Any = None,
    *,
    on: Callable[[Tenant], str | None] | None = None,
    scopes: tuple[Scope, ...] | None = None,
    resource: str | Callable[[Any], str] = "id",
    **more: Any,
) -> tuple[tuple[str, str], Endpoint]:
    """An endpoint by its method, path and name, and its status and audit action if it has such.

    What a row leaves out is what most endpoints have. `fields` may be the names of the fields.
    `on` prepares a call: it returns what stands for the braces of the path, or the query; what it
    returns for another path only says what was made. `resource` is the field of the answer that
    the audit entry names if the path names nothing, or makes the name from the answer.
    """
    method, path, name, *rest = head.split()
    status = (
        int(rest.pop(0)) if rest and rest[0].isdecimal() else 204 if method == "DELETE" else 200
    )

    def target(tenant: Tenant) -> str:
        found = on(tenant) if on else None
        if "{" in path:
            return at(path, str(found))
        return f"{path}{found}" if found and found.startswith("?") else path

    def named(called: str, answer: Any) -> str:
        if callable(resource):
            return str(resource(answer.json()))
        if path.endswith("/{name}"):
            return called.rpartition("/")[2]
        if "{" in path or method == "DELETE":
            return identifier(called)
        return str(answer.json()[resource])

    return (method, path), Endpoint(
        name,
        scopes or (_READERS if method == "GET" else (ADMIN,)),
        target,
        status,
        _names(fields) if isinstance(fields, str) else fields,
        action=rest[0] if rest else None,
        resource=named if rest else None,
        **more,
    )


def _spare_key(tenant: Tenant) -> str:
    return tenant.client(Scope.READ_ONLY).key_id


def _revocation(tenant: Tenant) -> str:
    return tenant.revoke(tenant.ports.new_id("wrt"))


def _revoke_listed(tenant: Tenant) -> None:
    """A warrant that is revoked, also by an earlier call."""
    body = {"warrant_id": "svc_wrt_listed", "reason": "r"}
    assert tenant.admin.post("/v1/revocations", json=body).status_code in {200, 201}


def _manifest(tenant: Tenant) -> str:
    body = {"revocation_ids": [_revocation(tenant)]}
    return str(tenant.admin.post("/v1/unrevoke-manifests", json=body).json()["id"])


def _propagation(tenant: Tenant) -> str:
    """A revocation that the feed has, but an authorizer does not."""
    revocation_id = _revocation(tenant)
    publish_feed(tenant.ports, tenant.id)
    body = {"name": "gateway"}
    path = f"{_COMPAT}/authorizers/register"
    assert tenant.authorizer.post(path, json=body).status_code in {200, 201}
    refuse_registration(tenant)
    return revocation_id


def refuse_registration(tenant: Tenant, client: Client | None = None) -> None:
    """Refuse a client that has the name of another one, but not its key."""
    client = client or tenant.authorizer
    body = gates.registration(tenant.id, "proven", tenant.ports.now())
    assert client.post("/v1/authorizers/register", json=body).status_code in {200, 201}
    plain = {"name": "proven"}
    assert client.post(f"{_COMPAT}/authorizers/register", json=plain).status_code == 409


def _pending_signer(tenant: Tenant) -> str:
    """The list signer that signs nothing yet: a tenant has one at most."""
    keys = tenant.admin.get("/v1/revocations/srl/keys").json()["keys"]
    pending = [key for key in keys if key["status"] == "pending"]
    found = pending[0] if pending else tenant.admin.post("/v1/revocations/srl/keys").json()
    name_signers(tenant)
    return str(found["key_id"])


def name_signers(tenant: Tenant) -> None:
    """If there is a trust document, one that names the signers of now."""
    if tenant.ports.store.get(head_address(tenant.id)) is not None:
        _document(tenant)


def _no_pending_signer(tenant: Tenant) -> None:
    tenant.admin.post(f"/v1/revocations/srl/keys/{_pending_signer(tenant)}/revoke")


def _native_signer(tenant: Tenant) -> None:
    """The native signer, which the first request makes."""
    tenant.admin.get("/v1/authorizers/native-signer")


def _status_list(tenant: Tenant) -> str:
    """A status list; a tenant may have some."""
    found = tenant.admin.get("/v1/status-lists").json()["status_lists"]
    if not found:
        found = [tenant.admin.post("/v1/status-lists", json={"name": "badges"}).json()]
    return str(found[0]["id"])


def _key(tenant: Tenant) -> str:
    """A new root key."""
    answer = tenant.admin.post("/v1/keys", json={"type": "root", "name": "root"})
    return str(answer.json()["id"])


def _signed_with(tenant: Tenant) -> str:
    """A new root key that was rotated and has signed."""
    key_id = _key(tenant)
    tenant.admin.post(f"/v1/keys/{key_id}/rotate")
    tenant.admin.post(f"/v1/keys/{key_id}/sign", json={"payload": "aGVsbG8="})
    return key_id


def _suspended(tenant: Tenant) -> str:
    key_id = _key(tenant)
    tenant.admin.post(f"/v1/keys/{key_id}/suspend")
    return key_id


def _account(tenant: Tenant) -> str:
    """A new service account, of a name that no other has."""
    body = {"name": f"a-{tenant.ports.new_id('x')[-26:]}"}
    return str(tenant.admin.post("/v1/service-accounts", json=body).json()["id"])


def _owner(tenant: Tenant) -> str:
    """A new service account that owns an API key."""
    account_id = _account(tenant)
    body = {"name": "k", "scopes": ["read-only"], "service_account_id": account_id}
    tenant.admin.post("/v1/api-keys", json=body)
    return account_id


def _disabled(tenant: Tenant) -> str:
    account_id = _account(tenant)
    tenant.admin.post(f"/v1/service-accounts/{account_id}/disable")
    return account_id


def _authorizer(tenant: Tenant) -> str:
    """A new authorizer, of a name that no other has."""
    body = {"name": tenant.ports.new_id("x")}
    return str(tenant.admin.post(f"{_COMPAT}/authorizers/register", json=body).json()["id"])


# The bodies that register an authorizer and report, which the two functions below fill.
_REGISTRATION: dict[str, Any] = {}
_REPORT: dict[str, Any] = {}


def _registration(tenant: Tenant) -> None:
    _REGISTRATION.update(gates.registration(tenant.id, "edge", tenant.ports.now()))


def _reporting(tenant: Tenant) -> str:
    """A new authorizer with a key."""
    body = gates.registration(tenant.id, tenant.ports.new_id("x"), tenant.ports.now())
    made = str(tenant.admin.post("/v1/authorizers/register", json=body).json()["id"])
    _REPORT.update(gates.report(tenant.ports, tenant.id, made))
    return made


def _of_key(tenant: Tenant) -> str:
    """All authorizers of the admin key, of which there is one at least."""
    _authorizer(tenant)
    return f"?owner={tenant.admin.key_id}"


def _stranger(tenant: Tenant) -> str:
    """An authorizer that is not registered."""
    return tenant.ports.new_id("azr")


def _webhook(tenant: Tenant) -> str:
    """A webhook: the first one of the tenant, or a new one."""
    body = {"url": "https://hooks.example.com/rescind"}
    found = tenant.admin.get("/v1/webhooks").json()["webhooks"]
    made = found[-1] if found else tenant.admin.post("/v1/webhooks", json=body).json()
    tenant.admin.post(f"/v1/webhooks/{made['id']}/enable")
    return str(made["id"])


def _disabled_webhook(tenant: Tenant) -> str:
    webhook_id = _webhook(tenant)
    tenant.admin.post(f"/v1/webhooks/{webhook_id}/disable")
    return webhook_id


def _renamed_webhook(tenant: Tenant) -> str:
    """A webhook with a description of its own."""
    webhook_id, body = _webhook(tenant), {"description": tenant.ports.new_id("x")}
    tenant.admin.request("PATCH", f"/v1/webhooks/{webhook_id}", json=body)
    return webhook_id


def _delivered(tenant: Tenant) -> str:
    """A webhook that was sent an event."""
    webhook_id = _webhook(tenant)
    made = Delivery(
        tenant.ports.new_id("evt"),
        index=0,
        type="rescind.test",
        state=DeliveryState.DELIVERED,
        attempts=1,
        attempted_at=tenant.ports.now(),
        outcome=DeliveryOutcome.RESPONSE,
        status=204,
        duration_ms=1,
        response="",
        expires=int(tenant.ports.now().timestamp()) + 60,
    )
    address = deliveries.address(tenant.id, webhook_id, made.id)
    tenant.ports.store.write(Put(address, made.to_item(), Expect.ANYTHING))
    return webhook_id


def _bound(ports: Ports, caller: Caller) -> IdentityProvider:
    """An identity provider: the newest one of the tenant, or a new one."""
    partition = providers.providers(caller.tenant_id)
    for row in ports.store.query(partition, newest_first=True):
        return IdentityProvider.from_item(row.item)
    return identities.bound(ports, caller, email_domains=("example.com",))


def _asked(tenant: Tenant) -> str:
    """What a new person asked for; people of each role are signed in who may decide or not."""
    person_id, provider = _person(tenant), _bound(tenant.ports, tenant.operator)
    for role in Scope:
        made = identities.signed_in(tenant.ports, provider, role, sub=f"like-{role}")
        _SIGNED_IN[tenant.id, role] = made.secret
    asking = replace(tenant.operator, owner_id=person_id, identity="a@example.com")
    action = ProtectedAction.UNREVOKE
    return approvals.create_request(
        tenant.ports, asking, action, "subject", reason="r", details={}
    ).id


def _provider(tenant: Tenant) -> str:
    return _bound(tenant.ports, tenant.operator).id


def _no_provider(tenant: Tenant) -> None:
    for row in list(tenant.ports.store.query(providers.providers(tenant.id))):
        identity_providers.delete(tenant.ports, tenant.operator, provider_id=row.sk)


def _renamed_provider(tenant: Tenant) -> str:
    """A provider with a name of its own."""
    provider_id, change = _provider(tenant), ProviderChange(name=tenant.ports.new_id("x"))
    identity_providers.update(tenant.ports, tenant.operator, provider_id=provider_id, change=change)
    return provider_id


def _session(tenant: Tenant) -> str:
    """A session of a new person."""
    sub = tenant.ports.new_id("x")[2:]
    provider = _bound(tenant.ports, tenant.operator)
    return identities.signed_in(tenant.ports, provider, sub=sub).session.id


def _person(tenant: Tenant) -> str:
    """A new person."""
    sub = tenant.ports.new_id("x")[2:]
    provider = _bound(tenant.ports, tenant.operator)
    return identities.signed_in(tenant.ports, provider, sub=sub).session.owner


def _disabled_person(tenant: Tenant) -> str:
    person_id = _person(tenant)
    people.disable(tenant.ports, tenant.operator, person_id=person_id)
    return person_id


def _role(tenant: Tenant) -> str:
    """A role."""
    return roles.put_role(tenant.ports, tenant.operator, role=Role("paris", (REVOKER,))).name


def _no_webhook(tenant: Tenant) -> None:
    for each in tenant.admin.get("/v1/webhooks").json()["webhooks"]:
        tenant.admin.delete(f"/v1/webhooks/{each['id']}")


def _entry_of_key(tenant: Tenant) -> str:
    """The audit entry of a new API key."""
    return f"?resource_id={_spare_key(tenant)}"


def _entry_of_settings(tenant: Tenant) -> str:
    """The audit entry of a change of settings, by this call or an earlier one."""
    body = {"rotation_grace_seconds": 3600}
    assert tenant.admin.request("PATCH", "/v1/tenant/settings", json=body).status_code == 200
    return "?action=tenant.update_settings"


def _sealed(tenant: Tenant) -> str:
    """The first sealed entry of the tenant's audit log, of which others are sealed too."""
    _spare_key(tenant)
    sealing.extend(tenant.ports, tenant.id)
    return log.records(tenant.ports, tenant.id, 0, 1)[0].id


def _tile(tenant: Tenant) -> str:
    _sealed(tenant)
    return "0/000.p/1"


def _few_audit_signers(tenant: Tenant) -> None:
    for each in signers.all_of(tenant.ports, tenant.id):
        tenant.ports.store.write(Delete(each.address, Expect.PRESENT))


def _counted(tenant: Tenant) -> None:
    """Revocations of which those of the first days are counted."""
    _revocation(tenant)
    sealing.extend(tenant.ports, tenant.id)


def _check_of_revoked(tenant: Tenant) -> str:
    warrant_id = tenant.ports.new_id("wrt")
    tenant.revoke(warrant_id)
    return f"?warrant_id={warrant_id}"


def _listed(tenant: Tenant) -> str:
    """The version of a new list, by which the feed has its base."""
    return str(tenant.admin.post("/v1/revocations/srl/regenerate").json()["version"])


def _feed_of_revoked(tenant: Tenant) -> None:
    """A feed that has an entry after its base."""
    _listed(tenant)
    tenant.revoke(tenant.ports.new_id("wrt"))
    publish_feed(tenant.ports, tenant.id)


# The body that publishes a trust document, which `_draft` fills.
_SIGNED_DRAFT: dict[str, Any] = {}
_DRAFTS_MAX: Final = 20


def _draft(tenant: Tenant) -> None:
    """A trust document that was signed and not published."""
    _SIGNED_DRAFT.update(roots.body_of(roots.signed_draft(tenant.ports, tenant.operator)))


def _document(tenant: Tenant) -> None:
    """A trust document that was published; a server may publish others meanwhile."""
    answers = (_published(tenant) for _ in range(_DRAFTS_MAX))
    assert next(each for each in answers if each != HTTPStatus.CONFLICT) == HTTPStatus.OK


def _published(tenant: Tenant) -> int:
    _draft(tenant)
    status: int = tenant.admin.request("PUT", "/v1/trust", json=_SIGNED_DRAFT).status_code
    return status


def _named_keys(tenant: Tenant) -> str:
    """The hash of the signing keys that the feed names."""
    _key(tenant)
    _document(tenant)
    newest = in_force.read_feed_head(tenant.ports, tenant.id)
    assert newest is not None
    assert newest.signed_head.keys is not None
    return newest.signed_head.keys.sha256.hex()


_KEY = _names("id name scopes status created_at expires_at") | {"scopes": [...]}
_USED = _KEY | _names("last_used_at created_by_id") | {"networks": []}
_AUTHORIZER = _names(
    "id name type version public_key owner relay registered_at last_seen_at",
    "sequence chain verified_at max_staleness_seconds fail_open equivocation api_key_id",
    "key_verified trust_version",
) | {"metadata": {}, "refused": {}, "features": []}
_CHANGE = _names("id kind name recorded_at reason") | {"actor": _names("identity key_id name")}
_PACE = _names("report_after_seconds jitter_seconds")
_SIGNED_HEAD = _names("Payload Signature")
_SRL = {
    "payload": _names("Version IssuedAt ExpiresAt") | {"RevokedIDs": []},
    "srl": _SIGNED_HEAD,
}
_HEARD = _PACE | _names("feed_sequence srl_version")
_HEARD_STOCK = _PACE | _names("feed_sequence latest_srl_version")
_SIGNER = _names("key_id algorithm public_key status created_at activates_at statement")
_PROVED_SIGNER = _SIGNER | {"statement": _SIGNED_HEAD}
_RECORD = _names("id warrant_id reason created_at created_by")
_UNREGISTERED = _names("name owner code last_seen_at")
_BATCH = ["svc_wrt_a"]
_SIGNING_KEY = _names("id type name status parent_id public_key created_at expires_at")
_VERSION = _names("key_id version status public_key created_at rotated_at")
_TRUSTED_KEY = _names("key_id key_version type status parent_id public_key created_at expires_at")
_TRUST_DOCUMENT = _names("Payload") | {"Signatures": [_names("Key Signature")]}
_SIGNED = _names("warrant_id key_id key_version algorithm public_key warrant signed_at expires_at")
_WARRANT = _names("warrant_id key_version signed_at expires_at")
_ACCOUNT = _names("id name email description status created_at")
_ENTRY = _names(
    "id timestamp actor actor_key_id actor_name actor_id",
    "action resource_id result source_ip request_id",
)
_CHANGED = _names("old new")
_SETTINGS_DETAILS = _names("name") | {"changes": {"rotation_grace_seconds": _CHANGED}}
_SETTINGS = _names(
    "tenant_id name srl_ttl_seconds audit_retention_days rotation_grace_seconds feed_window_ms",
    "srl_publication max_authorizers unrevoke_policy person_key_max_days unused_key_days",
    "rate_limit_per_second rate_limit_burst",
    "created_at delete_after",
)
_AUDIT_SIGNER = _names("key_id algorithm public_key verifier_key created_at retired_at")
_WEBHOOK = _names(
    "id url description status disabled_reason created_at next_index failing_since next_attempt_at",
    "deferred_events",
) | {"events": [...]}
_ENDPOINTS_FOUND = _names(
    "authorization_endpoint device_authorization_endpoint token_endpoint jwks_uri"
)
_PROVIDER = _ENDPOINTS_FOUND | {
    **_names("id name usage issuer client_id cli_client_id has_client_secret"),
    **_names("session_seconds allow_token_reuse trusts_email step_up token_exchange created_at"),
    **_names("token_max_seconds"),
    "jwks": {"keys": [_names("kty crv kid x alg")]},
    "role_mappings": [{"claims": _names("groups"), **_names("role service_account")}],
    "email_domains": [...],
}
_PERSON = _names("id email name role status provider_id issuer subject created_at")
_ASKED = _names(
    "id action subject count remaining reason request status requested_by requested_by_id",
    "decided_by decided_by_id decided_at created_at expires_at record_version",
) | {"details": {}}
_MANIFEST = _names("id unrevoke_batch_id sha256 count parts created_by created_at expires_at") | {
    "groups": [_names("created_by created_by_id reason count")]
}
_PROTECTED_ACTIONS = {"actions": [], "unrevoke_threshold": ...}
_SESSION = _names("id identity owner provider_id created_at authenticated_at expires_at")
_ROLE = _names("name is_built_in") | {
    "scopes": [...],
    "warrant_prefixes": [],
    "signing_keys": [],
}
_DELIVERY = _names("id index type state attempts attempted_at outcome status duration_ms response")

_STATUS_LIST = _names("id name uri size allocated created_at")

_COMPAT = "/compat/tenuo/v1"
_ROWS = (
    _row("GET /v1/api-keys listApiKeys", _page("api_keys", _USED)),
    _row(
        "POST /v1/api-keys createApiKey 201 api_key.create",
        _KEY | _names("key"),
        body={"name": "new", "scopes": ["read-only"]},
        secret="key",
    ),
    _row(
        "GET /v1/api-keys/{id} getApiKey",
        _USED | _names("request_count"),
        on=lambda tenant: tenant.read_only.key_id,
    ),
    _row(
        "POST /v1/api-keys/{id}/rotate rotateApiKey 201 api_key.rotate",
        _KEY | _names("key predecessor_id predecessor_accepted_until"),
        on=_spare_key,
        body={"grace_seconds": 60},
        secret="key",
    ),
    _row(
        "POST /v1/api-keys/{id}/revoke revokeApiKey api_key.revoke",
        "id status revoked_at",
        on=_spare_key,
    ),
    _row("DELETE /v1/api-keys/{id} deleteApiKey api_key.delete", on=_spare_key),
    _row(
        "GET /v1/whoami getCaller",
        _names("tenant_id tenant_name identity api_key_id api_key_name")
        | {"scopes": [...], "expires_at": ..., "can_create_until": ...}
        | _names("name role person_id session_id authenticated_at"),
        limited=True,
        scopes=ANY,
    ),
    _row(
        "GET /v1/revocations listRevocations",
        _page("revocations", _RECORD),
        on=_revocation,
        scopes=_REVIEWERS,
    ),
    _row(
        "POST /v1/revocations createRevocation 201 revocation.create",
        _RECORD | _names("created_by_name"),
        body={"warrant_id": "svc_wrt_new", "reason": "stolen"},
        scopes=_REVOKERS,
        limited=True,
    ),
    _row(
        "GET /v1/revocations/counts countRevocations",
        {"days": [_names("date created deleted by_key")], "counted_since": ...},
        on=_counted,
        scopes=_REVIEWERS,
    ),
    _row(
        "GET /v1/revocations/{id} getRevocation",
        _RECORD | _names("created_by_name feed_sequence srl_version"),
        on=_revocation,
        scopes=_REVIEWERS,
    ),
    _row(
        "GET /v1/revocations/{id}/propagation getRevocationPropagation",
        _names("revocation_id warrant_id revoked_at srl is_complete is_verified")
        | {
            "feed": _names("sequence issued_at"),
            "authorizers": _names("total enforced fail_closed unknown unsupported key_unverified"),
            "lagging_authorizers": [
                _names("id name enforcement key_verified sequence last_seen_at fail_closed_at")
            ],
            "unregistered": [_UNREGISTERED],
        },
        on=_propagation,
        scopes=_REVIEWERS,
    ),
    _row(
        "DELETE /v1/revocations/{id} deleteRevocation revocation.delete",
        on=_revocation,
        scopes=_REVOKERS,
        limited=True,
    ),
    _row(
        "POST /v1/revocations/batch batchRevocations revocation.create_batch",
        {
            "batch_id": ...,
            "results": [_names("id outcome revocation_id")],
            "counts": _names("revoked already_revoked extended unrevoked not_revoked failed"),
        },
        body={"action": "revoke", "warrant_ids": ["svc_wrt_batch"], "reason": "stolen"},
        scopes=_REVOKERS,
        resource="batch_id",
        is_kept=False,
        limited=True,
    ),
    _row(
        "POST /v1/unrevoke-manifests createUnrevokeManifest 201",
        _MANIFEST | {"not_revoked": [...]},
        body={"warrant_ids": ["svc_wrt_listed", "svc_wrt_free"]},
        on=_revoke_listed,
        scopes=_REVOKERS,
        is_kept=False,
        limited=True,
    ),
    _row(
        "GET /v1/unrevoke-manifests/{id} getUnrevokeManifest",
        _MANIFEST,
        on=_manifest,
        scopes=_REVIEWERS,
        limited=True,
    ),
    _row(
        "GET /v1/unrevoke-manifests/{id}/members listUnrevokeManifestMembers",
        _page("members", _names("revocation_id warrant_id created_by reason")),
        on=_manifest,
        scopes=_REVIEWERS,
        limited=True,
    ),
    _row(
        "POST /v1/unrevoke-manifests/{id}/parts/{number}/apply applyUnrevokeManifestPart "
        "revocation.delete_batch",
        {
            "batch_id": ...,
            "results": [_names("id outcome revocation_id warrant_id")],
            "counts": _names("revoked already_revoked extended unrevoked not_revoked failed"),
        },
        body={"reason": "mistake"},
        on=_manifest,
        scopes=_REVOKERS,
        resource=lambda answer: answer["batch_id"],
        is_kept=False,
        limited=True,
    ),
    _row(
        "GET /v1/revocations/check checkRevocation",
        "warrant_id revoked revoked_at reason",
        on=_check_of_revoked,
        scopes=_CHECKERS,
        limited=True,
    ),
    _row(
        "POST /v1/revocations/check-batch checkRevocations",
        {"results": dict.fromkeys(_BATCH, _names("revoked"))},
        body={"warrant_ids": _BATCH},
        scopes=_CHECKERS,
        is_kept=False,
        limited=True,
    ),
    _row(
        "GET /v1/revocations/feed pollFeed",
        {"head": _SIGNED_HEAD, "entries": [...], **_names("poll_seconds max_wait_seconds")},
        on=_feed_of_revoked,
        scopes=(*_FLEET, AUDITOR),
    ),
    _row(
        "GET /v1/revocations/feed/base/{version} getFeedBase",
        on=_listed,
        scopes=(*_FLEET, AUDITOR),
        media_type="application/cbor",
        needs="blobs",
    ),
    _row("GET /v1/revocations/srl getSrl", _SRL, scopes=_CHECKERS, needs="blobs"),
    _row("GET /v1/revocations/srl/signed getSignedSrl", _SRL, scopes=_CHECKERS, needs="blobs"),
    _row(
        "GET /v1/revocations/srl/keys listSrlKeys", {"keys": [_SIGNER], "cursor": ...}, scopes=ANY
    ),
    _row(
        "GET /v1/revocations/srl/status getSrlStatus",
        _names(
            "version issued_at expires_at count key_id next_due_at feed_sequence pending",
            "pending_truncated oldest_pending_at",
        ),
        scopes=_OBSERVERS,
    ),
    _row(
        "GET /v1/revocations/srl/versions listSrlVersions",
        {
            "versions": [
                _names("version issued_at expires_at count added_count removed_count key_id sha256")
            ],
            "cursor": ...,
        },
        scopes=_OBSERVERS,
    ),
    _row(
        "POST /v1/revocations/srl/regenerate regenerateSrl srl.regenerate",
        "version issued_at expires_at revocation_count",
        resource=lambda answer: f"srl/{answer['version']}",
        needs="blobs keys",
    ),
    _row(
        "POST /v1/revocations/srl/keys createSrlKey 201 srl.create_key",
        _PROVED_SIGNER,
        on=_no_pending_signer,
        resource="key_id",
        needs="keys",
    ),
    _row(
        "POST /v1/revocations/srl/keys/{keyId}/activate activateSrlKey srl.activate_key",
        _PROVED_SIGNER,
        on=_pending_signer,
        body={"force": True},
        needs="blobs keys",
    ),
    _row(
        "POST /v1/revocations/srl/keys/{keyId}/revoke revokeSrlKey srl.revoke_key",
        _PROVED_SIGNER,
        on=_pending_signer,
    ),
    _row(
        "POST /v1/revocations/srl/keys/rotate rotateSrlKey 201 srl.rotate_key",
        _PROVED_SIGNER,
        on=name_signers,
        resource="key_id",
        needs="blobs keys",
    ),
    _row("GET /v1/keys listSigningKeys", _page("keys", _SIGNING_KEY), on=_key, scopes=_SIGNERS),
    _row(
        "POST /v1/keys createSigningKey 201 key.create",
        _SIGNING_KEY,
        body={"type": "root", "name": "root"},
        needs="keys",
    ),
    _row("GET /v1/keys/{keyId} getSigningKey", _SIGNING_KEY, on=_key, scopes=_SIGNERS),
    _row(
        "GET /v1/keys/{keyId}/versions listSigningKeyVersions",
        {"versions": [_VERSION]},
        on=_signed_with,
        scopes=_SIGNERS,
    ),
    _row(
        "GET /v1/keys/{keyId}/warrants listWarrants", _page("warrants", _WARRANT), on=_signed_with
    ),
    _row(
        "POST /v1/keys/{keyId}/rotate rotateSigningKey key.rotate",
        "id type name status public_key rotated_at",
        on=_key,
        needs="keys",
        limited=True,
    ),
    _row(
        "POST /v1/keys/{keyId}/suspend suspendSigningKey key.suspend",
        _SIGNING_KEY | _names("suspended_at"),
        on=_key,
        limited=True,
    ),
    _row(
        "POST /v1/keys/{keyId}/enable enableSigningKey key.enable",
        _SIGNING_KEY,
        on=_suspended,
        limited=True,
    ),
    _row(
        "POST /v1/keys/{keyId}/revoke revokeSigningKey key.revoke",
        _SIGNING_KEY | _names("revoked_at reason"),
        on=_key,
        body={"reason": "stolen"},
        limited=True,
    ),
    _row(
        "POST /v1/keys/{keyId}/sign signWarrant 201 key.sign",
        _SIGNED,
        on=_key,
        body={"payload": "aGVsbG8="},
        scopes=(ADMIN, SIGNER),
        needs="keys",
        limited=True,
    ),
    _row(
        "GET /v1/trust-bundle getTrustBundle",
        {
            "keys": [_TRUSTED_KEY],
            "srl_signers": [_names("key_id status public_key")],
            **_names("tenant_id revision cursor"),
        },
        on=_key,
        scopes=ANY,
    ),
    _row(
        "GET /v1/trust getTrust",
        {"documents": [_TRUST_DOCUMENT]},
        on=_document,
        scopes=ANY,
        needs="blobs",
    ),
    _row(
        "GET /v1/trust/keys/{sha256} getTrustKeys",
        on=_named_keys,
        scopes=ANY,
        media_type="application/cbor",
        needs="blobs",
    ),
    _row(
        "GET /v1/trust/draft getTrustDraft",
        _names("Payload") | {"Signatures": []},
        on=_document,
        scopes=(ADMIN,),
        needs="blobs",
    ),
    _row(
        "PUT /v1/trust publishTrust 200 trust.publish",
        "version pin expires_at",
        on=_draft,
        body=_SIGNED_DRAFT,
        resource=lambda shown: f"trust/{shown['version']}",
        needs="blobs keys",
    ),
    _row(
        "POST /v1/authorizers/register registerAuthorizer 201 authorizer.register",
        _PACE | _names("id key_verified last_number"),
        on=_registration,
        body=_REGISTRATION,
        scopes=_FLEET,
    ),
    _row(
        "POST /v1/authorizers/{id}/heartbeat sendHeartbeat",
        _HEARD | _names("status"),
        on=_reporting,
        body=_REPORT,
        scopes=_FLEET,
        is_kept=False,
    ),
    _row(
        "POST /v1/authorizers/reports sendReports",
        _HEARD | {"results": [_names("id status reason")]},
        body={"relay": "r", "reports": [{"id": "svc_azr_01kbm4xt3rfz8c5w7y2q9n6d1e"}]},
        scopes=_FLEET,
        is_kept=False,
    ),
    _row("GET /v1/authorizers listAuthorizers", _page("authorizers", _AUTHORIZER), on=_authorizer),
    _row(
        "GET /v1/changes listChanges",
        {"changes": [_CHANGE], "total": ..., "cursor": ...},
        on=lambda tenant: _revocation(tenant) and None,
        scopes=_REVIEWERS,
    ),
    _row(
        "GET /v1/changes/{id} getChange",
        _CHANGE
        | _names("can_unrevoke srl srl_due_at is_complete completed_at is_upper_bound")
        | {
            "reach": _names("keys warrants"),
            "feed": _names("sequence issued_at published total"),
            "authorizers": _names("total enforced fail_closed unknown unsupported"),
            "propagation_curve": [],
            "lagging_authorizers": [
                _names(
                    "id name owner sequence lag_entries enforcement last_seen_at fail_closed_at",
                    "fail_open",
                ),
            ],
            "unregistered": [_UNREGISTERED],
        },
        on=_propagation,
        scopes=_REVIEWERS,
    ),
    _row(
        "GET /v1/search search",
        {"results": [_names("kind id name note status")]},
        on=lambda _: "?q=admin",
        scopes=(ADMIN, READ_ONLY, REVOKER, SIGNER, AUDITOR),
    ),
    _row(
        "GET /v1/authorizers/summary getAuthorizerSummary",
        _names(
            "sequence issued_at total enforced fail_closed unknown missed_heartbeat fail_open",
            "without_cutoffs next_change_at",
        )
        | {"unregistered": [_UNREGISTERED]},
        on=refuse_registration,
    ),
    _row("GET /v1/authorizers/{id} getAuthorizer", _AUTHORIZER, on=_authorizer),
    _row(
        "DELETE /v1/authorizers removeAuthorizersOfOwner authorizer.remove_batch",
        on=_of_key,
        scopes=_FLEET,
    ),
    _row(
        "DELETE /v1/authorizers/{id} removeAuthorizer authorizer.remove",
        on=_authorizer,
        scopes=_FLEET,
    ),
    _row(
        "GET /v1/authorizers/native-signer getNativeSigner",
        "key_id algorithm public_key public_key_hex created_at",
        on=_native_signer,
        scopes=ANY,
    ),
    _row(
        f"GET {_COMPAT}/revocations/srl/signed getNativeSrl",
        "srl version",
        on=_native_signer,
        scopes=_FLEET,
        needs="blobs keys",
    ),
    _row(
        f"POST {_COMPAT}/authorizers/register registerStockAuthorizer 201 authorizer.register",
        _PACE | _names("id key_verified last_number"),
        body={"name": "stock", "type": "sidecar", "version": "0.3.3"},
        scopes=_FLEET,
    ),
    _row(
        f"POST {_COMPAT}/authorizers/{{id}}/heartbeat sendStockHeartbeat",
        _HEARD_STOCK | _names("status"),
        on=_stranger,
        body={"srl_version": 1},
        scopes=_FLEET,
        unknown=200,
        is_kept=False,
    ),
    _row(
        f"POST {_COMPAT}/authorizers/{{id}}/events countStockEvents 202",
        "accepted rejected",
        on=_stranger,
        body=[{"signature": "AA==", "signing_payload": "AA=="}],
        scopes=_FLEET,
        unknown=202,
        is_kept=False,
    ),
    _row(
        "GET /v1/status-lists listStatusLists",
        {"status_lists": [_STATUS_LIST]},
        on=lambda tenant: _status_list(tenant) and None,
    ),
    _row(
        "POST /v1/status-lists createStatusList 201 status_list.create",
        _STATUS_LIST,
        body={"name": "badges"},
    ),
    _row(
        "POST /v1/status-lists/{id}/entries allocateStatusEntries 201 status_list.allocate",
        {"uri": ..., "indexes": [...]},
        on=_status_list,
        body={"count": 2},
    ),
    _row(
        "POST /v1/status-lists/keys/rotate rotateStatusKey status_list.rotate_key",
        "key_id algorithm public_key created_at",
        on=lambda tenant: _status_list(tenant) and None,
        resource="key_id",
        needs="keys",
    ),
    _row("GET /v1/service-accounts listServiceAccounts", _page("service_accounts", _ACCOUNT)),
    _row(
        "POST /v1/service-accounts createServiceAccount 201 service_account.create",
        _ACCOUNT,
        body={"name": "robot"},
    ),
    _row("GET /v1/service-accounts/{id} getServiceAccount", _ACCOUNT, on=_account),
    _row(
        "GET /v1/service-accounts/{id}/api-keys listServiceAccountApiKeys",
        _page("api_keys", _USED),
        on=_owner,
    ),
    _row(
        "POST /v1/service-accounts/{id}/disable disableServiceAccount service_account.disable",
        _ACCOUNT,
        on=_account,
    ),
    _row(
        "POST /v1/service-accounts/{id}/enable enableServiceAccount service_account.enable",
        _ACCOUNT,
        on=_disabled,
    ),
    _row(
        "DELETE /v1/service-accounts/{id} deleteServiceAccount service_account.delete", on=_account
    ),
    _row(
        "GET /v1/audit-logs listAuditLog",
        _page("audit_logs", _ENTRY | {"details": _SETTINGS_DETAILS}),
        on=_entry_of_settings,
    ),
    _row(
        "GET /v1/audit-logs/export exportAuditLog",
        on=_entry_of_key,
        media_type="application/x-ndjson",
    ),
    _row(
        "GET /v1/audit-logs/checkpoint getAuditCheckpoint",
        on=_sealed,
        media_type="text/plain; charset=utf-8",
        needs="blobs",
    ),
    _row(
        "GET /v1/audit-logs/keys listAuditSigners",
        {"origin": ..., "keys": [_AUDIT_SIGNER]},
        on=_sealed,
    ),
    _row(
        "POST /v1/audit-logs/keys/rotate rotateAuditSigner audit_log.rotate_key",
        {"origin": ..., "keys": [_AUDIT_SIGNER]},
        on=_few_audit_signers,
        resource=lambda answer: answer["keys"][-1]["key_id"],
        needs="keys",
    ),
    _row(
        "GET /v1/audit-logs/tile/{path} getAuditTile",
        on=_tile,
        media_type="application/octet-stream",
    ),
    _row(
        "GET /v1/audit-logs/{id}/proof getAuditEntryProof",
        _names("id index record checkpoint") | {"path": [...]},
        on=_sealed,
    ),
    _row(
        "GET /v1/tenant/identity-providers listIdentityProviders",
        _page("identity_providers", _PROVIDER),
        on=_provider,
    ),
    _row(
        "POST /v1/tenant/identity-providers createIdentityProvider 201 identity_provider.create",
        _PROVIDER,
        on=_no_provider,
        body={
            "name": "SSO",
            "usage": "sign_in",
            "issuer": issuers.ISSUER,
            "client_id": "rescind",
            "client_secret": "s3cret",
            "jwks": identities.JWKS,
            "role_mappings": [{"claims": {"groups": "admin"}, "role": "admin"}],
            "email_domains": ["example.com"],
        },
        needs="keys",
    ),
    _row("GET /v1/tenant/identity-providers/{id} getIdentityProvider", _PROVIDER, on=_provider),
    _row(
        "PATCH /v1/tenant/identity-providers/{id} updateIdentityProvider identity_provider.update",
        _PROVIDER,
        on=_renamed_provider,
        body={"name": "new"},
    ),
    _row(
        "DELETE /v1/tenant/identity-providers/{id} deleteIdentityProvider identity_provider.delete",
        on=_provider,
    ),
    _row(
        "POST /v1/tenant/identity-providers/{id}/check checkIdentityProvider",
        _ENDPOINTS_FOUND | _names("is_stored"),
        on=_provider,
        is_kept=False,
    ),
    _row("GET /v1/people listPeople", _page("people", _PERSON), on=_person),
    _row("GET /v1/people/{id} getPerson", _PERSON, on=_person),
    _row(
        "POST /v1/people/{id}/disable disablePerson person.disable",
        _PERSON | _names("keys_ended keys_left"),
        on=_person,
        body={"made_keys": "end"},
        is_kept=False,
    ),
    _row("POST /v1/people/{id}/enable enablePerson person.enable", _PERSON, on=_disabled_person),
    _row("POST /v1/people/{id}/sign-out signOutPerson person.sign_out", _PERSON, on=_person),
    _row(
        "GET /v1/sessions listSessions",
        {"sessions": [_SESSION], "cursor": ...},
        on=_session,
        scopes=ANY,
        limited=True,
    ),
    _row(
        "DELETE /v1/sessions/{id} deleteSession session.delete",
        on=_session,
        scopes=ANY,
        limited=True,
    ),
    _row("GET /v1/roles listRoles", {"roles": [_ROLE]}, on=_role),
    _row("GET /v1/roles/{name} getRole", _ROLE, on=_role),
    _row("PUT /v1/roles/{name} putRole role.put", _ROLE, on=_role, body={"scopes": ["signer"]}),
    _row("DELETE /v1/roles/{name} deleteRole role.delete", on=_role),
    _row("GET /v1/tenant/protected-actions getProtectedActions", _PROTECTED_ACTIONS),
    _row(
        "PUT /v1/tenant/protected-actions updateProtectedActions",
        _PROTECTED_ACTIONS,
        body={"actions": [], "unrevoke_threshold": None},
    ),
    _row(
        "GET /v1/approvals listApprovals",
        {"approvals": [_ASKED], "cursor": ...},
        on=_asked,
        scopes=ANY,
    ),
    _row("GET /v1/approvals/{id} getApproval", _ASKED, on=_asked, scopes=ANY),
    _row(
        "POST /v1/approvals/{id}/approve approveRequest approval.approve",
        _ASKED,
        on=_asked,
        is_of_people=True,
    ),
    _row(
        "POST /v1/approvals/{id}/reject rejectRequest approval.reject",
        _ASKED,
        on=_asked,
        is_of_people=True,
    ),
    _row("GET /v1/tenant/settings getTenantSettings", _SETTINGS),
    _row(
        "PATCH /v1/tenant/settings updateTenantSettings tenant.update_settings",
        _SETTINGS,
        body={"name": "Acme"},
        resource="tenant_id",
    ),
    _row("GET /v1/webhooks listWebhooks", _page("webhooks", _WEBHOOK), on=_webhook),
    _row(
        "POST /v1/webhooks createWebhook 201 webhook.create",
        _WEBHOOK | _names("secret"),
        on=_no_webhook,
        body={"url": "https://hooks.example.com/new"},
        secret="secret",
        needs="keys",
    ),
    _row("GET /v1/webhooks/{id} getWebhook", _WEBHOOK, on=_webhook),
    _row(
        "PATCH /v1/webhooks/{id} updateWebhook webhook.update",
        _WEBHOOK,
        on=_renamed_webhook,
        body={"description": "new"},
    ),
    _row(
        "GET /v1/webhooks/{id}/deliveries listWebhookDeliveries",
        {"deliveries": [_DELIVERY], "cursor": ...},
        on=_delivered,
    ),
    _row(
        "POST /v1/webhooks/{id}/rotate-secret rotateWebhookSecret webhook.rotate_secret",
        _WEBHOOK | _names("secret"),
        on=_webhook,
        body={"grace_seconds": 60},
        secret="secret",
        needs="keys",
    ),
    _row(
        "POST /v1/webhooks/{id}/enable enableWebhook webhook.enable", _WEBHOOK, on=_disabled_webhook
    ),
    _row("POST /v1/webhooks/{id}/disable disableWebhook webhook.disable", _WEBHOOK, on=_webhook),
    _row("POST /v1/webhooks/{id}/test testWebhook 202 webhook.test", _WEBHOOK, on=_webhook),
    _row(
        "POST /v1/webhooks/{id}/replay replayWebhook webhook.replay",
        _WEBHOOK,
        on=_webhook,
        body={"from_index": 0},
    ),
    _row("DELETE /v1/webhooks/{id} deleteWebhook webhook.delete", on=_webhook),
)
ENDPOINTS: Final = dict(_ROWS)


def page() -> str:
    """The page with AUTH-4 as it should be: its table from the rows here, and the rest as it is."""
    groups: dict[tuple[Scope, ...], list[str]] = {}
    for (method, path), endpoint in ENDPOINTS.items():
        if endpoint.scopes != (ADMIN,):
            groups.setdefault(endpoint.scopes, []).append(f"`{method} {path}`")
    groups[ADMIN,] = ["every other endpoint"]
    lines = (
        f"| {', '.join(names)} | {'any' if scopes == ANY else _quoted(scopes)} |\n"
        for scopes, names in groups.items()
    )
    written, found = _TABLE.subn(lambda _: "".join(lines), PAGE.read_text(encoding="utf-8"))
    assert found == 1
    return written


def _quoted(scopes: tuple[Scope, ...]) -> str:
    return ", ".join(f"`{scope}`" for scope in scopes)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
