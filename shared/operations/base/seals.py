"""Opening of sealed seeds. `Corrupt` of `opened` says what to do if a seal does not open."""

from collections.abc import Mapping
from typing import TypeAlias

from shared.errors import Corrupt
from shared.model.audit.checkpoint import AuditSigner
from shared.model.fleet.native import NativeSigner
from shared.model.lists.signers import ListSigner
from shared.model.signing_keys import SigningKey
from shared.model.status_lists import StatusSigner
from shared.ports import Ports


class SeedLost(Corrupt):
    """The seal of a seed does not open, or there is none."""


_Sealed: TypeAlias = SigningKey | ListSigner | NativeSigner | AuditSigner | StatusSigner


def opened(ports: Ports, key: _Sealed) -> bytes:
    """Return the seed (32 bytes) of an active key.

    Raises `SeedLost` if it has none or the seal does not open for this key, purpose and version;
    `Unavailable` if the key service does not answer.
    """
    try:
        return _unsealed(ports, key, key.seal_context)
    except Corrupt as error:
        raise SeedLost(
            f"the sealed seed of {key.id} does not open; put back the master key that sealed it"
        ) from error


def _unsealed(ports: Ports, key: _Sealed, context: Mapping[str, str]) -> bytes:
    if key.sealed_seed is None:
        raise Corrupt("an active key has no seed")
    return ports.sealer.unseal(key.sealed_seed, context=context)
