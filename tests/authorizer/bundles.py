"""The keys by which an authorizer verifies warrants, of a tenant of the real service."""

import base64
from datetime import datetime
from typing import Any

from shared.authorizer.formats.signing_keys import PublishedKey, PublishedKeys, reference
from shared.authorizer.trust import KeyBundle
from tests.kit.api import Tenant

ROOT_ID, ISSUER_ID = "svc_key_01m7yzmhg014scvmqfzcb3mfmr", "svc_key_01m7yzmhg014scvmqfzcb3mfms"


def published(tenant: Tenant) -> PublishedKeys:
    """All versions of all keys of a tenant, as the trust bundle of the service shows them."""
    found = tenant.authorizer.get("/v1/trust-bundle").json()
    assert found.get("cursor") is None
    keys = (_published(each) for each in found["keys"])
    ordered = sorted(keys, key=lambda each: (each.key_id, each.version))
    return PublishedKeys(found["tenant_id"], tuple(ordered))


def _published(members: dict[str, Any]) -> PublishedKey:
    ends = ("expires_at", "rotated_at", "suspended_at", "revoked_at")
    times: dict[str, Any] = {
        name: datetime.fromisoformat(members[name]) for name in ends if members.get(name)
    }
    key = PublishedKey(
        members["key_id"],
        members["key_version"],
        members["type"],
        members["status"],
        base64.b64decode(members["public_key"]),
        datetime.fromisoformat(members["created_at"]),
        members["parent_id"],
    )
    return key._replace(**times)


def bundled(keys: PublishedKeys) -> KeyBundle:
    """The bundle of a blob that a head names."""
    blob = keys.encode()
    named = reference(blob)
    return KeyBundle.of(PublishedKeys.from_blob(blob, named, tenant_id=keys.tenant_id), named, None)
