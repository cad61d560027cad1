"""The blobs of lists and states: each is stored once, under a name that tells its hash."""

import hashlib
import logging
from contextlib import suppress
from typing import Final

from shared.errors import BlobExists, Corrupt, Unavailable
from shared.model.srl.blobs import blob_name, folders, sha256_of, version_of, version_prefix
from shared.model.srl.head import Head
from shared.ports import Ports

_log = logging.getLogger(__name__)

# How many lists are kept when the next one is made, the one in force among them (docs/adr/0035): so
# many of those that have not expired, and so many in any case. Readers fetch the one in force;
# whoever was given the address of an older list fetches it within minutes; a restore needs the
# newest.
_KEPT_VALID: Final = 20
_KEPT_ALWAYS: Final = 2


def read(ports: Ports, blob: str) -> bytes:
    """The content of a blob, unaltered. Raises `Corrupt` if it is not, `Unavailable`."""
    data = ports.blobs.get(blob)
    if data is None or hashlib.sha256(data).hexdigest() != sha256_of(blob):
        raise Corrupt(f"the blob of version {version_of(blob)} is missing or altered")
    return data


def put(ports: Ports, folder: str, version: int, data: bytes, *, suffix: str = "json") -> str:
    """Store a blob of this version, and return its name. Raises `OutOfSpace`, `Unavailable`."""
    sha256 = hashlib.sha256(data).hexdigest()
    name = blob_name(folder, version=version, sha256=sha256, suffix=suffix)
    # A name that is taken holds these very bytes, left by a run that stopped here.
    with suppress(BlobExists):
        ports.blobs.put(name, data)
    return name


def discard_old(ports: Ports, tenant_id: str, head: Head) -> None:
    """Remove what is kept no longer of the lists before `head`, which is in force.

    Blobs of later versions stay, whoever is about to publish them. A failure is only logged.
    """
    lifetime = (head.expires_at - head.issued_at).total_seconds()
    try:
        _discard(ports, tenant_id, before=head.version - _KEPT_VALID + 1)
        _discard(ports, tenant_id, before=head.version - _KEPT_ALWAYS + 1, older_than=lifetime)
    except Unavailable:
        _log.warning("old lists of tenant %s could not be removed", tenant_id, exc_info=True)


def discard_all_before(ports: Ports, tenant_id: str, head: Head) -> None:
    """Remove all lists before `head`, which is in force, to make room. Raises `Unavailable`."""
    _discard(ports, tenant_id, before=head.version)


def _discard(ports: Ports, tenant_id: str, *, before: int, older_than: float | None = None) -> None:
    oldest = version_prefix(max(1, before))
    for folder in folders(tenant_id):
        ports.blobs.discard(folder, before=oldest, older_than_seconds=older_than)
