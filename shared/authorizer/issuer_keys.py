"""Keys that other issuers publish, as fetched by `JwtGuard`."""

import logging
import math
import ssl
import threading
import time
from collections.abc import Mapping
from typing import Any, Final

from . import http1
from .formats import strict_json
from .formats.jwk_sets import KeySet, usable_keys
from .http1 import HttpError, Request, printable

_log = logging.getLogger("rescind_authorizer")
_now: Final = time.monotonic

# Seconds until keys are fetched again, and until they expire if that fails.
_FRESH, _USABLE = 3600.0, 86_400.0
# Seconds between two attempts, and the time limit of one attempt.
_PAUSE, _FETCH = 60.0, 5.0
_BYTES_MAX: Final = 256 * 1024
_OK: Final = 200


class StaticKeys:
    """Keys of a JSON Web Key Set that the program supplies. Raises `ValueError` if it has none."""

    def __init__(self, jwks: Mapping[str, Any]) -> None:
        self._keys = usable_keys(jwks)
        if not self._keys:
            raise ValueError("the key set has no key with a kid that verifies signatures")

    def find(self, _kid: str) -> KeySet:
        """Return the keys."""
        return self._keys


class FetchedKeys:
    """Keys that an issuer publishes at an HTTPS URL. Threads may share them.

    A thread fetches them hourly, and at most once a minute for an unknown `kid`. Keys are valid for
    24 hours after they were fetched. Raises `ValueError` for other URLs.
    """

    def __init__(self, url: str, context: ssl.SSLContext | None = None) -> None:
        self._request = Request.parse(url, headers={"Accept": "application/json"})
        parts = self._request.url
        if parts.scheme != "https" and not http1.is_here(parts.hostname or ""):
            raise ValueError("jwks_uri must be an address such as https://as.example/keys")
        self._context = context or ssl.create_default_context()
        self._keys_and_time: tuple[KeySet, float] = {}, -math.inf
        self._attempted_at = -math.inf
        self._thread: threading.Thread | None = None

    def find(self, kid: str) -> KeySet:
        """Return the keys. Wait for at most 5 seconds if there are none yet."""
        (keys, fetched_at), now = self._keys_and_time, _now()
        # No lock: a fork could leave it locked. At worst, two threads fetch at the same time.
        if now - self._attempted_at >= _PAUSE and (kid not in keys or now - fetched_at >= _FRESH):
            self._attempted_at = now
            self._thread = threading.Thread(
                target=self._fetch, name="rescind-authorizer", daemon=True
            )
            self._thread.start()
        if now - fetched_at >= _USABLE and self._thread:
            self._thread.join(_FETCH)
            keys, fetched_at = self._keys_and_time
        return keys if now - fetched_at < _USABLE else {}

    def _fetch(self) -> None:
        deadline = _now() + _FETCH
        try:
            connection = http1.connect(self._request.url, self._context, deadline)
            try:
                response = connection.exchange(self._request, deadline, limit=_BYTES_MAX)
            finally:
                connection.close()
            if response.status != _OK:
                raise ValueError(f"the issuer responded with status {response.status}")
            self._keys_and_time = usable_keys(strict_json.parse_foreign(response.body)), _now()
        except (OSError, HttpError, ValueError) as error:
            url, reason = self._request.url.geturl(), printable(str(error))
            _log.warning("cannot fetch the keys at %s: %s", printable(url), reason)
