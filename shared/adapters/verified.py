"""Checks of an external root key: its public key, and each signature."""

from shared.authorizer.formats import ed25519
from shared.errors import Unavailable


def public_key(key: bytes) -> bytes:
    """Return an Ed25519 key (32 bytes). Raises `Unavailable` if it is of small order."""
    if not ed25519.is_safe(key):
        raise Unavailable(
            "The root key is not a safe key of Ed25519: anybody could sign for it. Make another."
        )
    return key


def signature(data: bytes, signature: bytes, *, public_key: bytes) -> bytes:
    """Return the signature over `data`. Raises `Unavailable` if it does not verify."""
    if not ed25519.is_signed(data, signature, public_key=public_key):
        raise Unavailable("The root returned a signature that does not verify; nothing was signed.")
    return signature
