"""A program of asyncio that cancels a wait for an hour, and exits: start or wait_for."""

import asyncio
import sys

from shared.authorizer import AsyncAuthorizerClient
from tests.hosts.settings import arguments

_HOUR = 3600.0


async def main(waits: str) -> None:
    """Cancel the wait by a timeout, and close the client."""
    client = AsyncAuthorizerClient(**arguments())
    if waits == "wait_for":
        await client.start(wait=60)
    wait = client.start(wait=_HOUR) if waits == "start" else client.wait_for(99, timeout=_HOUR)
    try:
        await asyncio.wait_for(wait, 0.1)
    except TimeoutError:
        print("cancelled")
    await client.close()


asyncio.run(main(sys.argv[1]))
