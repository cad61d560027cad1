"""Client library for asyncio. It polls in a thread, not in the event loop."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from typing import Any, Self

from .client import AuthorizerClient
from .events import Event
from .status import ClientStatus, Verdict

# Maximum number of unread events. The oldest are dropped.
_EVENTS_MAX = 1000


class AsyncAuthorizerClient:
    """An `AuthorizerClient` that does not block the event loop.

    It takes the same arguments except `on_event`. Iterate over `events` instead.

        async with AsyncAuthorizerClient(url, …) as client:
            verdict = client.check(["svc_wrt_root", "svc_wrt_leaf"])
    """

    def __init__(self, url: str, **arguments: Any) -> None:
        self._client = AuthorizerClient(url, on_event=self._forward_event, **arguments)
        self._events: asyncio.Queue[Event] = asyncio.Queue(_EVENTS_MAX)
        self._loop: asyncio.AbstractEventLoop | None = None

    async def start(self, *, wait: float = 10.0) -> Self:
        """Start the client, as `AuthorizerClient.start` does."""
        self._loop = asyncio.get_running_loop()
        await asyncio.to_thread(self._client.start, wait=wait)
        return self

    def check(self, warrant_ids: Iterable[str]) -> Verdict:
        """Return the verdict, as `AuthorizerClient.check` does, without a request."""
        return self._client.check(warrant_ids)

    async def wait_for(self, sequence: int, *, timeout: float) -> bool:  # noqa: ASYNC109
        """Return whether the client has entry `sequence` within `timeout` seconds."""
        return await asyncio.to_thread(self._client.wait_for, sequence, timeout=timeout)

    @property
    def status(self) -> ClientStatus:
        """The current status of the client."""
        return self._client.status

    async def events(self) -> AsyncIterator[Event]:
        """Yield each event from now on. At most 1,000 unread events are kept."""
        while True:
            yield await self._events.get()

    async def close(self) -> None:
        """Stop the thread. Other waits for this client return."""
        # Stop first, because pending waits may occupy every thread that `to_thread` can use.
        self._client.stop()
        await asyncio.to_thread(self._client.close)

    async def __aenter__(self) -> Self:
        """Start the client. Close it if the start fails."""
        try:
            return await self.start()
        except BaseException:
            await self.close()
            raise

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _forward_event(self, event: Event) -> None:
        # The loop may be closed before the thread ends.
        with suppress(RuntimeError):
            if self._loop:
                self._loop.call_soon_threadsafe(self._enqueue, event)

    def _enqueue(self, event: Event) -> None:
        if self._events.full():
            self._events.get_nowait()
        self._events.put_nowait(event)
