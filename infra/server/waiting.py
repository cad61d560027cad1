"""Requests that wait for a change: one task looks for all of them (docs/adr/12)."""

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from shared.errors import RescindError
from shared.model.items import Address
from shared.ports import Ports
from shared.ports.one_machine import Audible, Listener, News

# News that follow one another so quickly are read together.
_REST_SECONDS: Final = 0.02

# How many requests are woken in one turn of the event loop, which serves others in the next one.
_AT_ONCE: Final = 8

_Future: TypeAlias = "asyncio.Future[None]"

_log = logging.getLogger("rescind")


@dataclass(slots=True)
class WaitingRequests:
    """All requests of this process that wait; `most` is how many may.

    While any of them waits for a change, a task reads all items that they wait for, in a thread.
    """

    most: int = 750
    _is_released: bool = False
    _all: set[_Future] = field(default_factory=set)
    # The version that each has seen of an item, and the versions of the last look.
    _waiting: dict[Address, dict[_Future, int]] = field(default_factory=dict)
    _last: Mapping[Address, Any] = field(default_factory=dict)
    _heard: asyncio.Event = field(default_factory=asyncio.Event)
    _task: asyncio.Task[None] | None = None

    async def pause(self, seconds: float) -> None:
        """Return after `seconds`; at once if `most` requests wait already; sooner at `release`."""
        if self._may_wait():
            with self._one() as future:
                await asyncio.wait({future}, timeout=seconds)

    async def change(self, ports: Ports, address: Address, version: int, *, seconds: float) -> None:
        """Return once the item has another version, or as `pause` does; sooner if a read fails."""
        if not self._may_wait():
            return
        with self._one() as future:
            seen = self._waiting.setdefault(address, {})
            seen[future] = version
            if self._last.get(address) != version:
                # It may have changed after the request read it.
                self._heard.set()
            if self._task is None:
                self._task = asyncio.ensure_future(self._follow(ports))
            try:
                await asyncio.wait({future}, timeout=seconds)
            finally:
                del seen[future]
                if not seen:
                    del self._waiting[address]
                if not self._waiting:
                    # The task ends.
                    self._heard.set()

    def release(self) -> None:
        """Let all go on, and let no other wait."""
        self._is_released = True
        _wake(self._all)
        self._heard.set()

    def _may_wait(self) -> bool:
        return not self._is_released and len(self._all) < self.most

    @contextmanager
    def _one(self) -> Iterator[_Future]:
        """Count one more request that waits."""
        future: _Future = asyncio.get_running_loop().create_future()
        self._all.add(future)
        try:
            yield future
        finally:
            self._all.remove(future)

    async def _follow(self, ports: Ports) -> None:
        """Look for changes until nobody waits for one."""
        news = listener(ports, News.FEED)
        try:
            if news is not None:
                asyncio.get_running_loop().add_reader(news, self._hear, news)
            while True:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._heard.wait(), ports.look_seconds)
                self._heard.clear()
                if not self._waiting:
                    return
                await self._look(ports)
                await asyncio.sleep(_REST_SECONDS)
        except RescindError:
            # Each of the requests reads again, and answers with what it finds.
            return
        finally:
            self._task, self._last = None, {}
            _wake(future for each in self._waiting.values() for future in each)
            if news is not None:
                asyncio.get_running_loop().remove_reader(news)
                news.close()

    def _hear(self, news: Listener) -> None:
        news.clear()
        self._heard.set()

    async def _look(self, ports: Ports) -> None:
        """Read all items that are waited for, and wake those who have seen another version."""
        found = await asyncio.to_thread(ports.store.get_many, list(self._waiting))
        self._last = {address: item.get("version") for address, item in found.items()}
        asleep = [
            future
            for address, seen in self._waiting.items()
            for future, version in seen.items()
            if self._last.get(address) != version
        ]
        for first in range(0, len(asleep), _AT_ONCE):
            _wake(asleep[first : first + _AT_ONCE])
            await asyncio.sleep(0)


def _wake(futures: Iterable[_Future]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)


def listener(ports: Ports, news: News) -> Listener | None:
    """Return what hears of what other processes have written (docs/adr/11), or None.

    Without it, a look now and then has to do.
    """
    if not isinstance(ports.store, Audible):
        return None
    try:
        return ports.store.listen(news)
    except OSError as error:
        _log.warning("no news of the %s: %s; it is looked at now and then", news, error.strerror)
        return None
