"""Entity tags in `If-None-Match`, as parsed by the service and its relays (API-23, RFC 9110)."""

import re
from typing import Final

# An item in a list of entity tags. The quoted text may contain commas. Proxies that compress append
# the coding to the tag, and no tag of the service ends with a coding.
_TAG: Final = re.compile(
    r'(?:^|,)\s*(?:W/)?("[^"]*?)(?:(?:--?|;)(?:gzip|br|zstd|deflate))?"\s*(?=,|$)'
)


def tags(if_none_match: str) -> list[str]:
    """Return the entity tags in `If-None-Match`, each in quotes, or `*` alone."""
    value = if_none_match.strip()
    return ["*"] if value == "*" else [f'{tag}"' for tag in _TAG.findall(value)]


def is_held(if_none_match: str, etag: str) -> bool:
    """Return whether the caller has the representation of `etag`, which permits a 304."""
    return not {"*", etag}.isdisjoint(tags(if_none_match))
