"""Usage counts of API keys: added up here, written at most once a second a key (APIKEY-8).

An instance that is killed loses what it has not written: for a key in use, a second of counts. An
orderly stop writes them all. A key that falls silent is written during the requests of others, one
key a request.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from shared.errors import Unavailable
from shared.model import times
from shared.model.callers import Caller
from shared.ports import Ports
from shared.ports.usage_counts import Used
from shared.web.work import IN_PLACE, Kind, Work

_log = logging.getLogger(__name__)

_PERIOD: Final = timedelta(seconds=1)


@dataclass(slots=True)
class _Tally:
    tenant_id: str
    last_used_at: datetime
    requests: int = 0
    written_at: datetime | None = None

    def is_due(self, now: datetime) -> bool:
        return self.written_at is None or not now - _PERIOD < self.written_at <= now


class UsageCounter:
    """The counts of the keys that this instance wrote within a second, or has still to write.

    The longest unwritten come first. `work` writes them; all else is for one thread alone.
    """

    def __init__(self, work: Work = IN_PLACE) -> None:
        self._work = work
        self._tallies: OrderedDict[str, _Tally] = OrderedDict()

    async def count(self, ports: Ports, caller: Caller) -> None:
        """Count a request of the caller's key; it goes on even where that cannot be written."""
        if caller.key_id is None:
            return
        now = ports.now()
        tally = self._tallies.setdefault(caller.key_id, _Tally(caller.tenant_id, now))
        tally.requests += 1
        tally.last_used_at = now
        if tally.is_due(now):
            await self._write(ports, caller.key_id, tally, now)
        await self._write_a_silent_one(ports)

    def flush(self, ports: Callable[[], Ports]) -> None:
        """Write every count that is not written yet; `ports` is called only if there is one."""
        waiting = [(key_id, tally) for key_id, tally in self._tallies.items() if tally.requests]
        for key_id, tally in waiting:
            self._writer(ports(), key_id, tally, tally.last_used_at)()

    async def _write_a_silent_one(self, ports: Ports) -> None:
        now = ports.now()
        while self._tallies:
            key_id, tally = next(iter(self._tallies.items()))
            if not tally.is_due(now):
                return
            if tally.requests:
                await self._write(ports, key_id, tally, now)
                return
            # Nothing to remember: a key that is not known is due as well.
            del self._tallies[key_id]

    async def _write(self, ports: Ports, key_id: str, tally: _Tally, now: datetime) -> None:
        write = self._writer(ports, key_id, tally, now)
        await self._work(write, Kind.ADMISSION, tenant_id=tally.tenant_id)

    def _writer(
        self, ports: Ports, key_id: str, tally: _Tally, now: datetime
    ) -> Callable[[], None]:
        """What writes the count of a key, which from here on begins anew."""
        requests, tally.requests, tally.written_at = tally.requests, 0, now
        self._tallies.move_to_end(key_id)
        used = Used(tally.tenant_id, key_id, requests, tally.last_used_at)
        return partial(_add, ports, used)


def _add(ports: Ports, used: Used) -> None:
    late = used.last_used_at < times.whole(ports.now())
    try:
        ports.usage.add(replace(used, late=late))
    except Unavailable:
        # Counted again, they might count twice: a count too few is the lesser fault.
        _log.exception("%d requests of key %s were not counted", used.requests, used.key_id)
