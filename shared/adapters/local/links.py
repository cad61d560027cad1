"""Signed URLs of blobs that this service itself serves, without authentication."""

import hashlib
import hmac
import math
from collections.abc import Callable
from typing import Final

from shared.adapters.preconditions import check_blob_name
from shared.errors import DataCorrupt

KEY_BYTES: Final = 32


class SignedUrls:
    """Creates and checks signed URLs. `key` returns the key shared by all processes.

    `clock` returns seconds since the epoch.
    """

    def __init__(self, key: Callable[[], bytes], clock: Callable[[], float]) -> None:
        self._key, self._clock = key, clock

    def url(self, name: str, *, ttl_seconds: int) -> str:
        """Return a relative reference to the blob."""
        check_blob_name(name)
        expires = str(math.ceil(self._clock() + ttl_seconds))
        return f"/blobs/{name}?expires={expires}&signature={self._sign(name, expires)}"

    def allows(self, name: str, *, expires: str, signature: str) -> bool:
        """Return whether the parts, as received, form a valid reference that has not expired.

        If so, `name` is the name of a blob.
        """
        expected = self._sign(name, expires).encode()
        is_signed = hmac.compare_digest(expected, signature.encode(errors="replace"))
        return is_signed and self._clock() < int(expires)

    def _sign(self, name: str, expires: str) -> str:
        key = self._key()
        if len(key) != KEY_BYTES:
            raise DataCorrupt  # others could guess a short key
        message = f"{expires}\n{name}".encode(errors="replace")
        return hmac.new(key, message, hashlib.sha256).hexdigest()
