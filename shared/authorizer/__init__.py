"""Client library that follows the feed, published as the wheel `rescind-authorizer`.

The library does not import the service. The service imports only `formats` and `http1`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .aio import AsyncAuthorizerClient as AsyncAuthorizerClient
    from .client import AuthorizerClient as AuthorizerClient
    from .client import NotReady as NotReady
    from .formats.tokens import token_id as token_id
    from .guard import Guard as Guard
    from .guard import GuardDecision as GuardDecision
    from .jwt_guard import JwtDecision as JwtDecision
    from .jwt_guard import JwtGuard as JwtGuard
    from .jwt_guard import TrustedIssuer as TrustedIssuer
    from .policy import PollPolicy as PollPolicy
    from .saved_state import FileStateStore as FileStateStore
    from .saved_state import SavedState as SavedState
    from .saved_state import SavedStateCorrupt as SavedStateCorrupt
    from .saved_state import StateStore as StateStore
    from .status import ClientStatus as ClientStatus
    from .status import Verdict as Verdict
    from .transport import Transport as Transport
    from .trust import VerifiedWarrant as VerifiedWarrant

_NAMES: Final = {
    "aio": ("AsyncAuthorizerClient",),
    "client": ("AuthorizerClient", "NotReady"),
    "formats.tokens": ("token_id",),
    "guard": ("Guard", "GuardDecision"),
    "jwt_guard": ("JwtDecision", "JwtGuard", "TrustedIssuer"),
    "policy": ("PollPolicy",),
    "saved_state": ("FileStateStore", "SavedState", "SavedStateCorrupt", "StateStore"),
    "status": ("ClientStatus", "Verdict"),
    "transport": ("Transport",),
    "trust": ("VerifiedWarrant",),
}
_HOMES: Final = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    # Imported on first use, because the service needs the wire format but not the client.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
