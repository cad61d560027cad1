"""One-time codes that sign in to the console of a server on this machine (docs/adr/25)."""

import math
import secrets
from typing import Final

from shared.errors import ExpectationLost, InvalidSettings
from shared.model import console_codes as model
from shared.model.console_codes import LIFETIME, ConsoleCode
from shared.ports import Ports
from shared.ports.store import Delete, Expect, Put

_CODE_BYTES: Final = 32


def announce(ports: Ports, server: str) -> None:
    """Note the address of a console that takes codes. Raises `Unavailable`."""
    ports.store.write(Put(model.SERVER, {"address": server}, Expect.ANYTHING))


def address(ports: Ports) -> str:
    """Return the address noted last. Raises `InvalidSettings` if there is none, `Unavailable`."""
    item = ports.store.get(model.SERVER)
    if item is None:
        raise InvalidSettings("No server that takes codes was started on this data.")
    return str(item["address"])


def link(ports: Ports, tenant: str) -> str:
    """Return the address with a new code, which signs in once to the tenant of this handle.

    Raises as `address` does.
    """
    code, expires = secrets.token_urlsafe(_CODE_BYTES), ports.now() + LIFETIME
    found = ConsoleCode(tenant, math.floor(expires.timestamp()))
    ports.store.write(Put(model.address(code), found.to_item(), Expect.ABSENT))
    return f"{address(ports)}/#code={code}"


def spend(ports: Ports, code: str) -> str | None:
    """Return the tenant to which a code signs in, and end the code; None if it is not accepted.

    A code is not accepted if it is wrong, was used or is too old. Raises `Corrupt`, `Unavailable`.
    """
    place = model.address(code)
    if (item := ports.store.get(place)) is None:
        return None
    found = ConsoleCode.from_item(item)
    try:
        ports.store.write(Delete(place, Expect.PRESENT))
    except ExpectationLost:
        return None
    return found.tenant if found.is_valid(ports.now()) else None
