"""Opening of sealed seeds. `Corrupt` of `opened` says what to do if a seal does not open."""

from shared.errors import Corrupt
from shared.model.seeds import SealedKey
from shared.ports import Ports


class SeedLost(Corrupt):
    """The seal of a seed does not open, or there is none."""


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
