"""An ASGI application that returns its process and the verdict on the warrant of the query."""

from typing import Any

from shared.authorizer import AsyncAuthorizerClient
from tests.hosts.settings import answer, arguments

client = AsyncAuthorizerClient(**arguments())


async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Start and close the client with the server, and return the verdict on one warrant."""
    if scope["type"] == "lifespan":
        await receive()
        await client.start(wait=60)
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await client.close()
        await send({"type": "lifespan.shutdown.complete"})
        return
    await send({"type": "http.response.start", "status": 200})
    body = answer(client.check([scope["query_string"].decode()]))
    await send({"type": "http.response.body", "body": body})
