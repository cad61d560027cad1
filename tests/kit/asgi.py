"""Requests that no well-behaved client sends, straight into the application."""

import asyncio
import json
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import unquote

from starlette.types import ASGIApp, Message

R = TypeVar("R")

# The headers of API-8 whose values differ from one response to the next.
EVERY_RESPONSE = ("x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset", "x-request-id")

Headers = Iterable[tuple[str, str]]


@dataclass(frozen=True)
class Answer:
    """A response; no header comes twice, so that a dictionary holds them all."""

    status_code: int
    headers: dict[str, str]
    content: bytes

    @property
    def text(self) -> str:
        return self.content.decode()

    def json(self) -> Any:
        return json.loads(self.content)


async def exchange(
    app: ASGIApp,
    method: str,
    target: str,
    *,
    headers: Headers = (),
    chunks: Iterable[bytes] = (b"",),
    peer: str | None = "203.0.113.1",
) -> Answer:
    """Send one request as it stands: nothing is added, joined, normalised or followed."""
    sent: list[Message] = []
    body = iter(chunks)

    ended = False

    async def receive() -> Message:
        nonlocal ended
        if ended:
            # The caller waits for the response, and says nothing more.
            await asyncio.Event().wait()
        chunk = next(body, None)
        ended = chunk is None
        return {"type": "http.request", "body": chunk or b"", "more_body": chunk is not None}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(request_scope(method, target, headers, peer), receive, send)
    return _answer(sent)


def send(app: ASGIApp, method: str, target: str, **options: Any) -> Answer:
    """`exchange` for a test that sends no more than a few requests."""
    return run(exchange(app, method, target, **options))


def run(coroutine: Coroutine[Any, Any, R]) -> R:
    """What the coroutine returns. Unlike `asyncio.run`, leaves the thread's own loop in place."""
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(coroutine)
    finally:
        loop.close()


def bearer(secret: str | None, *more: tuple[str, str]) -> list[tuple[str, str]]:
    """The headers of a caller with this key, and more."""
    return [("Authorization", f"Bearer {secret}"), *more]


def request_scope(
    method: str, target: str, headers: Headers = (), peer: str | None = "203.0.113.1"
) -> dict[str, Any]:
    """What a server says of a request to the application."""
    path, _, query = target.partition("?")
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in headers],
        "client": None if peer is None else (peer, 50000),
        "server": ("testserver", 80),
    }


def _answer(sent: list[Message]) -> Answer:
    start, *rest = sent
    headers = {name.decode(): value.decode() for name, value in start["headers"]}
    assert len(headers) == len(start["headers"])
    return Answer(start["status"], headers, b"".join(each.get("body", b"") for each in rest))
