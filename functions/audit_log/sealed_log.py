"""The sealed log over HTTP (LOG-6, LOG-7, LOG-9)."""

from typing import Annotated, Any, Final

from fastapi import Path, Query, Response
from fastapi.responses import PlainTextResponse

from functions.audit_log.sealed_log_schemas import AuditProof, AuditSignerList, CheckpointQuery
from shared.errors import Conflict, NotFound
from shared.model.audit.merkle import Place
from shared.operations.audit import sealed_log
from shared.web.routes import ApiRequest, router, serves

_FRESH: Final = {"Cache-Control": "no-store"}
_TILE: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "The tile or bundle",
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
@serves(sealed_log.checkpoint, raises=(NotFound,))
async def get_audit_checkpoint(
    here: ApiRequest, query: Annotated[CheckpointQuery, Query()]
) -> PlainTextResponse:
    """Get the newest checkpoint of the sealed log, a signed note.

    It states how many entries are sealed, and the root of the Merkle tree over their records. With
    `witnessed`, it has the cosignatures of witnesses too (C2SP tlog-cosignature).

    404: nothing is sealed yet. The first entries of a tenant are sealed within a minute. Or no
    quorum of witnesses has signed yet.
    """
    return PlainTextResponse(
        here.run(sealed_log.checkpoint, witnessed=query.witnessed), headers=_FRESH
    )


@routes.get("/v1/audit-logs/keys")
@serves(sealed_log.keys)
async def list_audit_signers(here: ApiRequest) -> AuditSignerList:
    """List the keys that sign the checkpoints of the sealed log, in order of creation."""
    return AuditSignerList.of(here.run(sealed_log.keys))


@routes.post("/v1/audit-logs/keys/rotate")
@serves(sealed_log.rotate, raises=(Conflict,))
async def rotate_audit_signer(here: ApiRequest) -> AuditSignerList:
    """Replace the key that signs checkpoints.

    The replaced key signs beside the new one for one audit retention. So a verifier that knows the
    old key accepts the entry that names the new one.

    409: too many replaced keys still sign.
    """
    return AuditSignerList.of(here.run(sealed_log.rotate))


@routes.get("/v1/audit-logs/tile/{path:path}", response_class=Response, responses=_TILE)
@serves(sealed_log.tile, raises=(NotFound,))
async def get_audit_tile(
    here: ApiRequest,
    path: Annotated[
        str, Path(description="`<level>/<number>` or `entries/<number>`, as in C2SP tlog-tiles.")
    ],
) -> Response:
    """Get a tile of the sealed log, or a bundle of its records (C2SP tlog-tiles).

    404: the log does not have this tile, or does not reach so far.
    """
    try:
        place = Place.parse(path)
    except ValueError:
        raise NotFound from None
    data = here.run(sealed_log.tile, place=place)
    return Response(data, headers=_FRESH, media_type="application/octet-stream")


@routes.get("/v1/audit-logs/{id}/proof")
@serves(sealed_log.proof, raises=(NotFound,))
async def prove_audit_entry(
    here: ApiRequest,
    entry_id: Annotated[str, Path(alias="id", description="The identifier of the entry.")],
) -> AuditProof:
    """Prove that an entry is in the sealed log, without any other entry.

    404: the entry does not exist, or is not sealed yet.
    """
    return AuditProof.of(here.run(sealed_log.proof, entry_id=entry_id))
