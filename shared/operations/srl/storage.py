"""The blobs of lists and of their states, under names that contain their hashes.

A list and its state are stored before a head points to them (docs/adr/0004, step 4; 0024).
"""

import hashlib
import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Final

from shared.errors import BlobExists, Corrupt, InvalidSrl, OutOfSpace, Unavailable
from shared.model.srl import encoding
from shared.model.srl.blobs import (
    STATE_SUFFIX,
    blob_name,
    folders,
    lists_folder,
    packed_folder,
    sha256_of,
    states_folder,
    version_prefix,
)
from shared.model.srl.encoding import Payload
from shared.model.srl.head import FORMAT, Head
from shared.model.srl.signers import ListSigner
from shared.model.srl.state import State
from shared.model.srl.verification import verify_own
from shared.operations.rules import seals
from shared.ports import Ports

_log = logging.getLogger(__name__)

# How many lists, including the one in force, are kept when the next one is made (docs/adr/0035): of
# those that have not expired, and in any case. A client that has received the address of an older
# list fetches it within minutes; a restore needs the newest list.
_KEPT_VALID: Final = 20
_KEPT_ALWAYS: Final = 2


def put(ports: Ports, folder: str, version: int, data: bytes, *, suffix: str = "json") -> str:
    """Store a blob and return its name. Raises `OutOfSpace`, `Unavailable`."""
    sha256 = hashlib.sha256(data).hexdigest()
    name = blob_name(folder, version=version, sha256=sha256, suffix=suffix)
    # A blob of this name has the same bytes: an earlier run stored it and then stopped.
    with suppress(BlobExists):
        ports.blobs.put(name, data)
    return name


def discard_old(ports: Ports, tenant_id: str, head: Head) -> None:
    """Remove lists before `head`, which is in force, that need not be kept.

    Blobs of later versions stay: another process may be about to publish them. Logs a warning if
    the blob store is unavailable.
    """
    lifetime = (head.expires_at - head.issued_at).total_seconds()
    try:
        _discard(ports, tenant_id, before=head.version - _KEPT_VALID + 1)
        _discard(ports, tenant_id, before=head.version - _KEPT_ALWAYS + 1, older_than=lifetime)
    except Unavailable:
        _log.warning("old lists of tenant %s could not be removed", tenant_id, exc_info=True)


def discard_all_before(ports: Ports, tenant_id: str, head: Head) -> None:
    """Remove all lists before `head`, which is in force, to free space. Raises `Unavailable`."""
    _discard(ports, tenant_id, before=head.version)


def store(
    ports: Ports,
    list_signer: ListSigner,
    payload: Payload,
    *,
    state: State,
    changes: int,
    in_force: Head | None = None,
) -> Head:
    """Sign a list, verify it as a client would, store it, and return the head that publishes it.

    If the disk is full, all lists before that of `in_force` are removed first. Raises `Corrupt` if
    the list is not valid, `OutOfSpace`, `Unavailable`.
    """
    seed = seals.opened(ports, list_signer)
    body = encoding.sign(payload, seed=seed)

    def put_all() -> Head:
        # The state is stored before its list: a restore that finds the list finds the state too.
        state_blob = put_state(ports, state, seed=seed)
        head = _head(ports, list_signer, payload, body=body, state=state_blob, changes=changes)
        return _with_packed(
            ports, list_signer.tenant_id, head, packing.result() if packing else None
        )

    # Compression takes as long as all the rest and releases the GIL. Short lists are not packed.
    with ThreadPoolExecutor(1, thread_name_prefix="pack") as pool:
        packing = pool.submit(encoding.pack, body) if encoding.is_worth_packing(body) else None
        _check(body, payload, list_signer, now=ports.now())
        try:
            return put_all()
        except OutOfSpace:
            if in_force is None:
                raise
        _log.warning(
            "the disk is full; the old lists of tenant %s are removed", list_signer.tenant_id
        )
        discard_all_before(ports, list_signer.tenant_id, in_force)
        return put_all()


def _check(body: bytes, payload: Payload, list_signer: ListSigner, *, now: datetime) -> None:
    """Verify a list as a client would. Raises `Corrupt` if it must not be published."""
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
    blob = put(ports, lists_folder(list_signer.tenant_id), payload.version, body)
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
    blob = put(ports, folder, head.version, packed, suffix="json.gz")
    return replace(head, packed=blob, packed_size=len(packed))


def put_state(ports: Ports, state: State, *, seed: bytes) -> str:
    """Sign a state with the seed of its list's signer, store it, and return the blob's name."""
    folder = states_folder(state.tenant_id)
    return put(ports, folder, state.version, state.sign(seed=seed), suffix=STATE_SUFFIX)


def _discard(ports: Ports, tenant_id: str, *, before: int, older_than: float | None = None) -> None:
    oldest = version_prefix(max(1, before))
    for folder in folders(tenant_id):
        ports.blobs.discard(folder, before=oldest, older_than_seconds=older_than)
