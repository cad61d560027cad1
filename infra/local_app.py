"""All functions as one ASGI application, with the console, the API document and the blobs."""

import importlib
import os
from functools import cache, partial
from typing import Final

from fastapi_offline import FastAPIOffline
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from infra import data_folder, local_protocol, openapi
from infra.local_console import Console
from infra.local_health import Health, alive
from infra.local_threads import Threads
from infra.local_waiting import Waiting
from infra.routers import ROUTERS
from shared import wiring
from shared.errors import NotFound, Unavailable
from shared.model.srl.blobs import CACHE_CONTROL, content_encoding, media_type, sha256_of
from shared.ports import Ports
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


@cache
def _ports() -> Ports:
    """Return the ports of this process, which measure if the server has metrics."""
    ports = wiring.from_environment()
    if data_folder.METRICS_VARIABLE not in os.environ:
        return ports
    measured: Ports = importlib.import_module("infra.measured_store").measured(ports)
    return measured


_work = Threads(Waiting(local_protocol.limits().waiting))
_contract = create_app(*ROUTERS, ports=_ports, work=_work)
_health = Health(wiring.from_environment, _work)
_console = Console(_ports, _work)

# /docs and /openapi.json, with assets that need no network.
_beside = FastAPIOffline(redoc_url=None, title="Rescind", redirect_slashes=False)
_beside.openapi = partial(openapi.document, openapi.HERE)  # type: ignore[method-assign]
_beside.add_route("/blobs/{name:path}", _blob, methods=["GET"])
_beside.add_route("/healthz", alive, methods=["GET"])
_beside.add_route("/readyz", _health.ready, methods=["GET"])
_beside.add_exception_handler(HTTPException, _nothing_there)


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Serve the API, the console, and the read-only paths that only this server has."""
    await _chosen(scope)(scope, receive, send)


def _chosen(scope: Scope) -> ASGIApp:
    if _console.serves(scope):
        return _console
    return _beside if _is_beside(scope) else _contract


def _is_beside(scope: Scope) -> bool:
    path: str = scope.get("path", "")
    if path in _HEALTH:
        return scope.get("method") in {"GET", "HEAD"}
    return scope.get("method") == "GET" and (path in _DOCUMENTS or path.startswith(_FOLDERS))
