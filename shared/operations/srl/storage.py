"""The blobs of lists and of their states, under names that contain their hashes.

A list and its state are stored before a head points to them (docs/adr/0004, step 4; 0024).
"""

import hashlib
import logging
from contextlib import suppress
from dataclasses import replace
from typing import Final

from shared.errors import BlobExists, OutOfSpace, Unavailable
from shared.model.srl import journal
from shared.model.srl.blobs import (
    STATE_SUFFIX,
    bases_folder,
    blob_name,
    folders,
    lists_folder,
    packed_folder,
    sha256_of,
    states_folder,
    version_prefix,
)
from shared.model.srl.head import FORMAT, Head
from shared.operations.srl.signing import Signed
from shared.ports import Ports

_log = logging.getLogger(__name__)

# How many lists, including the one in force, are kept when the next one is made (docs/adr/0035): of
# those that have not expired, and in any case. A client that has received the address of an older
# list fetches it within minutes; a restore needs the newest list.
_KEPT_VALID: Final = 20
_KEPT_ALWAYS: Final = 2
# How long a blob of the journal is kept that the list in force covers.
_JOURNAL_SECONDS: Final = 24 * 3600.0


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
    # The list in force has what is in the journal before it.
    old = (ports.now() - head.issued_at).total_seconds() + _JOURNAL_SECONDS
    try:
        ports.blobs.discard(journal.folder(tenant_id), before="~", older_than_seconds=old)
        _discard(ports, tenant_id, before=head.version - _KEPT_VALID + 1)
        _discard(ports, tenant_id, before=head.version - _KEPT_ALWAYS + 1, older_than=lifetime)
    except Unavailable:
        _log.warning("old lists of tenant %s could not be removed", tenant_id, exc_info=True)


def store(
    ports: Ports,
    signed: Signed,
    *,
    changes: int,
    sequence: int | None,
    in_force: Head | None = None,
) -> Head:
    """Store a signed list with its state, and return the head that publishes it.

    The list covers `changes` changes, and the feed up to `sequence`; None if it does not follow
    from the feed. If the disk is full, all lists before that of `in_force` are removed first.
    Raises `OutOfSpace`, `Unavailable`.
    """
    tenant_id = signed.list_signer.tenant_id
    try:
        return _put_all(ports, signed, changes, sequence)
    except OutOfSpace:
        if in_force is None:
            raise
    _log.warning("the disk is full; the old lists of tenant %s are removed", tenant_id)
    _discard(ports, tenant_id, before=in_force.version)
    return _put_all(ports, signed, changes, sequence)


def _put_all(ports: Ports, signed: Signed, changes: int, sequence: int | None) -> Head:
    payload, tenant_id = signed.payload, signed.list_signer.tenant_id
    version, states = payload.version, states_folder(tenant_id)
    # The state is stored before its list: a restore that finds the list finds the state too.
    state = put(ports, states, version, signed.state, suffix=STATE_SUFFIX)
    base = put(ports, bases_folder(tenant_id), version, signed.base, suffix="cbor.gz")
    blob = put(ports, lists_folder(tenant_id), version, signed.body)
    head = Head(
        version=version,
        issued_at=payload.issued_at,
        expires_at=payload.expires_at,
        count=len(payload.revoked_ids),
        changes=changes,
        blob=blob,
        sha256=sha256_of(blob),
        size=len(signed.body),
        key_id=signed.list_signer.id,
        state=state,
        format=FORMAT,
        sequence=sequence,
        base=base,
        base_size=len(signed.base),
        payload_sha256=hashlib.sha256(payload.encoded).hexdigest(),
    )
    if signed.packed is None:
        return head
    packed = put(ports, packed_folder(tenant_id), version, signed.packed, suffix="json.gz")
    return replace(head, packed=packed, packed_size=len(signed.packed))


def _discard(ports: Ports, tenant_id: str, *, before: int, older_than: float | None = None) -> None:
    oldest = version_prefix(max(1, before))
    for folder in folders(tenant_id):
        ports.blobs.discard(folder, before=oldest, older_than_seconds=older_than)
