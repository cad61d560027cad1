"""Runs the work of requests in threads, and waits for changes (docs/adr/12, docs/adr/21).

Slow work does not delay other work. One task polls for all awaited changes.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Concatenate, Final, ParamSpec, TypeAlias, TypeVar
from weakref import WeakValueDictionary

from infra.server.board import listener
from infra.server.publications import PublicationRequests
from shared.errors import RescindError
from shared.model.items import Address
from shared.ports import Ports
from shared.ports.one_machine import CommitKind, Listener
from shared.web.work import Turns, WorkKind

# Notifications in quick succession are read together after this pause.
_REST_SECONDS: Final = 0.02

# How many requests wake per turn of the event loop, which serves others in the next turn.
_AT_ONCE: Final = 8

_Future: TypeAlias = "asyncio.Future[None]"

P = ParamSpec("P")
T = TypeVar("T")

# The threads for each kind of work. Publications share the pool of usual work. Admission and work
# that waits for external servers have separate pools, so they do not delay each other.
_THREADS: Final = {
    WorkKind.QUICK: 16,
    WorkKind.USUAL: 16,
    WorkKind.ADMISSION: 4,
    WorkKind.SIGN_IN: 16,
    WorkKind.KEYS: 16,
    WorkKind.OUTBOUND: 4,
}
# How much work of a kind may run for one tenant. Other work waits without a thread.
_SHARE: Final = {
    WorkKind.USUAL: 4,
    WorkKind.PUBLICATION: 1,
    WorkKind.ADMISSION: 2,
    WorkKind.SIGN_IN: 4,
    WorkKind.KEYS: 1,
    WorkKind.OUTBOUND: 1,
}
# How much work of a kind may wait for one tenant.
_WAITING: Final = {WorkKind.SIGN_IN: 16, WorkKind.KEYS: 16, WorkKind.OUTBOUND: 16}


@dataclass(slots=True)
class WaitingRequests:
    """All waiting requests of this process, at most `most`.

    While any request waits for a change, one task reads all awaited items, in a thread.
    """

    most: int = 750
    _is_released: bool = False
    _all: set[_Future] = field(default_factory=set)
    # The item version that each request has seen, and the versions of the last read.
    _waiting: dict[Address, dict[_Future, int]] = field(default_factory=dict)
    _last: Mapping[Address, Any] = field(default_factory=dict)
    _wakeup: asyncio.Event = field(default_factory=asyncio.Event)
    _task: asyncio.Task[None] | None = None

    async def pause(self, seconds: float) -> None:
        """Return after `seconds`, at once if `most` requests wait already, or at `release`."""
        if self._may_wait():
            with self._register() as future:
                await asyncio.wait({future}, timeout=seconds)

    async def change(self, ports: Ports, address: Address, version: int, *, seconds: float) -> None:
        """Wait until the item has another version, a read fails, or `pause` would return."""
        if not self._may_wait():
            return
        with self._register() as future:
            versions = self._waiting.setdefault(address, {})
            versions[future] = version
            if self._last.get(address) != version:
                # The item may have changed after the request read it.
                self._wakeup.set()
            if self._task is None:
                self._task = asyncio.ensure_future(self._follow(ports))
            try:
                await asyncio.wait({future}, timeout=seconds)
            finally:
                del versions[future]
                if not versions:
                    del self._waiting[address]
                if not self._waiting:
                    # Wake the task, which then ends.
                    self._wakeup.set()

    def release(self) -> None:
        """Wake all waiters and refuse new ones."""
        self._is_released = True
        _wake(self._all)
        self._wakeup.set()

    def _may_wait(self) -> bool:
        return not self._is_released and len(self._all) < self.most

    @contextmanager
    def _register(self) -> Iterator[_Future]:
        """Count one more waiting request."""
        future: _Future = asyncio.get_running_loop().create_future()
        self._all.add(future)
        try:
            yield future
        finally:
            self._all.remove(future)

    async def _follow(self, ports: Ports) -> None:
        """Wake requests that have seen another version, until no request waits for a change."""
        feed = listener(ports, CommitKind.FEED)
        try:
            if feed is not None:
                asyncio.get_running_loop().add_reader(feed, self._wake_task, feed)
            while True:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._wakeup.wait(), ports.look_seconds)
                self._wakeup.clear()
                if not self._waiting:
                    return
                items = await asyncio.to_thread(ports.store.get_many, list(self._waiting))
                self._last = {address: item.get("version") for address, item in items.items()}
                changed = [
                    future
                    for address, versions in self._waiting.items()
                    for future, version in versions.items()
                    if self._last.get(address) != version
                ]
                for first in range(0, len(changed), _AT_ONCE):
                    _wake(changed[first : first + _AT_ONCE])
                    await asyncio.sleep(0)
                await asyncio.sleep(_REST_SECONDS)
        except RescindError:
            # Each request reads again, and responds with the result.
            return
        finally:
            self._task, self._last = None, {}
            _wake(future for each in self._waiting.values() for future in each)
            if feed is not None:
                asyncio.get_running_loop().remove_reader(feed)
                feed.close()

    def _wake_task(self, feed: Listener) -> None:
        feed.clear()
        self._wakeup.set()


def _wake(futures: Iterable[_Future]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)


@dataclass(slots=True)
class ThreadedWork:
    """Runs `Work` in threads. Waiting requests need no thread.

    Quick work runs directly if the store `is_near`, because the event loop must not wait for a
    network.
    """

    waiting: WaitingRequests = field(default_factory=WaitingRequests)
    publications: PublicationRequests | None = None
    max_wait_seconds: int = 25
    is_near: Callable[[], bool] = lambda: True
    _pools: Mapping[WorkKind, ThreadPoolExecutor] = field(
        default_factory=lambda: {
            kind: ThreadPoolExecutor(most, kind.name.lower()) for kind, most in _THREADS.items()
        }
    )
    _turns: WeakValueDictionary[tuple[str, WorkKind], Turns] = field(
        default_factory=WeakValueDictionary
    )

    async def __call__(self, call: Callable[[], T], kind: WorkKind, *, tenant_id: str) -> T:
        """Return the result of `call`, once the tenant has a turn and a thread is free.

        Raises `RateLimited` if too much outbound work of the tenant waits.
        """
        pool = self._pools.get(kind, self._pools[WorkKind.USUAL])
        if kind is WorkKind.QUICK:
            return call() if self.is_near() else await _run(pool, call)
        # The turns of a tenant exist while any work uses or awaits one.
        turns = Turns(_SHARE[kind], _WAITING.get(kind))
        async with self._turns.setdefault((tenant_id, kind), turns):
            return await _run(pool, call)

    def publish(
        self,
        call: Callable[Concatenate[Ports, P], T],
        ports: Ports,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Return the result of `call`, run in the publisher process if there is one."""
        if self.publications is None:
            return call(ports, *args, **kwargs)
        return self.publications.ask(call, *args, **kwargs)

    async def change(self, ports: Ports, address: Address, version: int, *, seconds: float) -> None:
        """Return once the item has another version, after `seconds`, or sooner."""
        await self.waiting.change(ports, address, version, seconds=seconds)

    async def pause(self, seconds: float) -> None:
        """Return after `seconds`, or sooner."""
        await self.waiting.pause(seconds)

    def release(self) -> None:
        """Prevent requests from waiting for changes."""
        self.waiting.release()

    def stop(self) -> None:
        """Wait for the work in progress. Cancel work that has no thread yet."""
        for pool in self._pools.values():
            pool.shutdown(cancel_futures=True)


async def _run(pool: ThreadPoolExecutor, call: Callable[[], T]) -> T:
    # Copy the context of the request, because spans in the thread belong to its span.
    run = partial(copy_context().run, call)
    return await asyncio.get_running_loop().run_in_executor(pool, run)
