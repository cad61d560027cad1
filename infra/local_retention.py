"""Removal of expired audit entries on one machine, which DynamoDB does by itself."""

import logging
from collections import deque
from typing import Final

from shared.ports import Ports
from shared.ports.one_machine import LocalStore

_READINGS: Final = 60
_BATCHES: Final = 10

_log = logging.getLogger("rescind")


class Retention:
    """Removes what has expired, a part at each call.

    What is removed cannot be brought back, and a clock may be wrong for a while. So the time is the
    earliest that the clock said in the last `readings` calls, and nothing is removed before that.
    """

    def __init__(self, ports: Ports, *, readings: int = _READINGS) -> None:
        self._ports = ports
        self._said: deque[int] = deque(maxlen=readings)

    def apply(self) -> None:
        """Remove some of the entries that expired before the day that it is now.

        A fault is logged; the next call goes on.
        """
        self._said.append(int(self._ports.now().timestamp()))
        store = self._ports.store
        if len(self._said) < (self._said.maxlen or 0) or not isinstance(store, LocalStore):
            return
        try:
            for _ in range(_BATCHES):
                if not store.remove_expired(before=min(self._said)):
                    break
        except Exception:  # noqa: BLE001 (the caller has more to do than this)
            _log.exception("expired audit entries could not be removed; the next attempt follows")
