"""Keys held elsewhere: one seals seeds (KEY-2), one signs trust documents (TRUST-7)."""

from collections.abc import Mapping
from typing import Protocol


class Sealer(Protocol):
    """Authenticated encryption of short secrets with a key that never leaves the sealer.

    - A seal can be opened only with the context that it was made with.
    - Two seals of one secret differ.
    - It is safe to share between threads.
    """

    def seal(self, secret: bytes, *, context: Mapping[str, str]) -> bytes:
        """Seal up to 4096 bytes, bound to `context` (at least one pair). Raises `Unavailable`."""
        ...

    def unseal(self, sealed: bytes, *, context: Mapping[str, str]) -> bytes:
        """Return the secret in a seal that `seal` made.

        Raises `Corrupt` if the bytes were altered, or sealed with another context or key, and
        `Unavailable`.
        """
        ...


class RootSigner(Protocol):
    """A root key of Ed25519 that never leaves the signer.

    - Its public key never changes, and is not of small order.
    - Each signature that it returns was verified with this key.
    - It is safe to share between threads.
    """

    @property
    def public_key(self) -> bytes:
        """The public key (32 bytes). Raises `Unavailable`."""
        ...

    def sign(self, data: bytes) -> bytes:
        """Return the signature (64 bytes) over 1 to 4096 bytes. Raises `Unavailable`."""
        ...
