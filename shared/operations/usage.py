"""Writing the usage of API keys (service.md 2.1, request_count and last_used_at)."""

from contextlib import suppress
from datetime import datetime

from shared.errors import Conflict
from shared.model import api_keys, times
from shared.model.records import moment
from shared.ports import Ports
from shared.ports.store import Expect, Increment


def add(
    ports: Ports, tenant_id: str, key_id: str, *, requests: int, last_used_at: datetime
) -> None:
    """Count `requests` more of a key; for a key that was deleted since, do nothing.

    Raises `Unavailable`, after which they may have been counted or not.
    """
    key = api_keys.usage(tenant_id).key(key_id)
    if last_used_at < times.whole(ports.now()):
        # These come late: meanwhile another instance may have written a later moment.
        held = moment((ports.store.get(key) or {}).get("last_used_at"), "last_used_at")
        last_used_at = max(last_used_at, held or last_used_at)
    assign = {"last_used_at": times.text(last_used_at)}
    # A count that comes late must not bring a deleted key's usage back.
    with suppress(Conflict):
        ports.store.write(
            Increment(key, {"request_count": requests}, Expect.PRESENT, assign=assign)
        )
