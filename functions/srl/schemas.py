"""Bodies of the Signed Revocation List endpoints (service.md 2.4 and 4.3, decisions 3)."""

from typing import Self

from pydantic import Field

from shared.model.srl_keys import Status
from shared.operations.srl_rotation import Signer
from shared.web.fields import MomentOut, RecordBody, RequestBody, ResponseBody, example


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


class ActivateSigner(RequestBody):
    """The body of POST /v1/revocations/srl/keys/{keyId}/activate, which may be left out."""

    model_config = example(force=True)

    force: bool = False


class Statement(ResponseBody):
    """What the signer before said of this one: base64 of the CBOR, and of the signature."""

    Payload: str
    Signature: str


class SrlSigner(ResponseBody):
    """The public side of a key that signs the tenant's lists, did, or will."""

    key_id: str
    algorithm: str
    public_key: str
    status: Status
    created_at: MomentOut
    activates_at: MomentOut | None
    statement: Statement | None

    @classmethod
    def of(cls, signer: Signer) -> Self:
        """The response that shows `signer`."""
        record, statement = signer.record, signer.record.statement
        return cls(
            key_id=record.id,
            algorithm=record.algorithm,
            public_key=record.public_key,
            status=record.status,
            created_at=record.created_at,
            activates_at=signer.activates_at,
            statement=None if statement is None else Statement(**statement),
        )


class SrlSigners(ResponseBody):
    """The tenant's signers, the one that signed the list in force first."""

    keys: list[SrlSigner]
