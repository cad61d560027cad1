"""Storing a list and its state, so that a head can point to them (docs/adr/0004, step 4)."""

import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime

from shared.errors import Corrupt, InvalidSrl, OutOfSpace
from shared.model.srl import encoding as srl
from shared.model.srl.blobs import lists_folder, packed_folder, sha256_of
from shared.model.srl.encoding import Payload
from shared.model.srl.head import FORMAT, Head
from shared.model.srl.signers import ListSigner
from shared.model.srl.state import State
from shared.model.srl.verification import verify_own
from shared.operations.rules import seals
from shared.operations.srl import blobs as srl_blobs
from shared.operations.srl import states as srl_states
from shared.ports import Ports

_log = logging.getLogger(__name__)


def store(
    ports: Ports,
    list_signer: ListSigner,
    payload: Payload,
    *,
    state: State,
    changes: int,
    in_force: Head | None = None,
) -> Head:
    """Sign the list, check it as a stranger would, store it; the head that would publish it.

    If there is no room, all lists before that of `in_force` are removed to make some. Raises
    `Corrupt` if the list would not be valid, `Unavailable`.
    """
    seed = seals.opened(ports, list_signer)
    body = srl.sign(payload, seed=seed)

    def put() -> Head:
        # Before its list: a restore that finds the list finds what belongs to it.
        state_blob = srl_states.store(ports, state, seed=seed)
        head = _head(ports, list_signer, payload, body=body, state=state_blob, changes=changes)
        return _with_packed(
            ports, list_signer.tenant_id, head, packing.result() if packing else None
        )

    # Packing takes as long as the rest together, and holds up no other thread. Nothing is started
    # for a short list.
    with ThreadPoolExecutor(1, thread_name_prefix="pack") as pool:
        packing = pool.submit(srl.pack, body) if srl.is_worth_packing(body) else None
        _check(body, payload, list_signer, now=ports.now())
        try:
            return put()
        except OutOfSpace:
            if in_force is None:
                raise
        _log.warning(
            "the disk is full; the old lists of tenant %s are removed", list_signer.tenant_id
        )
        srl_blobs.discard_all_before(ports, list_signer.tenant_id, in_force)
        return put()


def _check(body: bytes, payload: Payload, list_signer: ListSigner, *, now: datetime) -> None:
    """Check a list as a stranger would. Raises `Corrupt` if it must not go out."""
    try:
        verify_own(body, payload, public_key=list_signer.public_bytes, now=now)
    except InvalidSrl as error:
        raise Corrupt(f"refusing to publish a list that is not valid: {error}") from error


def _head(
    ports: Ports,
    list_signer: ListSigner,
    payload: Payload,
    *,
    body: bytes,
    state: str,
    changes: int,
) -> Head:
    blob = srl_blobs.put(ports, lists_folder(list_signer.tenant_id), payload.version, body)
    return Head(
        version=payload.version,
        issued_at=payload.issued_at,
        expires_at=payload.expires_at,
        count=len(payload.revoked_ids),
        changes=changes,
        blob=blob,
        sha256=sha256_of(blob),
        size=len(body),
        key_id=list_signer.id,
        state=state,
        format=FORMAT,
    )


def _with_packed(ports: Ports, tenant_id: str, head: Head, packed: bytes | None) -> Head:
    if packed is None:
        return head
    folder = packed_folder(tenant_id)
    blob = srl_blobs.put(ports, folder, head.version, packed, suffix="json.gz")
    return replace(head, packed=blob, packed_size=len(packed))
