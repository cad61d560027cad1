"""Checks of an external root key: its public key, and each signature."""

from shared.authorizer.formats import ed25519
from shared.errors import Unavailable


def public_key(key: bytes) -> bytes:
    """Return an Ed25519 key (32 bytes). Raises `Unavailable` if it is of small order."""
    if not ed25519.is_safe(key):
        raise Unavailable(
            "The root key is a weak Ed25519 key, so anyone can forge its signatures. Create "
            "another root key."
        )
    return key


def signature(data: bytes, signature: bytes, *, public_key: bytes) -> bytes:
    """Return the signature over `data`. Raises `Unavailable` if it does not verify."""
    if not ed25519.is_signed(data, signature, public_key=public_key):
        raise Unavailable("The root key returned an invalid signature; no document was signed.")
    return signature
