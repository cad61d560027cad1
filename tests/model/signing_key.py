"""A signing key as a record."""

from datetime import UTC, datetime

from shared.model.signing_keys import KeyStatus, SigningKey, SigningKeyType

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
KEY = SigningKey(
    id="svc_key_a",
    tenant_id="svc_tnt_a",
    type=SigningKeyType.ISSUER,
    name="k",
    status=KeyStatus.ACTIVE,
    parent_id="svc_key_p",
    ancestors=("svc_key_p",),
    public_key="old",
    created_at=NOW,
    version_created_at=NOW,
    expires_at=None,
    sealed_seed=b"sealed",
)
