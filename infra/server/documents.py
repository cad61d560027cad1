"""The pages of one machine: `/docs` (Swagger UI) with `/openapi.json`, and the console.

The API document and its page are built for the first request, then served from memory.
"""

import importlib
import json
import os
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import cache
from importlib import resources
from pathlib import Path
from threading import Lock
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from functions.console.files import File, Files, is_page
from shared.web.work import Work, WorkKind

# Worker processes read this variable.
DOCS: Final = "RESCIND_DOCS"

_DOCUMENT: Final = "/openapi.json"
_PAGE: Final = "/docs"
_SWAGGER: Final = ("swagger-ui.css", "swagger-ui-bundle.js")
_INIT: Final = """\
SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  presets: [SwaggerUIBundle.presets.apis, SwaggerUIBundle.SwaggerUIStandalonePreset],
});
"""
# The URLs are relative, because the service may be served below a base path.
_HTML: Final = """\
<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Rescind: the API</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="docs/swagger-ui.css">
<div id="swagger-ui"></div>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/init.js"></script>
</html>
"""
# The console's policy, except that Swagger uses images in its styles and no trusted types.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; form-action 'none'; frame-ancestors 'none'; "
    "base-uri 'none'"
)
_HEADERS: Final = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": _POLICY,
    "Vary": "Accept-Encoding",
}


class DocumentsMode(StrEnum):
    """Whether the documents are served."""

    ON = "on"
    OFF = "off"


class Documents:
    """ASGI application of the documents. `work` builds them in a thread."""

    def __init__(self, work: Work) -> None:
        self._work, self._lock = work, Lock()
        self._files: Mapping[str, File] | None = None

    def serves(self, path: str) -> bool:
        """Return whether documents are served, and `path` belongs to one of them."""
        return path in _PATHS and os.environ.get(DOCS) != DocumentsMode.OFF

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to a GET or HEAD of a path that `serves` accepts."""
        files = self._files
        if files is None:
            files = await self._work(self._build_files, WorkKind.USUAL, tenant_id=_DOCUMENT)
        headers = _conditional_headers(Request(scope))
        answer = files[scope["path"]].answer(headers, with_body=scope["method"] == "GET")
        await Response(answer.body, answer.status, answer.headers)(scope, receive, send)

    def _build_files(self) -> Mapping[str, File]:
        with self._lock:
            if self._files is None:
                # Imported on demand, because `rescind serve` loads this file for its options.
                openapi = importlib.import_module("infra.openapi")
                document = json.dumps(openapi.document(openapi.HERE), ensure_ascii=False)
                contents = {
                    _PAGE: (".html", _HTML.encode()),
                    _DOCUMENT: (".json", document.encode()),
                    f"{_PAGE}/init.js": (".js", _INIT.encode()),
                }
                static = resources.files("fastapi_offline").joinpath("static")
                for name in _SWAGGER:
                    data = static.joinpath(name).read_bytes()
                    contents[f"{_PAGE}/{name}"] = Path(name).suffix, data
                self._files = {
                    path: File.of(suffix, data, _HEADERS)
                    for path, (suffix, data) in contents.items()
                }
            return self._files


_PATHS: Final = (_PAGE, _DOCUMENT, *(f"{_PAGE}/{name}" for name in (*_SWAGGER, "init.js")))


# Worker processes read this variable.
CONSOLE: Final = "RESCIND_CONSOLE"


class ConsoleMode(StrEnum):
    """Whether the console is served. `reload` rereads the files for each request."""

    ON = "on"
    OFF = "off"
    RELOAD = "reload"


class Console:
    """ASGI application of the console. The environment of the server sets its `ConsoleMode`."""

    def __init__(self) -> None:
        self._choice = ConsoleMode(os.environ.get(CONSOLE, ConsoleMode.ON))
        self._files: Callable[[], Files] = Files
        if self._choice is not ConsoleMode.RELOAD:
            self._files = cache(Files)
            self._files()

    def serves(self, scope: Scope) -> bool:
        """Return whether a request is for the console, not for the API."""
        if self._choice is ConsoleMode.OFF or scope["type"] != "http":
            return False
        # This runs for each API request, so read a header only for `/`.
        if scope["path"] != "/":
            return is_page(scope["path"], accept="")
        if scope["method"] not in {"GET", "HEAD"}:
            return False
        return is_page("/", ",".join(Request(scope).headers.getlist("accept")))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a file of the console, without authentication."""
        request = Request(scope, receive)
        headers, query = _conditional_headers(request), scope["query_string"].decode("latin-1")
        answer = self._files().answer(request.method, scope["path"], headers, query)
        await Response(answer.body, answer.status, answer.headers)(scope, receive, send)


def _conditional_headers(request: Request) -> dict[str, str]:
    names = ("if-none-match", "accept-encoding")
    return {name: ",".join(request.headers.getlist(name)) for name in names}
