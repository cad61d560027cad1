"""Differences of records, which people approve and the audit log keeps (APPROVAL-2)."""

from dataclasses import field, make_dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from shared.model.api_keys import ApiKey, ApiKeyStatus
from shared.model.callers import Scope
from shared.model.differences import compute_thumbprint, describe_change
from shared.model.identities.providers import IdentityProvider, ProviderUsage
from shared.model.identities.roles import Role
from shared.model.items import Value
from shared.model.records import Record
from shared.model.tenants import TenantSettings

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
RECORDS = [
    IdentityProvider("svc_idp_1", "t", "SSO", ProviderUsage.SIGN_IN, "https://a", (), 3600, NOW),
    Role("paris", (Scope.REVOKER,)),
    ApiKey("svc_ak_1", "t", "k", (Scope.ADMIN,), ApiKeyStatus.ACTIVE, "0" * 64, NOW),
    TenantSettings("t", "acme", "Acme", 3600, 400, NOW),
]
# RFC 8037, appendix A.3.
ED25519: dict[str, Value] = {
    "kty": "OKP",
    "crv": "Ed25519",
    "kid": "ours",
    "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
}
ED25519_PRINT = "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"


def enlarged(record: Record, **options: Any) -> Any:
    """The record with one more field, as a later release may add it."""
    kind: Any = make_dataclass(
        "Enlarged",
        [("extra", str | None, field(default=None, **options))],
        bases=(type(record),),
        frozen=True,
    )
    return kind.from_item(record.to_item())


@pytest.mark.parametrize("record", RECORDS, ids=lambda each: type(each).__name__)
def test_a_new_field_is_described(record: Record) -> None:
    """APPROVAL-2, F2100a: A field that is added to a record appears in its differences."""
    before = enlarged(record)
    after = replace(before, extra="wide")
    assert describe_change(before, after) == {"extra": {"old": None, "new": "wide"}}
    assert describe_change(None, after)["extra"] == {"old": None, "new": "wide"}
    assert describe_change(after, None)["extra"] == {"old": "wide", "new": None}
    assert describe_change(before, before) == {}


@pytest.mark.parametrize("record", RECORDS, ids=lambda each: type(each).__name__)
def test_a_secret_is_described_by_its_hash(record: Record) -> None:
    """APPROVAL-2, F2100b: A difference has the hash of a secret, and not the secret."""
    before = enlarged(record, repr=False)
    described = describe_change(before, replace(before, extra="hunter2"))
    assert "hunter2" not in str(described)
    assert str(described["extra"]).count("sha256:") == 1
    assert described != describe_change(before, replace(before, extra="hunter3"))


def test_a_key_set_is_described_by_thumbprints() -> None:
    """APPROVAL-2, F2100c: A difference has `kid`, type and RFC 7638 thumbprint of each key."""
    first = RECORDS[0]
    assert isinstance(first, IdentityProvider)
    unknown: dict[str, Value] = {"kty": "AKP", "pub": "AA"}
    after = replace(first, jwks={"keys": [ED25519, unknown]})
    new: Any = describe_change(first, after)["jwks"]
    ours, theirs = new["new"]
    assert ours == {"kid": "ours", "kty": "OKP", "thumbprint": ED25519_PRINT}
    assert (theirs["kid"], theirs["kty"]) == (None, "AKP")
    assert theirs["thumbprint"] == compute_thumbprint(unknown)
    forged = after.jwks and {"keys": [ED25519 | {"x": "A" * 43}, unknown]}
    assert list(describe_change(after, replace(after, jwks=forged))) == ["jwks"]
