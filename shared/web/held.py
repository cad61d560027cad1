"""Requests that wait for news before they are answered (POLL-5, docs/adr/0050)."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from shared.web.work import Work


@dataclass(frozen=True, slots=True)
class Wait:
    """For what a request waits: until `read` returns something else than `seen`.

    It waits for `seconds` at most. `read` is as quick as work of `Kind.QUICK`, and all requests of
    a tenant that wait read the same.
    """

    read: Callable[[], str]
    seen: str
    seconds: float


class Held(Response):
    """304, unless there is something else to say after the `wait`."""

    def __init__(self, wait: Wait, *, headers: dict[str, str]) -> None:
        super().__init__(status_code=304, headers=headers)
        self.wait = wait


async def news(wait: Wait, request: Request, work: Work, *, tenant_id: str) -> None:
    """Wait for news. Raises `ClientDisconnect`."""
    change = work.change(wait.read, wait.seen, tenant_id=tenant_id, seconds=wait.seconds)
    waiting, gone = asyncio.ensure_future(change), asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({waiting, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            raise ClientDisconnect
    finally:
        waiting.cancel()
        gone.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
