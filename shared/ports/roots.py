"""The root signer, which signs trust documents and nothing else (TRUST-7)."""

from typing import Protocol


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
