"""Shared state of the processes of one server: counters in memory, and notifications.

Times are from the monotonic clock, which all processes of a machine share.
"""

import logging
import mmap
import time
from collections.abc import Callable, Sequence
from typing import Final

from shared.ports import Ports
from shared.ports.one_machine import CommitKind, Listener, NotifyingStore

# Names of processes.
PUBLISHER: Final = "publisher"
OPS: Final = "ops"

_WORDS: Final = 9
_BYTES: Final = 8
# How long test writes continue after a readiness request, and how long one may take (seconds).
_TEST_SECONDS: Final = 30.0
_WRITE_SECONDS: Final = 2.0

_log = logging.getLogger("rescind")


class ProcessStatus:
    """The state of each process, and the times of publications and log appends.

    The state is shared with all processes that are forked later.
    """

    def __init__(self, names: Sequence[str] = ()) -> None:
        self.names = tuple(names)
        size = _WORDS * (1 + len(self.names)) * _BYTES
        self._words = memoryview(mmap.mmap(-1, size)).cast("d")
        # Ages count from the start of the server until a later time is recorded.
        self._words[0] = self._words[1] = self._words[3] = time.monotonic()

    # --- leadership and publication ---

    def record_leadership(self, at: float, *, schedule: float, append_time: float) -> None:
        """Record that this server leads at the time `at`.

        Also record when the last round of SRLs ended, and when the last complete round of log
        appends began. Times earlier than the recorded ones are ignored, because a new process
        reports such times.
        """
        self._words[4] = 1
        for word, moment in ((0, schedule), (1, append_time), (3, at)):
            self._words[word] = max(self._words[word], moment)

    def record_other_leader(self, at: float) -> None:
        """Record that another server leads at the time `at`, and this server does not."""
        self.record_leadership(at, schedule=at, append_time=at)
        self._words[4] = 0
        self.record_startup_done()

    def is_leader(self) -> bool:
        """Return whether this server leads, or has no process that could lead."""
        return bool(self._words[4]) or PUBLISHER not in self.names

    def leader_seconds(self) -> float:
        """Return the seconds since any server led, or 0 for a server that must not publish."""
        return self._seconds_since(self._words[3])

    def schedule_seconds(self) -> float:
        """Return the seconds since the last round of SRLs.

        Returns 0 for a server that must not publish.
        """
        return self._seconds_since(self._words[0])

    def sealed_seconds(self) -> float:
        """Return the seconds since the logs of all tenants were appended to.

        Returns 0 for a server that must not publish.
        """
        return self._seconds_since(self._words[1])

    def _seconds_since(self, moment: float) -> float:
        return time.monotonic() - moment if PUBLISHER in self.names else 0.0

    def record_startup_done(self) -> None:
        """Record that publications due at the start are done, or belong to another server."""
        self._words[2] = 1

    def has_begun(self) -> bool:
        """Return whether `record_startup_done` was called."""
        return bool(self._words[2])

    def record_stopping(self) -> None:
        """Record that this server will stop soon and must get no new requests."""
        self._words[5] = 1

    def is_stopping(self) -> bool:
        """Return whether `record_stopping` was called."""
        return bool(self._words[5])

    # --- test writes to the store ---

    def request_test_writes(self) -> None:
        """Request test writes for the next 30 seconds."""
        self._words[6] = time.monotonic()

    def is_asked(self) -> bool:
        """Return whether test writes were requested recently."""
        return self._words[6] > 0 and time.monotonic() < self._words[6] + _TEST_SECONDS

    def run_test_write(self, write: Callable[[], object]) -> None:
        """Run a test write and record whether it succeeds. Raises the error of `write`."""
        if not self._words[8]:
            self._words[7], self._words[8] = time.monotonic(), 1
        write()
        self._words[8] = 0

    def can_store(self) -> bool:
        """Return whether the last test write succeeded.

        A test write that has been pending for less than 2 seconds counts as a success.
        """
        return not self._words[8] or time.monotonic() < self._words[7] + _WRITE_SECONDS

    # --- processes ---

    def record_start(self, name: str) -> None:
        """Record that a process runs."""
        self._words[self._place(name)] = 1

    def record_exit(self, name: str) -> None:
        """Record that a process has exited."""
        at = self._place(name)
        self._words[at] = self._words[at + 2] = 0
        self._words[at + 1] += 1

    def record_heartbeat(self, name: str) -> None:
        """Record a heartbeat of a process."""
        self._words[self._place(name) + 2] += 1

    def beats(self, name: str) -> int:
        """Return the number of heartbeats of a process since its start."""
        return int(self._words[self._place(name) + 2])

    def ends(self, name: str) -> int:
        """Return the number of exits of a process."""
        return int(self._words[self._place(name) + 1])

    def down(self) -> list[str]:
        """Return the names of the processes that do not run."""
        return [name for name in self.names if not self._words[self._place(name)]]

    def _place(self, name: str) -> int:
        return _WORDS * (1 + self.names.index(name))


def listener(ports: Ports, news: CommitKind) -> Listener | None:
    """Return a listener for writes of other processes (docs/adr/11), or None.

    Without a listener, the caller must poll.
    """
    if not isinstance(ports.store, NotifyingStore):
        return None
    try:
        return ports.store.listen(news)
    except OSError as error:
        _log.warning("cannot listen for writes of %s: %s; polling", news, error.strerror)
        return None
