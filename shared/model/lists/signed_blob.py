"""Blobs that the list signer signs: the signature (64 bytes), a prefix, and members as CBOR.

The signature covers everything after it. The prefix says what the blob is, so that none passes for
another, nor for a list, whose payload is a CBOR map.
"""

import base64
from collections.abc import Mapping
from typing import Any

import cbor2
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from shared.authorizer.formats.ed25519 import SIGNATURE_BYTES
from shared.errors import Corrupt
from shared.model import seeds


class NotSigned(Corrupt):
    """A blob whose signature is missing, or made by another key."""


def sign(members: Mapping[str, Any], prefix: bytes, *, seed: bytes) -> bytes:
    """Return the blob of these members, signed with the seed (32 bytes)."""
    signed = prefix + cbor2.dumps(members, canonical=True)
    return base64.b64decode(seeds.sign(signed, seed=seed)) + signed


def opened(blob: bytes, prefix: bytes, *, public_key: bytes) -> dict[str, Any]:
    """Return the members. Raises `NotSigned` if the key did not sign the blob, `Corrupt`."""
    signature, signed = blob[:SIGNATURE_BYTES], blob[SIGNATURE_BYTES:]
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, signed)
    except InvalidSignature:
        raise NotSigned("a signed blob is not signed by a signer of this tenant") from None
    return claimed(blob, prefix)


def claimed(blob: bytes, prefix: bytes) -> dict[str, Any]:
    """Return the members without a check of the signature. Raises `Corrupt`."""
    signed = blob[SIGNATURE_BYTES:]
    if not signed.startswith(prefix):
        raise Corrupt("a signed blob is not what its folder is for")
    try:
        members = cbor2.loads(signed[len(prefix) :])
    except (cbor2.CBORError, UnicodeError, RecursionError, ValueError):
        raise Corrupt("a signed blob is malformed") from None
    if not isinstance(members, dict):
        raise Corrupt("a signed blob is malformed")
    return members
