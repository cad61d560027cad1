"""Who seals the private seeds of signing keys."""

from collections.abc import Mapping
from typing import Protocol


class Sealer(Protocol):
    """Authenticated encryption of short secrets under a key that never leaves the wrapper.

    - What was sealed under one context opens under that context only.
    - Two seals of one secret differ.
    - Safe to share between threads.
    """

    def seal(self, secret: bytes, *, context: Mapping[str, str]) -> bytes:
        """Seal up to 4096 bytes, bound to `context` (at least one pair). Raises `Unavailable`."""
        ...

    def unseal(self, sealed: bytes, *, context: Mapping[str, str]) -> bytes:
        """Open what `wrap` sealed.

        Raises `Corrupt` where the bytes were altered, were sealed under another context or another
        key, and `Unavailable` where the wrapper cannot answer.
        """
        ...
