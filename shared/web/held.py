"""Requests that wait before they are answered (POLL-5, FLEET-14, docs/adr/12, docs/adr/17)."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, NamedTuple

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from shared.model.items import Address
from shared.web.work import Work

# How long a provisional answer stands before it is made again: so many seconds at least, and so
# many times as long as it took to make. A request that waits then needs a twentieth of a processor.
_PAUSE: Final = 0.5
_SHARE: Final = 19


class Wait(NamedTuple):
    """For what a request waits: until the item at `address` has another `version`.

    It waits for `seconds` at most.
    """

    address: Address
    version: int
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
) -> Response:
    """Return what `again` returns once it is not provisional, or what it is after the `seconds`.

    Returns sooner if too many requests wait, or if the server stops. Raises `ClientDisconnect`.
    """
    response: Response = first
    end, pause = time.monotonic() + first.seconds, _PAUSE
    while (rest := end - time.monotonic()) > 0:
        started = time.monotonic()
        wanted = min(pause, rest)
        await unless_gone(request, work.pause(wanted))
        paused = time.monotonic()
        response = await again()
        if not isinstance(response, Provisional) or paused - started < wanted / 2:
            break
        pause = max(_PAUSE, _SHARE * (time.monotonic() - paused))
    return response


async def unless_gone(request: Request, wait: Coroutine[Any, Any, None]) -> None:
    """Wait as long as `wait` does. Raises `ClientDisconnect` if the client is gone before."""
    waiting, gone = asyncio.ensure_future(wait), asyncio.ensure_future(_disconnected(request))
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
