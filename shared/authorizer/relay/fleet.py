"""The requests of authorizers behind a relay that report (FLEET-25)."""

import json
from collections.abc import Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from ..reports import REGISTER
from ..responses import Response as Answer
from .errors import Problem
from .relay import Relay

_BODY_MAX: Final = 64 * 1024
_FULL_SECONDS: Final = "60"


class Fleet:
    """Answers registrations and heartbeats."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay

    async def register(self, request: Request) -> Response:
        """Answer as the service does."""
        return repeated(await self._relay.reports.register(await members(request), REGISTER))

    async def heartbeat(self, request: Request) -> Response:
        """Take a report, and answer with what the service said of the one before."""
        return self.taken(request.path_params["id"], await members(request))

    def taken(self, identifier: str, reported: Mapping[str, Any]) -> Response:
        """Return the answer to a report. Raises `Problem`."""
        outcome = self._relay.reports.take(identifier, reported)
        if outcome is None or outcome.status == "full":
            raise Problem(429, "rate_limited", "Too many authorizers report.", _FULL_SECONDS)
        if outcome.status == "not_found":
            raise Problem(404, "not_found", "There is no such authorizer.")
        held = self._relay.news.held
        latest = held.head.sequence if held else 0
        return JSONResponse(
            {
                "status": outcome.status,
                "latest_sequence": latest,
                "latest_srl_version": latest + 1 if held else 0,
                "report_after_seconds": int(outcome.terms.after),
                "spread_seconds": int(outcome.terms.spread),
            }
        )


def repeated(answer: Answer) -> Response:
    """Return a response of the service as it is."""
    names = ("content-type", "retry-after")
    headers = {name: answer.headers[name] for name in names if name in answer.headers}
    return Response(answer.body, answer.status, headers)


async def members(request: Request) -> dict[str, Any]:
    """Return the JSON object in a request. Raises `Problem`."""
    try:
        found = json.loads(await body(request, _BODY_MAX))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise Problem(400, "invalid_request", "The body must be a JSON object.")
    return found


async def body(request: Request, most: int) -> bytes:
    """Return the body of a request, of at most `most` bytes. Raises `Problem`."""
    parts, left = [], most
    async for part in request.stream():
        parts.append(part)
        left -= len(part)
        if left < 0:
            raise Problem(413, "payload_too_large", f"The body may be at most {most} bytes.")
    return b"".join(parts)
