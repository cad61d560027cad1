"""The rule for every `expires_at` that a caller gives (API-17)."""

from datetime import datetime

from shared.errors import InvalidRequest
from shared.model import times
from shared.ports import Ports


def check(ports: Ports, expires_at: datetime | None) -> None:
    """Raise `InvalidRequest` where `expires_at` is given and does not lie in the future."""
    if times.has_passed(expires_at, ports.now()):
        raise InvalidRequest("expires_at: must lie in the future.")
