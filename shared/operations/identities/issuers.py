"""Issuers: what they publish about themselves, and their keys."""

from shared.model.identities.claims import Discovered
from shared.ports import Ports


def discovered(ports: Ports, issuer: str) -> Discovered:
    """Return what an issuer publishes. Raises `InvalidRequest`, `Unavailable`."""
    raise NotImplementedError
