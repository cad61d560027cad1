"""Bodies of the signing key endpoints (KEY-6, WARRANT-4).

The examples for the API document are a key, and a verifiable warrant that it signed.
"""

import base64
from typing import Annotated, Any, Final, Self

from pydantic import BeforeValidator, Field, JsonValue, WithJsonSchema

from shared.model.identifiers import SIGNING_KEY
from shared.model.seeds import ALGORITHM
from shared.model.signing_keys import KeyStatus, SigningKeyType
from shared.model.warrant_format import WarrantFormat
from shared.operations.changes.key_revocation import RevokedKey
from shared.operations.changes.signing_keys import ListedKey
from shared.operations.changes.warrants import SignedWarrant, SignRequest
from shared.web.fields import (
    BASE64,
    CURSOR,
    Algorithm,
    MomentIn,
    MomentOut,
    Name,
    NextCursor,
    PublicKey,
    Reason,
    RecordBody,
    RequestBody,
    ResponseBody,
    SignedWarrantId,
    SigningKeyId,
    Total,
    WarrantId,
    WarrantReferenceBody,
    attribute,
    example,
    field,
    identifier,
    omittable,
    optional,
    sample,
)
from shared.web.paging import PageBody, PageQuery

_PUBLIC_KEY: Final = "/5lp4vugTaeGeBxn21sH0Fa+7/XyhWABmbdHrhhvxdE="

KEY_EXAMPLE: Final[dict[str, JsonValue]] = {
    "id": sample(SIGNING_KEY),
    "type": "issuer",
    "name": "Payments",
    "status": "active",
    "parent_id": "svc_key_01kbm4w9d2a7x5t8v3q6h1j4pz",
    "public_key": _PUBLIC_KEY,
    "created_at": "2026-11-21T12:00:00Z",
    "expires_at": "2027-12-31T00:00:00Z",
}

_ROTATED_EXAMPLE: Final[dict[str, JsonValue]] = {
    name: KEY_EXAMPLE[name] for name in ("id", "type", "name", "status", "public_key")
} | {"rotated_at": "2026-11-21T13:00:00Z"}

_VERSION_EXAMPLE: Final[dict[str, JsonValue]] = {
    "key_id": "svc_key_01kbm9h2r5c8e1f4g7j0k3m6np",
    "version": 1,
    "status": "rotated",
    "public_key": _PUBLIC_KEY,
    "created_at": "2026-11-21T12:00:00Z",
    "rotated_at": "2026-11-21T13:00:00Z",
}

_SIGNED_EXAMPLE: Final[dict[str, JsonValue]] = {
    "warrant_id": "svc_wrt_pay-1",
    "key_id": sample(SIGNING_KEY),
    "key_version": 1,
    "algorithm": "Ed25519",
    "public_key": _PUBLIC_KEY,
    "warrant": (
        "0oRYLaMBJwMYPQRYJHN2Y19rZXlfMDFrYm00eHQzcmZ6OGM1dzd5MnE5bjZkMWUjMaBYWKUBeCJzdmNfdG50XzAx"
        "a2JtNHh0M3JmejhjNXc3eTJxOW42ZDFlBBprXnmABhprAYfAB01zdmNfd3J0X3BheS0xOgABAABRbWF5IHBheSB1"
        "cCB0byAxMDBYQMILj/3EaAFWBtryry8CDQ4+f9a3d1SAU0x7mGm4Fwy/nO5RNlQpn2HM4/Ckro8BcC5n9bkGFXBG"
        "vd2kVA8i+gQ="
    ),
    "signed_at": "2026-11-21T12:00:00Z",
    "expires_at": "2027-01-31T00:00:00Z",
}

_WARRANT_EXAMPLE: Final[dict[str, JsonValue]] = {
    name: _SIGNED_EXAMPLE[name] for name in ("warrant_id", "key_version", "signed_at", "expires_at")
}

PAYLOAD_MAX: Final = 64 * 1024

# Base64 has four characters for each group of up to three bytes.
_PAYLOAD_CHARACTERS: Final = -(-PAYLOAD_MAX // 3) * 4
_PAYLOAD: Final = WithJsonSchema({"type": "string", "maxLength": _PAYLOAD_CHARACTERS, **BASE64})

_PAYLOAD_ALLOWED: Final = "must be padded base64 in the standard alphabet"


def _payload(value: Any) -> bytes:
    try:
        payload = base64.b64decode(value.encode("ascii"), validate=True)
    except (AttributeError, ValueError):
        raise ValueError(_PAYLOAD_ALLOWED) from None
    # Python ignores superfluous padding, and bits that belong to no byte.
    if base64.b64encode(payload).decode() != value:
        raise ValueError(_PAYLOAD_ALLOWED)
    if len(payload) > PAYLOAD_MAX:
        raise ValueError(f"must contain at most {PAYLOAD_MAX} bytes")
    return payload


# Optional fields of the list of keys.
WARRANT_COUNT: Final = "warrant_count"
VERSION: Final = "version"
_INCLUDED: Final = f"({VERSION}|{WARRANT_COUNT})"


class KeyQuery(PageQuery):
    """The query of GET /v1/keys."""

    type: SigningKeyType | None = omittable("Return only keys of this type.")
    status: KeyStatus | None = omittable("Return only keys with this status.")
    include: Annotated[str, Field(pattern=f"^{_INCLUDED}(,{_INCLUDED})?$")] | None = omittable(
        "Additional fields of each key, separated by a comma. `warrant_count`: the number of "
        "warrants that the key signed. `version`: the version number of keys that were rotated, "
        "and the version fields of revoked old versions."
    )

    @property
    def includes(self) -> set[str]:
        """The optional fields that the request includes."""
        return set((self.include or "").split(","))


# Strict mode would reject the text of an enumeration member.
_NOT_STRICT: Final = Field(strict=False)


class CreateSigningKey(RequestBody):
    """The signing key to create."""

    model_config = example(type="root", name="Company root")

    type: Annotated[SigningKeyType, _NOT_STRICT] = Field(
        description="Position in the key hierarchy. A root has no parent. The parent of an issuer "
        "or a notary is a root or an issuer. Keys of all types sign warrants in the same way."
    )
    name: Name = Field(description="Display name. Leading and trailing white space is removed.")
    parent_id: str | None = omittable(
        "Identifier of the parent, a root or an issuer. Required for issuers and notaries. A root "
        "has none.",
        **identifier(SIGNING_KEY),
    )
    expires_at: MomentIn | None = omittable(
        "Expiry of the key. It must be in the future, and not later than the expiry of the "
        "parent. The default is the expiry of the parent, if there is one."
    )


class RevokeSigningKey(RequestBody):
    """The reason and the extent of a revocation."""

    model_config = example(reason="old laptop stolen", cascade=True)

    reason: Reason = Field(
        description="Reason, in one or more lines. Leading and trailing white space is removed."
    )
    cascade: bool = Field(
        default=False,
        description="Also revoke all descendants of the key, and the warrants that they signed.",
    )
    dry_run: bool = Field(
        default=False,
        description="Change nothing, and return the number of keys and warrants that would be "
        "revoked.",
    )


class SignWarrant(WarrantReferenceBody):
    """The warrant to sign, and its format."""

    model_config = example(
        payload="bWF5IHBheSB1cCB0byAxMDA=",
        warrant_id="svc_wrt_pay-1",
        expires_at="2027-01-31T00:00:00Z",
    )

    payload: Annotated[bytes, BeforeValidator(_payload), _PAYLOAD] = Field(
        description="The bytes to sign: padded base64 of at most 64 KiB."
    )
    format: Annotated[WarrantFormat, _NOT_STRICT] = Field(
        default=WarrantFormat.COSE,
        description="`cose`: a COSE_Sign1 message with the payload, the identifier and the times. "
        "`raw`: a signature over the unchanged payload, for callers with their own format.",
    )
    warrant_id: WarrantId | None = omittable(
        "Identifier of the warrant, unique in the tenant. With `cose`, the service creates one if "
        "it is omitted. With `raw`, it is required, and the payload must contain it."
    )
    expires_at: MomentIn | None = omittable(
        "Expiry of the warrant. It must be in the future. Not allowed with `raw`."
    )

    def order(self) -> SignRequest:
        """Return the argument of the operation."""
        return SignRequest(self.payload, self.format, self.warrant_id_or_none, self.expires_at)


ShownStatus = Annotated[
    KeyStatus,
    field("Status of the key. An expired key keeps its status, and cannot sign."),
]
KeyVersionNumber = Annotated[int, field("Version of the key that signed.", minimum=1)]


_CurrentId = Annotated[str, Field(json_schema_extra=identifier(SIGNING_KEY))]


class SigningKeyBody(RecordBody):
    """A signing key, or an old version of a signing key."""

    model_config = example(**KEY_EXAMPLE)

    id: SigningKeyId
    type: SigningKeyType = field("Type of the key.")
    name: str = field("Display name.")
    status: ShownStatus
    parent_id: str | None = field(
        "Identifier of the parent, a root or an issuer; null for a root.", **identifier(SIGNING_KEY)
    )
    public_key: PublicKey
    created_at: MomentOut = field("Time of creation of the key, or of this version.")
    expires_at: MomentOut | None = field("Expiry of the key; null if it does not expire.")
    rotated_at: MomentOut | None = optional(
        "Time of the rotation that replaced this version; only with the status `rotated`.",
        of="superseded_at",
    )
    version: int | None = optional(
        "Number of this version, from 1; only with the status `rotated`.",
        of="version_of_several",
    )
    successor_id: _CurrentId | None = optional(
        "Identifier of the key of this old version; only with the status `rotated`.",
        of="current_id",
    )

    @classmethod
    def of(cls, record: object) -> Self:
        """Return the body for a key, which has its version only if it is `rotated` (KEY-14)."""
        body = super().of(record)
        body.hide_version()
        return body

    def hide_version(self) -> None:
        """Keep only the eight fields of the contract, unless it is an old version."""
        if self.status is not KeyStatus.ROTATED:
            self.rotated_at = self.version = self.successor_id = None


class ListedSigningKey(SigningKeyBody):
    """A signing key, or an old version of a signing key, in the list of keys."""

    warrant_count: int | None = optional(
        "Number of warrants that all versions of the key signed, or for an old version, that it "
        "signed; only with `include=warrant_count`."
    )

    @classmethod
    def of(cls, key: ListedKey) -> Self:  # type: ignore[override]
        """Return the body for a key with its version and its number of warrants."""
        body = cls.model_validate(key.key)
        body.warrant_count = key.warrant_count
        return body


class SigningKeyList(PageBody):
    """A page of signing keys."""

    model_config = example(keys=[KEY_EXAMPLE], total=132, cursor=CURSOR)

    keys: list[ListedSigningKey] = field("The keys of this page, newest first.")
    total: Total
    cursor: NextCursor


class RotatedSigningKey(RecordBody):
    """A signing key with its new version."""

    model_config = example(**_ROTATED_EXAMPLE)

    id: SigningKeyId
    type: SigningKeyType = field("Type of the key.")
    name: str = field("Display name.")
    status: ShownStatus
    public_key: PublicKey
    rotated_at: MomentOut = field("Time of the rotation.")


class SuspendedSigningKey(SigningKeyBody):
    """A suspended signing key."""

    model_config = example(
        **KEY_EXAMPLE | {"status": "suspended"}, suspended_at="2026-11-21T13:00:00Z"
    )

    suspended_at: MomentOut = field("Time of the suspension.")


class RevokedSigningKey(SigningKeyBody):
    """A revoked signing key, or with `dry_run` the unchanged key."""

    model_config = example(
        **KEY_EXAMPLE | {"status": "revoked"},
        revoked_at="2026-11-21T13:00:00Z",
        reason="old laptop stolen",
    )

    revoked_at: MomentOut | None = field(
        "Time of the revocation; null if the key is not revoked, which occurs only with `dry_run`."
    )
    reason: str | None = attribute(
        "revoked_reason", "Reason of the revocation; null if the key is not revoked."
    )
    descendants: int | None = optional(
        "Number of active and suspended descendants that do not change; absent if there are none."
    )
    keys: int | None = optional("Number of keys that would be revoked; only with `dry_run`.")
    warrants: int | None = optional(
        "Number of warrants that these keys signed; only with `dry_run`."
    )

    @classmethod
    def of_revocation(cls, result: RevokedKey) -> Self:
        """Return the body for the result of a revocation or of a dry run."""
        body = cls.of(result.key)
        body.descendants = result.descendants or None
        if result.reach is not None:
            body.keys, body.warrants = result.reach.keys, result.reach.warrants
        return body


class SigningKeyVersion(RecordBody):
    """One version of a signing key."""

    model_config = example(**_VERSION_EXAMPLE)

    key_id: SigningKeyId = attribute(
        "id", "Identifier of the key, or of the record of an old version."
    )
    version: int = attribute("key_version", "Number of the version, from 1.", minimum=1)
    status: ShownStatus
    public_key: PublicKey
    created_at: MomentOut = attribute("version_created_at", "Time of creation of this version.")
    rotated_at: MomentOut | None = attribute(
        "superseded_at",
        "Time of the rotation that replaced this version; null for the current version.",
    )


class SigningKeyVersionList(ResponseBody):
    """All versions of a signing key, newest first."""

    model_config = example(versions=[_VERSION_EXAMPLE])

    versions: list[SigningKeyVersion] = field("The versions, newest first.")


class SignedWarrantBody(ResponseBody):
    """A warrant, and the data that verifies it."""

    model_config = example(**_SIGNED_EXAMPLE)

    warrant_id: SignedWarrantId
    key_id: SigningKeyId
    key_version: KeyVersionNumber
    algorithm: Algorithm
    public_key: PublicKey
    warrant: str | None = optional(
        "Base64 of a COSE_Sign1 message with a CWT claims set as its payload; only with the "
        "format `cose`."
    )
    signature: str | None = optional(
        "Base64 of the Ed25519 signature over the payload; only with the format `raw`."
    )
    signed_at: MomentOut = field("Time of signing.")
    expires_at: MomentOut | None = field("Expiry of the warrant; null if it does not expire.")

    @classmethod
    def of(cls, signed_warrant: SignedWarrant) -> Self:
        """Return the body for a signed warrant."""
        warrant = signed_warrant.warrant
        return cls(
            warrant_id=warrant.warrant_id,
            key_id=warrant.key_id,
            key_version=warrant.key_version,
            algorithm=ALGORITHM,
            public_key=signed_warrant.public_key,
            signed_at=warrant.signed_at,
            expires_at=warrant.ends_at,
            warrant=signed_warrant.message,
            signature=signed_warrant.signature,
        )


class IssuedWarrant(RecordBody):
    """One warrant that a key signed."""

    model_config = example(**_WARRANT_EXAMPLE)

    warrant_id: SignedWarrantId
    key_version: KeyVersionNumber
    signed_at: MomentOut = field("Time of signing.")
    expires_at: MomentOut | None = attribute(
        "ends_at", "Expiry of the warrant; null if it does not expire, or if unknown."
    )


class IssuedWarrantList(PageBody):
    """A page of the warrants that a key signed."""

    model_config = example(warrants=[_WARRANT_EXAMPLE], total=132, cursor=CURSOR)

    warrants: list[IssuedWarrant] = field("The warrants of this page, newest first.")
    total: Total
    cursor: NextCursor
