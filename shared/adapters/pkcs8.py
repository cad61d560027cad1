"""Private keys in PKCS#8 and PEM that a passphrase opens (PBES2 with scrypt, RFC 7914).

cryptography reads them, and writes none whose passphrase is costly to guess: its own have 2,048
rounds of PBKDF2, a fifth of a millisecond.
"""

import base64
import os
import textwrap
from typing import Final

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CBC
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
from cryptography.hazmat.primitives.padding import PKCS7

_LABEL: Final = "ENCRYPTED PRIVATE KEY"
_PEM_COLUMNS: Final = 64
_BLOCK_BYTES: Final = 16
# As OWASP recommends, within the memory (16 MiB) that OpenSSL allows by default.
_COST, _BLOCKS, _PARALLEL = 2**14, 8, 5

# From this length on, a byte before it has its size.
_LONG: Final = 0x80
# Tags of ASN.1, and object identifiers with theirs.
_INTEGER, _OCTETS, _SEQUENCE = 0x02, 0x04, 0x30
_PBES2: Final = bytes.fromhex("06092a864886f70d01050d")
_SCRYPT: Final = bytes.fromhex("06092b06010401da47040b")
_AES_256_CBC: Final = bytes.fromhex("060960864801650304012a")


def encrypted(key: bytes, passphrase: bytes) -> bytes:
    """Return the PEM of a private key, given as DER of PKCS#8, that the passphrase opens."""
    salt, iv = os.urandom(_BLOCK_BYTES), os.urandom(_BLOCK_BYTES)
    derived = Scrypt(salt=salt, length=32, n=_COST, r=_BLOCKS, p=_PARALLEL).derive(passphrase)
    padder = PKCS7(_BLOCK_BYTES * 8).padder()
    encryptor = Cipher(AES256(derived), CBC(iv)).encryptor()
    sealed = encryptor.update(padder.update(key) + padder.finalize()) + encryptor.finalize()
    numbers = [_of(_INTEGER, _number(each)) for each in (_COST, _BLOCKS, _PARALLEL)]
    derivation = _of(_SEQUENCE, _SCRYPT, _of(_SEQUENCE, _of(_OCTETS, salt), *numbers))
    cipher = _of(_SEQUENCE, _AES_256_CBC, _of(_OCTETS, iv))
    scheme = _of(_SEQUENCE, _PBES2, _of(_SEQUENCE, derivation, cipher))
    der = _of(_SEQUENCE, scheme, _of(_OCTETS, sealed))
    lines = textwrap.wrap(base64.b64encode(der).decode(), _PEM_COLUMNS)
    return "\n".join([f"-----BEGIN {_LABEL}-----", *lines, f"-----END {_LABEL}-----\n"]).encode()


def _number(value: int) -> bytes:
    """Return a number as ASN.1 has it: with a bit for the sign."""
    return value.to_bytes(value.bit_length() // 8 + 1, "big")


def _of(tag: int, *parts: bytes) -> bytes:
    """Return a value of ASN.1 (DER) of at most 255 bytes."""
    content = b"".join(parts)
    length = bytes([len(content)]) if len(content) < _LONG else bytes([_LONG | 1, len(content)])
    return bytes([tag]) + length + content
