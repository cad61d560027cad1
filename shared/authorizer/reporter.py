"""Reports what a client holds, in a thread of its own, so that no poll waits for a report."""

import logging
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Final

from . import events, files, reports
from .answers import NoAnswer, Response, retry_after, unexpected
from .policy import Policy
from .reports import ReportAnswer, ReportedState, Schedule
from .transport import Transport
from .view import View

_log = logging.getLogger("rescind_authorizer")

_ANSWER_MAX: Final = 64 * 1024
_GOOD: Final = frozenset({200, 201})

# How long the thread pauses after an error that nobody foresaw.
_PAUSE: Final = 60.0


class Reporter:
    """Registers a client, and reports what `view` returns.

    `counts` are the refused answers by reason, since the client was made. `name` is that of the
    host by default. Processes that share `folder` get names of their own: the second one has
    ` #2` at the end. `emit` gets an event for each report.
    """

    def __init__(  # noqa: PLR0913
        self,
        transport: Transport,
        policy: Policy,
        view: Callable[[], View],
        counts: Mapping[str, int],
        emit: Callable[[events.Event], None],
        *,
        name: str | None = None,
        folder: Path | None = None,
    ) -> None:
        self._transport = transport
        self._policy = policy
        self._view = view
        self._counts = counts
        self._sent = Counter(counts)
        self._emit = emit
        self._name = name or socket.gethostname()
        self._folder = folder
        self._number = 1
        self._claimed: int | None = None
        self._schedule = Schedule()
        self._news = threading.Event()
        self._at: datetime | None = None

    @property
    def reported(self) -> ReportedState:
        """The reporting part of the client's status."""
        return ReportedState(self._schedule.state, self._at, self._schedule.id)

    def wake(self) -> None:
        """Look at the view again, which may have changed."""
        self._news.set()

    def close(self) -> None:
        """End the request that is made, and make none any more. The event of `run` was set."""
        self._transport.interrupt()
        self.wake()

    def run(self, stop: threading.Event) -> None:
        """Report until `stop` is set, and `close` was called."""
        while not stop.is_set():
            try:
                pause = self.step()
            # Any error: without this thread, the service would not know of this client.
            except Exception as error:  # noqa: BLE001
                _log.exception("a report failed")
                self._emit(events.ReportFailed(f"{type(error).__name__}: {error}", _PAUSE))
                stop.wait(_PAUSE)
                continue
            self._news.wait(pause)
            self._news.clear()
        self._transport.close()
        self.abandon()

    def abandon(self) -> None:
        """Give the name back, or leave it to the parent process."""
        claimed, self._claimed = self._claimed, None
        if claimed is not None:
            os.close(claimed)

    def step(self) -> float | None:
        """Report if it is time. Return for how many seconds there is nothing to do.

        None is until the view changes.
        """
        view = self._view()
        if view.state is None:
            return None
        sequence = view.state.sequence
        left = self._schedule.due(sequence, time.monotonic()) - time.monotonic()
        if left > 0:
            return left
        try:
            self._register() if self._schedule.id is None else self._report(view, sequence)
        except NoAnswer as error:
            self._failed(str(error), None, 0.0)
        return 0.0

    def _register(self) -> None:
        body = reports.registration(self._own_name(), _version())
        answer = self._post(reports.REGISTER, body, has="id")
        if answer:
            self._schedule.registered(answer, time.monotonic())

    def _report(self, view: View, sequence: int) -> None:
        counts = Counter(self._counts)
        refused = {reason: count for reason, count in (counts - self._sent).items() if reason}
        path = reports.report_path(self._schedule.id or "")
        answer = self._post(path, reports.report(view, self._policy, refused), has="status")
        if answer:
            self._sent, self._at = counts, datetime.now(UTC)
            self._schedule.accepted(answer, sequence, time.monotonic())
            self._emit(events.Reported(sequence, answer.status))

    def _post(self, path: str, body: bytes, *, has: str) -> ReportAnswer | None:
        """Return the answer, or None if there is none that can be used. Raises `NoAnswer`."""
        response = self._transport.post(path, body, limit=_ANSWER_MAX)
        if response.status not in _GOOD:
            self._failed(str(unexpected(response)), response, retry_after(response))
            return None
        try:
            return ReportAnswer.parse(response.body, has=has)
        except ValueError as error:
            raise NoAnswer(str(error)) from None

    def _failed(self, message: str, response: Response | None, seconds: float) -> None:
        status = response.status if response else None
        pause = self._schedule.failed(status, seconds, time.monotonic())
        self._emit(events.ReportFailed(message, pause))

    def _own_name(self) -> str:
        """Return the name, which no other process with this folder has."""
        # A folder that cannot be written does not keep a client from reporting.
        with suppress(OSError):
            if self._folder and self._claimed is None:
                self._number, self._claimed = files.claim(self._folder)
        return f"{self._name} #{self._number}" if self._number > 1 else self._name


def _version() -> str:
    try:
        return metadata.version("rescind-authorizer")
    except metadata.PackageNotFoundError:
        return "unknown"
