"""State of a relay: the latest data of the service, and the pending long polls."""

import asyncio
import math
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ..formats.following import TrustState
from ..saved_state import StateStore
from ..transport import Transport
from ..view import NEVER, ClockReading, today
from .blobs import BlobCache, BlobRequest
from .native import NativeListCache
from .reports import ReportForwarder
from .upstream import UpstreamConnection, UpstreamFollower, UpstreamUpdate

# Polls woken in one turn of the event loop, which serves other work in between.
_AT_ONCE: Final = 8


class WaitingPolls:
    """The pending long polls, at most `most`. It belongs to one event loop."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._futures: set[asyncio.Future[None]] = set()
        self._waking: set[asyncio.Task[None]] = set()
        self._is_released = False

    def __len__(self) -> int:
        return len(self._futures)

    async def change(self, seconds: float) -> None:
        """Wait for the next `wake`, at most `seconds`. Return at once if too many polls wait."""
        if self._is_released or len(self._futures) >= self._most:
            return
        future = asyncio.get_running_loop().create_future()
        self._futures.add(future)
        try:
            await asyncio.wait({future}, timeout=seconds)
        finally:
            self._futures.discard(future)

    def wake(self) -> None:
        """Wake all waiting polls."""
        task = asyncio.ensure_future(_wake(list(self._futures)))
        self._waking.add(task)
        task.add_done_callback(self._waking.discard)

    def release(self) -> None:
        """Wake all waiting polls, and refuse new ones."""
        self._is_released = True
        self.wake()


async def _wake(futures: list[asyncio.Future[None]]) -> None:
    for first in range(0, len(futures), _AT_ONCE):
        for each in futures[first : first + _AT_ONCE]:
            if not each.done():
                each.set_result(None)
        await asyncio.sleep(0)


# The largest `Age`, which exceeds every staleness limit.
_AGE_MAX: Final = 10**9

# Seconds that a stopping relay waits for the service to accept the last reports.
_LAST_REPORTS_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class ServiceConfig:
    """The connection settings of the service, and the `name` of the relay in its reports."""

    url: str
    api_key: str = field(repr=False)
    allow_http: bool = False
    name: str = "relay"

    def transport(self) -> Transport:
        """Return a connection for one thread. Raises `ValueError` for an invalid address."""
        return Transport(self.url, api_key=self.api_key, allow_http=self.allow_http)


class Relay:
    """Combines all data that one relay serves. It belongs to one event loop.

    `store` and `folder` persist it across restarts. `most_waiting` is the maximum number of long
    polls.
    """

    def __init__(
        self,
        service: ServiceConfig,
        trust: TrustState,
        store: StateStore,
        folder: Path,
        *,
        most_waiting: int,
    ) -> None:
        self.news = UpstreamUpdate(None, NEVER)
        self.waiting = WaitingPolls(most_waiting)
        self.answered: Counter[str] = Counter()
        self._upstream = UpstreamFollower(
            service.transport(),
            store,
            trust,
            post=self._schedule_update,
            folder=folder / "trust.json",
            allow_http=service.allow_http,
        )
        self._connections = [UpstreamConnection(service.transport()) for _ in range(4)]
        self.bases = BlobCache(folder / "bases", self._connections[0], store)
        self.signing_keys = BlobCache(folder / "keys", self._connections[0], store)
        self.reports = ReportForwarder(self._connections[2], self._connections[3], service.name)
        self.native = NativeListCache(self._connections[1], lambda: self._upstream.state)
        self._loop: asyncio.AbstractEventLoop | None = None

    def load(self) -> None:
        """Load the saved state. Raises `SavedStateCorrupt` or `OSError`."""
        self._upstream.load()

    async def start(self) -> None:
        """Begin to follow the service."""
        self._loop = asyncio.get_running_loop()
        self._upstream.start()
        self.reports.start()

    async def close(self) -> None:
        """Forward the last reports, and stop following the service."""
        self._loop = None
        with suppress(TimeoutError):
            await asyncio.wait_for(self.reports.close(), _LAST_REPORTS_SECONDS)
        for each in (self.bases, self.signing_keys, self.native):
            each.close()
        await asyncio.to_thread(self._upstream.close)
        for connection in self._connections:
            await asyncio.to_thread(connection.close)

    @property
    def is_alive(self) -> bool:
        """Whether the relay follows the service."""
        return self._upstream.is_alive

    @property
    def counts(self) -> Counter[str]:
        """The numbers of exchanges with the service, by result."""
        return self._upstream.counts

    def is_usable(self) -> bool:
        """Return whether there is a feed head that clients accept now."""
        return self.news.is_usable(today())

    def _schedule_update(self, news: UpstreamUpdate) -> None:
        loop = self._loop
        # The loop may be closed before the thread ends.
        with suppress(RuntimeError):
            if loop:
                loop.call_soon_threadsafe(self._apply_update, news)

    def _apply_update(self, news: UpstreamUpdate) -> None:
        is_new = news.held is not self.news.held
        self.news = news
        if news.held and is_new:
            self.bases.note(BlobRequest.base(news.held.head.base))
            if keys := news.held.head.keys:
                self.signing_keys.note(BlobRequest.keys(keys))
        if is_new:
            self.waiting.wake()


def age(confirmation: ClockReading, requested_at: ClockReading) -> int:
    """Return the seconds from `confirmation` until a request, rounded up (FLEET-21)."""
    seconds = max(
        requested_at.monotonic - confirmation.monotonic, requested_at.wall - confirmation.wall, 0.0
    )
    return math.ceil(min(seconds, _AGE_MAX))
