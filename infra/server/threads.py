"""Threads for the work of requests, so that a slow one does not delay others (docs/adr/21)."""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import Concatenate, Final, ParamSpec, TypeVar

from infra.server.publications import Publications
from infra.server.waiting import WaitingRequests
from shared.model.items import Address
from shared.ports import Ports
from shared.web.work import WorkKind

P = ParamSpec("P")
T = TypeVar("T")

_THREADS: Final = 16
_ADMISSION_THREADS: Final = 4
# How many pieces of work of a kind may run for one tenant. Others wait and use no thread.
_SHARE: Final = {WorkKind.USUAL: 4, WorkKind.PUBLICATION: 1, WorkKind.ADMISSION: 2}


@dataclass(slots=True)
class _Turns:
    """The turns of a tenant for a kind of work; `users` is how many pieces have or await one."""

    free: asyncio.Semaphore
    users: int = 0


@dataclass(slots=True)
class Threads:
    """`Work` in threads; requests that wait have no thread.

    Quick work runs directly if the store `is_near`: the event loop must not wait for a network.
    """

    waiting: WaitingRequests = field(default_factory=WaitingRequests)
    publications: Publications | None = None
    wait_max: int = 25
    is_near: Callable[[], bool] = lambda: True
    _pool: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(_THREADS, thread_name_prefix="work")
    )
    _quick: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(_THREADS, thread_name_prefix="quick")
    )
    # A pool of its own, so that admission does not wait for other work.
    _admissions: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(_ADMISSION_THREADS, thread_name_prefix="admit")
    )
    _turns: dict[tuple[str, WorkKind], _Turns] = field(default_factory=dict)

    async def __call__(self, call: Callable[[], T], kind: WorkKind, *, tenant_id: str) -> T:
        """Return what `call` returns, once the tenant has a turn and a thread is free."""
        if kind is WorkKind.QUICK:
            return call() if self.is_near() else await _run(self._quick, call)
        pool = self._admissions if kind is WorkKind.ADMISSION else self._pool
        async with self._turn(tenant_id, kind):
            return await _run(pool, call)

    def publish(
        self,
        call: Callable[Concatenate[Ports, P], T],
        ports: Ports,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Return what `call` returns, if possible in the process that publishes."""
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
        """Let no request wait for a change any more."""
        self.waiting.release()

    def stop(self) -> None:
        """Wait for the work in progress. Work that has no thread yet is cancelled."""
        for pool in (self._pool, self._quick, self._admissions):
            pool.shutdown(cancel_futures=True)

    @asynccontextmanager
    async def _turn(self, tenant_id: str, kind: WorkKind) -> AsyncIterator[None]:
        share = tenant_id, kind
        turns = self._turns.get(share)
        if turns is None:
            turns = self._turns[share] = _Turns(asyncio.Semaphore(_SHARE[kind]))
        turns.users += 1
        try:
            async with turns.free:
                yield
        finally:
            turns.users -= 1
            if not turns.users:
                del self._turns[share]


async def _run(pool: ThreadPoolExecutor, call: Callable[[], T]) -> T:
    # With the context of the request, so that spans in the thread belong to its span.
    run = partial(copy_context().run, call)
    return await asyncio.get_running_loop().run_in_executor(pool, run)
