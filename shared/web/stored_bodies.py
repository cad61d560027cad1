"""Responses whose bodies are stored: lists, and bases of the feed (SRL-19, NATIVE-1, POLL-5)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from fastapi import Response

from shared.model.srl.head import Form
from shared.web.routes import ApiRequest
from shared.web.stored import StoredFile

# A response of Lambda has at most 6 MB; clients fetch a longer body from its presigned URL.
ANSWER_MAX: Final = 4 * 1024 * 1024

# The longest body that is read into memory if bodies are files; a longer one is streamed.
READ_MAX: Final = 256 * 1024

# For what never changes.
IMMUTABLE: Final = "private, max-age=31536000, immutable"


def header(description: str) -> dict[str, Any]:
    """Return a response header, as the API document describes it."""
    return {"schema": {"type": "string"}, "description": description}


def is_redirected(here: ApiRequest, form: Form) -> bool:
    """Return whether the body is too long for the response to this request."""
    return form.size > ANSWER_MAX and "aws.event" in here.scope


def whole(
    form: Form,
    headers: dict[str, str],
    *,
    media_type: str,
    file: Callable[[], Path | None],
    body: Callable[[], bytes],
) -> Response:
    """Return the stored body, streamed from its `file` if it is long and stored in a file."""
    if form.encoding is not None:
        headers = headers | {"Content-Encoding": form.encoding}
    found = file() if form.size > READ_MAX else None
    if found is not None:
        return StoredFile(found, headers=headers, media_type=media_type)
    return Response(body(), headers=headers, media_type=media_type)
