"""Threads of a relay that send requests to the service.

One thread follows the feed. The others send all other requests.
"""

import asyncio
import logging
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from .. import events, files
from ..follower import FeedFollower
from ..formats.documents import NotTrusted, SignedDocument, documents
from ..formats.documents import answer as encode_documents
from ..formats.following import TrustState
from ..policy import PollPolicy
from ..saved_state import StateStore
from ..state import FeedState
from ..transport import Transport
from ..view import ClockReading
from .held import CachedFeed

_log: Final = logging.getLogger("rescind_authorizer.relay")

# Maximum seconds between polls, even if the service allows longer ones. Responses of the relay are
# therefore at most about two seconds old.
_POLL_SECONDS: Final = 1.0

T = TypeVar("T")


class RelayPolicy(PollPolicy):
    """Polling policy of a relay. Its pauses are short, because clients add their own pauses."""

    @property
    def pause_max(self) -> float:
        """The longest pause after a failure, in seconds."""
        return 2.0


@dataclass(frozen=True, slots=True)
class UpstreamUpdate:
    """The latest data of the service. It confirmed `held` for a request sent at `confirmed`.

    `held` is None if no feed can be served, because none was verified yet or its signer is not
    trusted. `documents` are all trust documents of the last response.
    """

    held: CachedFeed | None
    confirmed: ClockReading
    documents: tuple[SignedDocument, ...] = ()

    def is_usable(self, now: datetime) -> bool:
        """Return whether there is a feed head that clients accept at `now`."""
        return self.held is not None and not self.held.is_expired(now)


class UpstreamFollower:
    """Follows the feed of one tenant, and calls `post` in its thread after each exchange.

    `counts` counts results by the names in docs/relay.md.
    """

    def __init__(
        self,
        transport: Transport,
        store: StateStore,
        trust: TrustState,
        *,
        post: Callable[[UpstreamUpdate], None],
        folder: Path,
        allow_http: bool = False,
    ) -> None:
        policy = RelayPolicy(
            poll_seconds=_POLL_SECONDS, wait_seconds=_POLL_SECONDS, allow_http=allow_http
        )
        self.counts: Counter[str] = Counter()
        self._follower = FeedFollower(
            transport, store, trust, policy, self._record_event, asks_all=True
        )
        self._documents_file = folder
        self._documents: tuple[SignedDocument, ...] = ()
        self._post = post
        self._feed: CachedFeed | None = None
        self._stop = threading.Event()
        follow = partial(self._follower.follow, self._stop, self._announce_update)
        self._thread = threading.Thread(target=follow, name="rescind-relay", daemon=True)

    def load(self) -> None:
        """Load the saved state. Raises `SavedStateCorrupt` or `OSError`."""
        self._follower.load()
        saved_documents: tuple[SignedDocument, ...] = ()
        try:
            saved_documents = documents(self._documents_file.read_bytes())
        except FileNotFoundError:
            pass
        except NotTrusted as error:
            _log.warning("ignoring the damaged file %s: %s", self._documents_file, error)
        version = self._follower.trust.version
        # The saved state may have a newer document, because it is written first. All are then
        # fetched again.
        if saved_documents and saved_documents[-1].document.version == version:
            self._follower.documents = self._documents = saved_documents

    def start(self) -> None:
        """Publish the saved state, and begin to follow the feed."""
        self._announce_update()
        self._thread.start()

    def close(self, *, timeout: float = 5.0) -> None:
        """Stop following, and wait at most `timeout` seconds for the thread."""
        self._stop.set()
        self._follower.transport.interrupt()
        if self._thread.ident:
            self._thread.join(timeout)

    @property
    def state(self) -> FeedState | None:
        """The verified state of the feed, or None if its signer is not trusted. Thread-safe."""
        view = self._follower.view
        return view.state if view.is_trusted else None

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def _announce_update(self) -> None:
        view, answer = self._follower.view, self._follower.last
        state, feed = view.state, self._feed
        if answer is None and state is not None and state.latest is not None:
            # After a start, one response with all entries since the base of the saved state.
            answer = replace(state.latest, entries=state.origin.entries + state.latest.entries)
        if answer is not None and state is not None:
            is_same = feed and (feed.payload, feed.signature) == (answer.payload, answer.signature)
            if not is_same:
                self._feed = CachedFeed.of(state, answer, feed)
        signed_documents = self._follower.documents
        if signed_documents and signed_documents != self._documents:
            self._documents_file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            files.replace(self._documents_file, encode_documents(signed_documents))
            self._documents = signed_documents
        trusted_feed = self._feed if view.is_trusted else None
        self._post(UpstreamUpdate(trusted_feed, view.confirmed, self._documents))

    def _record_event(self, event: events.Event) -> None:
        """Count and log an event, unless the relay is stopping."""
        if self._stop.is_set():
            return
        match event:
            case events.PollSucceeded():
                self.counts["polls"] += 1
            case events.ResponseRejected(reason):
                self.counts[f"refused {reason}"] += 1
            case events.PollFailed():
                self.counts["failures"] += 1
        events.log(event, _log)


class UpstreamConnection:
    """One thread with a connection to the service, for requests that must not delay the feed."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rescind-relay")

    async def run(self, ask: Callable[[Transport], T]) -> T:
        """Call `ask` with the connection in the thread. Return its result, or raise its error."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, ask, self._transport)

    def close(self) -> None:
        """Abort the request in progress, and send no others."""
        self._transport.interrupt()
        self._thread.shutdown(wait=True, cancel_futures=True)
        self._transport.close()
