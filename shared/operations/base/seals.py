"""Sealed seeds: creation and opening. `Corrupt` of `opened` says what to do about a seal."""

from shared.errors import Corrupt
from shared.model import seeds
from shared.model.seeds import SealedKey
from shared.ports import Ports


class SeedLost(Corrupt):
    """The seal of a seed does not open, or there is none."""


def create(
    ports: Ports, kind: type[SealedKey], tenant_id: str, key_id: str, *, version: int = 1
) -> tuple[str, bytes]:
    """Create a key pair: public key (base64), and seed sealed for this kind of key and version.

    Raises `Unavailable`.
    """
    seed, public_key = seeds.new()
    context = seeds.seal_context(tenant_id, key_id, purpose=kind.PURPOSE, version=version)
    return public_key, ports.sealer.seal(seed, context=context)


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
