"""Parsing of request headers without a web framework (RFC 9110)."""

import re
from typing import Final

_WEIGHT: Final = re.compile(r"[qQ]=(0(?:\.\d{0,3})?|1(?:\.0{0,3})?)")


def accepts_gzip(accept_encoding: str) -> bool:
    """Return whether the caller accepts gzip explicitly and does not prefer identity.

    By the standard, a caller that names no coding accepts any. Many of these callers cannot read
    gzip.
    """
    found = weights(accept_encoding)
    gzip = found.get("gzip", 0.0)
    return gzip > 0 and gzip >= found.get("identity", 0.0)


def weights(header: str) -> dict[str, float]:
    """Return the weight of each name in a header like `Accept`.

    Malformed entries and parameters other than the weight are ignored.
    """
    found: dict[str, float] = {}
    for entry in header.split(","):
        name, *parameters = entry.split(";")
        given = [each.strip() for each in parameters if each.strip()[:2].lower() == "q="]
        matched = [_WEIGHT.fullmatch(each) for each in given]
        if any(each is None for each in matched):
            continue
        found[name.strip().lower()] = min((float(each[1]) for each in matched if each), default=1.0)
    return found
