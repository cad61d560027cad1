"""The client of the feed, for authorizers. It is published as the wheel `rescind-authorizer`.

It imports nothing of the service; the service imports only `formats` and `http1`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .aio import AsyncAuthorizerClient as AsyncAuthorizerClient
    from .client import AuthorizerClient as AuthorizerClient
    from .client import NotReady as NotReady
    from .floor import DamagedFloor as DamagedFloor
    from .floor import FileFloor as FileFloor
    from .floor import Floor as Floor
    from .floor import Saved as Saved
    from .formats.tokens import token_id as token_id
    from .guard import Decision as Decision
    from .guard import Guard as Guard
    from .jwt_guard import JwtDecision as JwtDecision
    from .jwt_guard import JwtGuard as JwtGuard
    from .jwt_guard import TrustedIssuer as TrustedIssuer
    from .policy import Policy as Policy
    from .status import Status as Status
    from .status import Verdict as Verdict
    from .transport import Transport as Transport
    from .trust import Warrant as Warrant

_HOMES: Final = {
    "AsyncAuthorizerClient": "aio",
    "AuthorizerClient": "client",
    "NotReady": "client",
    "DamagedFloor": "floor",
    "FileFloor": "floor",
    "Floor": "floor",
    "Saved": "floor",
    "Decision": "guard",
    "Guard": "guard",
    "JwtDecision": "jwt_guard",
    "JwtGuard": "jwt_guard",
    "TrustedIssuer": "jwt_guard",
    "Policy": "policy",
    "Status": "status",
    "Verdict": "status",
    "Transport": "transport",
    "Warrant": "trust",
    "token_id": "formats.tokens",
}


def __getattr__(name: str) -> Any:
    # On first use, because the service needs the wire format and no client.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
