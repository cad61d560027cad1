"""Client of the feed: one thread follows the feed, and any thread checks warrants."""

import logging
import os
import re
import ssl
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from inspect import iscoroutinefunction
from time import monotonic
from typing import Final, Self

from . import events, files, transport
from . import view as views
from .follower import FeedFollower
from .formats.cutoffs import has_cutoff
from .formats.following import TrustState
from .formats.ids import WARRANT_ID_PATTERN
from .policy import PollPolicy
from .reporter import Reporter
from .reports import ReportStatus
from .saved_state import FileStateStore, StateStore
from .status import ClientStatus, Verdict
from .transport import Transport
from .trust import KeyFetcher

_log = logging.getLogger("rescind_authorizer")

# Module constants, because access to an enumeration member costs as much as a set lookup.
_CLEAR, _REVOKED, _STALE = Verdict.CLEAR, Verdict.REVOKED, Verdict.STALE

_matches: Final = re.compile(WARRANT_ID_PATTERN).fullmatch
_NO_WARRANT: Final = (
    "a warrant identifier must be svc_wrt_ and 1 to 64 letters, digits, '_' or '-', without spaces "
    "around it"
)

# Seconds between checks whether a stale client has recovered.
_WATCH_SECONDS: Final = 0.5


class NotReady(Exception):
    """No verified, recent state arrived in time. The message contains the last problem."""


class AuthorizerClient:
    """Follows the revocations of one tenant within seconds.

    One daemon thread polls the feed, verifies it, and saves the accepted state. `check` sends no
    request. After a fork, the child starts a separate thread when it first uses the client.

    `url` is the address of the service, `api_key` an API key with the scope authorizer, and
    `tenant` the tenant's identifier. `trust_pin` is the pin of the tenant's root keys, which
    `rescind trust show` prints. `state` keeps the accepted state across restarts. `context`
    verifies the certificate of the service. `on_event` is called with each event, in a thread of
    the client, one event at a time. It must return soon.

    A second thread reports the current entry to the service, unless `report` is False. It reports
    under `name`, by default the host name. Reports do not affect verdicts.
    """

    def __init__(  # noqa: PLR0913
        self,
        url: str,
        *,
        api_key: str,
        tenant: str,
        trust_pin: str,
        state: StateStore,
        policy: PollPolicy | None = None,
        context: ssl.SSLContext | None = None,
        on_event: Callable[[events.Event], None] | None = None,
        name: str | None = None,
        report: bool = True,
    ) -> None:
        self._policy = policy or PollPolicy()
        self._allows = self._policy.fail_open is True
        self._connect = partial(
            Transport, url, api_key=api_key, context=context, allow_http=self._policy.allow_http
        )
        connection = self._connect()
        trust = TrustState(tenant, trust_pin)
        self._follower = FeedFollower(connection, state, trust, self._policy, self._emit)
        self._keys = KeyFetcher(self._connect(), self._follower, self._emit)
        if iscoroutinefunction(on_event):
            raise TypeError("on_event must not be async: use AsyncAuthorizerClient.events")
        self._on_event = on_event
        self._counts: Counter[str] = Counter()
        self._problem = "the service has not responded yet"
        self._was_fresh = False
        self._name, self._reports = name, report
        self._has_polled = False
        self._pause_end = views.NEVER
        self._is_started = self._is_loaded = self._is_closed = False
        self._init_process()
        _clients.add(self)

    def start(self, *, wait: float = 10.0) -> Self:
        """Load the saved state, start the thread, and wait for the first response.

        A recent saved state suffices if the service does not respond. Raises `NotReady` if there is
        no recent state after `wait` seconds. The thread continues, and checks return STALE until it
        succeeds. Raises `SavedStateCorrupt`, or `OSError` if the saved state cannot be read.
        """
        self._resume()
        if self._is_started:
            raise RuntimeError("the client is already started")
        if not self._is_loaded:
            self._load()
        self._is_started = True
        self._notify()
        self._run_threads()
        with self._changed:
            self._changed.wait_for(
                lambda: (
                    self._is_closed
                    or (self._has_polled and self._is_fresh() and not self._keys.is_due())
                ),
                wait,
            )
        if not self._is_fresh() or self._is_closed:
            raise NotReady("the client was closed" if self._is_closed else self._problem)
        return self

    def _load(self) -> None:
        if self._allows:
            _log.warning("fail_open is set: without news, warrants are CLEAR for ever")
        self._follower.load()
        self._is_loaded = True

    def check(self, warrant_ids: Iterable[str]) -> Verdict:
        """Return the verdict on a chain of warrants, from the root to the leaf.

        This requires no response of the service. A warrant known to be revoked is REVOKED,
        regardless of the age of the state. Raises `TypeError` or `ValueError` unless there is at
        least one identifier, and each is `svc_wrt_` and 1 to 64 letters, digits, `_` or `-`.
        """
        if self._is_idle or self._process != _getpid():
            self._resume()
        ids = warrant_ids
        if type(ids) is not list:
            # Iterating over a string would check its letters.
            if isinstance(ids, str | bytes):
                raise TypeError("pass a list of identifiers, from the root to the leaf")
            ids = list(ids)
        for each in ids:
            if not _matches(each):
                raise ValueError(_NO_WARRANT)
        view = self._follower.view
        revoked = view.revoked
        if revoked.whole.has_any(ids, revoked.added, revoked.removed):
            return _REVOKED
        if revoked.cutoffs and has_cutoff(revoked.cutoffs, ids):
            return _REVOKED
        if not ids:
            raise ValueError("pass at least one warrant identifier")
        if views.monotonic() < view.end and views.now() < view.wall_end:
            return _CLEAR
        return _CLEAR if self._allows and view.is_trusted else _STALE

    def poll(self, *, max_age: float = 0.0) -> None:
        """Poll the service once in this thread. Use this instead of `start`.

        This is for hosts that run no threads between requests, for example AWS Lambda. It returns
        without a request if the state was confirmed less than `max_age` seconds ago, or during the
        pause after the last exchange. The pause lasts `poll_seconds`, or longer after a failure. A
        failure emits an event, and checks return STALE once the state is too old. Raises
        `SavedStateCorrupt`, or `OSError` if the saved state cannot be read. The next call reads it
        again.
        """
        if self._process != _getpid():
            self._resume()
        with self._starting:
            if self._is_started:
                raise RuntimeError("the client polls in a thread: do not call poll after start")
            if not self._is_loaded:
                self._load()
            now = views.ClockReading.now()
            # One clock may stop while a host is frozen, and the other may be set back.
            is_paused = all(each < end for each, end in zip(now, self._pause_end, strict=True))
            age = now.monotonic - self._follower.view.confirmed.monotonic
            if not is_paused and (age >= max_age or not self._is_fresh()):
                pause = self._follower.poll(may_wait=False)
                self._pause_end = views.ClockReading.now().minus(-pause)
                self._record_poll()

    def wait_for(self, sequence: int, *, timeout: float) -> bool:
        """Return whether the client has entry `sequence` within `timeout` seconds.

        Closing the client ends the wait.
        """
        if self._is_idle or self._process != _getpid():
            self._resume()
        with self._changed:
            self._changed.wait_for(
                lambda: self._is_closed or self._follower.view.holds(sequence), timeout
            )
        return self._follower.view.holds(sequence)

    @property
    def tenant(self) -> str:
        """The tenant's identifier."""
        return self._follower.trust.tenant_id

    @property
    def view(self) -> views.Snapshot:
        """The current state of the client."""
        return self._follower.view

    def follow_keys(self) -> KeyFetcher:
        """Follow the signing keys too. Raises `RuntimeError` after `start`."""
        if self._is_started:
            raise RuntimeError("create the guard before the client starts")
        self._keys.is_wanted = True
        return self._keys

    @property
    def policy(self) -> PollPolicy:
        """The policy of the client."""
        return self._policy

    @property
    def status(self) -> ClientStatus:
        """The current status of the client, and its failures since its creation."""
        report_status = self._reporter.report_status if self._reporter else ReportStatus()
        return ClientStatus.of(self._follower.view, self._counts, report_status)

    def close(self, *, timeout: float = 5.0) -> None:
        """Stop the threads, and wait at most `timeout` seconds for them.

        All calls of `start` and `wait_for` return. Checks return STALE soon after.
        """
        self.stop()
        deadline = monotonic() + timeout
        with self._starting:
            threads = self._threads
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, deadline - monotonic()))
        if not threads:
            self._follower.transport.close()

    def stop(self) -> None:
        """Begin to close the client, without a wait."""
        self._is_closed = True
        self._resume()
        self._stop.set()
        with self._changed:
            self._changed.notify_all()
        self._follower.transport.interrupt()
        self._keys.transport.interrupt()
        if self._reporter:
            self._reporter.close()

    def __enter__(self) -> Self:
        """Start the client if it is not started. Close it if the start fails."""
        if not self._is_started:
            try:
                self.start()
            except BaseException:
                self.close()
                raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _init_process(self) -> None:
        """Create the locks, events and threads that belong to one process."""
        self._changed = threading.Condition()
        self._starting = threading.RLock()
        # Reentrant, because a handler of events may make the client emit another event.
        self._event_lock = threading.RLock()
        self._freshness_lock = threading.RLock()
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._reporter: Reporter | None = None
        if self._reports:
            store = self._follower.store
            self._reporter = Reporter(
                self._connect(),
                self._policy,
                lambda: self._follower.view,
                self._counts,
                self._emit,
                tenant=self.tenant,
                trust_version=lambda: self._follower.trust.version,
                name=self._name,
                folder=store.folder if isinstance(store, FileStateStore) else None,
            )
        # Whether the next use starts the threads.
        self._is_idle = self._is_started and not self._is_closed
        # Set last: other threads stop waiting for `_resume` once it matches.
        self._process = _getpid()

    def _reset_after_fork(self) -> None:
        """Replace the threads and locks, which belong to the parent process."""
        if self._reporter:
            self._reporter.abandon()
        self._init_process()

    def _resume(self) -> None:
        """Start the threads of this process if it is a forked child.

        A fork in C code, as in uWSGI, does not run the fork hooks of Python.
        """
        # Keyed by process, because a thread of the parent may hold the parent's lock forever.
        with _resuming.setdefault(_getpid(), threading.RLock()):
            if self._process != _getpid():
                files.renew_lock()
                transport.abandon_all()
                _reset_clients_after_fork()
        if self._is_idle:
            self._run_threads()

    def _run_threads(self) -> None:
        with self._starting:
            if not self._threads and not self._is_closed:
                follow = partial(self._follower.follow, notify=self._record_poll)
                runs: list[Callable[[threading.Event], None]] = [follow, self._watch]
                runs += [self._reporter.run] if self._reporter else []
                runs += [self._read_keys] if self._keys.is_wanted else []
                threads = [
                    threading.Thread(
                        target=run, args=(self._stop,), name="rescind-authorizer", daemon=True
                    )
                    for run in runs
                ]
                for thread in threads:
                    thread.start()
                self._threads = threads
            self._is_idle = False

    def _read_keys(self, stop: threading.Event) -> None:
        while not stop.is_set():
            with self._changed:
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._is_closed or self._keys.is_due())
            self._keys.fetch_if_due()

    def _watch(self, stop: threading.Event) -> None:
        """Emit `BecameStale` when the state becomes stale, even during a long exchange."""
        while not stop.wait(self._follower.view.seconds_left() or _WATCH_SECONDS):
            self._emit_freshness()

    def _record_poll(self) -> None:
        self._has_polled = True
        if not self._is_started:
            self._keys.fetch_if_due()
        self._notify()

    def _notify(self) -> None:
        """Wake all waiters, because there may be a newer view."""
        with self._changed:
            self._changed.notify_all()
        if self._reporter:
            self._reporter.wake()
        self._emit_freshness()

    def _emit_freshness(self) -> None:
        with self._freshness_lock:
            is_fresh = self._is_fresh()
            if is_fresh != self._was_fresh:
                self._was_fresh = is_fresh
                self._emit(events.BecameFresh() if is_fresh else events.BecameStale())

    def _emit(self, event: events.Event) -> None:
        """Count, log and forward an event, unless the client is closing."""
        if self._is_closed:
            return
        match event:
            case events.ResponseRejected(reason):
                self._counts[reason] += 1
                self._problem = f"the last response was rejected: {reason}"
            case events.PollFailed(message):
                self._counts[""] += 1
                self._problem = message
            case events.PollSucceeded():
                self._problem = "the service has not responded again"
            case events.BecameStale():
                _log.error("the state is stale, and no warrant is CLEAR: %s", self._problem)
        events.log(event, _log)
        if self._on_event:
            try:
                with self._event_lock:
                    self._on_event(event)
            # Any error, including `CancelledError`: a faulty handler must not end the thread, which
            # would make the state stale.
            except BaseException:  # noqa: BLE001
                _log.exception("on_event failed")

    def _is_fresh(self) -> bool:
        return self._follower.view.is_fresh()


_getpid: Final = os.getpid
_resuming: Final = dict[int, threading.RLock]()
_clients: "weakref.WeakSet[AuthorizerClient]" = weakref.WeakSet()


def _reset_clients_after_fork() -> None:
    for client in list(_clients):
        client._reset_after_fork()  # noqa: SLF001


os.register_at_fork(after_in_child=_reset_clients_after_fork)
