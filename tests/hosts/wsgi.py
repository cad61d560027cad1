"""A WSGI application that returns its process and the verdict on the warrant of the query."""

from collections.abc import Callable, Iterable
from typing import Any

from shared.authorizer import AuthorizerClient
from tests.hosts.settings import answer, arguments

client = AuthorizerClient(**arguments()).start(wait=60)


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Return the verdict on one warrant."""
    start_response("200 OK", [])
    return [answer(client.check([environ["QUERY_STRING"]]))]
