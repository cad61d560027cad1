"""A root key in a file: PKCS#8 in PEM, with or without a passphrase.

Anyone who can read the file and knows its passphrase can sign trust documents. Without it, clients
need another pin when the last document expires: keep a copy away from the data.
"""

from functools import partial
from pathlib import Path
from typing import Final, Self

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from shared.adapters import files, pkcs8
from shared.adapters.preconditions import check_signed
from shared.errors import InvalidSettings

# The PEM of such a key has 119 bytes, or some 300 with a passphrase.
_PEM_BYTES_MAX: Final = 16 * 1024
_PASSPHRASE_BYTES_MAX: Final = 4096
_ENCRYPTED: Final = b"-----BEGIN ENCRYPTED PRIVATE KEY-----"
_RESTORE: Final = "Restore its copy, or name the right file."


class FileRoot:
    """A `RootSigner` with the key in the file at `path`.

    Raises `InvalidSettings` if the file is missing, is no key of Ed25519, is accessible to others,
    or does not open with this passphrase.
    """

    def __init__(self, path: Path, *, passphrase: bytes | None = None) -> None:
        self._key = _opened(path, passphrase)
        self._public_key = self._key.public_key().public_bytes_raw()

    @classmethod
    def create(cls, path: Path, *, passphrase: bytes | None = None) -> Self:
        """Create a random key at `path`, encrypted if there is a passphrase, and open it.

        Raises `InvalidSettings` if the file exists or cannot be created.
        """
        key = Ed25519PrivateKey.generate()
        plain = partial(key.private_bytes, format=PrivateFormat.PKCS8)
        if passphrase is None:
            pem = plain(Encoding.PEM, encryption_algorithm=NoEncryption())
        else:
            der = plain(Encoding.DER, encryption_algorithm=NoEncryption())
            pem = pkcs8.encrypted(der, passphrase)
        files.create_secret(path, pem)
        return cls(path, passphrase=passphrase)

    @staticmethod
    def is_encrypted(path: Path) -> bool:
        """Return whether the key needs a passphrase. Raises `InvalidSettings`."""
        return _ENCRYPTED in files.read_secret(path, most=_PEM_BYTES_MAX, remedy=_RESTORE)

    @property
    def public_key(self) -> bytes:
        """The public key (32 bytes)."""
        return self._public_key

    def sign(self, data: bytes) -> bytes:
        """Return the signature (64 bytes) over 1 to 4096 bytes."""
        check_signed(data)
        return self._key.sign(data)


def read_passphrase(path: Path) -> bytes:
    """Return the first line of a file that only its owner can use. Raises `InvalidSettings`."""
    remedy = "Write the passphrase to it, as its first line."
    text = files.read_secret(path, most=_PASSPHRASE_BYTES_MAX, remedy=remedy)
    line = text.partition(b"\n")[0].removesuffix(b"\r")
    if not line:
        raise InvalidSettings(f"{path} has no passphrase. {remedy}")
    return line


def _opened(path: Path, passphrase: bytes | None) -> Ed25519PrivateKey:
    pem = files.read_secret(path, most=_PEM_BYTES_MAX, remedy=_RESTORE)
    is_encrypted = _ENCRYPTED in pem
    if is_encrypted and passphrase is None:
        remedy = "Name the file of its passphrase in SVC_ROOT_PASSPHRASE_FILE."
        raise InvalidSettings(f"{path} is encrypted. {remedy}")
    try:
        key = load_pem_private_key(pem, passphrase if is_encrypted else None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        if is_encrypted:
            raise InvalidSettings(f"{path} does not open with this passphrase.") from error
        raise InvalidSettings(
            f"{path} is not a private key in PKCS#8 and PEM. {_RESTORE}"
        ) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise InvalidSettings(f"{path} is not a key of Ed25519. {_RESTORE}")
    return key
