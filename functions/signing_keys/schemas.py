"""Bodies of the signing key endpoints (service.md 2.2 and 4.2, decisions 3)."""

import base64
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BeforeValidator, Field, WithJsonSchema

from shared.model.seeds import ALGORITHM
from shared.model.signing_keys import SigningKey, Status, Type
from shared.model.warrant_format import Format
from shared.model.warrants import Warrant
from shared.operations.key_revocation import Revoked
from shared.operations.paging import Page
from shared.operations.warrants import Order, Signed
from shared.web.fields import (
    MomentIn,
    MomentOut,
    Name,
    Reason,
    RecordBody,
    RequestBody,
    ResponseBody,
    WarrantId,
    example,
)
from shared.web.paging import PageQuery

PAYLOAD_MAX: Final = 64 * 1024

_BASE64: Final = WithJsonSchema({"type": "string", "contentEncoding": "base64"})

TypeName = Literal["root", "issuer", "notary"]
FormatName = Literal["cose", "raw"]
StatusName = Literal["active", "revoked", "suspended", "rotated"]


_PAYLOAD_ALLOWED: Final = "must be padded base64 of the standard alphabet"


def _payload(value: Any) -> bytes:
    try:
        payload = base64.b64decode(value.encode("ascii"), validate=True)
    except (AttributeError, ValueError):
        raise ValueError(_PAYLOAD_ALLOWED) from None
    # Python passes over padding beyond need, and bits that no byte takes up.
    if base64.b64encode(payload).decode() != value:
        raise ValueError(_PAYLOAD_ALLOWED)
    if len(payload) > PAYLOAD_MAX:
        raise ValueError(f"must hold at most {PAYLOAD_MAX} bytes")
    return payload


class KeyQuery(PageQuery):
    """The query of GET /v1/keys."""

    type: TypeName | None = None
    status: StatusName | None = None


class CreateKey(RequestBody):
    """The body of POST /v1/keys."""

    model_config = example(type="root", name="Company root")

    type: TypeName
    name: Name
    parent_id: str | None = None
    expires_at: MomentIn | None = None


class RevokeKey(RequestBody):
    """The body of POST /v1/keys/{keyId}/revoke.

    With `cascade` the key's descendants are revoked too. With `dry_run` nothing is revoked; the
    answer says how many keys and warrants would be.
    """

    model_config = example(reason="old laptop stolen", cascade=True)

    reason: Reason
    cascade: bool = False
    dry_run: bool = False


class Sign(RequestBody):
    """The body of POST /v1/keys/{keyId}/sign; `payload` is the bytes to sign, in base64.

    `format` is `cose` for a warrant that carries its identifier and times beside the payload, or
    `raw` for a signature over the payload as it comes. With `raw` the caller has put `warrant_id`
    into the payload, and gives no `expires_at`.
    """

    model_config = example(
        payload="bWF5IHBheSB1cCB0byAxMDA=",
        warrant_id="svc_wrt_pay-1",
        expires_at="2027-01-31T00:00:00Z",
    )

    payload: Annotated[bytes, BeforeValidator(_payload), _BASE64]
    format: FormatName = "cose"
    warrant_id: WarrantId | None = None
    expires_at: MomentIn | None = None

    def order(self) -> Order:
        """What the operation takes."""
        return Order(self.payload, Format(self.format), self.warrant_id, self.expires_at)


class KeyFields(ResponseBody):
    """A signing key; `rotated_at` only where the record is a superseded version."""

    id: str
    type: Type
    name: str
    status: Status
    parent_id: str | None
    public_key: str
    created_at: MomentOut
    expires_at: MomentOut | None
    rotated_at: MomentOut | None = None

    @classmethod
    def of(cls, key: SigningKey) -> Self:
        """The public side of the key."""
        return cls(**_fields(key))


class KeyList(ResponseBody):
    """A page of keys."""

    keys: list[KeyFields]
    total: int
    cursor: str | None

    @classmethod
    def of(cls, page: Page[SigningKey], *, cursor: str | None) -> Self:
        """The page, with the cursor to the next."""
        keys = [KeyFields.of(key) for key in page.entries]
        return cls(keys=keys, total=page.total, cursor=cursor)


class RotatedKey(RecordBody):
    """A key under its new version."""

    id: str
    type: Type
    name: str
    status: Status
    public_key: str
    rotated_at: MomentOut


class SuspendedKey(KeyFields):
    """A key that is disabled for a time."""

    suspended_at: MomentOut | None

    @classmethod
    def of(cls, key: SigningKey) -> Self:
        """The public side of the key, and since when."""
        return cls(**_fields(key), suspended_at=key.suspended_at)


class RevokedKey(KeyFields):
    """A key that is revoked for good, or with `dry_run` the key as it stands.

    `descendants` is there if active or suspended keys below it are left as they are: how many.
    With `dry_run`, `keys` and `warrants` say how many would be revoked.
    """

    revoked_at: MomentOut | None
    reason: str | None
    descendants: int | None = None
    keys: int | None = None
    warrants: int | None = None

    @classmethod
    def of_revocation(cls, revoked: Revoked) -> Self:
        """The public side of the key, since when and why, and how far that reaches."""
        key, reach = revoked.key, revoked.reach
        fields = _fields(key) | {"revoked_at": key.revoked_at, "reason": key.revoked_reason}
        if revoked.descendants:
            fields["descendants"] = revoked.descendants
        if reach is not None:
            fields |= {"keys": reach.keys, "warrants": reach.warrants}
        return cls(**fields)


class KeyVersion(RecordBody):
    """One version of a key; `key_id` is that of its own record."""

    key_id: str = Field(validation_alias="id")
    version: int = Field(validation_alias="key_version")
    status: Status
    public_key: str
    created_at: MomentOut = Field(validation_alias="version_created_at")
    rotated_at: MomentOut | None = Field(validation_alias="superseded_at")


class KeyVersions(ResponseBody):
    """All versions of a key, newest first."""

    versions: list[KeyVersion]


class SignedWarrant(ResponseBody):
    """A warrant, and what verifies it.

    `warrant` is base64 of a COSE_Sign1 over a CWT claims set. With `format: "raw"` there is
    `signature` in its place: base64 of the Ed25519 signature over the payload.
    """

    warrant_id: str
    key_id: str
    key_version: int
    algorithm: str
    public_key: str
    warrant: str | None = None
    signature: str | None = None
    signed_at: MomentOut
    expires_at: MomentOut | None

    @classmethod
    def of(cls, signed: Signed) -> Self:
        """The warrant with its signature."""
        warrant = signed.warrant
        made = {"warrant": signed.message, "signature": signed.signature}
        return cls(
            warrant_id=warrant.warrant_id,
            key_id=warrant.key_id,
            key_version=warrant.key_version,
            algorithm=ALGORITHM,
            public_key=signed.public_key,
            signed_at=warrant.signed_at,
            expires_at=warrant.ends_at,
            **{name: value for name, value in made.items() if value is not None},
        )


class WarrantFields(RecordBody):
    """One warrant that a key signed."""

    warrant_id: str
    key_version: int
    signed_at: MomentOut
    expires_at: MomentOut | None = Field(validation_alias="ends_at")


class WarrantList(ResponseBody):
    """A page of what a key signed."""

    warrants: list[WarrantFields]
    total: int
    cursor: str | None

    @classmethod
    def of(cls, page: Page[Warrant], *, cursor: str | None) -> Self:
        """The page, with the cursor to the next."""
        warrants = [WarrantFields.of(warrant) for warrant in page.entries]
        return cls(warrants=warrants, total=page.total, cursor=cursor)


def _fields(key: SigningKey) -> dict[str, Any]:
    fields = {
        "id": key.id,
        "type": key.type,
        "name": key.name,
        "status": key.status,
        "parent_id": key.parent_id,
        "public_key": key.public_key,
        "created_at": key.created_at,
        "expires_at": key.expires_at,
    }
    if key.superseded_at is not None:
        fields["rotated_at"] = key.superseded_at
    return fields
