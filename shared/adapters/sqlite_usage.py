"""The usage of API keys on one machine: in the store's file, by the store's own writes."""

from contextlib import suppress

from shared.errors import ExpectationLost
from shared.model import api_keys, times
from shared.model.records import moment
from shared.ports.store import Expect, Increment, Store
from shared.ports.usage_counts import Used


class SqliteUsage:
    """`UsageCounts` in the items of a store whose writes wait for nothing but the disk."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def add(self, used: Used) -> None:
        """Count what was used. Raises `Unavailable`."""
        key = api_keys.usage(used.tenant_id).address(used.key_id)
        last_used_at = used.last_used_at
        if used.late:
            held = moment((self._store.get(key) or {}).get("last_used_at"), "last_used_at")
            last_used_at = max(last_used_at, held or last_used_at)
        assign = {"last_used_at": times.text(last_used_at)}
        # A count that comes after its key was deleted must not bring the usage back.
        with suppress(ExpectationLost):
            self._store.write(
                Increment(key, {"request_count": used.requests}, Expect.PRESENT, assign=assign)
            )
