"""Wrap and unwrap private seeds.

If a seed cannot be unwrapped, the `DataCorrupt` of `unwrap_seed` describes the remedy.
"""

from shared.errors import DataCorrupt
from shared.model import seeds
from shared.model.seeds import WrappedKeyRecord
from shared.ports import Ports


class SeedUnavailable(DataCorrupt):
    """A wrapped seed is missing or cannot be unwrapped."""


def create(
    ports: Ports, kind: type[WrappedKeyRecord], tenant_id: str, key_id: str, *, version: int = 1
) -> tuple[str, bytes]:
    """Create a key pair: public key (base64), and seed wrapped for this kind of key and version.

    Raises `Unavailable`.
    """
    seed, public_key = seeds.new()
    context = seeds.seal_context(tenant_id, key_id, purpose=kind.PURPOSE, version=version)
    return public_key, ports.sealer.seal(seed, context=context)


def unwrap_seed(ports: Ports, key: WrappedKeyRecord) -> bytes:
    """Return the seed (32 bytes) of an active key.

    Raises `SeedUnavailable` if the key has no seed, or the seed cannot be unwrapped for this key,
    purpose and version. Raises `Unavailable` if the key service does not respond.
    """
    try:
        if key.sealed_seed is None:
            raise DataCorrupt("an active key has no wrapped seed")
        return ports.sealer.unseal(key.sealed_seed, context=key.seal_context)
    except DataCorrupt as error:
        raise SeedUnavailable(
            f"cannot unwrap the seed of {key.id}; restore the wrapping key that wrapped it"
        ) from error
