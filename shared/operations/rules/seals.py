"""Opening of sealed seeds. `Corrupt` of `opened` says what to do if a seal does not open."""

from collections.abc import Mapping

from shared.errors import Corrupt
from shared.model import seeds
from shared.model.sealed_log.signers import AuditSigner
from shared.model.signing_keys import SigningKey
from shared.model.srl.native import NativeSigner
from shared.model.srl.signers import ListSigner
from shared.ports import Ports


class SeedLost(Corrupt):
    """The seal of a seed does not open, or there is none."""


def opened(ports: Ports, key: SigningKey | ListSigner | NativeSigner | AuditSigner) -> bytes:
    """Return the seed (32 bytes) of an active key.

    Raises `SeedLost` if it has none or the seal does not open for this key, purpose and version;
    `Unavailable` if the key service does not answer.
    """
    try:
        return _unsealed(ports, key, key.seal_context)
    except Corrupt as error:
        raise SeedLost(
            f"the sealed seed of {key.id} does not open; if an earlier version of the service "
            "sealed it, run: rescind upgrade"
        ) from error


def is_of_earlier_version(ports: Ports, key: SigningKey | ListSigner) -> bool:
    """Return whether the seal is in the format before seals had a purpose.

    Raises `Corrupt` if it opens in neither format or contains the seed of another key;
    `Unavailable`.
    """
    try:
        _unsealed(ports, key, key.seal_context)
    except Corrupt:
        seed = _unsealed(ports, key, seeds.first_seal_context(key.tenant_id, key.id))
        if seeds.public_key(seed) != key.public_key:
            raise Corrupt("its sealed seed belongs to another key") from None
        return True
    return False


def resealed(ports: Ports, key: SigningKey | ListSigner) -> bytes:
    """Open a seal in the format before seals had a purpose; return the seed sealed in today's.

    Raises `Corrupt`, `Unavailable`.
    """
    seed = _unsealed(ports, key, seeds.first_seal_context(key.tenant_id, key.id))
    return ports.sealer.seal(seed, context=key.seal_context)


def _unsealed(
    ports: Ports,
    key: SigningKey | ListSigner | NativeSigner | AuditSigner,
    context: Mapping[str, str],
) -> bytes:
    if key.sealed_seed is None:
        raise Corrupt("an active key has no seed")
    return ports.sealer.unseal(key.sealed_seed, context=context)
