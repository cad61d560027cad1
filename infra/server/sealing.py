"""Threads of the transparency log on one machine (docs/adr/18).

One thread appends new entries. Another requests cosignatures and does not delay it (LOG-31).
"""

import math
import time
from collections.abc import Callable
from typing import Final

from functions.transparency_log import daily_statements, sealing, witnessing
from infra.server.duties import Duty
from infra.server.waits import ALL, Failures
from shared.model.audit.witness_policy import WitnessPolicy
from shared.operations.base import tenants
from shared.ports import Ports
from shared.ports.outside import AuditSink, WitnessClient

_PAUSE_SECONDS: Final = 5.0
# With many tenants, rounds take longer. This ratio limits rounds to a tenth of a processor.
_PAUSES_A_ROUND: Final = 9
_SWEEP_SECONDS: Final = 24 * 3600


WITNESS_PAUSE_SECONDS: Final = 60.0
_END_SECONDS: Final = 1.0


class Sealing(Duty):
    """Appends new audit entries of each tenant to its transparency log, every few seconds.

    The first round, and one round per day, searches for entries that became visible very late.
    `on_append` is called for each tenant with new log entries, and `on_new_log` for each new log.
    Appended entries are then copied to the `sink`. A failure is logged once and retried in each
    round.
    """

    def __init__(
        self,
        ports: Ports,
        on_append: Callable[[str], object] = lambda _: None,
        sink: AuditSink | None = None,
        on_new_log: Callable[[str], object] = lambda _: None,
    ) -> None:
        super().__init__("sealing")
        self._ports, self._sink = ports, sink
        self._on_append, self._on_new_log = on_append, on_new_log
        self._failing = Failures("appending to the transparency log")
        self._swept_at = -math.inf
        # The start of the last round without a failure, by the monotonic clock.
        self.whole_at = -math.inf

    def _run(self) -> None:
        pause = 0.0
        while not self._stopped.wait(pause):
            # Thread time excludes the wait for a processor while an SRL is built.
            started = time.thread_time()
            self._round()
            pause = max(_PAUSE_SECONDS, _PAUSES_A_ROUND * (time.thread_time() - started))

    def _round(self) -> None:
        started_at = time.monotonic()
        is_sweep = started_at >= self._swept_at + _SWEEP_SECONDS
        try:
            tenant_ids = list(tenants.identifiers(self._ports))
        except Exception as error:  # noqa: BLE001 (without a retry, nothing would be sealed)
            self._failing.add(ALL, error)
            return
        # A removed tenant cannot fail.
        self._failing.names &= set(tenant_ids)
        if is_sweep:
            self._swept_at = time.monotonic()
        extend = daily_statements.sweep if is_sweep else sealing.extend
        for tenant_id in tenant_ids:
            if self._stopped.is_set():
                break
            with self._failing.watch(tenant_id):
                extended = extend(self._ports, tenant_id)
                if extended.size > extended.first:
                    self._on_append(tenant_id)
                    if not extended.first:
                        self._on_new_log(tenant_id)
                if self._sink is not None:
                    sealing.copy_to_sink(self._ports, self._sink, tenant_id)
        if not self._failing.names:
            self.whole_at = started_at


class Witnessing(Duty):
    """Requests witness cosignatures for the newest checkpoint of each tenant, once a minute.

    A failure is logged once and retried in each round.
    """

    def __init__(
        self,
        ports: Ports,
        client: WitnessClient,
        policy: WitnessPolicy,
        pause: float = WITNESS_PAUSE_SECONDS,
    ) -> None:
        super().__init__("witnessing", daemon=True)
        self._ports, self._client, self._policy, self._pause = ports, client, policy, pause
        self._failing = Failures("witnessing the audit log")

    def join(self) -> None:
        """Wait briefly. A slow witness must not delay the stop, and its response is not needed."""
        self._thread.join(_END_SECONDS)

    def _run(self) -> None:
        while not self._stopped.wait(self._pause):
            try:
                tenant_ids = list(tenants.identifiers(self._ports))
            except Exception as error:  # noqa: BLE001 (without a retry, nothing would be signed)
                self._failing.add(ALL, error)
                continue
            witness_round = witnessing.WitnessRound(self._ports, self._client, self._policy)
            for tenant_id in tenant_ids:
                if self._stopped.is_set():
                    break
                try:
                    witness_round.cosign(tenant_id)
                except Exception as error:  # noqa: BLE001 (one tenant must not stop the rest)
                    if not self._stopped.is_set():
                        self._failing.add(tenant_id, error)
                else:
                    self._failing.end(tenant_id)
