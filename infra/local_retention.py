"""Removal of expired items on one machine; DynamoDB does this itself."""

import logging
from collections import deque
from typing import Final

from shared.ports import Ports
from shared.ports.one_machine import LocalStore

_READINGS: Final = 60
_BATCHES: Final = 10

_log = logging.getLogger("rescind")


class Retention:
    """Removes expired audit entries and items of the table `keys`, a part at each call.

    A removal is final, and a clock may be wrong for some time. So nothing is removed in the first
    `readings` calls; then the time is the earliest of the last `readings` calls.
    """

    def __init__(self, ports: Ports, *, readings: int = _READINGS) -> None:
        self._ports = ports
        self._said: deque[int] = deque(maxlen=readings)

    def apply(self) -> None:
        """Remove some of the items that expired. A fault is logged."""
        self._said.append(int(self._ports.now().timestamp()))
        store = self._ports.store
        if len(self._said) < (self._said.maxlen or 0) or not isinstance(store, LocalStore):
            return
        try:
            for _ in range(_BATCHES):
                if not store.remove_expired(before=min(self._said)):
                    break
        except Exception:  # noqa: BLE001 (the caller must go on)
            _log.exception("expired items could not be removed; the next attempt follows")
