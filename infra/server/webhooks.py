"""Webhooks on one machine: threads that deliver new and replayed events (docs/adr/20)."""

import queue
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

from functions.webhooks import delivery, dispatch
from infra.server.duties import Duty
from infra.server.waits import ALL, Failures
from shared.operations.base import tenants
from shared.ports import Ports
from shared.ports.outside import Sender

# The number of concurrent deliveries, in total and for one tenant.
_WORKERS: Final = 10
_OF_A_TENANT: Final = 5
# The seconds between checks for due webhooks.
_LOOK_SECONDS: Final = 1.0

_DUE: Final = "webhooks that are due"


class _DispatchSignal(NamedTuple):
    """An event for the thread: a tenant's log has grown, or the work on a webhook has ended."""

    tenant_id: str = ""
    ended: str = ""
    again: bool = False


class WebhookDispatcher(Duty):
    """Delivers events to the webhooks of all tenants. A slow receiver occupies one worker.

    The webhooks of one tenant occupy at most half of the workers. A store failure is logged once,
    and the failed work is retried every second.
    """

    def __init__(self, ports: Ports, sender: Sender) -> None:
        super().__init__("webhooks")
        self._ports, self._sender = ports, sender
        self._signals: queue.SimpleQueue[_DispatchSignal] = queue.SimpleQueue()
        self._pool = ThreadPoolExecutor(_WORKERS, thread_name_prefix="webhook")
        # In the order of the requests.
        self._queued: dict[str, None] = {}
        self._running: set[str] = set()
        # Retried at the next check, after a failure of the store or of a worker.
        self._later: set[str] = set()
        self._failing = Failures("sending events")

    def stop(self) -> None:
        """Prevent further deliveries. Deliveries in progress are completed within 15 seconds."""
        super().stop()
        self._signals.put(_DispatchSignal())

    def enqueue_tenant(self, tenant_id: str) -> None:
        """Request delivery of a tenant's newly appended events."""
        self._signals.put(_DispatchSignal(tenant_id))

    def _run(self) -> None:
        look_at = 0.0
        # Entries that were appended before the last stop may not have been delivered.
        self._later.add(ALL)
        with self._pool:
            while not self._stopped.is_set():
                if time.monotonic() >= look_at:
                    later, self._later = self._later, set()
                    for each in (_DUE, *sorted(later)):
                        self._queue(each)
                    look_at = time.monotonic() + _LOOK_SECONDS
                self._begin()
                try:
                    signal = self._signals.get(timeout=max(look_at - time.monotonic(), 0))
                except queue.Empty:
                    continue
                if signal.ended:
                    self._running.discard(signal.ended)
                if signal.again:
                    self._later.add(signal.ended)
                if signal.tenant_id:
                    self._queue(signal.tenant_id)

    def _queue(self, name: str) -> None:
        """Queue webhooks that may have pending events.

        `name` selects the due webhooks, all, the webhooks of a tenant, or a single webhook.
        """
        webhook_ids: list[str] = []
        try:
            if name == ALL:
                # Query each tenant separately, because one failure must not affect the others.
                for tenant_id in list(tenants.identifiers(self._ports)):
                    self._queue(tenant_id)
            elif name == _DUE:
                webhook_ids = dispatch.due(self._ports)
            elif dispatch.parts(name)[1]:
                webhook_ids = [name]
            else:
                webhook_ids = dispatch.of_tenant(self._ports, name)
        except Exception as error:  # noqa: BLE001 (without a retry, nothing more would be sent)
            self._failing.add(name, error)
            self._later.add(name)
            return
        self._failing.end(name)
        self._queued |= dict.fromkeys(webhook_ids)

    def _begin(self) -> None:
        """Assign webhooks to idle workers. Tenants with the fewest busy workers come first."""
        while len(self._running) < _WORKERS:
            busy = Counter(dispatch.parts(each)[0] for each in self._running)
            waiting = [each for each in self._queued if each not in self._running]
            name = min(waiting, key=lambda each: busy[dispatch.parts(each)[0]], default=None)
            if name is None or busy[dispatch.parts(name)[0]] >= _OF_A_TENANT:
                return
            del self._queued[name]
            self._running.add(name)
            self._pool.submit(self._deliver_pending, name)

    def _deliver_pending(self, name: str) -> None:
        again = True
        with self._failing.watch(name):
            again = delivery.deliver(
                self._ports, self._sender, *dispatch.parts(name), is_stopped=self._stopped.is_set
            )
        self._signals.put(_DispatchSignal(ended=name, again=again))
