"""Wraps seeds with a transit key of Vault or OpenBao. The key never leaves the server.

`VAULT_ADDR` is the address of the server. `VAULT_TOKEN_FILE` is the path of a token file, which an
agent may renew at any time. `VAULT_CACERT` and `VAULT_NAMESPACE` have the same meaning as in
Vault's own client.
"""

import base64
import binascii
import json
import logging
import re
import ssl
import time
from collections.abc import Mapping
from http import HTTPStatus
from itertools import islice
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import cbor2

from shared.adapters.preconditions import check_context, check_secret
from shared.adapters.retries import RetryPolicy
from shared.authorizer.formats.members import to_base64
from shared.authorizer.http1 import HttpError, Pool, Request, Response, connect, printable
from shared.errors import DataCorrupt, InvalidSettings, Unavailable

_CONNECT_SECONDS: Final = 1.0
_SECONDS: Final = 4.0
_ATTEMPTS: Final = 3
_BYTES_MAX: Final = 64 * 1024
_PASSING: Final = (
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.INTERNAL_SERVER_ERROR,
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
)
_POLICY: Final = RetryPolicy(deadline_seconds=2 * _SECONDS)
_SEAL: Final = re.compile(rb"vault:v[1-9][0-9]*:[A-Za-z0-9+/]+={0,2}")
_MOST_SEALED_BYTES: Final = 6144
# Error messages for ciphertext that was altered, or wrapped with another context or key. Other
# messages, for example about a missing key, do not concern the ciphertext.
_NOT_OURS: Final = ("cipher: message authentication failed", "invalid ciphertext")
_PART: Final = r"[\w-][\w.-]*"
_LOCATION: Final = re.compile(rf"(?P<mount>{_PART}(?:/{_PART})*)/(?P<key>{_PART})", re.ASCII)

_log = logging.getLogger(__name__)


class VaultSealer:
    """A `KeyWrapper` with the transit key of `location`: `<mount>/<key>`.

    The key has the type `aes256-gcm96`, which binds the ciphertext to its context. `environment`
    has the variables above. `seconds` is the timeout of an attempt. Raises `InvalidSettings` if a
    variable is missing or invalid.
    """

    def __init__(
        self, location: str, environment: Mapping[str, str], *, seconds: float = _SECONDS
    ) -> None:
        found = _LOCATION.fullmatch(location)
        if found is None:
            raise InvalidSettings(
                "RESCIND_KEY_WRAPPER is not valid; set it to vault:<mount>/<key>."
            )
        address = environment.get("VAULT_ADDR", "")
        try:
            url = Request.parse(address).url
        except ValueError:
            raise InvalidSettings(
                "VAULT_ADDR is not set to an address such as https://vault:8200."
            ) from None
        if url.scheme == "http" and url.hostname not in ("localhost", "127.0.0.1", "::1"):
            raise InvalidSettings(
                "VAULT_ADDR must begin with https://: otherwise the token and the seeds of signing"
                " keys cross the network as plain text."
            )
        self._urls = {
            name: urlsplit(f"{address.rstrip('/')}/v1/{found['mount']}/{name}/{found['key']}")
            for name in ("encrypt", "decrypt")
        }
        self._token = Path(environment.get("VAULT_TOKEN_FILE", ""))
        self._headers = {"X-Vault-Request": "true"}
        if namespace := environment.get("VAULT_NAMESPACE"):
            self._headers["X-Vault-Namespace"] = namespace
        try:
            context = ssl.create_default_context(cafile=environment.get("VAULT_CACERT") or None)
        except OSError as error:
            raise InvalidSettings(
                "VAULT_CACERT cannot be read; set it to a file of certificates."
            ) from error
        server = self._urls["encrypt"]
        self._pool = Pool(
            lambda deadline: connect(server, context, deadline, seconds=_CONNECT_SECONDS)
        )
        self._seconds = seconds
        self._read_token()

    def seal(self, secret: bytes, *, context: Mapping[str, str]) -> bytes:
        """Wrap 1 to 4096 bytes, bound to `context`. Raises `Unavailable`."""
        check_secret(secret, context)
        answer = self._ask("encrypt", {"plaintext": to_base64(secret)}, context)
        return _field(answer, "ciphertext").encode()

    def unseal(self, ciphertext: bytes, *, context: Mapping[str, str]) -> bytes:
        """Unwrap a secret. Raises `DataCorrupt`, `Unavailable`."""
        check_context(context)
        if len(ciphertext) > _MOST_SEALED_BYTES or not _SEAL.fullmatch(ciphertext):
            raise DataCorrupt
        answer = self._ask("decrypt", {"ciphertext": ciphertext.decode()}, context)
        try:
            return base64.b64decode(_field(answer, "plaintext"), validate=True)
        except binascii.Error as error:
            raise Unavailable from error

    def _ask(self, name: str, body: dict[str, str], context: Mapping[str, str]) -> Any:
        """Call the API and return its response. Raises `DataCorrupt`, `Unavailable`."""
        bound = cbor2.dumps(sorted(context.items()))
        sent = json.dumps(body | {"associated_data": to_base64(bound)}).encode()
        try:
            headers = self._headers | {"X-Vault-Token": self._read_token()}
            found = self._exchange(
                Request(self._urls[name], "POST", headers, sent, until_close=True)
            )
            content = json.loads(found.body)
        except (HttpError, OSError, InvalidSettings, ValueError) as error:
            raise Unavailable(f"{Unavailable.default_message} (Vault, {name})") from error
        if found.status != HTTPStatus.OK:
            errors = content.get("errors") if isinstance(content, dict) else None
            said = "; ".join(map(str, errors or ())) or "no reason given"
            if found.status == HTTPStatus.BAD_REQUEST and said.startswith(_NOT_OURS):
                raise DataCorrupt
            # The message names the mount and the key, so callers of this service must not see it.
            _log.error("Vault responds with %d to %s: %s", found.status, name, printable(said))
            raise Unavailable(f"{Unavailable.default_message} (Vault, {name}: {found.status})")
        return content

    def _exchange(self, request: Request) -> Response:
        """Return the response. Retry temporary failures, because all requests are idempotent."""
        last: Response | Exception = Unavailable()
        for _ in islice(_POLICY.attempts(), _ATTEMPTS):
            try:
                deadline = time.monotonic() + self._seconds
                last = self._pool.exchange(request, deadline, limit=_BYTES_MAX)
            except (HttpError, OSError) as error:
                last = error
            else:
                if last.status not in _PASSING:
                    break
        if isinstance(last, Exception):
            raise last
        return last

    def _read_token(self) -> str:
        try:
            token = self._token.read_text(encoding="ascii").strip()
        except (OSError, ValueError) as error:
            said = error.strerror if isinstance(error, OSError) else "it is not a token"
            raise InvalidSettings(
                f"VAULT_TOKEN_FILE cannot be read: {said}. Set it to the file of the token."
            ) from error
        if not token.isprintable() or not token:
            raise InvalidSettings("The file that VAULT_TOKEN_FILE names has no token.")
        return token


def _field(answer: Any, name: str) -> str:
    try:
        return str(answer["data"][name])
    except (KeyError, TypeError) as error:
        raise Unavailable(
            f"{Unavailable.default_message} (Vault: a response without {name})"
        ) from error
