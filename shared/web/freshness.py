"""The header `Age`: since when an answer lacks a change that was acknowledged (FEED-12)."""

import math
from collections import OrderedDict
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from shared.errors import Unavailable
from shared.model.feed import FeedHead
from shared.operations.api import freshness
from shared.operations.srl.unpublished import is_ahead
from shared.web.routes import ApiRequest

# How long the requests of a tenant share a look. On Lambda an instance pays for each, and a server
# does not (docs/cost.md).
_SHARED: Final = timedelta(seconds=5)
_SHARED_BY_SERVER: Final = timedelta(seconds=1)
_TENANTS_MAX: Final = 10_000

# What the API document says of the header.
AGE: Final[dict[str, Any]] = {
    "Age": {
        "schema": {"type": "integer", "minimum": 0},
        "description": "How many seconds ago, rounded up, the oldest change was acknowledged that "
        "this response may lack; 0 if it lacks none.",
    }
}


class Fresh(NamedTuple):
    """What the feed has at `now`: all that was acknowledged before `since`.

    `since` is None if no look told. If `is_newest` is false, the feed may tell of a later moment.
    """

    now: datetime
    since: datetime | None
    is_newest: bool

    def age(
        self,
        newest: FeedHead | None,
        *,
        listed_at: datetime | None = None,
        most: float = math.inf,
    ) -> dict[str, str]:
        """Return the header for an answer that has the feed up to `newest`, read after the look.

        With `listed_at`, the answer is the base of `newest`, which was issued then. Without a feed,
        that is all that is known of it. Raises `Unavailable` if the age is not known, or exceeds
        `most` seconds.
        """
        lacking = None
        if listed_at is not None:
            lacking = newest.unlisted_since(listed_at) if newest else listed_at
        since = self._since(newest)
        if since is None or is_ahead(lacking, self.now):
            raise Unavailable("it is not known how old the oldest unpublished change is")
        passed = self.now - min(since, lacking or since)
        seconds = max(0, math.ceil(passed.total_seconds()))
        if seconds > most:
            raise Unavailable(f"a change was not published for {seconds} seconds")
        return {"Age": str(seconds)}

    def _since(self, newest: FeedHead | None) -> datetime | None:
        covered = newest.covered_at if newest else None
        if self.is_newest or covered is None or is_ahead(covered, self.now):
            return self.since
        return max(covered, self.since or covered)


class _Held(NamedTuple):
    at: datetime
    since: datetime | None
    is_newest: bool


class Freshness:
    """The looks of this instance, by tenant."""

    def __init__(self) -> None:
        self._held = OrderedDict[str, _Held]()

    def forget(self) -> None:
        """Look again at the next request of each tenant."""
        self._held.clear()

    def look(self, here: ApiRequest) -> Fresh:
        """Return what the feed has; call it before the feed is read. Raises `Unavailable`."""
        tenant_id, now = here.caller.tenant_id, here.ports.now()
        held = self._held.get(tenant_id)
        shared = _SHARED_BY_SERVER if here.wait_max else _SHARED
        if held is None or not held.at <= now < held.at + shared:
            found = here.run(freshness.look)
            since = found.since(held.since if held else None)
            held = _Held(found.at, since, found.is_complete)
            self._held[tenant_id] = held
            if len(self._held) > _TENANTS_MAX:
                self._held.popitem(last=False)
        return Fresh(now, held.since, held.is_newest)


# One for all endpoints of this process.
FRESHNESS: Final = Freshness()
