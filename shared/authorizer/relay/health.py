"""How a relay does, for monitors: no token is needed, and nothing secret is said."""

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from ..view import Moment
from .relay import Relay, age

_PREFIX = "rescind_relay_"


def healthz(relay: Relay) -> Callable[[Request], Awaitable[Response]]:
    """Return the endpoint that says what is held, and how old it is.

    It is 503 if the thread that follows the service has ended, so that the relay is restarted.
    """

    async def answer(_: Request) -> Response:
        held = relay.news.held
        body = {
            "status": "ok" if relay.is_usable() else "no valid head",
            "sequence": held.head.sequence if held else None,
            "expires_at": held.head.expires_at.isoformat() if held else None,
            "age_seconds": age(relay.news.confirmed, Moment.now()) if held else None,
            "waiting": len(relay.waiting),
        }
        return JSONResponse(body, 200 if relay.is_alive else 503, {"Cache-Control": "no-store"})

    return answer


def metrics(relay: Relay) -> Callable[[Request], Awaitable[Response]]:
    """Return the endpoint with the figures in the text format of Prometheus."""

    async def answer(_: Request) -> Response:
        lines = "".join(f"{_PREFIX}{name} {value}\n" for name, value in _figures(relay).items())
        return PlainTextResponse(lines, headers={"Cache-Control": "no-store"})

    return answer


def _figures(relay: Relay) -> dict[str, Any]:
    held = relay.news.held
    figures: dict[str, Any] = {"waiting": len(relay.waiting), "usable": int(relay.is_usable())}
    if held:
        figures["sequence"] = held.head.sequence
        figures["age_seconds"] = age(relay.news.confirmed, Moment.now())
        figures["entries"] = len(held.trail.entries)
        figures["expires_seconds"] = int(held.head.expires_at.timestamp() - Moment.now().wall)
    counts = dict(relay.counts)
    figures["polls_total"] = counts.pop("polls", 0)
    figures["failures_total"] = counts.pop("failures", 0)
    for name, count in counts.items():
        figures[f'refusals_total{{reason="{name.removeprefix("refused ")}"}}'] = count
    figures["reports_pending"] = relay.reports.pending
    for name in ("sent", "dropped", "failures"):
        figures[f"reports_{name}_total"] = relay.reports.counts[name]
    for status, count in dict(relay.answered).items():
        figures[f'responses_total{{status="{status}"}}'] = count
    return figures
