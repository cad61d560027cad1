"""Duties of the leader: threads that run until they are stopped."""

import queue
import threading
from abc import ABC, abstractmethod


class Duty(ABC):
    """One thread that runs `_run`. After `stop`, it completes the current step."""

    def __init__(self, name: str, *, daemon: bool = False) -> None:
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=daemon)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Prevent further steps."""
        self._stopped.set()

    def join(self) -> None:
        """Wait for the step that was in progress at `stop`."""
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
        """Request the duty for a tenant."""
        self._requested.put(tenant_id)

    def stop(self) -> None:
        """Prevent further steps."""
        super().stop()
        self._requested.put(None)

    def _take(self, seconds: float) -> str | None:
        """Return a requested tenant, or None after `seconds` or after `stop`."""
        try:
            tenant_id = self._requested.get(timeout=max(0.0, seconds))
        except queue.Empty:
            return None
        return None if self._stopped.is_set() else tenant_id
