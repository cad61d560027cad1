"""The status of the list over HTTP (SRL-21)."""

import hashlib
from typing import Any, Final

from fastapi import Response

from functions.srl.status_schemas import ListStatusBody
from shared.model.lists.head import CACHE_CONTROL, MEDIA_TYPE
from shared.operations.changes import srl
from shared.web.conditional import condition, matches
from shared.web.routes import ApiRequest, router, serves
from shared.web.stored import header

routes = router("Signed Revocation List")

_ETAG: Final = {"ETag": header("Identifies the content. Send it in `If-None-Match`.")}
_RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    200: {"headers": _ETAG},
    304: {"description": "The status is the one that `If-None-Match` names", "headers": _ETAG},
}


@routes.get(
    "/v1/revocations/srl/status",
    response_model=ListStatusBody,
    responses=_RESPONSES,
    openapi_extra=condition("The `ETag` of the status that you have."),
)
@serves(srl.read)
async def get_srl_status(here: ApiRequest) -> Response:
    """Get how the Signed Revocation List stands, without the list.

    The response says which list is in force, how many warrants changed since it was made, and by
    when the schedule begins the next list. Poll it with `If-None-Match`, every five seconds for
    example: 304 means that nothing of this has changed.
    """
    body = ListStatusBody.of(here.run(srl.read)).model_dump_json()
    headers = {
        "ETag": f'"{hashlib.sha256(body.encode()).hexdigest()[:32]}"',
        "Cache-Control": CACHE_CONTROL,
    }
    if matches(here, etag=headers["ETag"]):
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers, media_type=MEDIA_TYPE)
