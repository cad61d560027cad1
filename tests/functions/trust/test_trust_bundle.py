"""The trust bundle over HTTP (TRUST-1 to TRUST-3)."""

from typing import Any

from tests.functions import signing
from tests.kit.api import Tenant
from tests.kit.worlds import Clock

PATH = "/v1/trust-bundle"


def bundle(tenant: Tenant) -> Any:
    answer = tenant.authorizer.get(PATH)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_what_a_bundle_has(tenant: Tenant) -> None:
    """TRUST-1: The bundle has each version of each signing key with its state, and its place."""
    root = signing.create(tenant)
    issuer = signing.child(tenant, root)
    signing.moved(tenant, issuer["id"], "rotate")
    signing.moved(tenant, root["id"], "suspend")
    found = bundle(tenant)
    assert found["tenant_id"] == tenant.id
    assert found["cursor"] is None
    keys = {(each["key_id"], each["key_version"]): each for each in found["keys"]}
    assert keys[issuer["id"], 2]["status"] == "active"
    assert keys[issuer["id"], 1] == {
        "key_id": issuer["id"],
        "key_version": 1,
        "type": "issuer",
        "status": "rotated",
        "parent_id": root["id"],
        "public_key": issuer["public_key"],
        "created_at": "2026-11-21T12:00:00Z",
        "expires_at": None,
        "rotated_at": "2026-11-21T12:00:00Z",
    }
    assert keys[root["id"], 1]["suspended_at"] == "2026-11-21T12:00:00Z"
    assert len(keys) == len(found["keys"]) == 3
    (signer,) = tenant.authorizer.get("/v1/revocations/srl/keys").json()["keys"]
    shown = {name: signer[name] for name in ("key_id", "status", "public_key")}
    assert found["srl_signers"] == [shown]


def test_a_poll(tenant: Tenant, clock: Clock) -> None:
    """TRUST-3: A poll with the ETag of a settled bundle gets 304, until a key changes."""
    key = signing.create(tenant)
    etag, answers = "", []
    for minutes in (0, 3, 3, 3):
        clock.advance(minutes=minutes)
        answers.append(tenant.authorizer.get(PATH, headers={"If-None-Match": f'"x", {etag}'}))
        assert answers[-1].headers["Cache-Control"] == "private, no-cache"
        etag = answers[-1].headers["ETag"]
    assert [each.status_code for each in answers] == [200, 200, 200, 304]
    assert answers[-1].content == b""
    signing.moved(tenant, key["id"], "revoke")
    answer = tenant.authorizer.get(PATH, headers={"If-None-Match": etag})
    assert answer.status_code == 200
    assert answer.json()["keys"][0]["status"] == "revoked"


def test_a_foreign_cursor(tenant: Tenant, other_tenant: Tenant) -> None:
    """TRUST-2: A cursor of another list or tenant is refused with 400."""
    for cursor in ("x", "", "6t1Xw0eJ2m9Qb7kLc3ZyX3YxX2FrXzAxa2Jt"):
        answer = tenant.authorizer.get(f"{PATH}?cursor={cursor}")
        assert signing.refusal(answer) == (400, "invalid_request")
    assert bundle(other_tenant)["keys"] == []
