"""The transparency log over HTTP (LOG-6, LOG-7, LOG-9)."""

from typing import Annotated, Any, Final

from fastapi import Path, Query, Response
from fastapi.responses import PlainTextResponse

from functions.transparency_log import operations
from functions.transparency_log.merkle import TileAddress
from functions.transparency_log.schemas import AuditProof, AuditSignerList, CheckpointQuery
from shared.errors import Conflict, NotFound
from shared.web.routes import ApiRequest, router, serves

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


@routes.get("/v1/audit-logs/checkpoint", response_class=PlainTextResponse, responses=_CHECKPOINT)
@serves(operations.checkpoint, raises=(NotFound,))
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
        request.run(operations.checkpoint, with_cosignatures=query.witnessed), headers=_FRESH
    )


@routes.get("/v1/audit-logs/keys")
@serves(operations.keys)
async def list_audit_signers(request: ApiRequest) -> AuditSignerList:
    """List the keys that sign the checkpoints of the transparency log, in order of creation."""
    return AuditSignerList.of(request.run(operations.keys))


@routes.post("/v1/audit-logs/keys/rotate")
@serves(operations.rotate, raises=(Conflict,))
async def rotate_audit_signer(request: ApiRequest) -> AuditSignerList:
    """Rotate the key that signs checkpoints.

    The old key signs together with the new one for one audit retention. A verifier with the old key
    can therefore verify the entry that names the new key.

    409: too many old keys still sign.
    """
    return AuditSignerList.of(request.run(operations.rotate))


@routes.get("/v1/audit-logs/tile/{path:path}", response_class=Response, responses=_TILE)
@serves(operations.tile, raises=(NotFound,))
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
    data = request.run(operations.tile, place=place)
    return Response(data, headers=_FRESH, media_type="application/octet-stream")


@routes.get("/v1/audit-logs/{id}/proof")
@serves(operations.proof, raises=(NotFound,))
async def get_audit_entry_proof(
    request: ApiRequest,
    entry_id: Annotated[str, Path(alias="id", description="Identifier of the entry.")],
) -> AuditProof:
    """Get the inclusion proof of an audit entry.

    404: the entry does not exist, or is not in the transparency log yet.
    """
    return AuditProof.of(request.run(operations.proof, entry_id=entry_id))
