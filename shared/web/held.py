"""Requests that wait before they are answered (POLL-5, FLEET-14, docs/adr/12, docs/adr/17)."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from shared.web.work import Work

# How long a provisional answer stands before it is made again: so many seconds at least, and so
# many times as long as it took to make. A request that waits then needs a twentieth of a processor.
_PAUSE: Final = 0.5
_SHARE: Final = 19


@dataclass(frozen=True, slots=True)
class Wait:
    """For what a request waits: until `read` returns something else than `seen`.

    It waits for `seconds` at most. `read` is as quick as work of `Kind.QUICK`, and all requests of
    a tenant that wait read the same.
    """

    read: Callable[[], str]
    seen: str
    seconds: float


class HeldResponse(Response):
    """304, unless there is something else to say after the `wait`."""

    def __init__(self, wait: Wait, *, headers: dict[str, str]) -> None:
        super().__init__(status_code=304, headers=headers)
        self.wait = wait


class Provisional(Response):
    """A response that is sent only if no other follows within `seconds`: it is made again."""

    def __init__(self, content: Any, *, seconds: float, **options: Any) -> None:
        super().__init__(content, **options)
        self.seconds = seconds


async def settled(
    first: Provisional,
    again: Callable[[], Awaitable[Response]],
    request: Request,
    work: Work,
    *,
    tenant_id: str,
) -> Response:
    """Return what `again` returns once it is not provisional, or what it is after the `seconds`.

    Returns sooner if too many requests wait, or if the server stops. Raises `ClientDisconnect`.
    """
    response: Response = first
    end, pause = time.monotonic() + first.seconds, _PAUSE
    while (rest := end - time.monotonic()) > 0:
        started = time.monotonic()
        wait = Wait(lambda: "", "", min(pause, rest))
        # Apart from polls of the feed, which all wait for the same.
        await news(wait, request, work, tenant_id=f"{tenant_id}#pause")
        paused = time.monotonic()
        response = await again()
        if not isinstance(response, Provisional) or paused - started < wait.seconds / 2:
            break
        pause = max(_PAUSE, _SHARE * (time.monotonic() - paused))
    return response


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
