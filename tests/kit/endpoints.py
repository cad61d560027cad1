"""Every endpoint as the contract has it: who may call it, what it answers, what it leaves behind.

Written by hand from the contract, so that no route can vouch for itself. `make written` writes the
table of scopes in AUTH-4 from it.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from secrets import token_hex
from typing import Any, Final

from shared.model.audit.audit_log import month
from shared.model.callers import Scope
from shared.model.items import Item
from shared.model.webhooks import deliveries
from shared.model.webhooks.deliveries import Delivery, DeliveryOutcome, DeliveryState
from shared.operations.audit import log, sealing, signers
from shared.operations.lists import publication
from shared.ports.store import Delete, Expect, Put
from tests.kit.api import Client, Tenant
from tests.kit.asgi import Answer, bearer, send
from tests.kit.processes import ROOT

ADMIN, AUTHORIZER, READ_ONLY = Scope.ADMIN, Scope.AUTHORIZER, Scope.READ_ONLY
REVOKER, SIGNER, AUDITOR = Scope.REVOKER, Scope.SIGNER, Scope.AUDITOR
# As the API document lists them.
ANY = (ADMIN, AUTHORIZER, READ_ONLY, REVOKER, SIGNER, AUDITOR)

# The page with AUTH-4, and the rows of its table.
PAGE: Final = ROOT / "docs" / "spec" / "access.md"
_TABLE: Final = re.compile(r"(?<=\| Accepted scopes \|\n\| --- \| --- \|\n)(?:\|.*\n)+")
_IDENTIFIER: Final = re.compile(r"svc_[a-z]+_[0-9a-z]{26}")


@dataclass(frozen=True)
class Endpoint:
    """One method of one path. `target` prepares what a call acts on, and is the path to call.

    `name` is the operation's in generated clients, which never changes. `fields` is what `shape`
    says of the answer; `resource` names what the audit entry is about, by the path that was called
    and the answer. `unknown` is the status for an unknown resource. `secret` is the field of the
    answer that shows one. `is_kept` is whether a POST or PATCH can be repeated with an
    `Idempotency-Key`; it cannot if it makes no change, or is harmless to repeat.
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
    return re.sub(r"\{\w+\}", lambda _: resource, path)


def call(key: tuple[str, str], client: Client, target: str) -> Any:
    """Call the endpoint `key` as `client`, so that it can be repeated if it makes a change."""
    body = ENDPOINTS[key].body
    headers = {"Idempotency-Key": token_hex()} if key[0] in ("POST", "PATCH") else {}
    return client.request(
        key[0], target, headers=headers, **({} if body is None else {"json": body})
    )


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


def audit_entries(tenant: Tenant) -> list[Item]:
    """The audit log of the present month, oldest first."""
    partitions = month(tenant.id, tenant.ports.now())
    entries = chain.from_iterable(tenant.ports.store.query(each) for each in partitions)
    return [entry.item for entry in sorted(entries, key=lambda entry: entry.sk)]


def _names(*names: str) -> dict[str, Any]:
    return dict.fromkeys(names, ...)


def _spare_key(tenant: Tenant) -> str:
    return tenant.client(Scope.READ_ONLY).key_id


def _revocation(tenant: Tenant) -> str:
    return tenant.revoke(tenant.ports.new_id("wrt"))


def _propagation(tenant: Tenant) -> str:
    """How far a revocation has got that the feed has, but an authorizer does not."""
    revocation_id = _revocation(tenant)
    publication.publish_feed(tenant.ports, tenant.id)
    body = {"name": "gateway"}
    assert tenant.authorizer.post("/v1/authorizers/register", json=body).status_code in {200, 201}
    return f"/v1/revocations/{revocation_id}/propagation"


def _pending_signer(tenant: Tenant) -> str:
    """The list signer that signs nothing yet: a tenant has one at most."""
    keys = tenant.admin.get("/v1/revocations/srl/keys").json()["keys"]
    pending = [key for key in keys if key["status"] == "pending"]
    found = pending[0] if pending else tenant.admin.post("/v1/revocations/srl/keys").json()
    return str(found["key_id"])


def _no_pending_signer(tenant: Tenant) -> str:
    tenant.admin.post(f"/v1/revocations/srl/keys/{_pending_signer(tenant)}/revoke")
    return "/v1/revocations/srl/keys"


def _native_signer(tenant: Tenant) -> str:
    """The path of the native signer, which the first request makes."""
    tenant.admin.get("/v1/authorizers/native-signer")
    return "/v1/authorizers/native-signer"


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
    return str(tenant.admin.post("/v1/authorizers/register", json=body).json()["id"])


def _of_key(tenant: Tenant) -> str:
    """All authorizers of the admin key, of which there is one at least."""
    _authorizer(tenant)
    return f"/v1/authorizers?owner={tenant.admin.key_id}"


def _webhook(tenant: Tenant) -> str:
    """The path of a webhook; the first one of the tenant, or a new one."""
    body = {"url": "https://hooks.example.com/rescind"}
    found = tenant.admin.get("/v1/webhooks").json()["webhooks"]
    made = found[-1] if found else tenant.admin.post("/v1/webhooks", json=body).json()
    tenant.admin.post(f"/v1/webhooks/{made['id']}/enable")
    return f"/v1/webhooks/{made['id']}"


def _disabled_webhook(tenant: Tenant) -> str:
    path = _webhook(tenant)
    tenant.admin.post(f"{path}/disable")
    return path


def _renamed_webhook(tenant: Tenant) -> str:
    """The path of a webhook with a description of its own."""
    path = _webhook(tenant)
    body = {"description": tenant.ports.new_id("x")}
    tenant.admin.request("PATCH", path, json=body)
    return path


def _delivered(tenant: Tenant) -> str:
    """The path of a webhook that was sent an event."""
    path = _webhook(tenant)
    made = Delivery(
        tenant.ports.new_id("evt"),
        index=0,
        type="rescind.test",
        state=DeliveryState.DELIVERED,
        attempts=1,
        attempted_at=tenant.ports.now(),
        outcome=DeliveryOutcome.ANSWERED,
        status=204,
        milliseconds=1,
        answer="",
        expires=int(tenant.ports.now().timestamp()) + 60,
    )
    address = deliveries.address(tenant.id, identifier(path), made.id)
    tenant.ports.store.write(Put(address, made.to_item(), Expect.ANYTHING))
    return f"{path}/deliveries"


def _spare_webhook(tenant: Tenant) -> str:
    """The path for webhooks, of which the tenant may have another one."""
    _no_webhook(tenant)
    return "/v1/webhooks"


def _sealed(tenant: Tenant) -> str:
    """The first sealed entry of the tenant's audit log, of which others are sealed too."""
    _spare_key(tenant)
    sealing.extend(tenant.ports, tenant.id)
    return log.records(tenant.ports, tenant.id, 0, 1)[0].id


def _few_audit_signers(tenant: Tenant) -> str:
    for each in signers.all_of(tenant.ports, tenant.id):
        tenant.ports.store.write(Delete(each.address, Expect.PRESENT))
    return "/v1/audit-logs/keys/rotate"


def _no_webhook(tenant: Tenant) -> None:
    for each in tenant.admin.get("/v1/webhooks").json()["webhooks"]:
        tenant.admin.delete(f"/v1/webhooks/{each['id']}")


def _in_path(path: str, _answer: Any) -> str:
    return identifier(path)


def _member(name: str) -> Callable[[str, Any], str]:
    return lambda _path, answer: str(answer.json()[name])


_KEY = _names("id", "name", "scopes", "status", "created_at", "expires_at") | {"scopes": [...]}
_USED = _KEY | _names("last_used_at")
_AUTHORIZER = _names(
    *["id", "name", "type", "version", "public_key", "owner", "relay", "registered_at"],
    *["seen_at", "sequence", "chain", "verified_at", "max_staleness_seconds"],
    *["allow_when_stale", "foreign", "api_key_id"],
) | {"metadata": {}, "refused": {}}
_COMPAT = "/compat/tenuo/v1"
_PACE = _names("report_after_seconds", "spread_seconds")
_SRL = {
    "payload": _names("Version", "IssuedAt", "ExpiresAt") | {"RevokedIDs": []},
    "srl": _names("Payload", "Signature"),
}
_POLLED = {
    "head": _names("Payload", "Signature"),
    "entries": [...],
    **_names("poll_seconds", "wait_max"),
}
_SIGNER = _names(
    *["key_id", "algorithm", "public_key", "status", "created_at", "activates_at", "statement"]
)
_PROVED_SIGNER = _SIGNER | {"statement": _names("Payload", "Signature")}
_RECORD = _names("id", "warrant_id", "reason", "created_at", "created_by")
_BATCH = ["svc_wrt_a"]
_SIGNING_KEY = _names(
    *["id", "type", "name", "status", "parent_id", "public_key", "created_at", "expires_at"]
)
_VERSION = _names("key_id", "version", "status", "public_key", "created_at", "rotated_at")
_TRUSTED_KEY = _names(
    *["key_id", "key_version", "type", "status", "parent_id", "public_key", "created_at"],
    "expires_at",
)
_SIGNED = _names(
    *["warrant_id", "key_id", "key_version", "algorithm", "public_key", "warrant"],
    *["signed_at", "expires_at"],
)
_WARRANT = _names("warrant_id", "key_version", "signed_at", "expires_at")
_ACCOUNT = _names("id", "name", "email", "description", "status", "created_at")
_ENTRY = _names(
    *["id", "timestamp", "actor", "actor_key_id", "actor_name", "action", "resource_id"],
    *["result", "source_ip", "request_id"],
)
_KEY_DETAILS = _names("name", "service_account_id", "expires_at") | {"scopes": [...]}
_SETTINGS = _names(
    *["tenant_id", "name", "srl_ttl_seconds", "audit_retention_days", "rotation_grace_seconds"],
    *["feed_window_ms", "list_publication", "authorizers_max", "take_back"],
    *["rate_limit_per_second", "rate_limit_burst", "created_at", "removal_at"],
)


_AUDIT_SIGNER = _names(
    *["key_id", "algorithm", "public_key", "verifier_key", "created_at", "signs_until"]
)
_WEBHOOK = _names(
    *["id", "url", "description", "status", "disabled_because", "created_at", "next_index"],
    *["failing_since", "waits_until", "set_aside"],
) | {"events": [...]}
_DELIVERY = _names(
    *["id", "index", "type", "state", "attempts", "attempted_at", "outcome", "status"],
    *["milliseconds", "answer"],
)


def _listed_revocation(tenant: Tenant) -> str:
    _revocation(tenant)
    return "/v1/revocations"


def _counted(tenant: Tenant) -> str:
    """The path of the revocations per day, of which those of the first days are counted."""
    _revocation(tenant)
    sealing.extend(tenant.ports, tenant.id)
    return "/v1/revocations/counts"


def _check_of_revoked(tenant: Tenant) -> str:
    warrant_id = tenant.ports.new_id("wrt")
    tenant.revoke(warrant_id)
    return f"/v1/revocations/check?warrant_id={warrant_id}"


def _listed(tenant: Tenant) -> int:
    """The version of a new list, by which the feed has its base."""
    return int(tenant.admin.post("/v1/revocations/srl/regenerate").json()["version"])


def _feed_of_revoked(tenant: Tenant) -> str:
    """A feed that has an entry after its base."""
    _listed(tenant)
    tenant.revoke(tenant.ports.new_id("wrt"))
    publication.publish_feed(tenant.ports, tenant.id)
    return "/v1/revocations/feed"


ENDPOINTS: Final[dict[tuple[str, str], Endpoint]] = {
    ("GET", "/v1/api-keys"): Endpoint(
        "listApiKeys",
        scopes=(ADMIN, READ_ONLY, AUDITOR),
        target=lambda _: "/v1/api-keys",
        fields={"api_keys": [_USED], **_names("total", "cursor")},
    ),
    ("POST", "/v1/api-keys"): Endpoint(
        "createApiKey",
        scopes=(ADMIN,),
        target=lambda _: "/v1/api-keys",
        body={"name": "new", "scopes": ["read-only"]},
        status=201,
        fields=_KEY | _names("key"),
        action="api_key.create",
        resource=_member("id"),
        secret="key",
    ),
    ("GET", "/v1/api-keys/{id}"): Endpoint(
        "getApiKey",
        scopes=(ADMIN, READ_ONLY, AUDITOR),
        target=lambda tenant: f"/v1/api-keys/{tenant.read_only.key_id}",
        fields=_USED | _names("request_count"),
    ),
    ("POST", "/v1/api-keys/{id}/rotate"): Endpoint(
        "rotateApiKey",
        scopes=(ADMIN,),
        target=lambda tenant: f"/v1/api-keys/{_spare_key(tenant)}/rotate",
        body={"grace_seconds": 60},
        status=201,
        fields=_KEY | _names("key", "predecessor_id", "predecessor_accepted_until"),
        action="api_key.rotate",
        resource=_in_path,
        secret="key",
    ),
    ("POST", "/v1/api-keys/{id}/revoke"): Endpoint(
        "revokeApiKey",
        scopes=(ADMIN,),
        target=lambda tenant: f"/v1/api-keys/{_spare_key(tenant)}/revoke",
        fields=_names("id", "status", "revoked_at"),
        action="api_key.revoke",
        resource=_in_path,
    ),
    ("DELETE", "/v1/api-keys/{id}"): Endpoint(
        "deleteApiKey",
        scopes=(ADMIN,),
        target=lambda tenant: f"/v1/api-keys/{_spare_key(tenant)}",
        status=204,
        action="api_key.delete",
        resource=_in_path,
    ),
    ("GET", "/v1/whoami"): Endpoint(
        "getCaller",
        scopes=ANY,
        target=lambda _: "/v1/whoami",
        fields=_names("tenant_id", "tenant_name", "identity", "api_key_id", "api_key_name")
        | {"scopes": [...], "expires_at": ..., "creates_until": ...},
    ),
    ("GET", "/v1/revocations"): Endpoint(
        "listRevocations",
        scopes=(ADMIN, REVOKER, AUDITOR),
        target=_listed_revocation,
        fields={"revocations": [_RECORD], **_names("total", "cursor")},
    ),
    ("POST", "/v1/revocations"): Endpoint(
        "createRevocation",
        scopes=(ADMIN, REVOKER),
        target=lambda _: "/v1/revocations",
        body={"warrant_id": "svc_wrt_new", "reason": "stolen"},
        status=201,
        fields=_RECORD | _names("created_by_name"),
        action="revocation.create",
        resource=_member("id"),
    ),
    ("GET", "/v1/revocations/counts"): Endpoint(
        "countRevocations",
        scopes=(ADMIN, REVOKER, AUDITOR),
        target=_counted,
        fields={"days": [_names("date", "created", "removed")], **_names("known_from")},
    ),
    ("GET", "/v1/revocations/{id}"): Endpoint(
        "getRevocation",
        scopes=(ADMIN, REVOKER, AUDITOR),
        target=lambda tenant: f"/v1/revocations/{_revocation(tenant)}",
        fields=_RECORD | _names("created_by_name", "feed_sequence", "list_version"),
    ),
    ("GET", "/v1/revocations/{id}/propagation"): Endpoint(
        "getRevocationPropagation",
        scopes=(ADMIN, REVOKER, AUDITOR),
        target=_propagation,
        fields=_names("revocation_id", "warrant_id", "revoked_at", "list", "complete")
        | {
            "feed": _names("sequence", "issued_at"),
            "authorizers": _names("registered", "holding", "closed", "unknown"),
            "stragglers": [
                _names("id", "name", "proof", "holds", "seen_at", "denies_all_from"),
            ],
        },
    ),
    ("DELETE", "/v1/revocations/{id}"): Endpoint(
        "deleteRevocation",
        scopes=(ADMIN, REVOKER),
        target=lambda tenant: f"/v1/revocations/{_revocation(tenant)}",
        status=204,
        action="revocation.delete",
        resource=_in_path,
    ),
    ("POST", "/v1/revocations/batch"): Endpoint(
        "changeRevocations",
        scopes=(ADMIN, REVOKER),
        target=lambda _: "/v1/revocations/batch",
        body={"action": "revoke", "warrant_ids": ["svc_wrt_batch"], "reason": "stolen"},
        fields={
            "batch_id": ...,
            "results": [_names("id", "outcome", "revocation_id")],
            "counts": _names(
                *["revoked", "already_revoked", "extended", "taken_back", "not_revoked", "failed"]
            ),
        },
        action="revocation.create_batch",
        resource=_member("batch_id"),
        is_kept=False,
    ),
    ("GET", "/v1/revocations/check"): Endpoint(
        "checkRevocation",
        scopes=(ADMIN, AUTHORIZER, REVOKER, AUDITOR),
        target=_check_of_revoked,
        fields=_names("warrant_id", "revoked", "revoked_at", "reason"),
    ),
    ("POST", "/v1/revocations/check-batch"): Endpoint(
        "checkRevocations",
        scopes=(ADMIN, AUTHORIZER, REVOKER, AUDITOR),
        target=lambda _: "/v1/revocations/check-batch",
        body={"warrant_ids": _BATCH},
        fields={"results": dict.fromkeys(_BATCH, _names("revoked"))},
        is_kept=False,
    ),
    ("GET", "/v1/revocations/feed"): Endpoint(
        "pollFeed",
        scopes=(ADMIN, AUTHORIZER, AUDITOR),
        target=_feed_of_revoked,
        fields=_POLLED,
    ),
    ("GET", "/v1/revocations/feed/base/{version}"): Endpoint(
        "getFeedBase",
        scopes=(ADMIN, AUTHORIZER, AUDITOR),
        target=lambda tenant: f"/v1/revocations/feed/base/{_listed(tenant)}",
        media_type="application/cbor",
    ),
    ("GET", "/v1/revocations/srl"): Endpoint(
        "getSrl",
        scopes=(ADMIN, AUTHORIZER, REVOKER, AUDITOR),
        target=lambda _: "/v1/revocations/srl",
        fields=_SRL,
    ),
    ("GET", "/v1/revocations/srl/signed"): Endpoint(
        "getSignedSrl",
        scopes=(ADMIN, AUTHORIZER, REVOKER, AUDITOR),
        target=lambda _: "/v1/revocations/srl/signed",
        fields=_SRL,
    ),
    ("GET", "/v1/revocations/srl/keys"): Endpoint(
        "listSrlKeys",
        scopes=ANY,
        target=lambda _: "/v1/revocations/srl/keys",
        fields={"keys": [_SIGNER], **_names("cursor")},
    ),
    ("GET", "/v1/revocations/srl/status"): Endpoint(
        "getSrlStatus",
        scopes=(ADMIN, READ_ONLY, REVOKER, AUDITOR),
        target=lambda _: "/v1/revocations/srl/status",
        fields={
            **_names("version", "issued_at", "expires_at", "count", "key_id", "next_due_at"),
            **_names("feed_sequence", "pending", "pending_truncated", "oldest_pending_at"),
        },
    ),
    ("GET", "/v1/revocations/srl/versions"): Endpoint(
        "listSrlVersions",
        scopes=(ADMIN, READ_ONLY, REVOKER, AUDITOR),
        target=lambda _: "/v1/revocations/srl/versions",
        fields={
            "versions": [
                {
                    **_names("version", "issued_at", "expires_at", "count"),
                    **_names("added", "removed", "key_id", "sha256"),
                }
            ],
            **_names("cursor"),
        },
    ),
    ("POST", "/v1/revocations/srl/regenerate"): Endpoint(
        "regenerateSrl",
        scopes=(ADMIN,),
        target=lambda _: "/v1/revocations/srl/regenerate",
        fields=_names("version", "issued_at", "expires_at", "revocation_count"),
        action="srl.regenerate",
        resource=lambda _, answer: f"srl/{answer.json()['version']}",
    ),
    ("POST", "/v1/revocations/srl/keys"): Endpoint(
        "createSrlKey",
        scopes=(ADMIN,),
        target=_no_pending_signer,
        status=201,
        fields=_PROVED_SIGNER,
        action="srl.create_key",
        resource=_member("key_id"),
    ),
    ("POST", "/v1/revocations/srl/keys/{keyId}/activate"): Endpoint(
        "activateSrlKey",
        scopes=(ADMIN,),
        target=lambda tenant: f"/v1/revocations/srl/keys/{_pending_signer(tenant)}/activate",
        body={"force": True},
        fields=_PROVED_SIGNER,
        action="srl.activate_key",
        resource=_in_path,
    ),
    ("POST", "/v1/revocations/srl/keys/{keyId}/revoke"): Endpoint(
        "revokeSrlKey",
        scopes=(ADMIN,),
        target=lambda tenant: f"/v1/revocations/srl/keys/{_pending_signer(tenant)}/revoke",
        fields=_PROVED_SIGNER,
        action="srl.revoke_key",
        resource=_in_path,
    ),
    ("POST", "/v1/revocations/srl/keys/rotate"): Endpoint(
        "rotateSrlKey",
        scopes=(ADMIN,),
        target=lambda _: "/v1/revocations/srl/keys/rotate",
        status=201,
        fields=_PROVED_SIGNER,
        action="srl.rotate_key",
        resource=_member("key_id"),
    ),
    ("GET", "/v1/keys"): Endpoint(
        "listSigningKeys",
        scopes=(ADMIN, READ_ONLY, SIGNER, AUDITOR),
        target=lambda tenant: "/v1/keys" if _key(tenant) else "",
        fields={"keys": [_SIGNING_KEY], **_names("total", "cursor")},
    ),
    ("POST", "/v1/keys"): Endpoint(
        "createSigningKey",
        scopes=(ADMIN,),
        target=lambda _: "/v1/keys",
        body={"type": "root", "name": "root"},
        status=201,
        fields=_SIGNING_KEY,
        action="key.create",
        resource=_member("id"),
    ),
    ("GET", "/v1/keys/{keyId}"): Endpoint(
        "getSigningKey",
        scopes=(ADMIN, READ_ONLY, SIGNER, AUDITOR),
        target=lambda tenant: f"/v1/keys/{_key(tenant)}",
        fields=_SIGNING_KEY,
    ),
    ("GET", "/v1/keys/{keyId}/versions"): Endpoint(
        "listSigningKeyVersions",
        scopes=(ADMIN, READ_ONLY, SIGNER, AUDITOR),
        target=lambda tenant: f"/v1/keys/{_signed_with(tenant)}/versions",
        fields={"versions": [_VERSION]},
    ),
    ("GET", "/v1/keys/{keyId}/warrants"): Endpoint(
        "listWarrants",
        scopes=(ADMIN, READ_ONLY, AUDITOR),
        target=lambda tenant: f"/v1/keys/{_signed_with(tenant)}/warrants",
        fields={"warrants": [_WARRANT], **_names("total", "cursor")},
    ),
    ("POST", "/v1/keys/{keyId}/rotate"): Endpoint(
        "rotateSigningKey",
        scopes=(ADMIN,),
        target=lambda tenant: f"/v1/keys/{_key(tenant)}/rotate",
        fields=_names("id", "type", "name", "status", "public_key", "rotated_at"),
        action="key.rotate",
        resource=_in_path,
    ),
    ("POST", "/v1/keys/{keyId}/suspend"): Endpoint(
        "suspendSigningKey",
        scopes=(ADMIN,),
        target=lambda tenant: f"/v1/keys/{_key(tenant)}/suspend",
        fields=_SIGNING_KEY | _names("suspended_at"),
        action="key.suspend",
        resource=_in_path,
    ),
    ("POST", "/v1/keys/{keyId}/enable"): Endpoint(
        "enableSigningKey",
        scopes=(ADMIN,),
        target=lambda tenant: f"/v1/keys/{_suspended(tenant)}/enable",
        fields=_SIGNING_KEY,
        action="key.enable",
        resource=_in_path,
    ),
    ("POST", "/v1/keys/{keyId}/revoke"): Endpoint(
        "revokeSigningKey",
        scopes=(ADMIN,),
        target=lambda tenant: f"/v1/keys/{_key(tenant)}/revoke",
        body={"reason": "stolen"},
        fields=_SIGNING_KEY | _names("revoked_at", "reason"),
        action="key.revoke",
        resource=_in_path,
    ),
    ("POST", "/v1/keys/{keyId}/sign"): Endpoint(
        "signWarrant",
        scopes=(ADMIN, SIGNER),
        target=lambda tenant: f"/v1/keys/{_key(tenant)}/sign",
        body={"payload": "aGVsbG8="},
        status=201,
        fields=_SIGNED,
        action="key.sign",
        resource=_in_path,
    ),
    ("GET", "/v1/trust-bundle"): Endpoint(
        "getTrustBundle",
        scopes=ANY,
        target=lambda tenant: "/v1/trust-bundle" if _key(tenant) else "",
        fields={
            "keys": [_TRUSTED_KEY],
            "list_signers": [_names("key_id", "status", "public_key")],
            **_names("tenant_id", "revision", "cursor"),
        },
    ),
    ("POST", "/v1/authorizers/register"): Endpoint(
        "registerAuthorizer",
        scopes=(ADMIN, AUTHORIZER),
        target=lambda _: "/v1/authorizers/register",
        body={"name": "edge"},
        status=201,
        fields=_PACE | _names("id"),
        action="authorizer.register",
        resource=_member("id"),
    ),
    ("POST", "/v1/authorizers/{id}/heartbeat"): Endpoint(
        "sendHeartbeat",
        scopes=(ADMIN, AUTHORIZER),
        target=lambda tenant: f"/v1/authorizers/{_authorizer(tenant)}/heartbeat",
        body={"sequence": 0},
        fields=_PACE | _names("status", "latest_sequence", "latest_srl_version"),
        is_kept=False,
    ),
    ("POST", "/v1/authorizers/reports"): Endpoint(
        "sendReports",
        scopes=(ADMIN, AUTHORIZER),
        target=lambda _: "/v1/authorizers/reports",
        body={"relay": "r", "reports": [{"id": "svc_azr_01kbm4xt3rfz8c5w7y2q9n6d1e"}]},
        fields={
            "results": [_names("id", "status")],
            **_PACE,
            **_names("latest_sequence", "latest_srl_version"),
        },
        is_kept=False,
    ),
    ("GET", "/v1/authorizers"): Endpoint(
        "listAuthorizers",
        scopes=(ADMIN, READ_ONLY, AUDITOR),
        target=lambda tenant: "/v1/authorizers" if _authorizer(tenant) else "",
        fields={"authorizers": [_AUTHORIZER], **_names("total", "cursor")},
    ),
    ("GET", "/v1/authorizers/{id}"): Endpoint(
        "getAuthorizer",
        scopes=(ADMIN, READ_ONLY, AUDITOR),
        target=lambda tenant: f"/v1/authorizers/{_authorizer(tenant)}",
        fields=_AUTHORIZER,
    ),
    ("DELETE", "/v1/authorizers"): Endpoint(
        "removeAuthorizersOfKey",
        scopes=(ADMIN, AUTHORIZER),
        target=_of_key,
        status=204,
        action="authorizer.remove_batch",
        resource=_in_path,
    ),
    ("DELETE", "/v1/authorizers/{id}"): Endpoint(
        "removeAuthorizer",
        scopes=(ADMIN, AUTHORIZER),
        target=lambda tenant: f"/v1/authorizers/{_authorizer(tenant)}",
        status=204,
        action="authorizer.remove",
        resource=_in_path,
    ),
    ("GET", "/v1/authorizers/native-signer"): Endpoint(
        "getNativeSigner",
        scopes=ANY,
        target=_native_signer,
        fields=_names("key_id", "algorithm", "public_key", "public_key_hex", "created_at"),
    ),
    ("GET", "/compat/tenuo/v1/revocations/srl/signed"): Endpoint(
        "getNativeSrl",
        scopes=(ADMIN, AUTHORIZER),
        target=lambda tenant: f"{_COMPAT}/revocations/srl/signed" * bool(_native_signer(tenant)),
        fields=_names("srl", "version"),
    ),
    ("POST", "/compat/tenuo/v1/authorizers/register"): Endpoint(
        "registerStockAuthorizer",
        scopes=(ADMIN, AUTHORIZER),
        target=lambda _: f"{_COMPAT}/authorizers/register",
        body={"name": "stock", "type": "sidecar", "version": "0.3.3"},
        status=201,
        fields=_PACE | _names("id"),
        action="authorizer.register",
        resource=_member("id"),
    ),
    ("POST", "/compat/tenuo/v1/authorizers/{id}/heartbeat"): Endpoint(
        "sendStockHeartbeat",
        scopes=(ADMIN, AUTHORIZER),
        target=lambda tenant: f"{_COMPAT}/authorizers/{tenant.ports.new_id('azr')}/heartbeat",
        body={"srl_version": 1},
        fields=_PACE | _names("status", "latest_sequence", "latest_srl_version"),
        unknown=200,
        is_kept=False,
    ),
    ("POST", "/compat/tenuo/v1/authorizers/{id}/events"): Endpoint(
        "countStockEvents",
        scopes=(ADMIN, AUTHORIZER),
        target=lambda tenant: f"{_COMPAT}/authorizers/{tenant.ports.new_id('azr')}/events",
        body=[{"signature": "AA==", "signing_payload": "AA=="}],
        status=202,
        fields=_names("verified", "refused"),
        unknown=202,
        is_kept=False,
    ),
    ("GET", "/v1/service-accounts"): Endpoint(
        "listServiceAccounts",
        scopes=(ADMIN, READ_ONLY, AUDITOR),
        target=lambda _: "/v1/service-accounts",
        fields={"service_accounts": [_ACCOUNT], **_names("total", "cursor")},
    ),
    ("POST", "/v1/service-accounts"): Endpoint(
        "createServiceAccount",
        scopes=(ADMIN,),
        target=lambda _: "/v1/service-accounts",
        body={"name": "robot"},
        status=201,
        fields=_ACCOUNT,
        action="service_account.create",
        resource=_member("id"),
    ),
    ("GET", "/v1/service-accounts/{id}"): Endpoint(
        "getServiceAccount",
        scopes=(ADMIN, READ_ONLY, AUDITOR),
        target=lambda tenant: f"/v1/service-accounts/{_account(tenant)}",
        fields=_ACCOUNT,
    ),
    ("GET", "/v1/service-accounts/{id}/api-keys"): Endpoint(
        "listServiceAccountApiKeys",
        scopes=(ADMIN, READ_ONLY, AUDITOR),
        target=lambda tenant: f"/v1/service-accounts/{_owner(tenant)}/api-keys",
        fields={"api_keys": [_USED], **_names("total", "cursor")},
    ),
    ("POST", "/v1/service-accounts/{id}/disable"): Endpoint(
        "disableServiceAccount",
        scopes=(ADMIN,),
        target=lambda tenant: f"/v1/service-accounts/{_account(tenant)}/disable",
        fields=_ACCOUNT,
        action="service_account.disable",
        resource=_in_path,
    ),
    ("POST", "/v1/service-accounts/{id}/enable"): Endpoint(
        "enableServiceAccount",
        scopes=(ADMIN,),
        target=lambda tenant: f"/v1/service-accounts/{_disabled(tenant)}/enable",
        fields=_ACCOUNT,
        action="service_account.enable",
        resource=_in_path,
    ),
    ("DELETE", "/v1/service-accounts/{id}"): Endpoint(
        "deleteServiceAccount",
        scopes=(ADMIN,),
        target=lambda tenant: f"/v1/service-accounts/{_account(tenant)}",
        status=204,
        action="service_account.delete",
        resource=_in_path,
    ),
    ("GET", "/v1/audit-logs"): Endpoint(
        "listAuditLog",
        scopes=(ADMIN, READ_ONLY, AUDITOR),
        target=lambda tenant: f"/v1/audit-logs?resource_id={_spare_key(tenant)}",
        fields={
            "audit_logs": [_ENTRY | {"details": _KEY_DETAILS}],
            **_names("total", "cursor"),
        },
    ),
    ("GET", "/v1/audit-logs/export"): Endpoint(
        "exportAuditLog",
        scopes=(ADMIN, READ_ONLY, AUDITOR),
        target=lambda tenant: f"/v1/audit-logs/export?resource_id={_spare_key(tenant)}",
        media_type="application/x-ndjson",
    ),
    ("GET", "/v1/audit-logs/checkpoint"): Endpoint(
        "getAuditCheckpoint",
        scopes=(ADMIN, READ_ONLY, AUDITOR),
        target=lambda tenant: _sealed(tenant) and "/v1/audit-logs/checkpoint",
        media_type="text/plain; charset=utf-8",
    ),
    ("GET", "/v1/audit-logs/keys"): Endpoint(
        "listAuditSigners",
        scopes=(ADMIN, READ_ONLY, AUDITOR),
        target=lambda tenant: _sealed(tenant) and "/v1/audit-logs/keys",
        fields={"origin": ..., "keys": [_AUDIT_SIGNER]},
    ),
    ("POST", "/v1/audit-logs/keys/rotate"): Endpoint(
        "rotateAuditSigner",
        scopes=(ADMIN,),
        target=_few_audit_signers,
        fields={"origin": ..., "keys": [_AUDIT_SIGNER]},
        action="audit_log.rotate_key",
        resource=lambda _path, answer: str(answer.json()["keys"][-1]["key_id"]),
    ),
    ("GET", "/v1/audit-logs/tile/{path}"): Endpoint(
        "getAuditTile",
        scopes=(ADMIN, READ_ONLY, AUDITOR),
        target=lambda tenant: _sealed(tenant) and "/v1/audit-logs/tile/0/000.p/1",
        media_type="application/octet-stream",
    ),
    ("GET", "/v1/audit-logs/{id}/proof"): Endpoint(
        "proveAuditEntry",
        scopes=(ADMIN, READ_ONLY, AUDITOR),
        target=lambda tenant: f"/v1/audit-logs/{_sealed(tenant)}/proof",
        fields=_names("id", "index", "record", "checkpoint") | {"path": [...]},
    ),
    ("GET", "/v1/tenant/settings"): Endpoint(
        "getTenantSettings",
        scopes=(ADMIN, READ_ONLY, AUDITOR),
        target=lambda _: "/v1/tenant/settings",
        fields=_SETTINGS,
    ),
    ("PATCH", "/v1/tenant/settings"): Endpoint(
        "updateTenantSettings",
        scopes=(ADMIN,),
        target=lambda _: "/v1/tenant/settings",
        body={"name": "Acme"},
        fields=_SETTINGS,
        action="tenant.update_settings",
        resource=_member("tenant_id"),
    ),
    ("GET", "/v1/webhooks"): Endpoint(
        "listWebhooks",
        scopes=(ADMIN, READ_ONLY, AUDITOR),
        target=lambda tenant: "/v1/webhooks" if _webhook(tenant) else "",
        fields={"webhooks": [_WEBHOOK], **_names("total", "cursor")},
    ),
    ("POST", "/v1/webhooks"): Endpoint(
        "createWebhook",
        scopes=(ADMIN,),
        target=_spare_webhook,
        body={"url": "https://hooks.example.com/new"},
        status=201,
        fields=_WEBHOOK | _names("secret"),
        action="webhook.create",
        resource=_member("id"),
        secret="secret",
    ),
    ("GET", "/v1/webhooks/{id}"): Endpoint(
        "getWebhook",
        scopes=(ADMIN, READ_ONLY, AUDITOR),
        target=_webhook,
        fields=_WEBHOOK,
    ),
    ("PATCH", "/v1/webhooks/{id}"): Endpoint(
        "updateWebhook",
        scopes=(ADMIN,),
        target=_renamed_webhook,
        body={"description": "new"},
        fields=_WEBHOOK,
        action="webhook.update",
        resource=_in_path,
    ),
    ("GET", "/v1/webhooks/{id}/deliveries"): Endpoint(
        "listWebhookDeliveries",
        scopes=(ADMIN, READ_ONLY, AUDITOR),
        target=_delivered,
        fields={"deliveries": [_DELIVERY], **_names("cursor")},
    ),
    ("POST", "/v1/webhooks/{id}/rotate-secret"): Endpoint(
        "rotateWebhookSecret",
        scopes=(ADMIN,),
        target=lambda tenant: f"{_webhook(tenant)}/rotate-secret",
        body={"grace_seconds": 60},
        fields=_WEBHOOK | _names("secret"),
        action="webhook.rotate_secret",
        resource=_in_path,
        secret="secret",
    ),
    ("POST", "/v1/webhooks/{id}/enable"): Endpoint(
        "enableWebhook",
        scopes=(ADMIN,),
        target=lambda tenant: f"{_disabled_webhook(tenant)}/enable",
        fields=_WEBHOOK,
        action="webhook.enable",
        resource=_in_path,
    ),
    ("POST", "/v1/webhooks/{id}/disable"): Endpoint(
        "disableWebhook",
        scopes=(ADMIN,),
        target=lambda tenant: f"{_webhook(tenant)}/disable",
        fields=_WEBHOOK,
        action="webhook.disable",
        resource=_in_path,
    ),
    ("POST", "/v1/webhooks/{id}/test"): Endpoint(
        "testWebhook",
        scopes=(ADMIN,),
        target=lambda tenant: f"{_webhook(tenant)}/test",
        status=202,
        fields=_WEBHOOK,
        action="webhook.test",
        resource=_in_path,
    ),
    ("POST", "/v1/webhooks/{id}/replay"): Endpoint(
        "replayWebhook",
        scopes=(ADMIN,),
        target=lambda tenant: f"{_webhook(tenant)}/replay",
        body={"from_index": 0},
        fields=_WEBHOOK,
        action="webhook.replay",
        resource=_in_path,
    ),
    ("DELETE", "/v1/webhooks/{id}"): Endpoint(
        "deleteWebhook",
        scopes=(ADMIN,),
        target=_webhook,
        status=204,
        action="webhook.delete",
        resource=_in_path,
    ),
}


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
