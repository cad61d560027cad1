"""The blob of signing keys that heads of the feed name."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.authorizer.formats.documents import NotTrusted, RootReason
from shared.authorizer.formats.members import Malformed
from shared.authorizer.formats.signing_keys import PublishedKey, PublishedKeys, reference
from shared.authorizer.formats.wire import Reference
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


def _refused(blob: bytes, by: Reference, tenant_id: str = TENANT) -> RootReason:
    with pytest.raises(NotTrusted) as refused:
        PublishedKeys.opened(blob, by, tenant_id=tenant_id)
    return refused.value.reason


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


def test_a_blob_is_the_one_that_the_head_names() -> None:
    """TRUST-9, F669b: A blob of another size, hash or tenant is refused before its keys count."""
    blob = _KEYS.encode()
    by = reference(blob)
    assert by.number == len(blob)
    assert _refused(blob + b"\0", by) is RootReason.TOO_LARGE
    assert _refused(blob[:-1], by) is RootReason.HASH
    assert _refused(PublishedKeys(TENANT, (_ROOT,)).encode(), by) is RootReason.HASH
    assert _refused(blob, by, "svc_tnt_b") is RootReason.TENANT
    for other in (b"", b"\xff", cbor2.dumps([1]), cbor2.dumps({1: 1})):
        assert _refused(other, reference(other)) is RootReason.MALFORMED


def test_a_state_that_is_not_known_counts_as_revoked() -> None:
    """TRUST-9, F669c: Of a key in a state that a reader does not know, no signature is valid."""
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
    """TRUST-9, F669d: A blob with a key of another form is refused as a whole."""
    members = cbor2.loads(_KEYS.encode())
    members["Keys"][1] |= change
    with pytest.raises(Malformed):
        PublishedKeys.decode(cbor2.dumps(members, canonical=True))


def test_each_version_of_a_key_is_there_once() -> None:
    """TRUST-9, F669e: Keys are in order, each version once; no member of a map comes twice."""
    blob = _KEYS.encode()
    one, other = cbor2.loads(blob)["Keys"]
    for keys in ([other, one], [one, one], [one, other | {"Id": "svc_key_a", "Version": 1}]):
        with pytest.raises(Malformed):
            PublishedKeys.decode(cbor2.dumps({"Keys": keys, "Tenant": TENANT}, canonical=True))
    twice = b"\xa3" + cbor2.dumps({"Tenant": TENANT})[1:] + blob[1:]
    assert cbor2.loads(twice) == cbor2.loads(blob)
    with pytest.raises(Malformed):
        PublishedKeys.decode(twice)
    more = cbor2.loads(blob) | {"More": 1}
    more["Keys"][0] |= {"Later": b"later"}
    assert PublishedKeys.decode(cbor2.dumps(more, canonical=True)) == _KEYS


_MOMENTS = st.none() | st.integers(-(10**9), 10**9).map(lambda each: NOW + timedelta(seconds=each))


@given(_MOMENTS, _MOMENTS, st.text(), st.none() | st.text(), st.integers(0, 2**53))
def test_keys_are_read_as_they_were_written(
    end: datetime | None, rotated: datetime | None, text: str, parent: str | None, version: int
) -> None:
    """TRUST-9, F669f: Any keys are read as they were written."""
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
