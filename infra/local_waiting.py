"""Requests that wait for a change: one task reads for all of a tenant (docs/adr/0050)."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from shared.errors import RescindError

# How often the task reads, in seconds.
_PAUSE: Final = 0.05

# How many requests are woken in one turn of the event loop, which serves others in the next one.
_AT_ONCE: Final = 8


@dataclass(slots=True)
class _Watch:
    """The requests of a tenant that wait, by what each has seen, and what reads for them."""

    read: Callable[[], str]
    waiting: dict[str, set[asyncio.Future[None]]] = field(default_factory=dict)
    task: asyncio.Task[None] | None = None

    def asleep(self, *, seen: str | None = None) -> list[asyncio.Future[None]]:
        """Return all that wait, except those that have `seen` this."""
        groups = (futures for each, futures in self.waiting.items() if each != seen)
        return [future for futures in groups for future in futures]


@dataclass(slots=True)
class Waiting:
    """All requests of this process that wait; `most` is how many may."""

    most: int = 750
    _count: int = 0
    _is_released: bool = False
    _watches: dict[str, _Watch] = field(default_factory=dict)

    async def change(
        self, read: Callable[[], str], seen: str, *, tenant_id: str, seconds: float
    ) -> None:
        """Return once `read` returns something else than `seen`, or after `seconds`.

        Return at once if `most` requests wait already, and sooner if `read` fails or at `release`.
        """
        if self._is_released or self._count >= self.most:
            return
        watch = self._watch(tenant_id, read)
        future = asyncio.get_running_loop().create_future()
        futures = watch.waiting.setdefault(seen, set())
        futures.add(future)
        self._count += 1
        try:
            await asyncio.wait({future}, timeout=seconds)
        finally:
            self._count -= 1
            futures.remove(future)
            if not futures:
                watch.waiting.pop(seen, None)

    def release(self) -> None:
        """Let all go on, and let no other wait."""
        self._is_released = True
        for watch in self._watches.values():
            _wake(watch.asleep())

    def _watch(self, tenant_id: str, read: Callable[[], str]) -> _Watch:
        watch = self._watches.get(tenant_id)
        if watch is None:
            watch = self._watches[tenant_id] = _Watch(read)
            watch.task = asyncio.ensure_future(self._follow(tenant_id, watch))
        return watch

    async def _follow(self, tenant_id: str, watch: _Watch) -> None:
        """Read until nobody waits."""
        try:
            while True:
                await asyncio.sleep(_PAUSE)
                if not watch.waiting:
                    return
                asleep = watch.asleep(seen=watch.read())
                for first in range(0, len(asleep), _AT_ONCE):
                    _wake(asleep[first : first + _AT_ONCE])
                    await asyncio.sleep(0)
        except RescindError:
            # Each of the requests reads again, and answers with what it finds.
            return
        finally:
            del self._watches[tenant_id]
            _wake(watch.asleep())


def _wake(futures: Iterable[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)
