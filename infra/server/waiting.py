"""Requests that wait for a change: one task reads for all of a tenant (docs/adr/12)."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from infra.server.news import LOOK_SECONDS
from shared.errors import RescindError
from shared.ports.one_machine import Listener

# News that follow one another so quickly are read together.
_REST_SECONDS: Final = 0.02

# How many requests are woken in one turn of the event loop, which serves others in the next one.
_AT_ONCE: Final = 8


def _deaf() -> Listener | None:
    return None


@dataclass(slots=True)
class _Watch:
    """The requests of a tenant that wait, by what each has seen, and what reads for them.

    `last` is what was read last. `heard` is set when it is to be read again.
    """

    read: Callable[[], str]
    waiting: dict[str, set[asyncio.Future[None]]] = field(default_factory=dict)
    heard: asyncio.Event = field(default_factory=asyncio.Event)
    last: str | None = None
    task: asyncio.Task[None] | None = None

    def asleep(self, *, seen: str | None = None) -> list[asyncio.Future[None]]:
        """Return the waiting ones, except those that have `seen` this."""
        groups = (futures for each, futures in self.waiting.items() if each != seen)
        return [future for futures in groups for future in futures]

    async def news(self) -> None:
        """Wait for news, or for the next look."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.heard.wait(), LOOK_SECONDS)
        self.heard.clear()


@dataclass(slots=True)
class WaitingRequests:
    """All requests of this process that wait; `most` is how many may.

    `listen` returns what hears of new heads, when the first request waits.
    """

    most: int = 750
    listen: Callable[[], Listener | None] = _deaf
    _count: int = 0
    _is_released: bool = False
    _watches: dict[str, _Watch] = field(default_factory=dict)
    _news: Listener | None = None

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
        if seen != watch.last:
            # It may have changed after the request read it.
            watch.heard.set()
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
        if self._news is not None:
            asyncio.get_running_loop().remove_reader(self._news)
            self._news.close()
            self._news = None

    def _watch(self, tenant_id: str, read: Callable[[], str]) -> _Watch:
        watch = self._watches.get(tenant_id)
        if watch is None:
            if self._news is None and (news := self.listen()) is not None:
                self._news = news
                asyncio.get_running_loop().add_reader(news, self._hear, news)
            watch = self._watches[tenant_id] = _Watch(read)
            watch.task = asyncio.ensure_future(self._follow(tenant_id, watch))
        return watch

    def _hear(self, news: Listener) -> None:
        news.clear()
        for watch in self._watches.values():
            watch.heard.set()

    async def _follow(self, tenant_id: str, watch: _Watch) -> None:
        """Read until nobody waits."""
        try:
            while True:
                await watch.news()
                if not watch.waiting:
                    return
                watch.last = watch.read()
                asleep = watch.asleep(seen=watch.last)
                for first in range(0, len(asleep), _AT_ONCE):
                    _wake(asleep[first : first + _AT_ONCE])
                    await asyncio.sleep(0)
                await asyncio.sleep(_REST_SECONDS)
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
