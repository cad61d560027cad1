"""All functions as one ASGI application, with the API document and the addresses of blobs."""

from functools import partial
from typing import Final

from fastapi_offline import FastAPIOffline
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from infra import local_protocol, openapi
from infra.local_health import Health, alive
from infra.local_threads import Threads
from infra.local_waiting import Waiting
from infra.routers import ROUTERS
from shared import wiring
from shared.errors import NotFound, Unavailable
from shared.model.srl.blobs import CACHE_CONTROL, content_encoding, media_type, sha256_of
from shared.ports.one_machine import LocalBlobs
from shared.web import errors
from shared.web.app import create_app
from shared.web.conditional import matches
from shared.web.stored import StoredFile

_DOCUMENTS: Final = {"/docs", "/docs/oauth2-redirect", "/openapi.json"}
_HEALTH: Final = {"/healthz", "/readyz"}
_FOLDERS: Final = ("/blobs/", "/static-offline-docs/")


async def _blob(request: Request) -> Response:
    """Serve a blob by its signed address, as S3 does."""
    blobs = wiring.from_environment().blobs
    parts = request.query_params
    if not isinstance(blobs, LocalBlobs):
        return errors.response(NotFound())
    name = request.path_params["name"]
    try:
        file = blobs.open_url(
            name,
            expires=parts.get("expires", ""),
            signature=parts.get("signature", ""),
        )
    except Unavailable as error:
        return errors.response(error)
    if file is None:
        return errors.response(NotFound())
    headers = {
        "ETag": f'"{sha256_of(name)}"',
        "Cache-Control": CACHE_CONTROL,
    }
    if matches(request, etag=headers["ETag"]):
        return Response(status_code=304, headers=headers)
    if encoding := content_encoding(name):
        headers["Content-Encoding"] = encoding
    return StoredFile(file, headers=headers, media_type=media_type(name))


async def _nothing_there(_request: Request, _error: Exception) -> Response:
    return errors.response(NotFound("There is no such document."))


_work = Threads(Waiting(local_protocol.limits().waiting))
_contract = create_app(*ROUTERS, work=_work)
_health = Health(wiring.from_environment, _work)

# /docs and /openapi.json, with assets that need no network.
_beside = FastAPIOffline(redoc_url=None, title="Rescind", redirect_slashes=False)
_beside.openapi = partial(openapi.document, openapi.HERE)  # type: ignore[method-assign]
_beside.add_route("/blobs/{name:path}", _blob, methods=["GET"])
_beside.add_route("/healthz", alive, methods=["GET"])
_beside.add_route("/readyz", _health.ready, methods=["GET"])
_beside.add_exception_handler(HTTPException, _nothing_there)


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Serve the API, and the read-only paths that only this server has."""
    await (_beside if _is_beside(scope) else _contract)(scope, receive, send)


def _is_beside(scope: Scope) -> bool:
    path: str = scope.get("path", "")
    if path in _HEALTH:
        return scope.get("method") in {"GET", "HEAD"}
    return scope.get("method") == "GET" and (path in _DOCUMENTS or path.startswith(_FOLDERS))
