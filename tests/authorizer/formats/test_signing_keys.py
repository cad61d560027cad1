"""The blob of signing keys that heads of the feed name."""

from dataclasses import replace

import cbor2

from shared.authorizer.formats.signing_keys import PublishedKey, PublishedKeys, reference
from tests.authorizer.feeds import NOW, TENANT
from tests.authorizer.roots import DAY, public_of

_ROOT = PublishedKey("svc_key_a", 1, "root", "active", public_of(1), NOW)
_ISSUER = PublishedKey(
    key_id="svc_key_b",
    version=2,
    type="issuer",
    status="suspended",
    public_key=public_of(2),
    created_at=NOW,
    parent_id="svc_key_a",
    expires_at=NOW + DAY,
    rotated_at=NOW + 2 * DAY,
    suspended_at=NOW + 3 * DAY,
    revoked_at=NOW + 4 * DAY,
)
_KEYS = PublishedKeys(TENANT, (_ROOT, _ISSUER))


def test_the_blob_has_the_members_that_the_page_lists() -> None:
    """TRUST-9, F669a: A key has the members of the page, and those that it lacks are left out."""
    blob = _KEYS.encode()
    assert cbor2.loads(blob) == {
        "Tenant": TENANT,
        "Keys": [
            {
                "Id": "svc_key_a",
                "Version": 1,
                "Type": "root",
                "Status": "active",
                "PublicKey": public_of(1),
                "CreatedAt": "2026-11-21T12:00:00Z",
            },
            {
                "Id": "svc_key_b",
                "Version": 2,
                "Type": "issuer",
                "Status": "suspended",
                "PublicKey": public_of(2),
                "CreatedAt": "2026-11-21T12:00:00Z",
                "Parent": "svc_key_a",
                "ExpiresAt": "2026-11-22T12:00:00Z",
                "RotatedAt": "2026-11-23T12:00:00Z",
                "SuspendedAt": "2026-11-24T12:00:00Z",
                "RevokedAt": "2026-11-25T12:00:00Z",
            },
        ],
    }
    assert PublishedKeys.from_blob(blob, reference(blob), tenant_id=TENANT) == _KEYS
    assert replace(_KEYS, keys=_KEYS.keys[::-1]).encode() == blob
    assert _ISSUER.kid == b"svc_key_b#2"
