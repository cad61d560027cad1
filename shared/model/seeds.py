"""Private seeds: creation, signatures, and the context of wrapped secrets."""

import base64
import secrets
from enum import StrEnum
from typing import ClassVar, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

ALGORITHM: Final = "Ed25519"


class KeyPurpose(StrEnum):
    """The purpose of a wrapped secret, which cannot be unwrapped for another purpose."""

    SRL = "srl"
    # Native lists for stock authorizers (NATIVE-2).
    NATIVE = "native"
    # Token Status Lists (TOKEN-8).
    STATUS = "status"
    WARRANT = "warrant"
    # Checkpoints of the transparency log (LOG-9).
    AUDIT = "audit"
    # Messages to webhooks (HOOK-4).
    WEBHOOK = "webhook"
    # Client secrets at identity providers (IDENTITY-1).
    IDENTITY = "identity"


class WrappedKeyRecord:
    """The common part of records of Ed25519 keys: a seed wrapped for one purpose.

    `public_key` is base64 of the 32 raw bytes. `sealed_seed` is None if the record has no seed.
    """

    __slots__ = ()

    PURPOSE: ClassVar[KeyPurpose]

    id: str
    tenant_id: str
    public_key: str
    sealed_seed: bytes | None

    @property
    def algorithm(self) -> str:
        """The algorithm of the key."""
        return ALGORITHM

    @property
    def seal_context(self) -> dict[str, str]:
        """The context that the wrapped seed is bound to."""
        return seal_context(self.tenant_id, self.id, purpose=self.PURPOSE)

    @property
    def public_bytes(self) -> bytes:
        """The 32 raw bytes of the public key."""
        return base64.b64decode(self.public_key)


def new() -> tuple[bytes, str]:
    """Return a new seed of 32 bytes, and its public key: base64 of the 32 raw bytes."""
    # From the kernel, because the state of OpenSSL's generator would be identical in all processes
    # that Lambda restores from one snapshot.
    seed = secrets.token_bytes(32)
    return seed, public_key(seed)


def public_key(seed: bytes) -> str:
    """Return the public key of a seed, in base64."""
    raw = Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()
    return base64.b64encode(raw).decode()


def sign(data: bytes, *, seed: bytes) -> str:
    """Return the Ed25519 signature over `data`, in base64."""
    return base64.b64encode(signature(data, seed=seed)).decode()


def signature(data: bytes, *, seed: bytes) -> bytes:
    """Return the Ed25519 signature over `data`: 64 bytes."""
    return Ed25519PrivateKey.from_private_bytes(seed).sign(data)


def seal_context(
    tenant_id: str, key_id: str, *, purpose: KeyPurpose, version: int = 1
) -> dict[str, str]:
    """Return the context of a wrapped seed (KEY-2).

    The seed can be unwrapped only for this tenant, key, purpose and key version.
    """
    return {
        "tenant": tenant_id,
        "key": key_id,
        "purpose": purpose.value,
        "version": str(version),
    }
