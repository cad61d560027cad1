"""The blobs of lists and states: each is stored once, under a name that tells its hash."""

import hashlib
import logging
from contextlib import suppress
from typing import Final

from shared.errors import BlobExists, Corrupt, Unavailable
from shared.model import srl
from shared.model.srl import Head
from shared.ports import Ports

_log = logging.getLogger(__name__)

# How many versions before the one in force are kept. Readers fetch the one in force, and whoever
# was given the address of an older list fetches it within minutes.
_KEPT: Final = 20


def read(ports: Ports, blob: str) -> bytes:
    """The content of a blob, unaltered. Raises `Corrupt` if it is not, `Unavailable`."""
    data = ports.blobs.get(blob)
    if data is None or hashlib.sha256(data).hexdigest() != srl.sha256_of(blob):
        raise Corrupt(f"the blob of version {srl.version_of(blob)} is missing or altered")
    return data


def put(ports: Ports, folder: str, version: int, data: bytes, *, suffix: str = "json") -> str:
    """Store a blob of this version, and return its name. Raises `Unavailable`."""
    sha256 = hashlib.sha256(data).hexdigest()
    name = srl.blob_name(folder, version=version, sha256=sha256, suffix=suffix)
    # A name that is taken holds these very bytes, left by a run that stopped here.
    with suppress(BlobExists):
        ports.blobs.put(name, data)
    return name


def discard_old(ports: Ports, tenant_id: str, head: Head) -> None:
    """Remove lists and states long before the list in force; a failure is only logged.

    Blobs of later versions stay, whoever is about to publish them.
    """
    oldest = srl.version_prefix(max(1, head.version - _KEPT))
    try:
        for folder in (srl.lists_folder(tenant_id), srl.states_folder(tenant_id)):
            ports.blobs.discard(folder, before=oldest)
    except Unavailable:
        _log.warning("old lists of tenant %s could not be removed", tenant_id, exc_info=True)
