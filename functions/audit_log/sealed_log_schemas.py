"""Bodies of the endpoints of the sealed log (LOG-7, LOG-9)."""

import base64
from typing import Final, Self

from pydantic import BaseModel, Field, JsonValue

from shared.model.audit.signers import AuditSigner as Signer
from shared.model.identifiers import AUDIT_ENTRY, SIGNING_KEY, TENANT
from shared.operations.audit.sealed_log import AuditSigners, InclusionProof
from shared.web.fields import (
    BASE64,
    Algorithm,
    MomentOut,
    PublicKey,
    ResponseBody,
    SigningKeyId,
    example,
    identifier,
    sample,
    shown,
)

_ORIGIN: Final = f"rescind/{sample(TENANT)}/1"
_PUBLIC_KEY: Final = "A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg="
_SIGNER: Final[dict[str, JsonValue]] = {
    "key_id": sample(SIGNING_KEY),
    "algorithm": "Ed25519",
    "public_key": _PUBLIC_KEY,
    "verifier_key": f"{_ORIGIN}+0b7c8289+AQOhB7/zzhC+HXDdGOdLwJln5NYwm6UNXx3chmQSVTG4",
    "created_at": "2026-11-21T12:00:00Z",
    "signs_until": "2027-12-26T12:00:00Z",
}
_ROOT: Final = "SBNJTRN+FjG7owHVrKtue7eqdM4RhdRWVl71HXN2d7I="
_SIGNATURE: Final = (
    "C3yCiR/iS+npO2G/pTmS8ZtRKXttp+iDh0qTBFYwSGc+ApageOemZ4aJlabSjhhoY6OC3F2R9hMSjV1SN2SBXz1+GAI="
)


class CheckpointQuery(BaseModel):
    """The query of GET /v1/audit-logs/checkpoint."""

    witnessed: bool = Field(
        default=False,
        description="The newest checkpoint that a quorum of witnesses signed, with their lines.",
    )


class AuditSignerBody(ResponseBody):
    """A key that signs checkpoints."""

    model_config = example(**_SIGNER)

    key_id: SigningKeyId
    algorithm: Algorithm
    public_key: PublicKey
    verifier_key: str = shown("The key as C2SP signed-note writes it, under the origin as name.")
    created_at: MomentOut = shown("When the key was made.")
    signs_until: MomentOut | None = shown(
        "Until when it signs beside its successor; null if it was not replaced."
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
            signs_until=signer.signs_until,
        )


class AuditSignerList(ResponseBody):
    """The keys that sign the checkpoints of a tenant."""

    model_config = example(origin=_ORIGIN, keys=[_SIGNER])

    origin: str = shown("The first line of each checkpoint.", examples=[_ORIGIN])
    keys: list[AuditSignerBody] = shown("The keys, in order of creation.")

    @classmethod
    def of(cls, found: AuditSigners) -> Self:
        """Return the body for the signers of a tenant."""
        keys = [AuditSignerBody.of_signer(each, found.origin) for each in found.signers]
        return cls(origin=found.origin, keys=keys)


class AuditProof(ResponseBody):
    """The proof that an entry is in the sealed log."""

    model_config = example(
        id=sample(AUDIT_ENTRY),
        index=1,
        record="AZrp0xWIr8NV3MW/hNpRqAAAAABtJTsAkq+S+sEDU0fXvtXFZCpfBnr97uw/Lnd4YbPu5NlTMEQ=",
        path=["bjQLnP+zepicpUTma3gKLHiQHT+zNzh2hRGjBhevoB0="],
        checkpoint=f"{_ORIGIN}\n2\n{_ROOT}\n\n\u2014 {_ORIGIN} {_SIGNATURE}\n",
    )

    id: str = shown("Identifier of the entry.", **identifier(AUDIT_ENTRY))
    index: int = shown("The number of its leaf, from 0.")
    record: str = shown("The leaf: 56 bytes in base64.", **BASE64)
    path: list[str] = shown("The hashes from the leaf to the root, in base64 (RFC 6962, 2.1.1).")
    checkpoint: str = shown("The checkpoint whose root the path leads to.")

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
