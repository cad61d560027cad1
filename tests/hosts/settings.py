"""The settings of the clients in hosts of Python, which the environment contains."""

import os
from typing import Any

from shared.authorizer import FileStateStore, PollPolicy

MAX_STALENESS = 6.0


def arguments() -> dict[str, Any]:
    """Return the arguments of a client. All processes of a host share one state folder."""
    return {
        "url": os.environ["HOST_URL"],
        "api_key": os.environ["HOST_KEY"],
        "tenant": os.environ["HOST_TENANT"],
        "trust_pin": os.environ["HOST_PIN"],
        "state": FileStateStore(os.environ["HOST_STATE_DIR"]),
        "policy": PollPolicy(max_staleness=MAX_STALENESS),
    }


def answer(verdict: str) -> bytes:
    """Return the body of an answer."""
    return f"{os.getpid()} {verdict}".encode()
