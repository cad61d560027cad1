"""Discovery of identity providers on one machine: a thread that refreshes their endpoints."""

import logging
from typing import Final

from infra.server.duties import Duty
from shared.operations.identities import issuers
from shared.ports import Ports

_ROUND_SECONDS: Final = 3600.0

_log = logging.getLogger("rescind")


class Discovery(Duty):
    """Refreshes discovery documents older than one day, once an hour (IDENTITY-1).

    Sign-ins never wait for a refresh. A failure is logged, and retried in the next round.
    """

    def __init__(self, ports: Ports) -> None:
        super().__init__("discovery")
        self._ports = ports

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                issuers.refresh_all(self._ports, self._stopped.is_set)
            except Exception:  # noqa: BLE001 (the next round tries again)
                _log.exception("cannot refresh identity providers; retrying in an hour")
            self._stopped.wait(_ROUND_SECONDS)
