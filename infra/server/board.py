"""How the processes of a server on one machine learn of each other: numbers in memory, and news.

Times are of the monotonic clock, which all processes of a machine have in common.
"""

import logging
import mmap
import time
from collections.abc import Callable, Sequence
from typing import Final

from shared.ports import Ports
from shared.ports.one_machine import CommitKind, Listener, NotifyingStore

# The names of processes.
PUBLISHER: Final = "publisher"
OPS: Final = "ops"

_WORDS: Final = 9
_BYTES: Final = 8
# How long a request for readiness has the store tested, and how long a test write may take.
_ASKED_SECONDS: Final = 30.0
_WRITE_SECONDS: Final = 2.0

_log = logging.getLogger("rescind")


class ProcessStatus:
    """The state of each process by its name, and when lists were published and logs sealed.

    It is shared with every process that is forked after it was made.
    """

    def __init__(self, names: Sequence[str] = ()) -> None:
        self.names = tuple(names)
        size = _WORDS * (1 + len(self.names)) * _BYTES
        self._words = memoryview(mmap.mmap(-1, size)).cast("d")
        # Ages count from the start until something later is known.
        self._words[0] = self._words[1] = self._words[3] = time.monotonic()

    # --- who leads, and what is published ---

    def record_leadership(self, at: float, *, schedule: float, append_time: float) -> None:
        """Note that this server leads `at` this moment.

        Note, too, when the last round of lists ended, and when the last whole round of seals began.
        Earlier times than those noted are ignored, such as those of a process that has just begun.
        """
        self._words[4] = 1
        for word, moment in ((0, schedule), (1, append_time), (3, at)):
            self._words[word] = max(self._words[word], moment)

    def record_other_leader(self, at: float) -> None:
        """Note that this server does not lead, and another one did `at` this moment."""
        self.record_leadership(at, schedule=at, append_time=at)
        self._words[4] = 0
        self.record_startup_done()

    def is_leader(self) -> bool:
        """Return whether this server leads, or has no process that could."""
        return bool(self._words[4]) or PUBLISHER not in self.names

    def leader_seconds(self) -> float:
        """Return the time since any server led; 0 for a server that must not publish."""
        return self._seconds_since(self._words[3])

    def schedule_seconds(self) -> float:
        """Return the time since the last round of lists; 0 as above."""
        return self._seconds_since(self._words[0])

    def sealed_seconds(self) -> float:
        """Return the time since the audit logs of all tenants were sealed; 0 as above."""
        return self._seconds_since(self._words[1])

    def _seconds_since(self, moment: float) -> float:
        return time.monotonic() - moment if PUBLISHER in self.names else 0.0

    def record_startup_done(self) -> None:
        """Note that what was due at the start is published, or is another server's work."""
        self._words[2] = 1

    def has_begun(self) -> bool:
        """Return whether `record_startup_done` was called."""
        return bool(self._words[2])

    def record_stopping(self) -> None:
        """Note that this server will stop soon: nobody should send it new requests."""
        self._words[5] = 1

    def is_stopping(self) -> bool:
        """Return whether `record_stopping` was called."""
        return bool(self._words[5])

    # --- whether the store can be written ---

    def request_test_writes(self) -> None:
        """Request test writes for a while."""
        self._words[6] = time.monotonic()

    def is_asked(self) -> bool:
        """Return whether a test write was requested lately."""
        return self._words[6] > 0 and time.monotonic() < self._words[6] + _ASKED_SECONDS

    def run_test_write(self, write: Callable[[], object]) -> None:
        """Make a test write, and note whether it succeeds. Raises the error of `write`."""
        if not self._words[8]:
            self._words[7], self._words[8] = time.monotonic(), 1
        write()
        self._words[8] = 0

    def can_store(self) -> bool:
        """Return whether the last test write succeeded; one in progress may for two seconds."""
        return not self._words[8] or time.monotonic() < self._words[7] + _WRITE_SECONDS

    # --- processes ---

    def record_start(self, name: str) -> None:
        """Note that a process runs."""
        self._words[self._place(name)] = 1

    def record_exit(self, name: str) -> None:
        """Note that a process has ended."""
        at = self._place(name)
        self._words[at] = self._words[at + 2] = 0
        self._words[at + 1] += 1

    def record_heartbeat(self, name: str) -> None:
        """Note that a process goes on."""
        self._words[self._place(name) + 2] += 1

    def beats(self, name: str) -> int:
        """Return how often a process beat since it was started."""
        return int(self._words[self._place(name) + 2])

    def ends(self, name: str) -> int:
        """Return how often a process has ended."""
        return int(self._words[self._place(name) + 1])

    def down(self) -> list[str]:
        """Return the names of the processes that do not run."""
        return [name for name in self.names if not self._words[self._place(name)]]

    def _place(self, name: str) -> int:
        return _WORDS * (1 + self.names.index(name))


def listener(ports: Ports, news: CommitKind) -> Listener | None:
    """Return what hears of what other processes have written (docs/adr/11), or None.

    Without it, a look now and then has to do.
    """
    if not isinstance(ports.store, NotifyingStore):
        return None
    try:
        return ports.store.listen(news)
    except OSError as error:
        _log.warning("no news of the %s: %s; it is looked at now and then", news, error.strerror)
        return None
