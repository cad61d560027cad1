"""Polls that wait until the relay has something new."""

import asyncio
from typing import Final

# How many are woken in one turn of the event loop, which serves others in the next one.
_AT_ONCE: Final = 8


class WaitingPolls:
    """The polls that wait now; `most` is how many may. It belongs to one event loop."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._futures: set[asyncio.Future[None]] = set()
        self._waking: set[asyncio.Task[None]] = set()
        self._is_released = False

    def __len__(self) -> int:
        return len(self._futures)

    async def change(self, seconds: float) -> None:
        """Return at the next `wake`, after `seconds`, or at once if too many wait already."""
        if self._is_released or len(self._futures) >= self._most:
            return
        future = asyncio.get_running_loop().create_future()
        self._futures.add(future)
        try:
            await asyncio.wait({future}, timeout=seconds)
        finally:
            self._futures.discard(future)

    def wake(self) -> None:
        """Let all go on that wait now."""
        task = asyncio.ensure_future(_wake(list(self._futures)))
        self._waking.add(task)
        task.add_done_callback(self._waking.discard)

    def release(self) -> None:
        """Let all go on, and let no other wait."""
        self._is_released = True
        self.wake()


async def _wake(futures: list[asyncio.Future[None]]) -> None:
    for first in range(0, len(futures), _AT_ONCE):
        for each in futures[first : first + _AT_ONCE]:
            if not each.done():
                each.set_result(None)
        await asyncio.sleep(0)
