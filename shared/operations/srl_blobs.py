"""The blobs of lists and states: each is stored once, under a name that tells its hash."""

import hashlib
from contextlib import suppress

from shared.errors import BlobExists, Corrupt
from shared.model import srl
from shared.ports import Ports


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
