"""Opening of sealed seeds. `Corrupt` of `opened` says what to do if a seal does not open."""

from collections.abc import Mapping
from typing import Protocol

from shared.errors import Corrupt
from shared.ports import Ports


class SeedLost(Corrupt):
    """The seal of a seed does not open, or there is none."""


class SealedKey(Protocol):
    """The record of a key with a sealed seed, and the context that this is bound to."""

    @property
    def id(self) -> str:
        """The identifier of the key."""
        ...

    @property
    def sealed_seed(self) -> bytes | None:
        """The seed, sealed; None if the key has none."""
        ...

    @property
    def seal_context(self) -> Mapping[str, str]:
        """The context that the seal is bound to."""
        ...


def opened(ports: Ports, key: SealedKey) -> bytes:
    """Return the seed (32 bytes) of an active key.

    Raises `SeedLost` if it has none or the seal does not open for this key, purpose and version;
    `Unavailable` if the key service does not answer.
    """
    try:
        if key.sealed_seed is None:
            raise Corrupt("an active key has no seed")
        return ports.sealer.unseal(key.sealed_seed, context=key.seal_context)
    except Corrupt as error:
        raise SeedLost(
            f"the sealed seed of {key.id} does not open; put back the master key that sealed it"
        ) from error
