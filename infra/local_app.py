"""All functions as one ASGI application, and the short-lived addresses of stored lists."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route, Router

from functions.api_keys import handler as api_keys
from functions.revocations import handler as revocations
from functions.srl import handler as srl
from shared import wiring
from shared.adapters.filesystem import FileBlobs
from shared.errors import NotFound, Unavailable
from shared.web import errors
from shared.web.app import create_app


async def _blob(request: Request) -> Response:
    """What S3 does with a signed address: serve the blob to whoever holds it."""
    blobs = wiring.from_environment().blobs
    parts = request.query_params
    if not isinstance(blobs, FileBlobs):
        return errors.response(NotFound())
    try:
        data = blobs.open_url(
            request.path_params["name"],
            expires=parts.get("expires", ""),
            signature=parts.get("signature", ""),
        )
    except Unavailable as error:
        return errors.response(error)
    return (
        errors.response(NotFound())
        if data is None
        else Response(data, media_type="application/json")
    )


ROUTERS: Final = (srl.routes, revocations.routes, api_keys.routes)

app = Router(
    [
        Route("/blobs/{name:path}", _blob, methods=["GET"]),
        Mount("/", create_app(*ROUTERS)),
    ],
    redirect_slashes=False,
)
