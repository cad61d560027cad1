"""Entity tags in `If-None-Match`, as the service and its relays read them (API-23, RFC 9110)."""

import re
from typing import Final

# An entry of a list of entity tags. The quoted text may contain commas. Proxies that compress
# append the coding to the tag; no tag of ours ends like that.
_TAG: Final = re.compile(
    r'(?:^|,)\s*(?:W/)?("[^"]*?)(?:(?:--?|;)(?:gzip|br|zstd|deflate))?"\s*(?=,|$)'
)


def tags(if_none_match: str) -> list[str]:
    """Return the entity tags in `If-None-Match`, each in quotes, or `*` alone."""
    value = if_none_match.strip()
    return ["*"] if value == "*" else [f'{tag}"' for tag in _TAG.findall(value)]


def is_held(if_none_match: str, etag: str) -> bool:
    """Return whether the caller has the representation of `etag`, so that the answer is 304."""
    return not {"*", etag}.isdisjoint(tags(if_none_match))
