"""The duties of a server that leads: threads that work until they are stopped."""

import queue
import threading
from abc import ABC, abstractmethod


class Duty(ABC):
    """One thread, which calls `_run`. After `stop`, it completes the step in progress."""

    def __init__(self, name: str, *, daemon: bool = False) -> None:
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=daemon)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Begin no further step."""
        self._stopped.set()

    def join(self) -> None:
        """Wait until the step that was in progress at `stop` is completed."""
        self._thread.join()

    def is_alive(self) -> bool:
        """Return whether the thread runs."""
        return self._thread.is_alive()

    @abstractmethod
    def _run(self) -> None: ...


class RequestedDuty(Duty):
    """A duty that other threads can request for a tenant."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        # None wakes the thread.
        self._requested: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def request(self, tenant_id: str) -> None:
        """Do the duty for a tenant soon."""
        self._requested.put(tenant_id)

    def stop(self) -> None:
        """Begin no further step."""
        super().stop()
        self._requested.put(None)

    def _take(self, seconds: float) -> str | None:
        """Return a requested tenant, or None after `seconds` and after `stop`."""
        try:
            tenant_id = self._requested.get(timeout=max(0.0, seconds))
        except queue.Empty:
            return None
        return None if self._stopped.is_set() else tenant_id
