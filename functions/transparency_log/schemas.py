"""Request and response bodies of the transparency log."""

import base64
from typing import Final, Self

from pydantic import BaseModel, Field, JsonValue

from functions.transparency_log.checkpoint import AuditSigner as Signer
from functions.transparency_log.operations import AuditSigners, InclusionProof
from shared.model.identifiers import AUDIT_ENTRY, SIGNING_KEY, TENANT
from shared.web.fields import (
    BASE64,
    Algorithm,
    MomentOut,
    PublicKey,
    ResponseBody,
    SigningKeyId,
    example,
    field,
    identifier,
    sample,
)

_ORIGIN: Final = f"rescind/{sample(TENANT)}/1"
_PUBLIC_KEY: Final = "A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg="
_SIGNER: Final[dict[str, JsonValue]] = {
    "key_id": sample(SIGNING_KEY),
    "algorithm": "Ed25519",
    "public_key": _PUBLIC_KEY,
    "verifier_key": f"{_ORIGIN}+0b7c8289+AQOhB7/zzhC+HXDdGOdLwJln5NYwm6UNXx3chmQSVTG4",
    "created_at": "2026-11-21T12:00:00Z",
    "retired_at": "2027-12-26T12:00:00Z",
}
_ROOT: Final = "SBNJTRN+FjG7owHVrKtue7eqdM4RhdRWVl71HXN2d7I="
_SIGNATURE: Final = (
    "C3yCiR/iS+npO2G/pTmS8ZtRKXttp+iDh0qTBFYwSGc+ApageOemZ4aJlabSjhhoY6OC3F2R9hMSjV1SN2SBXz1+GAI="
)


class CheckpointQuery(BaseModel):
    """The query of GET /v1/audit-logs/checkpoint."""

    witnessed: bool = Field(
        default=False,
        description="Return the newest checkpoint that a quorum of witnesses cosigned, with the "
        "cosignatures.",
    )


class AuditSignerBody(ResponseBody):
    """A key that signs checkpoints."""

    model_config = example(**_SIGNER)

    key_id: SigningKeyId
    algorithm: Algorithm
    public_key: PublicKey
    verifier_key: str = field(
        "The key in the format of a C2SP signed-note verifier key. Its name is the origin."
    )
    created_at: MomentOut = field("Time of creation.")
    retired_at: MomentOut | None = field(
        "Time at which the key stops signing together with its successor; null if the key was not "
        "rotated."
    )

    @classmethod
    def of_signer(cls, signer: Signer, origin: str) -> Self:
        """Return the body for a signer."""
        return cls(
            key_id=signer.id,
            algorithm=signer.algorithm,
            public_key=signer.public_key,
            verifier_key=str(signer.key(origin)),
            created_at=signer.created_at,
            retired_at=signer.retired_at,
        )


class AuditSignerList(ResponseBody):
    """The keys that sign the checkpoints of a tenant."""

    model_config = example(origin=_ORIGIN, keys=[_SIGNER])

    origin: str = field("Origin of the log: the first line of each checkpoint.", examples=[_ORIGIN])
    keys: list[AuditSignerBody] = field("The keys, in order of creation.")

    @classmethod
    def of(cls, signers: AuditSigners) -> Self:
        """Return the body for the signers of a tenant."""
        keys = [AuditSignerBody.of_signer(each, signers.origin) for each in signers.signers]
        return cls(origin=signers.origin, keys=keys)


class AuditProof(ResponseBody):
    """The inclusion proof of an audit entry."""

    model_config = example(
        id=sample(AUDIT_ENTRY),
        index=1,
        record="AZrp0xWIr8NV3MW/hNpRqAAAAABtJTsAkq+S+sEDU0fXvtXFZCpfBnr97uw/Lnd4YbPu5NlTMEQ=",
        path=["bjQLnP+zepicpUTma3gKLHiQHT+zNzh2hRGjBhevoB0="],
        checkpoint=f"{_ORIGIN}\n2\n{_ROOT}\n\n\u2014 {_ORIGIN} {_SIGNATURE}\n",
    )

    id: str = field("Identifier of the entry.", **identifier(AUDIT_ENTRY))
    index: int = field("Index of the leaf in the log, from 0.")
    record: str = field("The leaf: 56 bytes in base64.", **BASE64)
    path: list[str] = field("The hashes from the leaf to the root, in base64 (RFC 6962, 2.1.1).")
    checkpoint: str = field("The checkpoint that contains the root hash.")

    @classmethod
    def of(cls, proof: InclusionProof) -> Self:
        """Return the body for a proof."""
        return cls(
            id=proof.entry_id,
            index=proof.index,
            record=base64.b64encode(proof.record).decode(),
            path=[base64.b64encode(each).decode() for each in proof.path],
            checkpoint=proof.checkpoint,
        )
