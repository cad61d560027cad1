"""How often authorizers should poll the feed, which follows from how many do (FLEET-8)."""

from collections import OrderedDict
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from shared.errors import Unavailable
from shared.operations.fleet import authorizers
from shared.web.routes import ApiRequest

# How long the advice for a tenant is used again, so that a poll does not cost one more read.
_KEPT: Final = timedelta(minutes=1)
_TENANTS_MAX: Final = 10_000


class _Advice(NamedTuple):
    seconds: int
    at: datetime


class PollAdvice:
    """The pause between polls that this instance advises, by tenant."""

    def __init__(self) -> None:
        self._given = OrderedDict[str, _Advice]()

    def seconds(self, here: ApiRequest) -> int:
        """Return how many seconds a client should wait between two polls.

        That is 1 if the service holds polls until there is news: then polls cost little. If
        the number of authorizers cannot be read, the last advice stays: a poll must not fail.
        """
        if here.wait_max:
            return authorizers.POLL_SECONDS_MIN
        tenant_id, now = here.caller.tenant_id, here.ports.now()
        given = self._given.get(tenant_id)
        if given is None or not given.at <= now < given.at + _KEPT:
            given = _Advice(self._read(here, given), now)
            self._given[tenant_id] = given
            if len(self._given) > _TENANTS_MAX:
                self._given.popitem(last=False)
        return given.seconds

    def _read(self, here: ApiRequest, given: _Advice | None) -> int:
        try:
            return here.run(authorizers.poll_seconds)
        except Unavailable:
            return given.seconds if given else authorizers.POLL_SECONDS_MIN
