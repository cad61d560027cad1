"""Registrations and reports of authorizers behind a relay (FLEET-25)."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from ..answers import Response as Answer
from ..view import ClockReading
from .errors import Problem
from .relay import Relay, age

_BODY_MAX: Final = 64 * 1024
_FULL_SECONDS: Final = "60"
_REFUSED: Final = (
    "The service rejected the previous report: its authorizer did not sign it, or it was not newer "
    "than the last report. Register again."
)

# The forwarded members of a report, and of the heartbeat of a stock authorizer.
_SIGNED: Final = ("report", "signature")
_STOCK: Final = ("srl_version", "srl_health")

ROOT: Final = "/compat/tenuo/v1"

# Maximum age. A stock authorizer treats every list as new, so the relay limits the age (NATIVE-5).
AGE_MAX: Final = 30
_EVENTS_BYTES_MAX: Final = 4 * 2**20


class ReportEndpoints:
    """Serves reporting authorizers, and unmodified `tenuo` authorizers."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay

    async def register(self, request: Request) -> Response:
        """Forward a registration to the same path of the service."""
        registration = await members(request)
        return forward_response(
            await self._relay.reports.register(registration, request.scope["path"])
        )

    async def heartbeat(self, request: Request) -> Response:
        """Accept a report, and return the service's result for the previous report."""
        report = await members(request)
        if not all(isinstance(report.get(name), str) for name in _SIGNED):
            raise Problem(400, "invalid_request", "A report needs `report` and `signature`.")
        signed = {name: report[name] for name in _SIGNED}
        return self._take_report(request, signed, "srl_version")

    async def native_heartbeat(self, request: Request) -> Response:
        """Accept a report of an unmodified authorizer."""
        report = await members(request)
        stock: dict[str, Any] = {name: report[name] for name in _STOCK if name in report}
        return self._take_report(request, stock, "latest_srl_version")

    def _take_report(
        self, request: Request, report: Mapping[str, Any], version_member: str
    ) -> Response:
        """Return the response to a report. Raises `Problem`.

        `version_member` is the name of the native list version: `tenuo` reads another name.
        """
        identifier = request.path_params["id"]
        outcome = self._relay.reports.take(identifier, report, caller(request))
        if outcome is None or outcome.status == "full":
            raise Problem(429, "rate_limited", "Too many authorizers report.", _FULL_SECONDS)
        if outcome.status == "not_found":
            raise Problem(404, "not_found", "There is no such authorizer.")
        if outcome.status == "refused":
            raise Problem(409, "conflict", _REFUSED)
        feed = self._relay.news.held
        latest = feed.head.sequence if feed else 0
        return JSONResponse(
            {
                "status": outcome.status,
                "feed_sequence": latest,
                version_member: latest + 1 if feed else 0,
                "report_after_seconds": int(outcome.terms.after),
                "jitter_seconds": int(outcome.terms.spread),
            }
        )

    async def events(self, request: Request) -> Response:
        """Forward events to the service, and return its response."""
        identifier = request.path_params["id"]
        data = await body(request, _EVENTS_BYTES_MAX)
        response = await self._relay.reports.passed_on(f"{ROOT}/authorizers", identifier, data)
        if response is None:
            raise Problem(404, "not_found", "There is no such authorizer.")
        return forward_response(response)

    async def native_list(self, _request: Request) -> Response:
        """Return the native list of the newest entry."""
        news, asked = self._relay.news, ClockReading.now()
        if news.held is None or not self._relay.is_usable():
            raise Problem(503, "unavailable", "The relay has no valid head of the feed.")
        seconds = age(news.confirmed, asked)
        if seconds > AGE_MAX:
            raise Problem(503, "unavailable", "The relay's state is too old.")
        data = await self._relay.native.body(news.held.head.sequence)
        headers = {"Age": str(seconds), "Cache-Control": "private, no-cache"}
        return Response(data, headers=headers, media_type="application/json")


def caller(request: Request) -> str:
    """Return a name for the holder of the request's token, without revealing the token."""
    _, _, token = request.headers.get("authorization", "").partition(" ")
    return hashlib.sha256(token.strip().encode()).hexdigest()


def forward_response(answer: Answer) -> Response:
    """Return a response of the service unchanged."""
    names = ("content-type", "retry-after")
    headers = {name: answer.headers[name] for name in names if name in answer.headers}
    return Response(answer.body, answer.status, headers)


async def members(request: Request) -> dict[str, Any]:
    """Return the JSON object in a request. Raises `Problem`."""
    try:
        value = json.loads(await body(request, _BODY_MAX))
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise Problem(400, "invalid_request", "The body must be a JSON object.")
    return value


async def body(request: Request, most: int) -> bytes:
    """Return the body of a request, of at most `most` bytes. Raises `Problem`."""
    parts, bytes_left = [], most
    async for part in request.stream():
        parts.append(part)
        bytes_left -= len(part)
        if bytes_left < 0:
            raise Problem(413, "payload_too_large", f"The body must have at most {most} bytes.")
    return b"".join(parts)
