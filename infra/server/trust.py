"""Trust documents on one machine: a thread that makes and renews them (TRUST-16)."""

import logging
import queue
import threading
import time
from typing import Final

from shared.operations.base import tenants
from shared.operations.trust import publishing
from shared.operations.trust.publishing import TrustOutcome
from shared.ports import Ports

_ROUND_SECONDS: Final = 3600.0
_RETRY_SECONDS: Final = 30.0

_log = logging.getLogger("rescind")


class TrustKeeper:
    """Keeps the documents of all tenants new: at the start, each hour, and when keys have changed.

    A failure is logged once, and tried again every half minute.
    """

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._stopped = threading.Event()
        # None wakes the thread.
        self._wanted: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="trust")
        self._failing: set[str] = set()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Start no further document. The one in progress is completed in its thread."""
        self._stopped.set()
        self._wanted.put(None)

    def look(self, tenant_id: str) -> None:
        """Have a look at a tenant soon, whose keys have changed."""
        self._wanted.put(tenant_id)

    def join(self) -> None:
        """Wait until what was in progress at `stop` is completed."""
        self._thread.join()

    def is_alive(self) -> bool:
        """Return whether any document may still be made."""
        return self._thread.is_alive()

    def _run(self) -> None:
        round_at = retry_at = time.monotonic()
        while not self._stopped.is_set():
            if time.monotonic() >= round_at:
                round_at = time.monotonic() + (_ROUND_SECONDS if self._round() else _RETRY_SECONDS)
            if time.monotonic() >= retry_at:
                retry_at = time.monotonic() + _RETRY_SECONDS
                for tenant_id in [*self._failing]:
                    self._keep(tenant_id)
            self._take(min(round_at, retry_at) - time.monotonic())

    def _round(self) -> bool:
        """Look at all tenants; return whether they could be read."""
        try:
            found = [*tenants.identifiers(self._ports)]
        except Exception:  # noqa: BLE001 (without a retry, documents would expire)
            _log.exception("no trust document could be looked at; it is tried again")
            return False
        # A tenant that was removed cannot fail.
        self._failing.intersection_update(found)
        for tenant_id in found:
            self._keep(tenant_id)
        return True

    def _take(self, seconds: float) -> None:
        """Look at one tenant whose keys change meanwhile; return after that, or after `seconds`."""
        try:
            tenant_id = self._wanted.get(timeout=max(0.0, seconds))
        except queue.Empty:
            return
        if tenant_id is not None:
            self._keep(tenant_id)

    def _keep(self, tenant_id: str) -> None:
        if self._stopped.is_set():
            return
        try:
            outcome = publishing.keep(self._ports, tenant_id)
        except Exception:  # noqa: BLE001 (what stops one tenant must not stop the rest)
            if tenant_id not in self._failing:
                words = "the trust document of tenant %s could not be made; it is tried again"
                _log.exception(words, tenant_id)
            self._failing.add(tenant_id)
            return
        if tenant_id in self._failing:
            self._failing.remove(tenant_id)
            _log.warning("the trust document of tenant %s is made again", tenant_id)
        if outcome is TrustOutcome.WAITS:
            _log.warning("a trust document of tenant %s waits for its roots", tenant_id)
