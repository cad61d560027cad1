"""Wraps seeds with a key in a file, for one machine.

Anyone who can read the file can unwrap every seed wrapped with it. If the file is lost, no seed can
be unwrapped. Keep a copy in a separate place.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import cbor2
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from shared.adapters.local import files
from shared.adapters.preconditions import check_context, check_secret
from shared.errors import DataCorrupt, InvalidSettings

_KEY_BYTES = 32
_VERSION = b"\x01"
_NONCE_BYTES = 12
_HEAD_BYTES = len(_VERSION) + _NONCE_BYTES


class FileSealer:
    """A `KeyWrapper` with AES-256-GCM and the key in the file at `path`.

    The output is a version byte, a nonce of 12 bytes, the ciphertext and its tag. Raises
    `InvalidSettings` if the file is missing, is not a key, or is accessible to others.
    """

    def __init__(self, path: Path) -> None:
        remedy = "Create a key file, or restore it from its backup."
        key = files.read_secret(path, most=_KEY_BYTES + 1, remedy=remedy)
        if len(key) != _KEY_BYTES:
            raise InvalidSettings(
                f"{path} is not a key file of {_KEY_BYTES} bytes. Restore it from its backup."
            )
        self._cipher = AESGCM(key)

    @classmethod
    def create(cls, path: Path) -> Self:
        """Create a random key at `path` and load it.

        Raises `InvalidSettings` if the file exists or cannot be created.
        """
        files.create_secret(path, os.urandom(_KEY_BYTES))
        return cls(path)

    def seal(self, secret: bytes, *, context: Mapping[str, str]) -> bytes:
        """Wrap 1 to 4096 bytes, bound to `context`."""
        check_secret(secret, context)
        nonce = os.urandom(_NONCE_BYTES)
        return _VERSION + nonce + self._cipher.encrypt(nonce, secret, _encode_context(context))

    def unseal(self, sealed: bytes, *, context: Mapping[str, str]) -> bytes:
        """Unwrap a secret. Raises `DataCorrupt`."""
        check_context(context)
        nonce, ciphertext = sealed[len(_VERSION) : _HEAD_BYTES], sealed[_HEAD_BYTES:]
        if not sealed.startswith(_VERSION) or len(nonce) < _NONCE_BYTES:
            raise DataCorrupt
        try:
            return self._cipher.decrypt(nonce, ciphertext, _encode_context(context))
        except InvalidTag as error:
            raise DataCorrupt from error


def _encode_context(context: Mapping[str, str]) -> bytes:
    """Return the version and an injective encoding of the context."""
    return _VERSION + cbor2.dumps(sorted(context.items()))
