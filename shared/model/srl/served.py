"""How a list is served: by its endpoint, and to whoever has the address of its blob."""

from typing import Final

MEDIA_TYPE: Final = "application/json"

# For its reader only, and to be asked for again each time: a 304 costs little.
CACHE_CONTROL: Final = "private, no-cache"


def content_encoding(name: str) -> str | None:
    """The content coding of a blob of this name; None if it has none."""
    return "gzip" if name.endswith(".gz") else None
