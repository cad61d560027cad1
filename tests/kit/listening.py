"""The API and its sign-ins on a port of this machine, in a thread of the test."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from functions.introspection import handler as introspection
from functions.status_lists.handler import PublicLists
from infra.server.routers import ROUTERS
from shared.ports import Ports
from shared.web.app import create_app
from shared.web.gate import Keyless, keyless
from shared.web.sign_in import SignIn
from shared.web.strangers import AnonymousLimiter
from shared.web.work import IN_PLACE, Work
from tests.kit.processes import HOST


@contextmanager
def listening(ports: Ports, work: Work = IN_PLACE) -> Iterator[str]:
    """The address of the service."""
    contract = introspection.OAuth(
        create_app(*ROUTERS, introspection.routes, ports=lambda: ports, work=work)
    )
    limits = Keyless(AnonymousLimiter(ports.now), tuple, {})
    sign_in = keyless(SignIn(lambda: ports, work), limits)
    lists = keyless(PublicLists(lambda: ports, work), limits)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        chosen: ASGIApp = sign_in if SignIn.serves(scope) else contract
        if PublicLists.serves(scope):
            chosen = lists
        await chosen(scope, receive, send)

    with socket.create_server((HOST, 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_config=None, ws="none"))
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            yield f"http://{HOST}:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
