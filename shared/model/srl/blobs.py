"""The blobs of a tenant's lists: their names, and how they are served."""

from typing import Final

from shared.errors import Corrupt

MEDIA_TYPE: Final = "application/json"

# For its reader only, and to be asked for again each time: a 304 costs little.
CACHE_CONTROL: Final = "private, no-cache"

VERSION_DIGITS: Final = 12


def lists_folder(tenant_id: str) -> str:
    """Where the blobs of a tenant's lists are."""
    return f"srl/{tenant_id}/lists"


def states_folder(tenant_id: str) -> str:
    """Where the blobs are that go beside the lists."""
    return f"srl/{tenant_id}/states"


def packed_folder(tenant_id: str) -> str:
    """Where the lists are in gzip; a folder of its own, so that none passes for a list."""
    return f"srl/{tenant_id}/packed"


def folders(tenant_id: str) -> tuple[str, ...]:
    """All folders that hold something for each version."""
    return lists_folder(tenant_id), states_folder(tenant_id), packed_folder(tenant_id)


def blob_name(folder: str, *, version: int, sha256: str, suffix: str = "json") -> str:
    """A blob of a version: named by its content, so that a name never changes meaning."""
    return f"{folder}/{_digits(version)}-{sha256}.{suffix}"


def version_prefix(version: int) -> str:
    """How the blobs of a version begin; blobs of earlier versions sort before it."""
    return _digits(version)


def sha256_of(blob: str) -> str:
    """The hash of its content, in hex, that a blob's name tells."""
    return blob.rpartition("-")[2].partition(".")[0]


def version_of(blob: str) -> int:
    """The version that a blob's name tells. Raises `Corrupt` where it tells none."""
    try:
        return int(blob.rpartition("/")[2].partition("-")[0])
    except ValueError:
        raise Corrupt("a blob among a tenant's lists has another name than a list") from None


def _digits(version: int) -> str:
    return f"{version:0{VERSION_DIGITS}d}"


def content_encoding(name: str) -> str | None:
    """The content coding of a blob of this name; None if it has none."""
    return "gzip" if name.endswith(".gz") else None
