"""The use of API keys, counted in the items of a store."""

from contextlib import suppress

from shared.errors import ExpectationLost
from shared.model import api_keys, times
from shared.model.records import moment
from shared.ports.store import Expect, Increment, Store
from shared.ports.token_buckets import Used


class StoredUsage:
    """`UsageCounts` in the items of a store that applies a write once."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def add(self, used: Used) -> None:
        """Add to the count. Raises `Unavailable`."""
        address = api_keys.usage(used.tenant_id).address(used.key_id)
        last_used_at = used.last_used_at
        if used.late:
            held = moment((self._store.get(address) or {}).get("last_used_at"), "last_used_at")
            last_used_at = max(last_used_at, held or last_used_at)
        assign = {"last_used_at": times.text(last_used_at)}
        # The usage of a deleted key must not be created again.
        with suppress(ExpectationLost):
            self._store.write(
                Increment(address, {"request_count": used.requests}, Expect.PRESENT, assign=assign)
            )
