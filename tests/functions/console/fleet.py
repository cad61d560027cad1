"""Authorizers that sign, in the data of the console."""

from datetime import datetime
from typing import Any, Protocol

from shared.ports import Ports
from tests.functions.console.seeds import Seed
from tests.kit import gates


class Maker(Protocol):
    """A world, or a seed in the making."""

    seed: Seed

    @property
    def ports(self) -> Ports: ...

    def clock(self) -> datetime: ...

    def post(self, path: str, as_: str = "admin", **body: Any) -> Any: ...


def register(world: Maker, name: str, as_: str = "edge", **members: Any) -> str:
    """Register an authorizer with the API key of this name, and return its identifier."""
    body = gates.registration(world.seed.tenant_id, name, world.clock(), **members)
    return str(world.post("authorizers/register", as_, **body)["id"])


def beat(world: Maker, authorizer_id: str, as_: str = "edge", **changes: Any) -> None:
    """Let an authorizer report."""
    usual = {"verified_at": world.clock()}
    body = gates.report(world.ports, world.seed.tenant_id, authorizer_id, **usual | changes)
    world.post(f"authorizers/{authorizer_id}/heartbeat", as_, **body)
