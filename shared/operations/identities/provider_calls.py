"""Requests to servers that a tenant names, with a circuit breaker per process (IDENTITY-7).

The keys of an issuer are fetched without it, because all processes together fetch them once a
minute.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from threading import Lock
from typing import Final
from urllib.parse import urlsplit

from shared.model.outbound import DeliveryOutcome
from shared.ports import Ports
from shared.ports.outside import OutboundAnswer

# After this many failures in a row, a server gets no request for a while. One trial follows.
_FAILURES: Final = 3
_PAUSE: Final = timedelta(seconds=10)
# The memory forgets all failures if more servers than this fail.
_BREAKERS_MAX: Final = 1000
_lock: Final = Lock()


def guard(ports: Ports, tenant_id: str) -> Ports:
    """Return the ports with an `OutboundHttp` that spares failing servers.

    Each tenant has separate breakers. Otherwise one tenant could block the sign-ins of another by
    requests to a slow address on the same server.
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
        """Send the request, or return `NO_ANSWER` at once if the server failed recently."""
        breakers, now = self.ports.breakers, self.ports.now()
        key = f"{self.tenant_id} {urlsplit(url).netloc.lower()}"
        with _lock:
            failures, tried_at = breakers.get(key, (0, now))
            # A clock that was set back causes no delay.
            if failures >= _FAILURES and abs(now - tried_at) < _PAUSE:
                return OutboundAnswer(DeliveryOutcome.NO_RESPONSE)
            if failures:
                # The trial is the only request until it has ended.
                breakers[key] = failures, now
        answer = self.ports.outbound().ask(url, form, user=user)
        with _lock:
            failures, _ = breakers.pop(key, (0, now))
            if answer.outcome is DeliveryOutcome.NO_RESPONSE:
                if len(breakers) >= _BREAKERS_MAX:
                    breakers.clear()
                breakers[key] = failures + 1, self.ports.now()
        return answer
