"""The four requests of unmodified `tenuo` authorizers (NATIVE-1, NATIVE-6, NATIVE-7)."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from ..view import Moment
from . import native
from .errors import Problem
from .fleet import Fleet, body, members, repeated
from .relay import Relay, age

ROOT: Final = "/compat/tenuo/v1"

# A stock authorizer takes each list for a new one, so the relay bounds the age (NATIVE-5).
AGE_MAX: Final = 30

# How long after its last list it refuses every warrant (NATIVE-5).
_STALE_AFTER_SECONDS: Final = 300
_EVENTS_BYTES_MAX: Final = 4 * 2**20


class Stock:
    """Answers stock authorizers; `fleet` takes what they report."""

    def __init__(self, relay: Relay, fleet: Fleet) -> None:
        self._relay = relay
        self._fleet = fleet

    async def register(self, request: Request) -> Response:
        """Answer as the service does."""
        path = f"{ROOT}/authorizers/register"
        return repeated(await self._relay.reports.register(await members(request), path))

    async def heartbeat(self, request: Request) -> Response:
        """Take a report."""
        return self._fleet.taken(request.path_params["id"], _report(await members(request)))

    async def events(self, request: Request) -> Response:
        """Pass events on, and answer as the service does."""
        identifier = request.path_params["id"]
        data = await body(request, _EVENTS_BYTES_MAX)
        answer = await self._relay.reports.passed_on(f"{ROOT}/authorizers", identifier, data)
        if answer is None:
            raise Problem(404, "not_found", "There is no such authorizer.")
        return repeated(answer)

    async def signed(self, _request: Request) -> Response:
        """Answer with the native list of the newest entry."""
        news, asked = self._relay.news, Moment.now()
        if news.held is None or not self._relay.is_usable():
            raise Problem(503, "unavailable", "The relay has no valid head of the feed.")
        seconds = age(news.confirmed, asked)
        if seconds > AGE_MAX:
            raise Problem(503, "unavailable", "What the relay has is too old.")
        data = await self._relay.native.body(news.held.head.sequence)
        headers = {"Age": str(seconds), "Cache-Control": "private, no-cache"}
        return Response(data, headers=headers, media_type="application/json")


PATH: Final = native.PATH


def _report(reported: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a heartbeat says, as one of our clients would say it (NATIVE-6)."""
    version = reported.get("srl_version")
    if type(version) is not int or version < 1:
        return {}
    found: dict[str, Any] = {
        "sequence": version - 1,
        "max_staleness_seconds": _STALE_AFTER_SECONDS,
    }
    health = reported.get("srl_health")
    fetched = health.get("last_fetch_at") if isinstance(health, Mapping) else None
    try:
        moment = datetime.fromisoformat(str(fetched)).astimezone(UTC)
    except (ValueError, OverflowError):
        return found
    return found | {"verified_at": moment.strftime("%Y-%m-%dT%H:%M:%SZ")}
