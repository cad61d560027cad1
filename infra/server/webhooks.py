"""Webhooks on one machine: threads that send what was sealed, or is sent again (docs/adr/20)."""

import queue
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

from infra.server.duties import Duty
from infra.server.waits import ALL, Failures
from shared.operations.base import tenants
from shared.operations.webhooks import delivery, dispatch
from shared.ports import Ports
from shared.ports.outside import Sender

# How many webhooks are sent to at a time, and how many of them may be of one tenant.
_WORKERS: Final = 10
_OF_A_TENANT: Final = 5
# How often turns are looked for.
_LOOK_SECONDS: Final = 1.0

_DUE: Final = "webhooks that are due"


class _DispatchSignal(NamedTuple):
    """News for the thread: a tenant's log has grown, or the work on a webhook has ended."""

    tenant_id: str = ""
    ended: str = ""
    again: bool = False


class WebhookDispatcher(Duty):
    """Sends to the webhooks of all tenants; a slow receiver holds one worker.

    The webhooks of one tenant have half of the workers at most, so that those of others have the
    rest. A failure of the store is logged once, and what failed is tried again each second.
    """

    def __init__(self, ports: Ports, sender: Sender) -> None:
        super().__init__("webhooks")
        self._ports, self._sender = ports, sender
        self._news: queue.SimpleQueue[_DispatchSignal] = queue.SimpleQueue()
        self._pool = ThreadPoolExecutor(_WORKERS, thread_name_prefix="webhook")
        # In the order in which they were asked for.
        self._wanted: dict[str, None] = {}
        self._running: set[str] = set()
        # Asked for again at the next look: what the store could not tell, or a worker not do.
        self._later: set[str] = set()
        self._failing = Failures("sending events")

    def stop(self) -> None:
        """Send nothing more. Deliveries under way are completed, for up to 15 seconds."""
        super().stop()
        self._news.put(_DispatchSignal())

    def enqueue_tenant(self, tenant_id: str) -> None:
        """Have the tenant's webhooks sent what was sealed."""
        self._news.put(_DispatchSignal(tenant_id))

    def _run(self) -> None:
        look_at = 0.0
        # Entries that were sealed before the last stop may not have been sent.
        self._later.add(ALL)
        with self._pool:
            while not self._stopped.is_set():
                if time.monotonic() >= look_at:
                    self._look()
                    look_at = time.monotonic() + _LOOK_SECONDS
                self._begin()
                self._take_news(max(look_at - time.monotonic(), 0))

    def _take_news(self, seconds: float) -> None:
        try:
            news = self._news.get(timeout=seconds)
        except queue.Empty:
            return
        if news.ended:
            self._running.discard(news.ended)
        if news.again:
            self._later.add(news.ended)
        if news.tenant_id:
            self._queue(news.tenant_id)

    def _look(self) -> None:
        later, self._later = self._later, set()
        for each in (_DUE, *sorted(later)):
            self._queue(each)

    def _queue(self, whose: str) -> None:
        """Note webhooks that may have something to be sent."""
        try:
            found = self._due_webhook_ids(whose)
        except Exception as error:  # noqa: BLE001 (without a retry, nothing more would be sent)
            self._failing.add(whose, error)
            self._later.add(whose)
            return
        self._failing.end(whose)
        self._wanted |= dict.fromkeys(found)

    def _due_webhook_ids(self, whose: str) -> list[str]:
        """Return webhooks: those that are due, everyone's, one tenant's, or the one itself."""
        if whose == _DUE:
            return dispatch.due(self._ports)
        if whose == ALL:
            # Each by itself: what stops one tenant must not stop the rest.
            for tenant_id in list(tenants.identifiers(self._ports)):
                self._queue(tenant_id)
            return []
        is_webhook = dispatch.parts(whose)[1]
        return [whose] if is_webhook else dispatch.of_tenant(self._ports, whose)

    def _begin(self) -> None:
        """Give webhooks to idle workers, first those of tenants that have the fewest."""
        while len(self._running) < _WORKERS:
            busy = Counter(dispatch.parts(each)[0] for each in self._running)
            waiting = [each for each in self._wanted if each not in self._running]
            name = min(waiting, key=lambda each: busy[dispatch.parts(each)[0]], default=None)
            if name is None or busy[dispatch.parts(name)[0]] >= _OF_A_TENANT:
                return
            del self._wanted[name]
            self._running.add(name)
            self._pool.submit(self._deliver_pending, name)

    def _deliver_pending(self, name: str) -> None:
        again = True
        try:
            again = delivery.deliver(
                self._ports, self._sender, *dispatch.parts(name), is_stopped=self._stopped.is_set
            )
            self._failing.end(name)
        except Exception as error:  # noqa: BLE001 (what stops one webhook must not stop the rest)
            self._failing.add(name, error)
        finally:
            self._news.put(_DispatchSignal(ended=name, again=again))
