"""Usage of API keys, counted in the items of a store."""

from contextlib import suppress

from shared.errors import PreconditionFailed
from shared.model import api_keys, times
from shared.model.records import moment
from shared.ports.store import Expect, Increment, Store
from shared.ports.token_buckets import UsageDelta


class StoreUsageCounts:
    """`UsageCounts` in the items of a store that applies a write once."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def add(self, usage: UsageDelta) -> None:
        """Add to the count. Raises `Unavailable`."""
        address = api_keys.usage(usage.tenant_id).address(usage.key_id)
        last_used_at = usage.last_used_at
        if usage.late:
            held = moment((self._store.get(address) or {}).get("last_used_at"), "last_used_at")
            last_used_at = max(last_used_at, held or last_used_at)
        assign = {"last_used_at": times.format_utc(last_used_at)}
        # The usage item of a deleted key must not be created again.
        with suppress(PreconditionFailed):
            self._store.write(
                Increment(address, {"request_count": usage.requests}, Expect.PRESENT, assign=assign)
            )
