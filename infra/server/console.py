"""The console on one machine: its files."""

import os
from collections.abc import Callable
from enum import StrEnum
from functools import cache
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from functions.console.files import Files, is_page

# Worker processes read this variable.
VARIABLE: Final = "RESCIND_CONSOLE"


class ConsoleMode(StrEnum):
    """Whether the console is served. `reload` reads the files anew for each request."""

    ON = "on"
    OFF = "off"
    RELOAD = "reload"


class Console:
    """The ASGI application of the console, with the `choice` of the server's environment."""

    def __init__(self) -> None:
        self._choice = ConsoleMode(os.environ.get(VARIABLE, ConsoleMode.ON))
        self._files: Callable[[], Files] = Files
        if self._choice is not ConsoleMode.RELOAD:
            self._files = cache(Files)
            self._files()

    def serves(self, scope: Scope) -> bool:
        """Return whether a request is for the console, not for the API."""
        if self._choice is ConsoleMode.OFF or scope["type"] != "http":
            return False
        # Each request of the API is asked this: only that for `/` needs a header.
        if scope["path"] != "/":
            return is_page(scope["path"], accept="")
        if scope["method"] not in {"GET", "HEAD"}:
            return False
        return is_page("/", _header(Request(scope), "accept"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a file of the console, to anybody."""
        request = Request(scope, receive)
        asked = {name: _header(request, name) for name in ("if-none-match", "accept-encoding")}
        query = scope["query_string"].decode("latin-1")
        answer = self._files().answer(request.method, scope["path"], asked, query)
        await Response(answer.body, answer.status, answer.headers)(scope, receive, send)


def _header(request: Request, name: str) -> str:
    return ",".join(request.headers.getlist(name))
