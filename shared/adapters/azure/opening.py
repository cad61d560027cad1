"""Opens the ports on Azure."""

from shared.adapters.azure.blobs import AzureBlobs
from shared.ports.blobs import BlobStore
from shared.ports.store import Store


def open_blobs(location: str, _: Store | None) -> BlobStore:
    """Open a container of Azure Blob Storage."""
    return AzureBlobs(location)
