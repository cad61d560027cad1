"""The blob of signing keys that heads of the feed name."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.authorizer.formats.members import Malformed
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
    assert PublishedKeys.opened(blob, reference(blob), tenant_id=TENANT) == _KEYS
    assert replace(_KEYS, keys=_KEYS.keys[::-1]).encode() == blob
    assert _ISSUER.kid == b"svc_key_b#2"


def test_a_state_that_is_not_known_counts_as_revoked() -> None:
    """TRUST-9, F669b: Of a key in a state that a reader does not know, no signature is valid."""
    states = ("active", "suspended", "rotated", "revoked", "quarantined")
    found = [_ROOT._replace(status=each).is_revoked for each in states]
    assert found == [False, False, False, True, True]


@pytest.mark.parametrize(
    "change",
    [
        {"Id": 1},
        {"Version": -1},
        {"Type": None},
        {"Status": 1},
        {"PublicKey": (1).to_bytes(32, "little")},
        {"PublicKey": b"short"},
        {"CreatedAt": "now"},
        {"Parent": None},
        {"ExpiresAt": None},
        {"RevokedAt": "2026-11-31T12:00:00Z"},
        {"Certificate": b"s" * 64},
        {"Certificate": {"By": "svc_key_a#1", "Signature": b"s" * 63}},
        {1: 1},
    ],
    ids=str,
)
def test_a_malformed_key_refuses_the_blob(change: dict[Any, Any]) -> None:
    """TRUST-9, F669c: A blob with a key of another form is refused as a whole."""
    members = cbor2.loads(_KEYS.encode())
    members["Keys"][1] |= change
    with pytest.raises(Malformed):
        PublishedKeys.decode(cbor2.dumps(members, canonical=True))


_MOMENTS = st.none() | st.integers(-(10**9), 10**9).map(lambda each: NOW + timedelta(seconds=each))


@given(_MOMENTS, _MOMENTS, st.text(), st.none() | st.text(), st.integers(0, 2**53))
def test_keys_are_read_as_they_were_written(
    end: datetime | None, rotated: datetime | None, text: str, parent: str | None, version: int
) -> None:
    """TRUST-9, F669d: Any keys are read as they were written."""
    key = _ISSUER._replace(
        key_id=text,
        type=text,
        parent_id=parent,
        version=version,
        expires_at=end,
        rotated_at=rotated,
    )
    made = PublishedKeys(text, tuple(sorted({key, _ROOT}, key=lambda each: each[:2])))
    assert PublishedKeys.decode(made.encode()) == made
