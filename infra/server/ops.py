"""Metrics and health for the operator's monitoring, without a key (docs/metrics.md).

The address serves only these paths. It has its own process, which can report that others are down.
"""

import asyncio
import json
import logging
import socket
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from functions.trust import state as trust
from infra.server import worker
from infra.server.board import OPS, ProcessStatus
from infra.server.metrics import MetricsApp, PeriodicCount, SilentPorts, StoreCollector
from infra.server.work import ThreadedWork
from shared import wiring
from shared.authorizer.relay.connections import Config
from shared.errors import Unavailable
from shared.operations.lists import unpublished
from shared.operations.operator import readiness
from shared.ports import Ports
from shared.web.work import Work, WorkKind

# How long a response is reused, and the longest wait for a new one, in seconds.
_FRESH_SECONDS: Final = 2.0
_PATIENCE_SECONDS: Final = 2.0
_HEADERS: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}

_log = logging.getLogger("rescind")


# The scheduler has one round per minute.
_IDLE_SECONDS_MAX: Final = 180
# Another server takes over within this time.
_LEADERLESS_SECONDS_MAX: Final = 5


class _Answer(NamedTuple):
    status: HTTPStatus
    body: dict[str, Any]

    def response(self) -> Response:
        headers = _HEADERS if self.status is HTTPStatus.OK else _HEADERS | {"Retry-After": "1"}
        body = json.dumps(self.body)
        return Response(body, self.status, headers, media_type="application/json")


async def alive(_request: Request) -> Response:
    """`GET /healthz`: 200 if this process responds. Checks no dependencies."""
    return _Answer(HTTPStatus.OK, {"status": "alive"}).response()


class Health:
    """Checks with `work` whether `ports` are usable, and caches the result briefly.

    `board` provides the last time any server led, and whether this server is about to stop.
    """

    def __init__(
        self, ports: Callable[[], Ports], work: Work, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._ports, self._work, self._clock = ports, work, clock
        self.board = ProcessStatus()
        self._silent, self._documents = SilentPorts(), PeriodicCount(trust.survey)
        self._last: _Answer | None = None
        self._checked_at = self._began_at = 0.0
        self._checking: asyncio.Task[None] | None = None

    async def ready(self, _request: Request) -> Response:
        """`GET /readyz`: 200 with the ages of SRLs, changes and trust documents.

        The response also counts restored tenants without a recovery review. It names unavailable
        ports that checks and polls do not need.

        Returns 503 if the store does not respond or cannot be written. Also returns 503 if a change
        was not published for too long, or if this server is about to stop.
        """
        if self.board.is_stopping():
            return unavailable("This server stops; send requests to another one.").response()
        self.board.request_test_writes()
        if (answer := self._fresh()) is None:
            # Start a check, or join the current one.
            if self._checking is None or self._checking.done():
                self._began_at = self._clock()
                self._checking = asyncio.create_task(self._check())
            patience = self._began_at + _PATIENCE_SECONDS - self._clock()
            await asyncio.wait([self._checking], timeout=max(patience, 0))
            answer = self._fresh() or unavailable("The stores take too long to respond.")
        if answer.status is HTTPStatus.OK and not self.board.can_store():
            answer = unavailable("The store cannot be written.")
        return answer.response()

    def _fresh(self) -> _Answer | None:
        return self._last if self._clock() - self._checked_at < _FRESH_SECONDS else None

    async def _check(self) -> None:
        try:
            answer = await self._work(self._read, WorkKind.USUAL, tenant_id="")
        except Unavailable as error:
            answer = unavailable("The store does not respond.")
            _log.error("not ready: %s", error.__cause__ or error)
        except Exception as error:  # noqa: BLE001 (a bug is also reported as not ready)
            answer = unavailable("The service failed; its log says where.")
            # The message is not logged, because it may contain a secret.
            frames = "".join(traceback.format_tb(error.__traceback__))
            _log.critical("not ready: %s at\n%s", type(error).__name__, frames)
        self._last, self._checked_at = answer, self._clock()

    def _read(self) -> _Answer:
        ports = self._ports()
        srls, backlog = readiness.look(ports), unpublished.summarize_backlog(ports)
        if backlog.late:
            return unavailable("Changes that were acknowledged are not published.")
        leader_seconds = int(self.board.leader_seconds())
        documents = self._documents(ports)
        body = {
            "status": "ready",
            "unavailable": self._silent(ports),
            "lists": asdict(srls),
            "feed": "stopped" if leader_seconds > _LEADERLESS_SECONDS_MAX else "published",
            "leader_seconds": leader_seconds,
            "unpublished_seconds": backlog.oldest_seconds,
            "unreviewed_restores": readiness.count_unreviewed(ports),
            "trust_due": documents.due,
            "trust_expired": documents.expired,
        }
        return _Answer(HTTPStatus.OK, body)


def unavailable(message: str) -> _Answer:
    """Return a 503 with this message."""
    body = {"error": {"code": "unavailable", "message": message}}
    return _Answer(HTTPStatus.SERVICE_UNAVAILABLE, body)


def run(stop: int, listener: socket.socket, board: ProcessStatus) -> None:
    """Serve until end of file on the descriptor `stop`."""
    config = Config(_app(wiring.from_environment, board), worker.limits(), lifespan="off")
    record_heartbeat = partial(board.record_heartbeat, OPS)
    asyncio.run(worker.serve(config, listener, stop, record_heartbeat))


def _app(ports: Callable[[], Ports], board: ProcessStatus) -> Starlette:
    exposition = MetricsApp(StoreCollector(ports, board))
    health = Health(ports, ThreadedWork())
    health.board = board

    def metrics(request: Request) -> Response:
        body, content_type = exposition.answer(request.headers.get("accept", ""))
        return Response(body, headers={"Content-Type": content_type})

    async def lives(request: Request) -> Response:
        if down := board.down():
            names = ", ".join(down)
            return unavailable(f"Down, and restarting soon: {names}.").response()
        return await alive(request)

    async def ready(request: Request) -> Response:
        if board.schedule_seconds() > _IDLE_SECONDS_MAX:
            return unavailable("The scheduler that publishes SRLs has stopped.").response()
        return await health.ready(request)

    routes = [Route("/metrics", metrics), Route("/healthz", lives), Route("/readyz", ready)]
    return Starlette(routes=routes)
