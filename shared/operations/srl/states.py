"""The signed state beside each list (docs/adr/0024): storing it, and reading what it says."""

from typing import Final

from shared.errors import Corrupt
from shared.model.srl.blobs import states_folder, version_of
from shared.model.srl.head import Head
from shared.model.srl.signers import ListSigner, signers
from shared.model.srl.state import State
from shared.operations.srl import blobs as srl_blobs
from shared.ports import Ports

_SUFFIX: Final = "cbor"


def store(ports: Ports, state: State, *, seed: bytes) -> str:
    """Sign a state with the seed of its list's signer, store it, and return the blob's name."""
    folder = states_folder(state.tenant_id)
    return srl_blobs.put(ports, folder, state.version, state.sign(seed=seed), suffix=_SUFFIX)


def is_signed(blob: str) -> bool:
    """Whether a blob beside the lists should be signed; those of earlier releases are not."""
    return blob.endswith(f".{_SUFFIX}")


def of_head(ports: Ports, head: Head, list_signer: ListSigner) -> State:
    """The state of the list in force; `signer` is the one of the next list.

    Raises `Corrupt` if it cannot be believed.
    """
    if head.state is None:
        raise Corrupt(f"version {head.version} has no state")
    if head.key_id != list_signer.id:
        item = ports.store.get(signers(list_signer.tenant_id).address(head.key_id))
        if item is None:
            raise Corrupt("the key that signed the list in force has no record")
        list_signer = ListSigner.from_item(item)
    return opened(ports, head.state, list_signer)


def opened(ports: Ports, blob: str, list_signer: ListSigner) -> State:
    """The state in a blob. Raises `Corrupt` if it is altered, or not what its name says."""
    return State.opened(
        srl_blobs.read(ports, blob),
        public_key=list_signer.public_bytes,
        tenant_id=list_signer.tenant_id,
        version=version_of(blob),
    )
