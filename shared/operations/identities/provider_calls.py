"""Requests to servers that a tenant names, behind a circuit breaker of this process (IDENTITY-7).

The keys of an issuer are fetched without it: all processes together fetch them once a minute.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from threading import Lock
from typing import Final
from urllib.parse import urlsplit

from shared.model.outbound import Breaker
from shared.model.webhooks.deliveries import DeliveryOutcome
from shared.ports import Ports
from shared.ports.outside import OutboundAnswer

# The memory forgets all failures if more servers than this fail.
_BREAKERS_MAX: Final = 1000
_lock: Final = Lock()


def guard(ports: Ports, tenant_id: str) -> Ports:
    """Return the ports with an `Outbound` that spares failing servers.

    Each tenant has breakers of its own. It could otherwise stop sign-ins of another tenant by
    requests to a slow address of the same server.
    """
    return replace(ports, outbound=lambda: _GuardedOutbound(ports, tenant_id))


@dataclass(frozen=True, slots=True)
class _GuardedOutbound:
    ports: Ports
    tenant_id: str

    def ask(
        self,
        url: str,
        form: Mapping[str, str] | None = None,
        *,
        user: tuple[str, str] | None = None,
    ) -> OutboundAnswer:
        """Ask the server, or return `NO_ANSWER` at once if it failed lately."""
        key = f"{self.tenant_id} {urlsplit(url).netloc.lower()}"
        if not self._may_try(key):
            return OutboundAnswer(DeliveryOutcome.NO_ANSWER)
        answer = self.ports.outbound().ask(url, form, user=user)
        with _lock:
            if len(self.ports.breakers) >= _BREAKERS_MAX:
                self.ports.breakers.clear()
            if answer.outcome is DeliveryOutcome.NO_ANSWER:
                before = self.ports.breakers.get(key)
                failures = 1 if before is None else before.failures + 1
                self.ports.breakers[key] = Breaker(failures, self.ports.now())
            else:
                self.ports.breakers.pop(key, None)
        return answer

    def _may_try(self, key: str) -> bool:
        with _lock:
            failed, now = self.ports.breakers.get(key), self.ports.now()
            if failed is None:
                return True
            if not failed.may_try(now):
                return False
            # The trial is the only request until it has ended.
            self.ports.breakers[key] = replace(failed, tried_at=now)
            return True
