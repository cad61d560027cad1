"""Whether trust documents exist, so that a lost root key is not replaced by another."""

from shared.operations.base import tenants
from shared.ports import Ports


def has_documents(ports: Ports) -> bool:
    """Return whether a root has signed a document for any tenant. Raises `Unavailable`."""
    return any(
        name.rpartition("/")[0] == folder
        for folder in (f"trust/{each.tenant_id}" for each in tenants.directory(ports))
        for name in ports.blobs.names(folder)
    )
