"""A root key in a file: PKCS#8 in PEM, with or without a passphrase.

Anyone who can read the file and knows its passphrase can sign trust documents. If the file is lost,
clients need another pin when the last document expires. Keep a copy in a separate place.
"""

import base64
import os
import textwrap
from pathlib import Path
from typing import Final, Self

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CBC
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
from cryptography.hazmat.primitives.padding import PKCS7
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from shared.adapters.local import files
from shared.adapters.preconditions import check_signed
from shared.errors import InvalidSettings

# The PEM of an Ed25519 key has 119 bytes, or about 300 with a passphrase.
_PEM_BYTES_MAX: Final = 16 * 1024
_PASSPHRASE_BYTES_MAX: Final = 4096
_ENCRYPTED: Final = b"-----BEGIN ENCRYPTED PRIVATE KEY-----"
_RESTORE: Final = "Restore it from its backup, or set the right file."

_LABEL: Final = "ENCRYPTED PRIVATE KEY"
_PEM_COLUMNS: Final = 64
_BLOCK_BYTES: Final = 16
# Recommended by OWASP, within the memory (16 MiB) that OpenSSL allows by default.
_COST, _BLOCKS, _PARALLEL = 2**14, 8, 5

# From this length on, a byte with the size of the length precedes it.
_LONG: Final = 0x80
# ASN.1 tags, and object identifiers including their tags.
_INTEGER, _OCTETS, _SEQUENCE = 0x02, 0x04, 0x30
_PBES2: Final = bytes.fromhex("06092a864886f70d01050d")
_SCRYPT: Final = bytes.fromhex("06092b06010401da47040b")
_AES_256_CBC: Final = bytes.fromhex("060960864801650304012a")


class FileRoot:
    """A `RootSigner` with the key in the file at `path`.

    Raises `InvalidSettings` if the file is missing, is not an Ed25519 key, is accessible to others,
    or cannot be decrypted with this passphrase.
    """

    def __init__(self, path: Path, *, passphrase: bytes | None = None) -> None:
        pem = files.read_secret(path, most=_PEM_BYTES_MAX, remedy=_RESTORE)
        is_encrypted = _ENCRYPTED in pem
        if is_encrypted and passphrase is None:
            remedy = "Set RESCIND_ROOT_PASSPHRASE_FILE to the file with its passphrase."
            raise InvalidSettings(f"{path} is encrypted. {remedy}")
        try:
            key = load_pem_private_key(pem, passphrase if is_encrypted else None)
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            problem = f"is not a PKCS#8 private key in PEM. {_RESTORE}"
            if is_encrypted:
                problem = "cannot be decrypted with this passphrase. Correct the passphrase."
            raise InvalidSettings(f"{path} {problem}") from error
        if not isinstance(key, Ed25519PrivateKey):
            raise InvalidSettings(f"{path} is not an Ed25519 key. {_RESTORE}")
        self._key = key
        self._public_key = key.public_key().public_bytes_raw()

    @classmethod
    def create(cls, path: Path, *, passphrase: bytes | None = None) -> Self:
        """Create a random key at `path`, encrypted if there is a passphrase, and load it.

        Raises `InvalidSettings` if the file exists or cannot be created.
        """
        key = Ed25519PrivateKey.generate()
        encoding = Encoding.PEM if passphrase is None else Encoding.DER
        encoded = key.private_bytes(encoding, PrivateFormat.PKCS8, NoEncryption())
        pem = encoded if passphrase is None else encrypt_private_key(encoded, passphrase)
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
    remedy = "Write the passphrase into its first line."
    text = files.read_secret(path, most=_PASSPHRASE_BYTES_MAX, remedy=remedy)
    line = text.partition(b"\n")[0].removesuffix(b"\r")
    if not line:
        raise InvalidSettings(f"{path} has no passphrase. {remedy}")
    return line


def encrypt_private_key(key: bytes, passphrase: bytes) -> bytes:
    """Encrypt a private key (PKCS#8, DER) with a passphrase, and return it as PEM.

    The encryption is PBES2 with scrypt (RFC 7914). The cryptography package can read this, but
    cannot write it. Its own format uses 2,048 rounds of PBKDF2, so a guess takes only a fifth of a
    millisecond.
    """
    salt, iv = os.urandom(_BLOCK_BYTES), os.urandom(_BLOCK_BYTES)
    derived = Scrypt(salt=salt, length=32, n=_COST, r=_BLOCKS, p=_PARALLEL).derive(passphrase)
    padder = PKCS7(_BLOCK_BYTES * 8).padder()
    encryptor = Cipher(AES256(derived), CBC(iv)).encryptor()
    sealed = encryptor.update(padder.update(key) + padder.finalize()) + encryptor.finalize()
    # Non-negative numbers in ASN.1 have room for a sign bit.
    numbers = [
        _of(_INTEGER, each.to_bytes(each.bit_length() // 8 + 1, "big"))
        for each in (_COST, _BLOCKS, _PARALLEL)
    ]
    derivation = _of(_SEQUENCE, _SCRYPT, _of(_SEQUENCE, _of(_OCTETS, salt), *numbers))
    cipher = _of(_SEQUENCE, _AES_256_CBC, _of(_OCTETS, iv))
    scheme = _of(_SEQUENCE, _PBES2, _of(_SEQUENCE, derivation, cipher))
    der = _of(_SEQUENCE, scheme, _of(_OCTETS, sealed))
    lines = textwrap.wrap(base64.b64encode(der).decode(), _PEM_COLUMNS)
    return "\n".join([f"-----BEGIN {_LABEL}-----", *lines, f"-----END {_LABEL}-----\n"]).encode()


def _of(tag: int, *parts: bytes) -> bytes:
    """Return an ASN.1 value (DER) of at most 255 bytes."""
    content = b"".join(parts)
    length = bytes([len(content)]) if len(content) < _LONG else bytes([_LONG | 1, len(content)])
    return bytes([tag]) + length + content
