"""Requests that need no key: each takes a token of its source address before any work (AUTH-9)."""

import secrets
from collections.abc import Callable, Mapping, Sequence

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shared.model.outbound import Network
from shared.web import errors
from shared.web.gate import headers_of_every_response, report, source_address
from shared.web.strangers import AnonymousLimiter, group


class Keyless:
    """ASGI middleware. All responses have the headers of API-8, and `common` unless they set them.

    The application finds the address of the caller in `scope["source_ip"]`, and what identifies the
    request in `scope["request_id"]`.
    """

    def __init__(
        self,
        anonymous: AnonymousLimiter,
        trusted_proxies: Callable[[], Sequence[Network]],
        common: Mapping[str, str],
    ) -> None:
        self._anonymous, self._trusted_proxies = anonymous, trusted_proxies
        self._common = common

    async def answer(
        self, app: ASGIApp, scope: Scope, receive: Receive, send: Send, *, bucket: str = ""
    ) -> None:
        """Let `app` answer, unless the address has no token left in its bucket of this name."""
        request_id, started = secrets.token_hex(16), False
        address = source_address(Request(scope), self._trusted_proxies())
        holder = f"{group(address)}{bucket}"
        scope = {**scope, "source_ip": address, "request_id": request_id}

        async def completed(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                for name, value in self._common.items():
                    headers.setdefault(name, value)
                figures = self._anonymous.look(holder)
                for name_, value_ in headers_of_every_response(request_id, figures):
                    headers[name_.decode()] = value_.decode()
            await send(message)

        try:
            self._anonymous.take(holder)
            await app(scope, receive, completed)
        except Exception as error:
            report(error, request_id)
            if started:
                raise
            await errors.response(error)(scope, receive, completed)
