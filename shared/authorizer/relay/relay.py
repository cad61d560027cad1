"""The state of a relay: the news of the service, and the polls that wait for more."""

import asyncio
import math
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ..floor import StateStore
from ..formats.following import TrustState
from ..transport import Transport
from ..view import NEVER, ClockReading, today
from .blobs import BlobCache, BlobRequest
from .native import NativeListCache
from .reports import ReportForwarder
from .upstream import UpstreamConnection, UpstreamFollower, UpstreamUpdate

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


# The largest `Age`: more than anybody's patience.
_AGE_MAX: Final = 10**9

# How long a relay that stops waits for the service to take the last reports.
_LAST_REPORTS_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class ServiceConfig:
    """How a relay reaches the service, and under which `name` it reports."""

    url: str
    api_key: str = field(repr=False)
    allow_http: bool = False
    name: str = "relay"

    def transport(self) -> Transport:
        """Return a connection for one thread. Raises `ValueError` if the address is not one."""
        return Transport(self.url, api_key=self.api_key, allow_http=self.allow_http)


class Relay:
    """Holds everything that one relay answers with. It belongs to one event loop.

    `floor` and `folder` keep it across restarts. `most_waiting` is how many polls may wait.
    """

    def __init__(
        self,
        service: ServiceConfig,
        trust: TrustState,
        floor: StateStore,
        folder: Path,
        *,
        most_waiting: int,
    ) -> None:
        self.news = UpstreamUpdate(None, NEVER)
        self.waiting = WaitingPolls(most_waiting)
        self.answered: Counter[str] = Counter()
        self._upstream = UpstreamFollower(
            service.transport(),
            floor,
            trust,
            post=self._handle_news,
            folder=folder / "trust.json",
            allow_http=service.allow_http,
        )
        self._lines = [UpstreamConnection(service.transport()) for _ in range(4)]
        self.bases = BlobCache(folder / "bases", self._lines[0], floor)
        self.signing_keys = BlobCache(folder / "keys", self._lines[0], floor)
        self.reports = ReportForwarder(self._lines[2], self._lines[3], service.name)
        self.native = NativeListCache(self._lines[1], lambda: self._upstream.state)
        self._loop: asyncio.AbstractEventLoop | None = None

    def load(self) -> None:
        """Take up the floor. Raises `SavedStateCorrupt` or `OSError`."""
        self._upstream.load()

    async def start(self) -> None:
        """Begin to follow the service."""
        self._loop = asyncio.get_running_loop()
        self._upstream.start()
        self.reports.start()

    async def close(self) -> None:
        """Pass on the last reports, and stop following the service."""
        self._loop = None
        with suppress(TimeoutError):
            await asyncio.wait_for(self.reports.close(), _LAST_REPORTS_SECONDS)
        for each in (self.bases, self.signing_keys, self.native):
            each.close()
        await asyncio.to_thread(self._upstream.close)
        for line in self._lines:
            await asyncio.to_thread(line.close)

    @property
    def is_alive(self) -> bool:
        """Whether the relay follows the service."""
        return self._upstream.is_alive

    @property
    def counts(self) -> Counter[str]:
        """The numbers of exchanges with the service, by result."""
        return self._upstream.counts

    def is_usable(self) -> bool:
        """Return whether there is a head that clients accept now."""
        return self.news.is_usable(today())

    def _handle_news(self, news: UpstreamUpdate) -> None:
        loop = self._loop
        # The loop may have ended before the thread.
        with suppress(RuntimeError):
            if loop:
                loop.call_soon_threadsafe(self._take, news)

    def _take(self, news: UpstreamUpdate) -> None:
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
    passed = max(
        requested_at.monotonic - confirmation.monotonic, requested_at.wall - confirmation.wall, 0.0
    )
    return math.ceil(min(passed, _AGE_MAX))
