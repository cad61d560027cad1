"""Reports of leaked secrets over HTTP, without credentials (APIKEY-14).

The body is `{"secret", "url"}`, or the format of GitHub's secret scanning: an array of `{token,
type, url}`. Unknown members are ignored.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from shared.authorizer.formats import strict_json
from shared.errors import InvalidRequest
from shared.operations.access import leaked_keys
from shared.operations.access.leaked_keys import LeakReport
from shared.ports import Ports
from shared.web import bodies
from shared.web.errors import MethodNotAllowed
from shared.web.work import IN_PLACE, Work, WorkKind

PATH: Final = "/v1/leaked-keys"
_BODY_MAX: Final = 64 * 1024
_SECRETS_MAX: Final = 100
_SECRET_MAX: Final = 512


class LeakReports:
    """An ASGI application for the path. It must be behind `PublicMiddleware`.

    Each secret after the first takes another token of the source address.
    """

    def __init__(self, ports: Callable[[], Ports], work: Work = IN_PLACE) -> None:
        self._ports, self._work = ports, work

    @staticmethod
    def serves(scope: Scope) -> bool:
        """Return whether the application serves the path of a request."""
        return scope.get("path") == PATH

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Revoke the reported keys. Raises errors of the API, for example `MethodNotAllowed`."""
        request = Request(scope, receive)
        if request.method != "POST":
            raise MethodNotAllowed(["POST"])
        secrets = _parse(await bodies.read_body(request, limit=_BODY_MAX))
        for _ in secrets[1:]:
            scope["take_token"]()
        for secret, url in secrets:
            report = LeakReport(secret, url, scope["source_ip"], scope["request_id"])
            await self._work(partial(self._end, report), WorkKind.USUAL, tenant_id="")
        # GitHub reads an empty list of results. All secrets get this response.
        await JSONResponse([])(scope, receive, send)

    def _end(self, report: LeakReport) -> None:
        leaked_keys.end(self._ports(), report)


def _parse(raw: bytes) -> list[tuple[str, str | None]]:
    """Return the secrets in a body, each with the URL where it was found.

    Raises `InvalidRequest`.
    """
    try:
        body = strict_json.parse(raw)
    except ValueError as error:
        raise InvalidRequest(f"body: {error}") from None
    items, name = ([body], "secret") if isinstance(body, dict) else (body, "token")
    if not isinstance(items, list) or not 0 < len(items) <= _SECRETS_MAX:
        message = f"body: must be an object or an array of 1 to {_SECRETS_MAX} objects."
        raise InvalidRequest(message)
    secrets: list[tuple[str, str | None]] = []
    for item in items:
        members = item if isinstance(item, dict) else {}
        secret, url = members.get(name), members.get("url")
        if not isinstance(secret, str) or not 0 < len(secret) <= _SECRET_MAX:
            raise InvalidRequest(
                f"{name}: is required, as a string of at most {_SECRET_MAX} characters."
            )
        if url is not None and not isinstance(url, str):
            raise InvalidRequest("url: must be a string.")
        # Files end with a line feed. All callers get the same response, so a key must not remain
        # valid because of it.
        secrets.append((secret.strip(), url))
    return secrets
