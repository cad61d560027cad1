"""Trust documents on one machine: a thread that creates and renews them (TRUST-16)."""

import logging
import time
from typing import Final

from functions.trust import publishing
from infra.server.duties import RequestedDuty
from infra.server.waits import Failures
from shared.operations.base import tenants
from shared.ports import Ports

_ROUND_SECONDS: Final = 3600.0
_RETRY_SECONDS: Final = 30.0

_log = logging.getLogger("rescind")


class TrustKeeper(RequestedDuty):
    """Renews the trust documents of all tenants at the start, each hour, and after key changes.

    A failure is logged once, and retried every 30 seconds.
    """

    def __init__(self, ports: Ports) -> None:
        super().__init__("trust")
        self._ports = ports
        self._failing = Failures("publishing the trust document")

    def _run(self) -> None:
        round_at = retry_at = time.monotonic()
        while not self._stopped.is_set():
            if time.monotonic() >= round_at:
                round_at = time.monotonic() + (_ROUND_SECONDS if self._round() else _RETRY_SECONDS)
            if time.monotonic() >= retry_at:
                retry_at = time.monotonic() + _RETRY_SECONDS
                for tenant_id in [*self._failing.names]:
                    self._keep(tenant_id)
            requested = self._take(min(round_at, retry_at) - time.monotonic())
            if requested is not None:
                self._keep(requested)

    def _round(self) -> bool:
        """Process all tenants. Return whether they could be read."""
        try:
            tenant_ids = [*tenants.identifiers(self._ports)]
        except Exception:  # noqa: BLE001 (without a retry, documents would expire)
            _log.exception("cannot read the tenants for trust documents; retrying")
            return False
        # A removed tenant cannot fail.
        self._failing.names &= set(tenant_ids)
        for tenant_id in tenant_ids:
            self._keep(tenant_id)
        return True

    def _keep(self, tenant_id: str) -> None:
        if self._stopped.is_set():
            return
        with self._failing.watch(tenant_id):
            if publishing.keep(self._ports, tenant_id) is publishing.TrustOutcome.WAITS:
                _log.warning("a trust document of tenant %s waits for its roots", tenant_id)
