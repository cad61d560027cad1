"""The stored trust documents: blobs, and the head item that names the newest."""

from collections.abc import Iterable
from functools import partial
from typing import Final

from functions.trust.records import TrustHead, document_blob, folder, head_address, version_of
from shared.authorizer.formats import documents as formats
from shared.authorizer.formats.documents import NotTrusted, SignedDocument
from shared.authorizer.formats.trust import KeyUse, LogAnchor
from shared.capabilities import AnchorSource
from shared.errors import DataCorrupt
from shared.model.callers import Caller, Scope
from shared.operations.base.operation import operation
from shared.ports import Ports


def read_head(ports: Ports, tenant_id: str) -> TrustHead | None:
    """Read the head of the documents, or None before the first one.

    Raises `DataCorrupt`, `Unavailable`.
    """
    return TrustHead.from_optional(ports.store.get(head_address(tenant_id)))


def read_all(ports: Ports, tenant_id: str, versions: Iterable[int]) -> list[SignedDocument]:
    """Read the documents of these versions, in order. Raises `DataCorrupt`, `Unavailable`."""
    return [*ports.gather(*(partial(read_document, ports, tenant_id, each) for each in versions))]


def read_document(ports: Ports, tenant_id: str, version: int) -> SignedDocument:
    """Read the document of a version. Raises `DataCorrupt` if it is missing or altered."""
    data = ports.blobs.get(document_blob(tenant_id, version))
    signed = None if data is None else decode_document(data)
    expected = (tenant_id, version)
    if signed is None or (signed.document.tenant_id, signed.document.version) != expected:
        raise DataCorrupt(f"the trust document of version {version} is missing or altered")
    return signed


@operation(*Scope)
def newest(ports: Ports, caller: Caller) -> TrustHead | None:
    """Return the head of the tenant's documents, or None before the first.

    Raises `DataCorrupt`, `Unavailable`.
    """
    return read_head(ports, caller.tenant_id)


@operation(*Scope)
def read_since(
    ports: Ports, caller: Caller, *, of: TrustHead | None, after: int
) -> list[SignedDocument]:
    """Return the documents newer than version `after`, at most 64.

    Raises `DataCorrupt`, `Unavailable`.
    """
    versions = of.versions_after(after) if of else []
    return read_all(ports, caller.tenant_id, versions[: formats.DOCUMENTS_MAX])


def list_keys(ports: Ports, tenant_id: str, version: int) -> tuple[bytes, ...]:
    """Return the keys (32 bytes each) that may sign SRLs and feed heads in this version.

    Raises `DataCorrupt`, `Unavailable`.
    """
    return read_document(ports, tenant_id, version).document.keys_for_use(KeyUse.LISTS)


def decode_document(data: bytes) -> SignedDocument | None:
    """Return the document in a blob without a signature check, or None if it is malformed."""
    try:
        (signed,) = formats.documents(data)
    except (NotTrusted, ValueError):
        return None
    return signed


def highest(ports: Ports, tenant_id: str) -> int:
    """Return the highest version with a blob, published or not, or 0 without one.

    Raises `DataCorrupt`, `Unavailable`.
    """
    return max(stored_versions(ports, tenant_id), default=0)


def stored_versions(ports: Ports, tenant_id: str) -> list[int]:
    """Return the versions that have a blob, in no order. Raises `DataCorrupt`, `Unavailable`."""
    names = ports.blobs.names(folder(tenant_id))
    return [each for each in map(version_of, names) if each]


def _list_blobs(ports: Ports, tenant_id: str) -> list[str]:
    return [document_blob(tenant_id, each) for each in stored_versions(ports, tenant_id)]


def _find_newest_blob(ports: Ports, tenant_id: str) -> str | None:
    head = read_head(ports, tenant_id)
    return None if head is None else document_blob(tenant_id, head.version)


def _parse_anchor(blob: bytes) -> LogAnchor | None:
    (signed,) = formats.documents(blob)
    return signed.document.log


ANCHORS: Final = AnchorSource(_list_blobs, _find_newest_blob, _parse_anchor)
