"""ASGI application of all functions, with the console, the API document and the blobs."""

import importlib
import os
from functools import cache, partial
from threading import Lock
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from functions.api_keys.leaks import LeakReports
from functions.console.files import SECURITY
from functions.introspection import handler as introspection
from functions.status_lists.handler import PublicLists
from infra import data_folder
from infra.server import worker
from infra.server.board import ProcessStatus
from infra.server.documents import Console, Documents
from infra.server.ops import Health, alive
from infra.server.publications import PublicationRequests
from infra.server.routers import ROUTERS
from infra.server.work import ThreadedWork, WaitingRequests
from shared import wiring
from shared.errors import NotFound, Unavailable
from shared.model.lists.head import CACHE_CONTROL, content_encoding, media_type, sha256_of
from shared.ports import Ports
from shared.ports.one_machine import LinkedBlobs
from shared.web.app import create_app
from shared.web.conditional import matches
from shared.web.gate import PublicMiddleware
from shared.web.sign_in import SignIn
from shared.web.stored import RangeResponse
from shared.web.strangers import AnonymousLimiter
from shared.web.work import WorkKind

_HEADERS: Final = {**SECURITY, "Cache-Control": "no-store"}
_BLOBS: Final = "/blobs/"


def _blob(request: Request) -> Response:
    """Return a blob by its signed URL, as S3 does. Raises `NotFound` or `Unavailable`."""
    blobs = _open_unmetered_ports().blobs
    if not isinstance(blobs, LinkedBlobs):
        raise NotFound
    name, query = request.scope["path"].removeprefix(_BLOBS), request.query_params
    content = blobs.open_url(
        name, expires=query.get("expires", ""), signature=query.get("signature", "")
    )
    if content is None:
        raise NotFound
    headers = {"ETag": f'"{sha256_of(name)}"', "Cache-Control": CACHE_CONTROL}
    if matches(request, etag=headers["ETag"]):
        return Response(status_code=304, headers=headers)
    if encoding := content_encoding(name):
        headers["Content-Encoding"] = encoding
    if isinstance(content, bytes):
        return Response(content, headers=headers, media_type=media_type(name))
    return RangeResponse(content, headers=headers, media_type=media_type(name))


async def _serve_blob(scope: Scope, receive: Receive, send: Send) -> None:
    response = await _work(partial(_blob, Request(scope)), WorkKind.QUICK, tenant_id="")
    await response(scope, receive, send)


async def _serve_health(scope: Scope, receive: Receive, send: Send) -> None:
    request = Request(scope)
    response = await (_checks.ready(request) if scope["path"] == _READY else alive(request))
    await response(scope, receive, send)


_opening: Final = Lock()
# The time, in seconds, that a request waits while another request opens the ports.
_OPENING_SECONDS: Final = 4.0


def _open_unmetered_ports() -> Ports:
    # Concurrent first requests must share one set of connection pools.
    if not _opening.acquire(timeout=_OPENING_SECONDS):
        raise Unavailable
    try:
        return wiring.from_environment()
    finally:
        _opening.release()


@cache
def _ports() -> Ports:
    """Return the ports of this process. They collect metrics if the server has metrics."""
    ports = _open_unmetered_ports()
    if data_folder.METRICS_VARIABLE not in os.environ:
        return ports
    measured_ports: Ports = importlib.import_module("infra.server.metrics").with_metrics(ports)
    return measured_ports


_READY: Final = "/readyz"
# Health checks have their own bucket, so a flood of other requests cannot make them fail.
_HEALTH_BUCKET: Final = "#health"


# All unauthenticated clients share the same buckets on all paths.
_anonymous = AnonymousLimiter(wiring.now)
_keyless = PublicMiddleware(_anonymous, wiring.trusted_proxies, _HEADERS)
_work = ThreadedWork(WaitingRequests(worker.limits().waiting), is_near=cache(wiring.is_near))


def set_process_state(board: ProcessStatus, publications: PublicationRequests | None) -> None:
    """Set the state of this server, and the publisher that serves requests, if there is one."""
    _checks.board, _work.publications = board, publications


_contract = create_app(
    *ROUTERS, introspection.routes, ports=_ports, work=_work, anonymous=_anonymous
)
_api = introspection.OAuth(_contract)
_checks = Health(_open_unmetered_ports, _work)
_console = Console()
_sign_in = SignIn(_ports, _work)
_leaks = LeakReports(_ports, _work)
_status_lists = PublicLists(_ports, _work)
_documents = Documents(_work)


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Serve the API, the console, and the read-only paths that only this server has."""
    public = _public_app(scope)
    if public is None:
        await _api(scope, receive, send)
    else:
        bucket = _HEALTH_BUCKET if public is _serve_health else ""
        await _keyless.answer(public, scope, receive, send, bucket=bucket)


def _public_app(scope: Scope) -> ASGIApp | None:
    """Return the application for a request that needs no key, or None for an API request."""
    for each in (_console, _sign_in, _leaks, _status_lists):
        if each.serves(scope):
            return each
    path: str = scope.get("path", "")
    if scope.get("method") not in {"GET", "HEAD"}:
        return None
    if path in {"/healthz", _READY}:
        return _serve_health
    if path.startswith(_BLOBS):
        return _serve_blob
    return _documents if _documents.serves(path) else None
