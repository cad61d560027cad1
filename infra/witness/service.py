"""The HTTP service of a witness: `add-checkpoint`, and the newest checkpoint of each log."""

import asyncio
import hashlib
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Final

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from infra.witness import decision
from infra.witness.decision import NotCosigned, Signed
from infra.witness.memory import Memory
from shared.model.audit import cosignatures
from shared.model.audit.cosignatures import BYTES_MAX

_PATIENCE_SECONDS: Final = 10.0
_SIZE: Final = "text/x.tlog.size"


def application(memory: Memory) -> Starlette:
    """Return the ASGI application of a witness with this memory."""

    async def add_checkpoint(request: Request) -> Response:
        try:
            body = await asyncio.wait_for(_body(request), _PATIENCE_SECONDS)
            line = await run_in_threadpool(sign, memory, body)
        except NotCosigned as refused:
            kind = _SIZE if refused.status is HTTPStatus.CONFLICT else "text/plain"
            return Response(refused.said, refused.status, {"Content-Type": kind})
        except (TimeoutError, ClientDisconnect):
            return PlainTextResponse("the request is too slow", HTTPStatus.REQUEST_TIMEOUT)
        return PlainTextResponse(line)

    async def checkpoint(request: Request) -> Response:
        note = await run_in_threadpool(_newest, memory, request.path_params["log"])
        if note is None:
            return PlainTextResponse("nothing of this log was signed", HTTPStatus.NOT_FOUND)
        return PlainTextResponse(note)

    return Starlette(
        routes=[
            Route("/add-checkpoint", add_checkpoint, methods=["POST"]),
            Route("/{log}/checkpoint", checkpoint),
        ]
    )


def sign(memory: Memory, body: bytes) -> str:
    """Return the line with the cosignature for a request, once it cannot be forgotten.

    Raises `NotCosigned`.
    """
    asked, stated = decision.parsed(body)
    lines = decision.signed_by(asked.note, memory.keys(stated.origin))
    name, seed = memory.identity
    with memory.of_log(stated.origin) as held:
        decision.check_extends(asked, stated, held.last())
        line = cosignatures.cosigned(asked.note, name, datetime.now(UTC), seed=seed)
        held.keep(Signed(stated.size, stated.root), f"{stated.text}\n{lines}{line}")
    return line


def _newest(memory: Memory, log: str) -> str | None:
    found = (each for each in memory.origins() if hashlib.sha256(each.encode()).hexdigest() == log)
    origin = next(found, None)
    return None if origin is None else memory.note(origin)


async def _body(request: Request) -> bytes:
    found = b""
    async for part in request.stream():
        found += part
        if len(found) > BYTES_MAX:
            raise NotCosigned(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the request is too large")
    return found
