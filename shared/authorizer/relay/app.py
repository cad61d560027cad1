"""Endpoints of a relay, identical to those of the service (POLL-1 to 6), and its health."""

import hashlib
import re
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from ..answers import NoResponse
from ..formats.documents import answer, documents_after
from ..formats.entity_tags import is_held
from ..formats.wire import NUMBER_MAX
from ..view import ClockReading
from .blobs import BlobRequest
from .errors import Problem
from .fleet import AGE_MAX, ROOT, ReportEndpoints
from .held import WAIT_MAX, CachedFeed
from .native import PATH
from .relay import Relay, age


def _render(name: str, meaning: str, value: int | Mapping[str, int]) -> str:
    """Return a metric. Several values have labels. A metric without values is omitted."""
    metric, kind = f"rescind_relay_{name}", "counter" if name.endswith("_total") else "gauge"
    values = {"": value} if isinstance(value, int) else value
    lines = "".join(f"{metric}{labels} {each}\n" for labels, each in values.items())
    return lines and f"# HELP {metric} {meaning}\n# TYPE {metric} {kind}\n{lines}"


def _read_metrics(relay: Relay) -> Iterator[tuple[str, str, int | Mapping[str, int]]]:
    """Yield the names, descriptions and values of the metrics."""
    feed, now = relay.news.held, ClockReading.now()
    counts, reports = dict(relay.counts), relay.reports
    polls, failures = counts.pop("polls", 0), counts.pop("failures", 0)
    refusals = {f'{{reason="{name.removeprefix("refused ")}"}}': counts[name] for name in counts}
    statuses = {f'{{status="{name}"}}': each for name, each in dict(relay.answered).items()}
    yield "usable", "1 if there is a head that clients accept.", int(relay.is_usable())
    yield "refusals_total", "Answers of the service that did not verify.", refusals
    yield "failures_total", "Polls without a useful answer.", failures
    yield "polls_total", "Polls that the service answered.", polls
    yield "waiting", "Polls that wait now.", len(relay.waiting)
    yield "reports_pending", "Reports that the service does not have yet.", reports.pending
    yield "reports_sent_total", "Reports that the service took.", reports.counts["sent"]
    yield "reports_failures_total", "Failed requests with reports.", reports.counts["failures"]
    yield "reports_dropped_total", "Reports that the service refused.", reports.counts["dropped"]
    yield "responses_total", "Responses to clients.", statuses
    if feed:
        seconds = int(feed.head.expires_at.timestamp() - now.wall)
        age_seconds = age(relay.news.confirmed, now)
        yield "age_seconds", "Seconds since the service confirmed the head.", age_seconds
        yield "sequence", "The last entry of the feed.", feed.head.sequence
        yield "entries", "Entries of the feed that are kept.", len(feed.trail.entries)
        yield "expires_seconds", "Seconds until the head expires.", seconds


_DECIMAL: Final = re.compile(r"0|[1-9][0-9]{0,15}", re.ASCII)
_WAIT_LIMIT: Final = 3600
_NO_CACHE: Final = "private, no-cache"
_NO_STORE: Final = {"Cache-Control": "no-store"}
_IMMUTABLE: Final = {
    "Cache-Control": "private, max-age=31536000, immutable",
    "Content-Encoding": "gzip",
    "Vary": "Authorization",
}

_FEED: Final = "/v1/revocations/feed"
_TRUST: Final = "/v1/trust"
_PARAMETERS: Final = {_FEED: ("after", "wait"), _TRUST: ("after",)}

Handler = Callable[[Request], Awaitable[Response]]


def app(relay: Relay, tokens: Iterable[str]) -> Starlette:
    """Return the application. Without `tokens` it requires no credentials."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await relay.start()
        try:
            yield
        finally:
            await relay.close()

    endpoints = RelayEndpoints(relay)
    digests = frozenset(map(_digest, tokens))
    open_routes = [
        Route("/healthz", endpoints.health),
        Route("/readyz", endpoints.health),
        Route("/metrics", endpoints.metrics),
    ]
    get_handlers: dict[str, Handler] = {
        _FEED: endpoints.poll,
        "/v1/revocations/feed/base/{version}": endpoints.base,
        _TRUST: endpoints.trust,
        "/v1/trust/keys/{sha256}": endpoints.signing_keys,
    }
    fleet = ReportEndpoints(relay)
    get_handlers[PATH] = fleet.native_list
    post_handlers: dict[str, Handler] = {
        "/v1/authorizers/register": fleet.register,
        "/v1/authorizers/{id}/heartbeat": fleet.heartbeat,
        f"{ROOT}/authorizers/register": fleet.register,
        f"{ROOT}/authorizers/{{id}}/heartbeat": fleet.native_heartbeat,
        f"{ROOT}/authorizers/{{id}}/events": fleet.events,
    }
    routes = [
        Route(path, _with_limits(relay, run, digests, _PARAMETERS.get(path, ())), methods=[method])
        for method, handlers in (("GET", get_handlers), ("POST", post_handlers))
        for path, run in handlers.items()
    ]
    return Starlette(
        routes=open_routes + routes,
        lifespan=lifespan,
        exception_handlers={404: _not_found, 405: _not_allowed},
    )


class RelayEndpoints:
    """The requests that a relay serves from its cache."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay

    async def health(self, request: Request) -> Response:
        """Return the state and its age.

        `/healthz` returns 503 if the thread that follows the service has ended, so a supervisor can
        restart the relay. `/readyz` returns 503 if clients would not accept the relay's state, or
        if the state is too old. A load balancer then selects another relay.
        """
        relay, feed = self._relay, self._relay.news.held
        seconds = age(relay.news.confirmed, ClockReading.now())
        is_ready = relay.is_usable() and seconds <= AGE_MAX
        is_well = is_ready if request.url.path == "/readyz" else relay.is_alive
        body = {
            "status": "ok" if relay.is_usable() else "no valid head",
            "sequence": feed.head.sequence if feed else None,
            "expires_at": feed.head.expires_at.isoformat() if feed else None,
            "age_seconds": seconds if feed else None,
            "waiting": len(relay.waiting),
        }
        return JSONResponse(body, 200 if is_well else 503, _NO_STORE)

    async def metrics(self, _: Request) -> Response:
        """Return the metrics in the text format of Prometheus."""
        text = "".join(_render(*each) for each in _read_metrics(self._relay))
        return Response(text, headers=_NO_STORE, media_type="text/plain; version=0.0.4")

    async def poll(self, request: Request) -> Response:
        """Respond to a poll of the feed. With `wait`, respond once there is news."""
        requested_at = ClockReading.now()
        after, wait = _number(request, "after", NUMBER_MAX), _number(request, "wait", _WAIT_LIMIT)
        feed = self._get_current_feed(after)
        if wait and _is_held(request, feed.etag):
            await self._relay.waiting.change(min(wait, WAIT_MAX))
            feed = self._get_current_feed(after)
        seconds = age(self._relay.news.confirmed, requested_at)
        return _respond(request, feed.etag, feed.answer(after), seconds)

    async def base(self, request: Request) -> Response:
        """Return the base of a feed head that a client has."""
        file = await self._relay.bases.file(request.path_params["version"])
        return _file(request, file, "There is no such base. Poll again.")

    async def signing_keys(self, request: Request) -> Response:
        """Return the signing keys of a feed head that a client has."""
        file = await self._relay.signing_keys.file(request.path_params["sha256"])
        return _file(request, file, "There is no such key bundle. Poll again.")

    async def trust(self, request: Request) -> Response:
        """Return the trust documents that a client lacks."""
        requested_at, after = ClockReading.now(), _number(request, "after", NUMBER_MAX)
        news = self._relay.news
        if not news.documents:
            raise Problem(503, "unavailable", "The relay has no trust document.")
        data = answer(documents_after(news.documents, after=after or 0))
        etag = f'"{hashlib.sha256(data).hexdigest()[:32]}"'
        return _respond(request, etag, data, age(news.confirmed, requested_at))

    def _get_current_feed(self, sequence: int | None) -> CachedFeed:
        """Return the feed that clients accept now. Raises `Problem` if there is none."""
        feed = self._relay.news.held
        if feed is None or not self._relay.is_usable():
            raise Problem(503, "unavailable", "The relay has no valid head of the feed.")
        if sequence is not None and sequence > feed.head.sequence:
            # The client would reject an older feed head as a rollback, and report it.
            raise Problem(503, "unavailable", "The relay does not have this entry yet.")
        return feed


def _respond(request: Request, etag: str | None, body: bytes, seconds: int) -> Response:
    """Return a JSON response of this age, or 304 if the caller has its tag."""
    headers = {"Age": str(seconds), "Cache-Control": _NO_CACHE} | ({"ETag": etag} if etag else {})
    if etag and _is_held(request, etag):
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers, media_type="application/json")


def _file(request: Request, file: tuple[Path, BlobRequest] | None, absent: str) -> Response:
    if file is None:
        raise Problem(404, "not_found", absent)
    path, blob_request = file
    etag = f'"{blob_request.sha256.hex()}"'
    if _is_held(request, etag):
        return Response(status_code=304, headers={"ETag": etag})
    headers = _IMMUTABLE | {"ETag": etag}
    return FileResponse(path, headers=headers, media_type="application/cbor")


def _with_limits(
    relay: Relay, run: Handler, digests: frozenset[bytes], parameters: Sequence[str]
) -> Handler:
    async def handle(request: Request) -> Response:
        try:
            scheme, _, token = request.headers.get("authorization", "").partition(" ")
            bearer = token.strip() if scheme.lower() == "bearer" else ""
            if digests and _digest(bearer) not in digests:
                raise Problem(401, "unauthorized", "The relay requires one of its own tokens.")
            # Unknown and repeated parameters are rejected (API-4).
            names = [name for name, _ in request.query_params.multi_items()]
            if not set(names).issubset(parameters):
                listed = ", ".join(parameters) or "none"
                raise Problem(
                    400, "invalid_request", f"query: unknown parameter; allowed: {listed}."
                )
            if len(names) > len(set(names)):
                raise Problem(400, "invalid_request", "query: a parameter must not be repeated.")
            response = await run(request)
        except Problem as problem:
            response = problem.response()
        except ClientDisconnect:
            # Prevents a traceback in Starlette's log. No client reads this response.
            response = Response(status_code=400)
        except (NoResponse, OSError) as error:
            response = Problem(503, "unavailable", f"The relay cannot respond: {error}").response()
        relay.answered[str(response.status_code)] += 1
        return response

    return handle


def _digest(token: str) -> bytes:
    # Lookups by hash take the same time for every wrong token.
    return hashlib.sha256(token.encode()).digest()


def _number(request: Request, name: str, most: int) -> int | None:
    value = request.query_params.get(name)
    if value is None:
        return None
    if not _DECIMAL.fullmatch(value) or int(value) > most:
        raise Problem(400, "invalid_request", f"{name} must be a whole number, at most {most}")
    return int(value)


def _is_held(request: Request, etag: str) -> bool:
    return is_held(",".join(request.headers.getlist("if-none-match")), etag)


async def _not_found(_request: Request, _error: Exception) -> Response:
    return Problem(404, "not_found", "A relay does not have this path.").response()


async def _not_allowed(_request: Request, _error: Exception) -> Response:
    return Problem(405, "method_not_allowed", "This path does not allow the method.").response()
