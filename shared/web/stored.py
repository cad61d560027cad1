"""Responses with stored files, streamed to save memory (RFC 9110, 14)."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from starlette.datastructures import Headers
from starlette.responses import FileResponse
from starlette.types import Receive, Scope, Send

from shared.errors import Corrupt

# The gate sets this and turns HEAD into GET.
HEAD: Final = "rescind.head"

_RANGE: Final = re.compile(r"bytes=(?:(\d{1,15})-(\d{0,15})|-(\d{1,15}))")


class StoredFile(FileResponse):
    """A file, or one range of it. Any other range request is answered with the whole file.

    Raises `Corrupt` if there is no such file.
    """

    def __init__(self, path: Path, *, headers: Mapping[str, str], media_type: str) -> None:
        try:
            found = path.stat()
        except FileNotFoundError as error:
            raise Corrupt("a stored list is missing") from error
        super().__init__(path, headers=headers, media_type=media_type, stat_result=found)
        self._size = found.st_size

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the head and, unless the request is HEAD, the content piece by piece."""
        method = "HEAD" if scope.get(HEAD) else scope["method"]
        # HEAD ignores ranges (RFC 9110, 14.2).
        if method == "HEAD" or not self._can_serve(Headers(scope=scope).getlist("range")):
            headers = [each for each in scope["headers"] if each[0] != b"range"]
            scope = {**scope, "headers": headers}
        await super().__call__({**scope, "method": method}, receive, send)

    def _can_serve(self, asked: list[str]) -> bool:
        """Return whether the request has one range that begins within the file and is not empty."""
        match = _RANGE.fullmatch(asked[0].strip()) if len(asked) == 1 else None
        if match is None:
            return False
        first, last, length = match.groups()
        if length is not None:
            return int(length) > 0 and self._size > 0
        return int(first) < self._size and (not last or int(first) <= int(last))
