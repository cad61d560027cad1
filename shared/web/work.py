"""Runs the synchronous work of a request directly or in threads.

Operations and ports are synchronous. Lambda gives an instance one request at a time, so the work
runs directly there. A server handles many requests at the same time and runs them in threads, so
that a slow request does not delay the others (docs/adr/21). Some requests wait before they are
answered (POLL-5, FLEET-14, docs/adr/12, docs/adr/17).
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from enum import Enum, auto
from typing import Any, Concatenate, Final, NamedTuple, ParamSpec, Protocol, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from shared.errors import RateLimited
from shared.model.items import Address
from shared.ports import Ports

P = ParamSpec("P")
T = TypeVar("T")

# The minimum wait in seconds before a provisional response is made again, and the minimum wait as a
# multiple of the time it took. A waiting request then needs a twentieth of a processor.
_PAUSE: Final = 0.5
_SHARE: Final = 19


class WorkKind(Enum):
    """A kind of work."""

    # Reads a few items by address. On a local disk, this takes less time than starting it in a
    # thread.
    QUICK = auto()
    # Any other work of an endpoint.
    USUAL = auto()
    # Publishes a signed list or document. Two publications of one tenant would compete for the same
    # head.
    PUBLICATION = auto()
    # The work of the gate before it admits a request.
    ADMISSION = auto()
    # An authorization code, which waits for the identity provider.
    SIGN_IN = auto()
    # A token of an unauthenticated client, which may wait for the keys of its issuer.
    KEYS = auto()
    # A request of an administrator that waits for a third-party server.
    OUTBOUND = auto()


class Turns:
    """Runs at most `most` users at a time, and limits the queue to `waiting` if given."""

    def __init__(self, most: int, waiting: int | None = None) -> None:
        self._free = asyncio.Semaphore(most)
        self._room = None if waiting is None else most + waiting
        self._present = 0

    async def __aenter__(self) -> None:
        """Wait for a turn. Raises `RateLimited` if the queue is full."""
        if self._room is not None and self._present >= self._room:
            raise RateLimited(retry_after=1)
        self._present += 1
        try:
            await self._free.acquire()
        except BaseException:
            self._present -= 1
            raise

    async def __aexit__(self, *_: object) -> None:
        """End the turn."""
        self._present -= 1
        self._free.release()


class Work(Protocol):
    """Runs a piece of work on behalf of a tenant.

    `max_wait_seconds` is how many seconds a request may wait for a change; 0 disables waiting.
    """

    max_wait_seconds: int

    async def __call__(self, call: Callable[[], T], kind: WorkKind, *, tenant_id: str) -> T:
        """Return the result of `call`. Raises its exceptions."""
        ...

    def publish(
        self,
        call: Callable[Concatenate[Ports, P], T],
        ports: Ports,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run an operation that publishes, as `WorkKind.PUBLICATION`.

        Another process may run it, with its own ports. Raises the exceptions of the operation, and
        `Unavailable`.
        """
        ...

    async def change(self, ports: Ports, address: Address, version: int, *, seconds: float) -> None:
        """Return when the item at `address` has another `version`, or after `seconds`.

        It may return earlier if the store fails, if too many requests wait, or if the server stops.
        """
        ...

    async def pause(self, seconds: float) -> None:
        """Return after `seconds`, or earlier if too many requests wait or the server stops."""
        ...

    def release(self) -> None:
        """Wake all waiting requests and refuse new waits, because the server stops."""
        ...

    def stop(self) -> None:
        """Wait for the work in progress, and accept no new work."""
        ...


class InlineWork:
    """`Work` that runs directly and blocks the event loop."""

    max_wait_seconds = 0

    async def __call__(
        self,
        call: Callable[[], T],
        kind: WorkKind,  # noqa: ARG002 (all kinds are alike here)
        *,
        tenant_id: str,  # noqa: ARG002
    ) -> T:
        """Return the result of `call`. Raises its exceptions."""
        return call()

    def publish(
        self,
        call: Callable[Concatenate[Ports, P], T],
        ports: Ports,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Return the result of `call`. Raises its exceptions."""
        return call(ports, *args, **kwargs)

    async def change(self, ports: Ports, address: Address, version: int, *, seconds: float) -> None:
        """Return at once."""

    async def pause(self, seconds: float) -> None:
        """Return at once."""

    def release(self) -> None:
        """Do nothing, because requests never wait."""

    def stop(self) -> None:
        """Do nothing, because no work is ever in progress."""


IN_PLACE = InlineWork()


def result_of(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that never waits, so that any thread can run it."""
    try:
        coroutine.send(None)
    except StopIteration as finished:
        value: T = finished.value
        return value
    coroutine.close()
    raise RuntimeError("an endpoint waited, which only an event loop can")


class LongPollWait(NamedTuple):
    """The condition that a request waits for: another `version` of the item at `address`.

    The wait ends after `seconds`.
    """

    address: Address
    version: int
    seconds: float


class LongPollResponse(Response):
    """A 304, unless the response differs after the `wait`."""

    def __init__(self, wait: LongPollWait, *, headers: dict[str, str]) -> None:
        super().__init__(status_code=304, headers=headers)
        self.wait = wait


class ProvisionalResponse(Response):
    """A response that is made again until it is final, and sent after `seconds` otherwise."""

    def __init__(self, content: Any, *, seconds: float, **options: Any) -> None:
        super().__init__(content, **options)
        self.seconds = seconds


async def respond_when_settled(
    first: ProvisionalResponse,
    retry: Callable[[], Awaitable[Response]],
    request: Request,
    work: Work,
) -> Response:
    """Call `retry` until its response is not provisional, or until `seconds` have passed.

    Returns the last response. Returns earlier if too many requests wait, or if the server stops.
    Raises `ClientDisconnect`.
    """
    response: Response = first
    end, pause = time.monotonic() + first.seconds, _PAUSE
    while (rest := end - time.monotonic()) > 0:
        started = time.monotonic()
        wanted = min(pause, rest)
        await wait_unless_disconnected(request, work.pause(wanted))
        paused = time.monotonic()
        response = await retry()
        if not isinstance(response, ProvisionalResponse) or paused - started < wanted / 2:
            break
        pause = max(_PAUSE, _SHARE * (time.monotonic() - paused))
    return response


async def wait_unless_disconnected(request: Request, wait: Coroutine[Any, Any, None]) -> None:
    """Wait until `wait` returns. Raises `ClientDisconnect` if the client disconnects first."""
    waiting, gone = (
        asyncio.ensure_future(wait),
        asyncio.ensure_future(_wait_for_disconnect(request)),
    )
    try:
        await asyncio.wait({waiting, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            raise ClientDisconnect
    finally:
        waiting.cancel()
        gone.cancel()


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
