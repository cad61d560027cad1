"""The threads of the sealed log on one machine (docs/adr/18).

One appends new entries. Another asks witnesses, so that nothing waits for them (LOG-31).
"""

import logging
import math
import threading
import time
from collections.abc import Callable
from typing import Final

from shared.model.audit.witnesses import WitnessPolicy
from shared.operations.audit import sealing, statements, witnessing
from shared.operations.base import tenants
from shared.ports import Ports
from shared.ports.one_machine import LocalStore
from shared.ports.outside import AuditSink, WitnessClient

_PAUSE_SECONDS: Final = 5.0
# With many tenants a round takes longer; rounds take a tenth of a processor at most.
_PAUSES_A_ROUND: Final = 9
_SWEEP_SECONDS: Final = 24 * 3600

_ALL: Final = "all tenants"
_INDEX: Final = "all tenants, for its index,"

_log = logging.getLogger("rescind")

WITNESS_PAUSE_SECONDS: Final = 60.0
_END_SECONDS: Final = 1.0


def _ignore(_tenant_id: str) -> None:
    pass


class Sealing:
    """Appends new audit entries of each tenant to its sealed log, every few seconds.

    The first round, and one each day, looks for entries that became visible very late. `sealed` is
    called with each tenant whose log has grown, `begun` with one whose log is new. Then sealed
    entries are copied to the `sink`. A failure is logged once and retried in each round.
    """

    def __init__(
        self,
        ports: Ports,
        sealed: Callable[[str], object] = _ignore,
        sink: AuditSink | None = None,
        begun: Callable[[str], object] = _ignore,
    ) -> None:
        self._ports, self._sealed, self._sink, self._begun = ports, sealed, sink, begun
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sealing")
        self._failing: set[str] = set()
        self._swept_at = self._whole_at = -math.inf

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Start no further pass. The one in progress is completed in its thread."""
        self._stopped.set()

    def join(self) -> None:
        """Wait until what was in progress at `stop` is completed."""
        self._thread.join()

    def is_alive(self) -> bool:
        """Return whether anything may still be sealed."""
        return self._thread.is_alive()

    def whole_at(self) -> float:
        """Return when the last round began that failed for no tenant, by the monotonic clock.

        Before the first such round this is -inf.
        """
        return self._whole_at

    def _run(self) -> None:
        pause = 0.0
        while not self._stopped.wait(pause):
            # Its own time: while a list is made, a round waits for the processor.
            started = time.thread_time()
            self._round()
            pause = max(_PAUSE_SECONDS, _PAUSES_A_ROUND * (time.thread_time() - started))

    def _round(self) -> None:
        began_at = time.monotonic()
        sweeps = began_at >= self._swept_at + _SWEEP_SECONDS
        try:
            tenant_ids = list(tenants.identifiers(self._ports))
        except Exception:  # noqa: BLE001 (without a retry, nothing would be sealed)
            self._fail(_ALL)
            return
        # A tenant that was removed cannot fail.
        self._failing &= set(tenant_ids)
        if sweeps:
            self._swept_at = time.monotonic()
        for tenant_id in tenant_ids:
            if not self._stopped.is_set():
                self._seal(tenant_id, sweeping=sweeps)
        self._index()
        if not self._failing:
            self._whole_at = began_at

    def _index(self) -> None:
        """Let the store index what it has not, so that neither a write nor a reader has to."""
        store = self._ports.store
        try:
            while isinstance(store, LocalStore) and not self._stopped.is_set():
                if not store.index_audit_entries():
                    break
        except Exception:  # noqa: BLE001 (readers find what is not indexed)
            self._fail(_INDEX)
        else:
            self._failing.discard(_INDEX)

    def _seal(self, tenant_id: str, *, sweeping: bool) -> None:
        try:
            extend = statements.sweep if sweeping else sealing.extend
            extended = extend(self._ports, tenant_id)
            if extended.size > extended.first:
                self._sealed(tenant_id)
                if not extended.first:
                    self._begun(tenant_id)
            if self._sink is not None:
                sealing.copy_to_sink(self._ports, self._sink, tenant_id)
        except Exception:  # noqa: BLE001 (what stops one tenant must not stop the rest)
            self._fail(tenant_id)
            return
        if tenant_id in self._failing:
            self._failing.remove(tenant_id)
            _log.warning("the audit log of tenant %s is sealed again", tenant_id)

    def _fail(self, name: str) -> None:
        if name not in self._failing:
            _log.exception("the audit log of %s could not be sealed; it is tried again", name)
        self._failing.add(name)


class Witnessing:
    """Has the newest checkpoint of each tenant signed by witnesses, once a minute.

    A failure is logged once and retried in each round.
    """

    def __init__(
        self,
        ports: Ports,
        client: WitnessClient,
        policy: WitnessPolicy,
        pause: float = WITNESS_PAUSE_SECONDS,
    ) -> None:
        self._ports, self._client, self._policy, self._pause = ports, client, policy, pause
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="witnessing", daemon=True)
        self._failing: set[str] = set()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ask about no further tenant."""
        self._stopped.set()

    def join(self) -> None:
        """Wait a little: a witness that is slow stops no server, and what it says is not needed."""
        self._thread.join(_END_SECONDS)

    def _run(self) -> None:
        while not self._stopped.wait(self._pause):
            try:
                tenant_ids = list(tenants.identifiers(self._ports))
            except Exception:  # noqa: BLE001 (without a retry, nothing would be signed)
                self._fail(_ALL)
                continue
            asking = witnessing.Round(self._ports, self._client, self._policy)
            for tenant_id in tenant_ids:
                if not self._stopped.is_set():
                    self._ask(asking, tenant_id)

    def _ask(self, asking: witnessing.Round, tenant_id: str) -> None:
        try:
            asking.cosign(tenant_id)
        except Exception:  # noqa: BLE001 (what stops one tenant must not stop the rest)
            self._fail(tenant_id)
        else:
            self._failing.discard(tenant_id)

    def _fail(self, name: str) -> None:
        if name not in self._failing and not self._stopped.is_set():
            _log.exception("witnesses cannot be asked about %s; it is tried again", name)
        self._failing.add(name)
