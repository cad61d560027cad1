"""Bodies of the Signed Revocation List endpoints (SRL-1, SIGNER-8)."""

from typing import Final

from pydantic import AliasPath, Field, JsonValue

from shared.model.identifiers import SIGNING_KEY
from shared.model.lists.signers import SrlSignerStatus
from shared.web.fields import (
    BASE64,
    CURSOR,
    Algorithm,
    MomentOut,
    NextCursor,
    PublicKey,
    RecordBody,
    RequestBody,
    ResponseBody,
    Signature,
    SignedWarrantId,
    SigningKeyId,
    attribute,
    example,
    field,
    sample,
)

PAYLOAD: Final[dict[str, JsonValue]] = {
    "Version": 2,
    "IssuedAt": "2026-11-21T12:00:00Z",
    "ExpiresAt": "2026-11-21T13:00:00Z",
    "RevokedIDs": ["svc_wrt_laptop-17"],
}

SIGNED: Final[dict[str, JsonValue]] = {
    "Payload": (
        "pGdWZXJzaW9uAmhJc3N1ZWRBdHQyMDI2LTExLTIxVDEyOjAwOjAwWmlFeHBpcmVzQXR0MjAyNi0xMS0yMVQxMzow"
        "MDowMFpqUmV2b2tlZElEc4Fxc3ZjX3dydF9sYXB0b3AtMTc="
    ),
    "Signature": (
        "z1wQ0WxEFFy7bQpVF7xNSlS7CVldZl97MVk3haV61InVAwdX2GE75DfYnzSZVm0XjY66pOKU5zyMDiYRMkwIAw=="
    ),
}

STATEMENT: Final[dict[str, JsonValue]] = {
    "Payload": (
        "pmVLZXlJZHgic3ZjX2tleV8wMWtibTR4dDNyZno4YzV3N3kycTluNmQxZWZOdW1iZXICZlRlbmFudHgic3ZjX3Ru"
        "dF8wMWtibTR4dDNyZno4YzV3N3kycTluNmQxZWhJc3N1ZWRBdHQyMDI2LTExLTIxVDEyOjAwOjAwWmhQcmV2aW91"
        "c1ggtl9emIbv2Q6xqpXvyQy5w9NAMxa8n4/LnACVZVTvWitpUHVibGljS2V5WCDda7uaWR0DmyMDrf132ntvkI05"
        "GD3apBDPS5mLF95gmA=="
    ),
    "Signature": (
        "If7/gZ44Q79g6SDKOmGja84oaggsQ2tqRG442TGHUwvUi5PO1mKUSa/6WqC4PO/lUpYbn3chJZyJnKuHmb+pDA=="
    ),
}

SIGNER: Final[dict[str, JsonValue]] = {
    "key_id": sample(SIGNING_KEY),
    "algorithm": "Ed25519",
    "public_key": "3Wu7mlkdA5sjA639d9p7b5CNORg92qQQz0uZixfeYJg=",
    "status": "active",
    "created_at": "2026-11-21T12:00:00Z",
    "activates_at": "2026-11-21T13:00:00Z",
    "statement": STATEMENT,
}


class SrlPayload(ResponseBody):
    """The content of an SRL in readable form. Only the signed form is authoritative."""

    model_config = example(**PAYLOAD)

    Version: int = field("SRL version. It rises by one with each publication.", minimum=1)
    IssuedAt: MomentOut = field("Issue time of the SRL.")
    ExpiresAt: MomentOut = field("Expiry of the SRL.")
    RevokedIDs: list[SignedWarrantId] = field(
        "Identifiers of the revoked warrants, sorted, without duplicates.", uniqueItems=True
    )


class SignedSrlPayload(ResponseBody):
    """The signed form of an SRL."""

    model_config = example(**SIGNED)

    Payload: str = field(
        "The signed bytes: base64 of a CBOR map with the members of `payload`.", **BASE64
    )
    Signature: Signature


class SignedRevocationList(ResponseBody):
    """A Signed Revocation List."""

    model_config = example(payload=PAYLOAD, srl=SIGNED)

    payload: SrlPayload
    srl: SignedSrlPayload


class PublishedList(RecordBody):
    """The published SRL, which is now the current one."""

    model_config = example(
        version=2,
        issued_at="2026-11-21T12:00:00Z",
        expires_at="2026-11-21T13:00:00Z",
        revocation_count=1,
    )

    version: int = field("SRL version.", minimum=1)
    issued_at: MomentOut = field("Issue time of the SRL.")
    expires_at: MomentOut = field("Expiry of the SRL.")
    revocation_count: int = attribute("count", "Number of revoked warrants in the SRL.", minimum=0)


class ActivateSrlKey(RequestBody):
    """How to activate the key."""

    model_config = example(force=True)

    force: bool = Field(
        default=False,
        description="Activate the key before its `activates_at`. Authorizers that do not have the "
        "key reject SRLs that it signs.",
    )


class RotateSrlKey(RequestBody):
    """How to rotate the key."""

    model_config = example(compromised=True)

    compromised: bool = Field(
        default=False,
        description="Whether the current key was stolen. If true, it is revoked, and the new key "
        "has no `statement`: give its public key to all authorizers.",
    )


class SrlKeyStatement(ResponseBody):
    """The succession statement, by which verifiers accept the new key."""

    model_config = example(**STATEMENT)

    Payload: str = field(
        "The signed bytes: base64 of a CBOR map with Tenant, Number, KeyId, PublicKey, Previous "
        "and IssuedAt.",
        **BASE64,
    )
    Signature: Signature


class SrlKey(RecordBody):
    """A past, current or future signer of the tenant's SRLs."""

    model_config = example(**SIGNER)

    key_id: SigningKeyId = Field(validation_alias=AliasPath("record", "id"))
    algorithm: Algorithm = Field(validation_alias=AliasPath("record", "algorithm"))
    public_key: PublicKey = Field(validation_alias=AliasPath("record", "public_key"))
    status: SrlSignerStatus = attribute(
        "record.status",
        "`standby`: created in advance, and never used. `pending`: announced, and does not sign "
        "yet. `active`: signs now. `retired`: signed before, and its last SRL has not expired. "
        "`revoked`: stolen; reject its SRLs.",
    )
    created_at: MomentOut = attribute("record.created_at", "Time of creation.")
    activates_at: MomentOut | None = field(
        "For a pending key, the time from which it can be activated without `force`. For other "
        "keys, the time of activation. Null if the key is revoked."
    )
    statement: SrlKeyStatement | None = attribute(
        "record.statement",
        "Succession statement by the previous key; null for the first key, and for a key that "
        "replaced a revoked key.",
    )


class SrlKeyList(ResponseBody):
    """The SRL signers, with the signer of the current SRL first."""

    model_config = example(keys=[SIGNER], cursor=CURSOR)

    keys: list[SrlKey] = field("The keys, with the signer of the current SRL first.")
    cursor: NextCursor
