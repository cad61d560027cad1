"""Ed25519: verification of signatures, and validation of public keys."""

from collections.abc import Mapping
from typing import Any, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from .members import MalformedBytes, items, member, rising

PUBLIC_KEY_BYTES: Final = 32
SIGNATURE_BYTES: Final = 64

_P: Final = 2**255 - 19
# The y coordinate of points of order 8. Points of order 1, 2 and 4 have the y coordinates 1, -1 and
# 0.
_Y_OF_ORDER_8: Final = 2707385501144840649318225287225658788936804267575313519463743609750303402022
# All encodings: y + p also encodes y if it fits 255 bits, and the highest bit is the sign of x.
_SMALL: Final = frozenset(
    (y | sign << 255).to_bytes(PUBLIC_KEY_BYTES, "little")
    for y in (0, 1, _P - 1, _P, _P + 1, _Y_OF_ORDER_8, _P - _Y_OF_ORDER_8)
    for sign in (0, 1)
)


def is_safe(key: bytes) -> bool:
    """Return whether `key` has 32 bytes and is not a point of small order.

    For a key of small order, anyone can create valid signatures without a private key.
    """
    return len(key) == PUBLIC_KEY_BYTES and key not in _SMALL


def is_signed(data: bytes, signature: bytes, *, public_key: bytes) -> bool:
    """Return whether `signature` over `data` verifies with this public key of 32 raw bytes."""
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, data)
    except InvalidSignature:
        return False
    return True


def key(members: Mapping[str, Any], name: str) -> bytes:
    """Return the Ed25519 key (32 bytes, not of small order) in `name`. Raises `MalformedBytes`."""
    return _safe(member(members, name, bytes), name)


def keys(members: Mapping[str, Any], name: str) -> tuple[bytes, ...]:
    """Return the sorted, unique Ed25519 keys in `name`. Raises `MalformedBytes`."""
    return rising((_safe(each, name) for each in items(members, name, bytes)), name)


def _safe(value: bytes, name: str) -> bytes:
    if not is_safe(value):
        raise MalformedBytes(f"{name} must be an Ed25519 key of 32 bytes, not of small order")
    return value
