"""Clients of a service on loopback, as tests want them unless they say otherwise."""

from collections.abc import Callable
from typing import Any, TypeAlias

from shared.authorizer import AuthorizerClient, PollPolicy
from shared.authorizer.saved_state import MemoryStateStore
from tests.authorizer.feeds import TENANT
from tests.authorizer.service import KEY, PIN

# Makes a client; the arguments replace the usual ones.
Made: TypeAlias = Callable[..., AuthorizerClient]


def arguments(**changes: Any) -> dict[str, Any]:
    """What a client is made with, beside the address."""
    usual: dict[str, Any] = {
        "api_key": KEY,
        "tenant": TENANT,
        "trust_pin": PIN,
        "state": MemoryStateStore(),
        "policy": PollPolicy(poll_seconds=0.01),
    }
    return usual | changes
