"""Requests that wait for a change: one task reads for all of a tenant (docs/adr/0050)."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from shared.errors import RescindError

# How often the task reads, in seconds.
_PAUSE: Final = 0.05


@dataclass(slots=True)
class _Watch:
    """The requests of a tenant that wait, by what each has seen, and what reads for them."""

    read: Callable[[], str]
    waiting: dict[str, set[asyncio.Future[None]]] = field(default_factory=dict)
    task: asyncio.Task[None] | None = None

    def wake(self, *, unless_seen: str | None = None) -> None:
        """Wake all, except those that have seen this."""
        for seen, futures in self.waiting.items():
            if seen != unless_seen:
                for future in futures:
                    if not future.done():
                        future.set_result(None)


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
            watch.wake()

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
                watch.wake(unless_seen=watch.read())
        except RescindError:
            # Each of the requests reads again, and answers with what it finds.
            return
        finally:
            del self._watches[tenant_id]
            watch.wake()
