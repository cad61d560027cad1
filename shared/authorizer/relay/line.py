"""One thread with a connection to the service, for requests that the feed must not wait for."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from ..transport import Transport

T = TypeVar("T")


class Line:
    """Runs what needs the service, one after another."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rescind-relay")

    async def run(self, ask: Callable[[Transport], T]) -> T:
        """Return what `ask` returns, which gets the connection. Raises what it raises."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, ask, self._transport)

    def close(self) -> None:
        """End the request that is made, and make no other."""
        self._transport.interrupt()
        self._thread.shutdown(wait=True, cancel_futures=True)
        self._transport.close()
