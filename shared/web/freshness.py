"""The header `Age`: the age of the oldest change that a response may lack (FEED-12)."""

import math
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from shared.errors import Unavailable
from shared.model.feed import FeedHead
from shared.operations.changes import feed
from shared.operations.lists.unpublished import is_clock_ahead
from shared.web.routes import ApiRequest

# How long requests of a tenant share a look. On Lambda each instance pays for its looks; a server
# does not (docs/cost.md).
_SHARED: Final = timedelta(seconds=5)
_SHARED_BY_SERVER: Final = timedelta(seconds=1)
_TENANTS_MAX: Final = 10_000
# How long polls on a Lambda instance share a read of the feed head after their shared look. Changes
# acknowledged after the look may be missing, and the `Age` header includes this delay.
_HEAD_SHARED: Final = timedelta(seconds=0.2)

# The text of the API document for the header.
AGE: Final[dict[str, Any]] = {
    "Age": {
        "schema": {"type": "integer", "minimum": 0},
        "description": "Age in seconds, rounded up, of the oldest acknowledged change that this "
        "response may not contain; 0 if it contains all changes.",
    }
}


class FeedFreshness(NamedTuple):
    """The freshness of the feed at `now`: it has every change acknowledged before `since`.

    `since` is None if no look determined it. If `is_newest` is false, the feed itself may contain a
    later time.
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
        """Return the header for a response with the feed up to `newest`, read after the look.

        With `listed_at`, the response is the base of `newest`, issued at that time. Without a feed,
        `listed_at` is the only known time. Raises `Unavailable` if the age is unknown, or exceeds
        `most` seconds.
        """
        lacking = None
        if listed_at is not None:
            lacking = newest.unlisted_since(listed_at) if newest else listed_at
        since, covered = self.since, newest.covered_at if newest else None
        if not (self.is_newest or covered is None or is_clock_ahead(covered, self.now)):
            since = max(covered, since or covered)
        if since is None or is_clock_ahead(lacking, self.now):
            raise Unavailable("cannot determine the age of the oldest unpublished change")
        passed = self.now - min(since, lacking or since)
        seconds = max(0, math.ceil(passed.total_seconds()))
        if seconds > most:
            raise Unavailable(f"the oldest unpublished change is {seconds} seconds old")
        return {"Age": str(seconds)}


@dataclass(slots=True)
class _CachedLook:
    """A look, and the newest feed head read after it. `read_at` is the time before that read."""

    at: datetime
    since: datetime | None
    is_newest: bool
    head: FeedHead | None = None
    read_at: datetime | None = None


class FreshnessCache:
    """The looks of this instance, by tenant. A look finds up to when the feed is complete."""

    def __init__(self) -> None:
        self._held = OrderedDict[str, _CachedLook]()

    def clear(self) -> None:
        """Discard all looks, so that each tenant's next request looks again."""
        self._held.clear()

    def look(self, request: ApiRequest) -> FeedFreshness:
        """Return the freshness of the feed, before the feed is read. Raises `Unavailable`."""
        tenant_id, now = request.caller.tenant_id, request.ports.now()
        held = self._held.get(tenant_id)
        shared = _SHARED_BY_SERVER if request.max_wait_seconds else _SHARED
        if held is None or not held.at <= now < held.at + shared:
            found = request.run(feed.look)
            since = found.complete_until(held.since if held else None)
            held = _CachedLook(found.at, since, found.is_complete)
            self._held[tenant_id] = held
            if len(self._held) > _TENANTS_MAX:
                self._held.popitem(last=False)
        return FeedFreshness(now, held.since, held.is_newest)

    def head(self, request: ApiRequest, fresh: FeedFreshness) -> FeedHead | None:
        """Return the feed head if it was read recently, after the look of `fresh`.

        Returns None on a server, because reading costs less there than on Lambda.
        """
        held = self._held.get(request.caller.tenant_id)
        if held is None or held.read_at is None or request.max_wait_seconds:
            return None
        return held.head if held.read_at <= fresh.now < held.read_at + _HEAD_SHARED else None

    def keep(self, request: ApiRequest, fresh: FeedFreshness, head: FeedHead) -> None:
        """Share this feed head, which was read after `fresh`, with other polls."""
        held = self._held.get(request.caller.tenant_id)
        if held is not None and held.head is not head:
            held.head, held.read_at = head, fresh.now


# Shared by all endpoints of this process.
FRESHNESS: Final = FreshnessCache()
