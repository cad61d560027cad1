"""Values of request headers, read without any web framework (RFC 9110)."""

import re
from typing import Final

_WEIGHT: Final = re.compile(r"[qQ]=(0(?:\.\d{0,3})?|1(?:\.0{0,3})?)")


def accepts_gzip(accept_encoding: str) -> bool:
    """Return whether the caller names gzip among its codings and does not prefer identity.

    By the standard, a caller who names no coding accepts any, but many of them cannot read gzip.
    """
    weights: dict[str, float] = {}
    for entry in accept_encoding.split(","):
        coding, _, parameter = entry.partition(";")
        weight = _WEIGHT.fullmatch(parameter.strip()) if parameter else None
        if parameter and weight is None:
            continue  # malformed, so ignored
        weights[coding.strip().lower()] = float(weight[1]) if weight else 1.0
    gzip = weights.get("gzip", 0.0)
    return gzip > 0 and gzip >= weights.get("identity", 0.0)
