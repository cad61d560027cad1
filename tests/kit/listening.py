"""The API and its sign-ins on a port of this machine, in a thread of the test."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import Receive, Scope, Send

from functions.introspection import handler as introspection
from functions.status_lists.handler import PublicLists
from infra.server.routers import ROUTERS
from shared.ports import Ports
from shared.web.app import create_app
from shared.web.gate import PublicMiddleware
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
    limits = PublicMiddleware(AnonymousLimiter(ports.now), tuple, {})
    public = (SignIn(lambda: ports, work), PublicLists(lambda: ports, work))

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        for each in public:
            if each.serves(scope):
                await limits.answer(each, scope, receive, send)
                return
        await contract(scope, receive, send)

    with socket.create_server((HOST, 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_config=None, ws="none"))
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            yield f"http://{HOST}:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
