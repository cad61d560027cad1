"""The transparency log over HTTP (LOG-6, LOG-7, LOG-9)."""

import base64
from typing import Annotated, Any, Final, Self

from fastapi import Path, Query, Response
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel, Field, JsonValue

from shared.errors import Conflict, NotFound
from shared.model.audit.checkpoint import AuditSigner as Signer
from shared.model.audit.merkle import TileAddress
from shared.model.identifiers import AUDIT_ENTRY, SIGNING_KEY, TENANT
from shared.operations.audit import sealed_log
from shared.operations.audit.sealed_log import AuditSigners, InclusionProof
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
from shared.web.routes import ApiRequest, router, serves

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

_FRESH: Final = {"Cache-Control": "no-store"}
_TILE: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "The tile or the bundle",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}
_CHECKPOINT: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "The newest checkpoint",
        "content": {"text/plain": {"schema": {"type": "string"}}},
    }
}

routes = router("Audit log")


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


@routes.get("/v1/audit-logs/checkpoint", response_class=PlainTextResponse, responses=_CHECKPOINT)
@serves(sealed_log.checkpoint, raises=(NotFound,))
async def get_audit_checkpoint(
    request: ApiRequest, query: Annotated[CheckpointQuery, Query()]
) -> PlainTextResponse:
    """Get the newest checkpoint of the transparency log.

    A checkpoint is a signed note. It contains the number of entries in the log, and the root of the
    Merkle tree over their records. With `witnessed`, it also has the cosignatures of witnesses
    (C2SP tlog-cosignature).

    404: the log is still empty, or no quorum of witnesses has signed yet. The first entries of a
    tenant are appended within a minute.
    """
    return PlainTextResponse(
        request.run(sealed_log.checkpoint, with_cosignatures=query.witnessed), headers=_FRESH
    )


@routes.get("/v1/audit-logs/keys")
@serves(sealed_log.keys)
async def list_audit_signers(request: ApiRequest) -> AuditSignerList:
    """List the keys that sign the checkpoints of the transparency log, in order of creation."""
    return AuditSignerList.of(request.run(sealed_log.keys))


@routes.post("/v1/audit-logs/keys/rotate")
@serves(sealed_log.rotate, raises=(Conflict,))
async def rotate_audit_signer(request: ApiRequest) -> AuditSignerList:
    """Rotate the key that signs checkpoints.

    The old key signs together with the new one for one audit retention. A verifier with the old key
    can therefore verify the entry that names the new key.

    409: too many old keys still sign.
    """
    return AuditSignerList.of(request.run(sealed_log.rotate))


@routes.get("/v1/audit-logs/tile/{path:path}", response_class=Response, responses=_TILE)
@serves(sealed_log.tile, raises=(NotFound,))
async def get_audit_tile(
    request: ApiRequest,
    path: Annotated[
        str, Path(description="`<level>/<index>` or `entries/<index>`, as in C2SP tlog-tiles.")
    ],
) -> Response:
    """Get a tile of the transparency log, or a bundle of its records (C2SP tlog-tiles).

    404: the log does not have this tile, or has fewer entries.
    """
    try:
        place = TileAddress.parse(path)
    except ValueError:
        raise NotFound from None
    data = request.run(sealed_log.tile, place=place)
    return Response(data, headers=_FRESH, media_type="application/octet-stream")


@routes.get("/v1/audit-logs/{id}/proof")
@serves(sealed_log.proof, raises=(NotFound,))
async def get_audit_entry_proof(
    request: ApiRequest,
    entry_id: Annotated[str, Path(alias="id", description="Identifier of the entry.")],
) -> AuditProof:
    """Get the inclusion proof of an audit entry.

    404: the entry does not exist, or is not in the transparency log yet.
    """
    return AuditProof.of(request.run(sealed_log.proof, entry_id=entry_id))
