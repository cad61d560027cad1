"""The checkpoints of the sealed log that are kept outside the store (LOG-12)."""

from contextlib import suppress
from typing import Final

from shared.authorizer.formats.trust import LogAnchor
from shared.errors import BlobExists
from shared.model.audit import kept as model
from shared.model.audit.kept import Kept
from shared.ports import Ports

# On one machine, older checkpoints than the newest are removed after this time. On AWS, a rule of
# the bucket removes them.
_OLD_SECONDS: Final = 600.0
# Sorts after the names of all checkpoints.
_ALL: Final = "~"


def newest(ports: Ports, tenant_id: str) -> Kept | None:
    """Return the newest checkpoint that is kept, or None. Raises `Corrupt`, `Unavailable`.

    Costs one listing.
    """
    name = next(ports.blobs.names(model.folder(tenant_id)), None)
    return None if name is None else Kept.parse(name)


def anchor(ports: Ports, tenant_id: str) -> LogAnchor | None:
    """Return what a new trust document or blob of the journal says of the sealed log (LOG-12).

    None if nothing was sealed yet. Costs one listing. Raises `Corrupt`, `Unavailable`.
    """
    kept = newest(ports, tenant_id)
    return None if kept is None else kept.anchor(tenant_id)


def keep(ports: Ports, tenant_id: str, stated: Kept, note: str = "") -> None:
    """Keep a checkpoint; `note` is the signed one. Raises `OutOfSpace`, `Unavailable`."""
    with suppress(BlobExists):
        ports.blobs.put(stated.name(tenant_id), note.encode())
    folder = model.folder(tenant_id)
    ports.blobs.discard(folder, before=_ALL, older_than_seconds=_OLD_SECONDS)
