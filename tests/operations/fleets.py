"""A fleet of authorizers of a tenant, which report what they are told to."""

from dataclasses import dataclass, field

from functions.authorizers import operations as authorizers
from functions.authorizers import registering
from functions.authorizers.operations import HeartbeatAnswer
from functions.authorizers.records import AuthorizerDescription, Heartbeat
from shared.ports import Ports
from tests.kit.tenants import Tenant
from tests.operations.followers import current


@dataclass
class Fleet:
    """Authorizers by name, with their identifiers."""

    ports: Ports
    tenant: Tenant
    ids: dict[str, str] = field(default_factory=dict)

    def add(self, *names: str) -> "Fleet":
        """Register authorizers."""
        for name in names:
            made = registering.register(
                self.ports, self.tenant.operator, description=AuthorizerDescription(name)
            )
            self.ids[name] = made.authorizer.id
        return self

    def report(self, *names: str, staleness: int | None = 30) -> None:
        """Let authorizers report that they have the whole feed now."""
        head = current(self.ports, self.tenant.id).signed_head
        for name in names:
            self.beat(name, head.sequence, head.chain.hex(), staleness=staleness)

    def beat(
        self, name: str, sequence: int, chain: str = "", *, staleness: int | None = 30
    ) -> HeartbeatAnswer:
        """Send the heartbeat of one authorizer."""
        beat = Heartbeat(
            sequence, chain, verified_at=self.ports.now(), max_staleness_seconds=staleness
        )
        own = self.ids[name]
        return authorizers.heartbeat(self.ports, self.tenant.operator, authorizer_id=own, beat=beat)
