"""What is shared by requests that wait at the same time."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import pytest

from shared.model.rate_limit import BucketPurpose, BucketUser
from shared.ports import Ports
from shared.ports.token_buckets import Lease, TokenBuckets
from shared.web.rate_limit import TenantLimiter
from shared.web.work import IN_PLACE, InlineWork, WorkKind, result_of
from tests.kit import asgi
from tests.kit.worlds import Clock, embedded

T = TypeVar("T")


@dataclass
class Waiting(InlineWork):
    """`Work` whose first piece waits until it may be done; `begun` counts them."""

    may_begin: asyncio.Event = field(default_factory=asyncio.Event)
    begun: int = 0

    async def __call__(self, call: Callable[[], T], kind: WorkKind, *, tenant_id: str) -> T:
        self.begun += 1
        if self.begun == 1:
            await self.may_begin.wait()
        return await super().__call__(call, kind, tenant_id=tenant_id)


@dataclass
class Asked:
    """Buckets, and how often they were asked."""

    buckets: TokenBuckets
    times: int = 0

    def lease(self, name: str, tokens: int, *, now: int, reserve: int = 0, least: int = 1) -> Lease:
        self.times += 1
        return self.buckets.lease(name, tokens, now=now, reserve=reserve, least=least)


def ports_at(folder: Path, clock: Clock) -> Ports:
    return embedded(folder, clock)


def test_what_waits_for_nothing_needs_no_loop() -> None:
    """A coroutine that waits for nothing is run by any thread; one that waits is a fault."""

    async def seven() -> int:
        return 7

    async def fails() -> None:
        raise KeyError

    async def waits() -> None:
        await asyncio.sleep(0)

    assert result_of(seven()) == 7
    with pytest.raises(KeyError):
        result_of(fails())
    with pytest.raises(RuntimeError, match="waited"):
        result_of(waits())
    IN_PLACE.stop()


def test_requests_share_one_lease(tmp_path: Path) -> None:
    """F32: while one request leases tokens, others of its tenant wait, and then lease together."""
    clock = Clock()
    ports = ports_at(tmp_path, clock)
    asked, work = Asked(ports.buckets), Waiting()
    limiter = TenantLimiter(lambda: replace(ports, buckets=asked), work)

    async def ask() -> None:
        taking = [
            asyncio.create_task(limiter.take(BucketUser("acme", BucketPurpose.REQUESTS, None)))
            for _ in range(6)
        ]
        await asyncio.sleep(0)
        assert work.begun == 1
        work.may_begin.set()
        await asyncio.gather(*taking)

    asgi.run(ask())
    assert asked.times == 2
