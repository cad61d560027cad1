"""Signing keys over HTTP: make one in any state, move it, sign with it, see what became of it."""

from typing import Any

from shared.model import signing_keys
from shared.model.items import Item, Partition
from tests.kit.api import Tenant
from tests.kit.endpoints import audit_entries

STATES = ("active", "suspended", "rotated", "revoked")


def create(tenant: Tenant, type_: str = "root", **fields: Any) -> dict[str, Any]:
    """A new key; `fields` are those of the body beside type and name."""
    answer = tenant.admin.post("/v1/keys", json={"type": type_, "name": "k"} | fields)
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def child(tenant: Tenant, parent: dict[str, Any], type_: str = "issuer") -> dict[str, Any]:
    """A new key below another."""
    return create(tenant, type_, parent_id=parent["id"])


def move(tenant: Tenant, key_id: str, action: str, **body: Any) -> Any:
    """The answer to rotate, suspend, enable or revoke; a revocation needs a reason."""
    body = {"reason": "lost"} | body if action == "revoke" else body
    return tenant.admin.post(f"/v1/keys/{key_id}/{action}", json=body)


def moved(tenant: Tenant, key_id: str, action: str, **body: Any) -> dict[str, Any]:
    """The key after a move that is allowed."""
    answer = move(tenant, key_id, action, **body)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def get(tenant: Tenant, key_id: str) -> dict[str, Any]:
    """The key as it stands."""
    answer = tenant.admin.get(f"/v1/keys/{key_id}")
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def versions(tenant: Tenant, key_id: str) -> list[dict[str, Any]]:
    """The versions of a key, newest first."""
    return list(tenant.admin.get(f"/v1/keys/{key_id}/versions").json()["versions"])


def superseded(tenant: Tenant, key_id: str) -> str:
    """Rotate a key; the identifier of the version that it had before."""
    moved(tenant, key_id, "rotate")
    return str(versions(tenant, key_id)[1]["key_id"])


def in_state(tenant: Tenant, state: str) -> str:
    """The identifier of a root in this state."""
    key_id = str(create(tenant)["id"])
    if state == "rotated":
        return superseded(tenant, key_id)
    if state != "active":
        moved(tenant, key_id, {"suspended": "suspend", "revoked": "revoke"}[state])
    return key_id


def sign(tenant: Tenant, key_id: str, payload: str = "cGF5", **fields: Any) -> Any:
    """The answer to a request to sign; `payload` is base64."""
    return tenant.admin.post(f"/v1/keys/{key_id}/sign", json={"payload": payload} | fields)


def signed(tenant: Tenant, key_id: str, **fields: Any) -> str:
    """The identifier of a warrant that the key has just signed."""
    answer = sign(tenant, key_id, **fields)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["warrant_id"])


def is_revoked(tenant: Tenant, warrant_id: str) -> bool:
    """What check says, which check-batch must say too."""
    path = f"/v1/revocations/check?warrant_id={warrant_id}"
    single = tenant.authorizer.get(path).json()["revoked"]
    body = {"warrant_ids": [warrant_id]}
    batch = tenant.authorizer.post("/v1/revocations/check-batch", json=body).json()
    assert batch["results"][warrant_id]["revoked"] is single
    return bool(single)


def next_list(tenant: Tenant) -> list[str]:
    """The revoked identifiers of a list published now."""
    assert tenant.admin.post("/v1/revocations/srl/regenerate").status_code == 200
    payload = tenant.authorizer.get("/v1/revocations/srl").json()["payload"]
    return list(payload["RevokedIDs"])


def refusal(answer: Any) -> tuple[int, str]:
    """Status and code of an error."""
    return answer.status_code, answer.json()["error"]["code"]


def stored(tenant: Tenant) -> list[Item]:
    """What a change of a signing key could change: records, counts, revoked ones, audit log."""
    store = tenant.ports.store
    records = [entry.item for entry in store.query(signing_keys.keys(tenant.id))]
    own = Partition(signing_keys.counts_address(tenant.id).table, tenant.id)
    counters = [entry.item for entry in store.query(own, after="counts#")]
    return [*records, *counters, *audit_entries(tenant)]
