"""The sealer, which encrypts the private seeds of signing keys (KEY-2)."""

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
