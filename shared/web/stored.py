"""Responses with stored bodies: conditional, redirected, or streamed (RFC 9110, 14)."""

import re
from collections.abc import Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from fastapi import Response
from starlette.datastructures import Headers
from starlette.responses import FileResponse
from starlette.types import Receive, Scope, Send

from shared.errors import DataCorrupt
from shared.model.lists.head import BASE_MEDIA_TYPE, CACHE_CONTROL, MEDIA_TYPE, StoredBody
from shared.web.conditional import matches, responses
from shared.web.routes import ApiRequest

# The gate sets this and turns HEAD into GET.
HEAD: Final = "rescind.head"

_RANGE: Final = re.compile(r"bytes=(?:(\d{1,15})-(\d{0,15})|-(\d{1,15}))")


# A response of Lambda has at most 6 MB. Clients fetch a longer body from its presigned URL.
ANSWER_MAX: Final = 4 * 1024 * 1024

# The longest body that is read into memory if bodies are files. A longer body is streamed.
READ_MAX: Final = 256 * 1024

# How long a presigned URL is valid.
_URL_SECONDS: Final = 300

# For immutable bodies.
IMMUTABLE: Final = "private, max-age=31536000, immutable"


class RangeResponse(FileResponse):
    """A file, or one range of it. Other range requests get the whole file.

    Raises `DataCorrupt` if the file does not exist.
    """

    def __init__(self, path: Path, *, headers: Mapping[str, str], media_type: str) -> None:
        try:
            found = path.stat()
        except FileNotFoundError as error:
            raise DataCorrupt("the file of a stored SRL is missing") from error
        super().__init__(path, headers=headers, media_type=media_type, stat_result=found)
        self._size = found.st_size

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the headers and, unless the method is HEAD, the content in pieces."""
        method = "HEAD" if scope.get(HEAD) else scope["method"]
        # HEAD ignores ranges (RFC 9110, 14.2).
        if method == "HEAD" or not self._can_serve(Headers(scope=scope).getlist("range")):
            headers = [each for each in scope["headers"] if each[0] != b"range"]
            scope = {**scope, "headers": headers}
        await super().__call__({**scope, "method": method}, receive, send)

    def _can_serve(self, ranges: list[str]) -> bool:
        """Return whether the request has one non-empty range that begins within the file."""
        match = _RANGE.fullmatch(ranges[0].strip()) if len(ranges) == 1 else None
        if match is None:
            return False
        first, last, length = match.groups()
        if length is not None:
            return int(length) > 0 and self._size > 0
        return int(first) < self._size and (not last or int(first) <= int(last))


def header(description: str) -> dict[str, Any]:
    """Return the declaration of a response header for the API document."""
    return {"schema": {"type": "string"}, "description": description}


def redirect(name: str, headers: dict[str, Any]) -> dict[str, Any]:
    """Return the declaration of the redirect to a stored body for the API document."""
    location = header(f"URL of the {name}. It is valid for a short time.")
    return {
        "description": f"The {name} is larger than 4 MiB; fetch it from `Location`",
        "headers": headers | {"Location": location},
    }


def immutable_responses(
    name: str, headers: dict[str, Any], *, form: str = ""
) -> dict[int | str, dict[str, Any]]:
    """Return the declarations of the responses of `immutable` for the API document."""
    found = responses(f"The {name} is the same as in `If-None-Match`", headers)
    content = {BASE_MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}}
    found[200] |= {"description": f"The {name}{form}", "content": content}
    return found | {307: redirect(name, {})}


def immutable(
    request: ApiRequest,
    form: StoredBody,
    *,
    body: Callable[[], bytes],
    file: Callable[[], Path | None] = lambda: None,
) -> Response:
    """Return the response with stored CBOR that never changes."""
    # A client with keys of several tenants must not mix up their responses.
    headers = {"ETag": form.etag, "Cache-Control": IMMUTABLE, "Vary": "Authorization"}
    answer = stored_body_response(
        request, form, headers, body=body, file=file, media_type=BASE_MEDIA_TYPE
    )
    if answer.status_code == HTTPStatus.TEMPORARY_REDIRECT:
        # Its URL expires.
        answer.headers["Cache-Control"] = "no-store"
    return answer


def stored_body_response(
    request: ApiRequest,
    form: StoredBody,
    headers: dict[str, str],
    *,
    body: Callable[[], bytes],
    file: Callable[[], Path | None],
    media_type: str = MEDIA_TYPE,
) -> Response:
    """Return the response with a stored body: 200, 304, or 307 if too long for Lambda.

    It is 304 only if `headers` has the `ETag`. A long body that is stored in a file is streamed
    from `file`.
    """
    if "ETag" in headers and matches(request, etag=headers["ETag"]):
        return Response(status_code=304, headers=headers)
    if form.size > ANSWER_MAX and "aws.event" in request.scope:
        url = request.ports.blobs.url(form.blob, ttl_seconds=_URL_SECONDS)
        moved = headers | {"Location": url, "Cache-Control": CACHE_CONTROL}
        return Response(status_code=HTTPStatus.TEMPORARY_REDIRECT, headers=moved)
    if form.encoding is not None:
        headers = headers | {"Content-Encoding": form.encoding}
    found = file() if form.size > READ_MAX else None
    if found is not None:
        return RangeResponse(found, headers=headers, media_type=media_type)
    return Response(body(), headers=headers, media_type=media_type)
