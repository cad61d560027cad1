"""Opening sealed seeds: the one place that says what to do if a seal does not open."""

from shared.errors import Corrupt
from shared.model.signing_keys import SigningKey
from shared.model.srl_keys import SrlKey
from shared.ports import Ports


def opened(ports: Ports, key: SigningKey | SrlKey) -> bytes:
    """The seed (32 bytes) of a key that signs.

    Raises `Corrupt` if it has none or its seal does not open for this key, purpose and version;
    `Unavailable` if the key service cannot answer.
    """
    if key.sealed_seed is None:
        raise Corrupt("an active key has no seed")
    try:
        return ports.keys.unwrap(key.sealed_seed, context=key.seal_context)
    except Corrupt as error:
        raise Corrupt(
            f"the sealed seed of {key.id} does not open; if an earlier version of the service "
            "sealed it, run: python -m infra.admin migrate"
        ) from error
