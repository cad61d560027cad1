"""Signing a list and its state, and verifying the list before it is stored (docs/adr/0004)."""

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from shared.errors import Corrupt, InvalidSrl
from shared.model.srl import encoding
from shared.model.srl.encoding import Payload
from shared.model.srl.head import PACKED_FROM
from shared.model.srl.signers import ListSigner
from shared.model.srl.state import State
from shared.model.srl.verification import verify_own
from shared.operations.rules import seals
from shared.ports import Ports


class Signed(NamedTuple):
    """A signed list with its signed state.

    `packed` is `body` in gzip, None if nobody asks for it; `base` is the payload in gzip.
    """

    list_signer: ListSigner
    payload: Payload
    body: bytes
    packed: bytes | None
    base: bytes
    state: bytes


def sign(
    ports: Ports, list_signer: ListSigner, payload: Payload, state: State, *, packs: bool = False
) -> Signed:
    """Sign a list and its state, and verify the list as a client would.

    If `packs` is true, a list that is not short is stored in gzip too. Raises `Corrupt` if the list
    is not valid, `Unavailable`.
    """
    seed = seals.opened(ports, list_signer)
    body = encoding.sign(payload, seed=seed)
    # Compression takes as long as all the rest and releases the GIL.
    with ThreadPoolExecutor(1, thread_name_prefix="pack") as pool:
        packing = pool.submit(encoding.pack, body) if packs and len(body) >= PACKED_FROM else None
        base = pool.submit(encoding.pack, payload.encoded)
        try:
            verify_own(body, payload, public_key=list_signer.public_bytes, now=ports.now())
        except InvalidSrl as error:
            raise Corrupt(f"refusing to publish a list that is not valid: {error}") from error
        signed_state = state.sign(seed=seed)
        packed = packing.result() if packing else None
    return Signed(list_signer, payload, body, packed, base.result(), signed_state)
