"""Bodies of the Signed Revocation List endpoints (service.md 2.4 and 4.3, decisions 3)."""

from pydantic import Field

from shared.model.srl_keys import Status
from shared.web.fields import MomentOut, RecordBody, ResponseBody


class SrlPayload(ResponseBody):
    """The decoded content of a list, its members named as they are signed."""

    Version: int
    IssuedAt: str
    ExpiresAt: str
    RevokedIDs: list[str]


class SignedPayload(ResponseBody):
    """The signed form: base64 of the CBOR, and of the Ed25519 signature over it."""

    Payload: str
    Signature: str


class SignedRevocationList(ResponseBody):
    """A Signed Revocation List. It is stored whole; this is its shape for readers."""

    payload: SrlPayload
    srl: SignedPayload


class Regenerated(RecordBody):
    """What was published, and is now in force."""

    version: int
    issued_at: MomentOut
    expires_at: MomentOut
    revocation_count: int = Field(validation_alias="count")


class SrlSigner(RecordBody):
    """The public side of a key that signs, or signed, the tenant's lists."""

    key_id: str = Field(validation_alias="id")
    algorithm: str
    public_key: str
    status: Status
    created_at: MomentOut


class SrlSigners(ResponseBody):
    """The tenant's signers, the current one first."""

    keys: list[SrlSigner]
