"""The application for hosts whose threads do not run between requests: each request polls."""

from collections.abc import Callable, Iterable
from typing import Any

from shared.authorizer import AuthorizerClient
from tests.hosts.settings import answer, arguments

client = AuthorizerClient(**arguments(), report=False)


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Return the verdict on one warrant to a WSGI server."""
    client.poll(max_age=1)
    start_response("200 OK", [])
    return [answer(client.check([environ["QUERY_STRING"]]))]


def handler(event: dict[str, str], context: object) -> list[str]:
    """Return the verdict on one warrant to Lambda."""
    client.poll(max_age=1)
    return answer(client.check([event["warrant_id"]])).decode().split()
