"""Asking witnesses on one machine: a thread of its own, so that nothing waits for them (LOG-31)."""

import logging
import threading
from typing import Final

from shared.model.audit.witnesses import WitnessPolicy
from shared.operations.audit import witnessing
from shared.operations.base import tenants
from shared.ports import Ports
from shared.ports.outside import WitnessClient

PAUSE_SECONDS: Final = 60.0
_END_SECONDS: Final = 1.0

_ALL: Final = "all tenants"

_log = logging.getLogger("rescind")


class Witnessing:
    """Has the newest checkpoint of each tenant signed by witnesses, once a minute.

    A failure is logged once and retried in each round.
    """

    def __init__(
        self,
        ports: Ports,
        client: WitnessClient,
        policy: WitnessPolicy,
        pause: float = PAUSE_SECONDS,
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
