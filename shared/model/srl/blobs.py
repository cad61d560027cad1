"""The blobs of a tenant's lists: their names, and how they are served."""

from typing import Final

from shared.errors import Corrupt

MEDIA_TYPE: Final = "application/json"
BASE_MEDIA_TYPE: Final = "application/cbor"

# Clients ask again each time: a 304 costs little (SRL-17).
CACHE_CONTROL: Final = "private, no-cache"

_VERSION_DIGITS: Final = 12

# How the names of signed states end.
STATE_SUFFIX: Final = "cbor"


def lists_folder(tenant_id: str) -> str:
    """Return the folder of a tenant's lists."""
    return f"srl/{tenant_id}/lists"


def states_folder(tenant_id: str) -> str:
    """Return the folder of the signed states of a tenant's lists."""
    return f"srl/{tenant_id}/states"


def packed_folder(tenant_id: str) -> str:
    """Return the folder of the gzipped lists, apart from the lists so that none passes for one."""
    return f"srl/{tenant_id}/packed"


def bases_folder(tenant_id: str) -> str:
    """Return the folder of the payloads of lists in gzip, from which clients of the feed start."""
    return f"srl/{tenant_id}/bases"


def folders(tenant_id: str) -> tuple[str, ...]:
    """Return all folders that hold a blob for each version."""
    named = (lists_folder, states_folder, packed_folder, bases_folder)
    return tuple(folder(tenant_id) for folder in named)


def blob_name(folder: str, *, version: int, sha256: str, suffix: str = "json") -> str:
    """Return the name of a blob. It has the hash of the content, so it always means the same."""
    return f"{folder}/{version_prefix(version)}-{sha256}.{suffix}"


def version_prefix(version: int) -> str:
    """Return the start of the file names of a version. Those of earlier versions sort before it."""
    return f"{version:0{_VERSION_DIGITS}d}"


def sha256_of(blob: str) -> str:
    """Return the SHA-256 of the content, in hex, from the name of a blob."""
    return blob.rpartition("-")[2].partition(".")[0]


def version_of(blob: str) -> int:
    """Return the version from the name of a blob. Raises `Corrupt` if it has none."""
    try:
        return int(blob.rpartition("/")[2].partition("-")[0])
    except ValueError:
        raise Corrupt("a blob among a tenant's lists has another name than a list") from None


def media_type(name: str) -> str:
    """Return the media type of a blob with this name, in its content coding if it has one."""
    return BASE_MEDIA_TYPE if name.endswith((".cbor", ".cbor.gz")) else MEDIA_TYPE


def content_encoding(name: str) -> str | None:
    """Return the content coding of a blob with this name, or None."""
    return "gzip" if name.endswith(".gz") else None
