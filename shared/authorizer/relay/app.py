"""The endpoints of a relay, as clients of the service know them (POLL-1 to 6), and its health."""

import hashlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from ..answers import NoAnswer
from ..formats.documents import answer, needed
from ..formats.entity_tags import is_held
from ..formats.wire import NUMBER_MAX
from ..view import Moment
from .blobs import Wanted
from .documents import Document
from .errors import Problem
from .fleet import PATH, ROOT, Fleet, Stock
from .held import WAIT_MAX, Held
from .relay import Relay, age


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
        found = _samples(relay)
        text = "".join(_family(name, found[name]) for name in _HELP if name in found)
        headers = {"Cache-Control": "no-store"}
        return Response(text, headers=headers, media_type="text/plain; version=0.0.4")

    return answer


_HELP: Final = {
    "age_seconds": "Seconds since the service confirmed the head.",
    "usable": "1 if there is a head that clients accept.",
    "refusals_total": "Answers of the service that did not verify.",
    "failures_total": "Polls without a useful answer.",
    "polls_total": "Polls that the service answered.",
    "sequence": "The last entry of the feed.",
    "entries": "Entries of the feed that are kept.",
    "expires_seconds": "Seconds until the head expires.",
    "waiting": "Polls that wait now.",
    "reports_pending": "Reports that the service does not have yet.",
    "reports_sent_total": "Reports that the service took.",
    "reports_failures_total": "Requests with reports that failed.",
    "reports_dropped_total": "Reports that the service refused.",
    "responses_total": "Responses to clients.",
}


def _family(name: str, samples: Mapping[str, int]) -> str:
    """Return one metric in the text format of Prometheus."""
    name_, kind = f"rescind_relay_{name}", "counter" if name.endswith("_total") else "gauge"
    lines = "".join(f"{name_}{labels} {value}\n" for labels, value in samples.items())
    return f"# HELP {name_} {_HELP[name]}\n# TYPE {name_} {kind}\n{lines}"


def _samples(relay: Relay) -> dict[str, dict[str, int]]:
    """Return the values of each metric that has any, by their labels."""
    held, counts = relay.news.held, dict(relay.counts)
    figures = {"waiting": len(relay.waiting), "usable": int(relay.is_usable())}
    if held:
        figures["sequence"] = held.head.sequence
        figures["age_seconds"] = age(relay.news.confirmed, Moment.now())
        figures["entries"] = len(held.trail.entries)
        figures["expires_seconds"] = int(held.head.expires_at.timestamp() - Moment.now().wall)
    figures["polls_total"] = counts.pop("polls", 0)
    figures["failures_total"] = counts.pop("failures", 0)
    figures["reports_pending"] = relay.reports.pending
    for name in ("sent", "dropped", "failures"):
        figures[f"reports_{name}_total"] = relay.reports.counts[name]
    refusals = {f'{{reason="{name.removeprefix("refused ")}"}}': counts[name] for name in counts}
    statuses = {f'{{status="{name}"}}': each for name, each in dict(relay.answered).items()}
    labelled = {"refusals_total": refusals, "responses_total": statuses}
    return {name: {"": value} for name, value in figures.items()} | {
        name: each for name, each in labelled.items() if each
    }


_DECIMAL: Final = re.compile(r"0|[1-9][0-9]{0,15}", re.ASCII)
_WAIT_LIMIT: Final = 3600
_NO_CACHE: Final = "private, no-cache"
_IMMUTABLE: Final = {
    "Cache-Control": "private, max-age=31536000, immutable",
    "Content-Encoding": "gzip",
    "Vary": "Authorization",
}

_FEED: Final = "/v1/revocations/feed"
_TRUST: Final = "/v1/trust"
_SIGNERS: Final = "/v1/revocations/srl/keys"
_BUNDLE: Final = "/v1/trust-bundle"
_PARAMETERS: Final = {
    _FEED: ("after", "wait"),
    _TRUST: ("after",),
    _SIGNERS: ("cursor",),
    _BUNDLE: ("cursor",),
}

Handler = Callable[[Request], Awaitable[Response]]


def app(relay: Relay, tokens: Iterable[str]) -> Starlette:
    """Return the application. Without `tokens` it answers anybody."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await relay.start()
        try:
            yield
        finally:
            await relay.close()

    endpoints = Endpoints(relay)
    digests = frozenset(map(_digest, tokens))
    open_to_all = [
        Route("/healthz", healthz(relay)),
        Route("/metrics", metrics(relay)),
    ]
    paths: dict[str, Handler] = {
        _FEED: endpoints.poll,
        "/v1/revocations/feed/base/{version}": endpoints.base,
        _TRUST: endpoints.trust,
        "/v1/trust/keys/{sha256}": endpoints.signing_keys,
        _SIGNERS: endpoints.signers,
        _BUNDLE: endpoints.bundle,
    }
    fleet = Fleet(relay)
    stock = Stock(relay, fleet)
    paths[PATH] = stock.signed
    posted: dict[str, Handler] = {
        "/v1/authorizers/register": fleet.register,
        "/v1/authorizers/{id}/heartbeat": fleet.heartbeat,
        f"{ROOT}/authorizers/register": stock.register,
        f"{ROOT}/authorizers/{{id}}/heartbeat": stock.heartbeat,
        f"{ROOT}/authorizers/{{id}}/events": stock.events,
    }
    routes = [
        Route(path, _guarded(relay, run, digests, _PARAMETERS.get(path, ())), methods=[method])
        for method, found in (("GET", paths), ("POST", posted))
        for path, run in found.items()
    ]
    return Starlette(
        routes=open_to_all + routes,
        lifespan=lifespan,
        exception_handlers={404: _not_found, 405: _not_allowed},
    )


class Endpoints:
    """The requests that a relay answers from what it has."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay

    async def poll(self, request: Request) -> Response:
        """Answer a poll of the feed, with `wait` once there is something new."""
        asked = Moment.now()
        after, wait = _number(request, "after", NUMBER_MAX), _number(request, "wait", _WAIT_LIMIT)
        held = self._held(after)
        if wait and _is_held(request, held.etag):
            await self._relay.waiting.change(min(wait, WAIT_MAX))
            held = self._held(after)
        headers = self._headers(self._relay.news.confirmed, asked) | {"ETag": held.etag}
        if _is_held(request, held.etag):
            return Response(status_code=304, headers=headers)
        return Response(held.answer(after), headers=headers, media_type="application/json")

    async def base(self, request: Request) -> Response:
        """Answer with the base of a head that a client got."""
        found = await self._relay.bases.file(request.path_params["version"])
        return _file(request, found, "There is no such base. Poll again.")

    async def signing_keys(self, request: Request) -> Response:
        """Answer with the signing keys that a head names which a client got."""
        found = await self._relay.signing_keys.file(request.path_params["sha256"])
        return _file(request, found, "There are no such keys. Poll again.")

    async def trust(self, request: Request) -> Response:
        """Answer with the trust documents that a client lacks."""
        asked, after = Moment.now(), _number(request, "after", NUMBER_MAX)
        news = self._relay.news
        if not news.documents:
            raise Problem(503, "unavailable", "The relay has no trust document.")
        data = answer(needed(news.documents, after=after or 0))
        etag = f'"{hashlib.sha256(data).hexdigest()[:32]}"'
        headers = self._headers(news.confirmed, asked) | {"ETag": etag}
        if _is_held(request, etag):
            return Response(status_code=304, headers=headers)
        return Response(data, headers=headers, media_type="application/json")

    async def signers(self, request: Request) -> Response:
        """Answer with the list signers, among which is that of the head."""
        signer = self._held(None).signed_by
        return await self._page(request, self._relay.signers, signer)

    async def bundle(self, request: Request) -> Response:
        """Answer with a page of the trust bundle."""
        return await self._page(request, self._relay.bundle, None)

    async def _page(self, request: Request, document: Document, signer: bytes | None) -> Response:
        asked = Moment.now()
        page, confirmed = await document.page(request.query_params.get("cursor", ""), signer=signer)
        if page is None:
            raise Problem(400, "invalid_request", "There is no such cursor. Begin again.")
        headers = self._headers(confirmed, asked)
        if page.etag:
            headers["ETag"] = page.etag
            if _is_held(request, page.etag):
                return Response(status_code=304, headers=headers)
        return Response(page.body, headers=headers, media_type="application/json")

    def _held(self, after: int | None) -> Held:
        """Return what clients accept now. Raises `Problem` if there is nothing of the kind."""
        held = self._relay.news.held
        if held is None or not self._relay.is_usable():
            raise Problem(503, "unavailable", "The relay has no valid head of the feed.")
        if after is not None and after > held.head.sequence:
            # An older head would be refused as a rollback, and reported.
            raise Problem(503, "unavailable", "The relay does not have this entry yet.")
        return held

    @staticmethod
    def _headers(confirmed: Moment, asked: Moment) -> dict[str, str]:
        return {"Age": str(age(confirmed, asked)), "Cache-Control": _NO_CACHE}


def _file(request: Request, found: tuple[Path, Wanted] | None, absent: str) -> Response:
    if found is None:
        raise Problem(404, "not_found", absent)
    path, wanted = found
    etag = f'"{wanted.sha256.hex()}"'
    if _is_held(request, etag):
        return Response(status_code=304, headers={"ETag": etag})
    headers = _IMMUTABLE | {"ETag": etag}
    return FileResponse(path, headers=headers, media_type="application/cbor")


def _guarded(
    relay: Relay, run: Handler, digests: frozenset[bytes], allowed: Sequence[str]
) -> Handler:
    async def guarded(request: Request) -> Response:
        try:
            if digests and _digest(_bearer(request)) not in digests:
                raise Problem(401, "unauthorized", "The relay needs one of its own tokens.")
            _check_query(request, allowed)
            response = await run(request)
        except Problem as problem:
            response = problem.response()
        except (NoAnswer, OSError) as error:
            response = Problem(503, "unavailable", f"The relay cannot answer: {error}").response()
        relay.answered[str(response.status_code)] += 1
        return response

    return guarded


def _bearer(request: Request) -> str:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _digest(token: str) -> bytes:
    # The time of a look-up among hashes does not depend on how much of a token is right.
    return hashlib.sha256(token.encode()).digest()


def _check_query(request: Request, allowed: Sequence[str]) -> None:
    """Refuse unknown parameters, and those that are given twice (API-4). Raises `Problem`."""
    names = [name for name, _ in request.query_params.multi_items()]
    if not set(names).issubset(allowed):
        listed = ", ".join(allowed) or "none"
        raise Problem(400, "invalid_request", f"query: unknown parameter; allowed: {listed}.")
    if len(names) > len(set(names)):
        raise Problem(400, "invalid_request", "query: a parameter must not be repeated.")


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
