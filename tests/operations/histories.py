"""A tenant to whom anything may happen, and what its next list would be."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from shared.errors import Conflict, InvalidState, NotFound
from shared.model.api_keys import ApiKey
from shared.model.callers import Scope
from shared.model.service_accounts import ServiceAccount
from shared.model.signing_keys import SigningKey
from shared.model.tenants import SettingsChange
from shared.operations.access import api_keys, service_accounts, tenant_settings
from shared.operations.changes import list_signers, revocations, signing_keys
from shared.operations.lists import decisions, facts, publication
from shared.operations.lists import records as srl_records
from shared.operations.lists.decisions import Plan
from shared.operations.lists.storage import Pen
from shared.ports import Ports
from tests.kit.tenants import Tenant
from tests.kit.worlds import Clock, embedded

IDS = [f"svc_wrt_{letter}" for letter in "abcdef"]


def next_plan(ports: Ports, tenant_id: str) -> tuple[Any, Plan]:
    """What the next list is made from, and what it would contain."""
    pen, read = Pen(ports), facts.read(ports, tenant_id)
    making = publication._next(ports, read, publication.caught_up(ports, pen, read))
    return publication._planned(ports, pen, making, anew=False)


@dataclass
class World:
    """A tenant with two keys, and what may happen to it."""

    ports: Ports
    clock: Clock
    tenant: Tenant
    keys: list[SigningKey]
    accounts: list[ServiceAccount]
    api_keys: list[ApiKey]
    records: dict[str, str] = field(default_factory=dict)

    def revoke(self, number: int) -> None:
        self.records[IDS[number]] = self.tenant.revoke(self.ports, IDS[number])

    def restore(self, number: int) -> None:
        record = self.records.pop(IDS[number], None)
        if record:
            revocations.delete(self.ports, self.tenant.operator, revocation_id=record)

    def sign(self, number: int) -> None:
        """A warrant that soon expires, by the first key or the second."""
        key = self.keys[number % 2]
        if self.tenant.status(self.ports, key) != "active":
            return
        with suppress(Conflict):  # of this name there is one
            ends_at = self.ports.now() + timedelta(minutes=10 * (number + 1))
            self.tenant.sign(self.ports, key, IDS[number], ends_at=ends_at)

    def revoke_key(self, number: int) -> None:
        self.tenant.revoke_key(self.ports, self.keys[number % 2])

    def move_key(self, number: int) -> None:
        """A key is suspended, enabled or rotated, if it can be."""
        move = (signing_keys.suspend, signing_keys.enable, signing_keys.rotate)[number // 2]
        with suppress(InvalidState):
            move(self.ports, self.tenant.operator, key_id=self.keys[number % 2].id)

    def end_api_key(self, number: int) -> None:
        """An API key is revoked or deleted, if it is there."""
        end = (api_keys.revoke, api_keys.delete)[number // 3]
        with suppress(NotFound):
            end(self.ports, self.tenant.operator, key_id=self.api_keys[number % 3].id)

    def move_account(self, number: int) -> None:
        """An account is disabled, enabled or deleted, if it is there."""
        move = (service_accounts.disable, service_accounts.enable, service_accounts.delete)[
            number // 2
        ]
        with suppress(NotFound):
            move(self.ports, self.tenant.operator, account_id=self.accounts[number % 2].id)

    def rotate_signer(self, _number: int) -> None:
        list_signers.rotate(self.ports, self.tenant.operator)

    def wait(self, number: int) -> None:
        self.clock.advance(minutes=17 * (number + 1))

    def state(self, _number: int) -> None:
        """The feed may be ahead of the list."""
        publication.publish_feed(self.ports, self.tenant.id)

    def publish(self, _number: int) -> None:
        self.compare()
        self.tenant.regenerate(self.ports)

    def compare(self) -> None:
        """Hold the next list, made from the one before, to the one made from all records."""
        ports, tenant_id = self.ports, self.tenant.id
        making, followed = next_plan(ports, tenant_id)
        if decisions.is_compared(making.facts.listed, making.issue):
            return
        recorded = publication._recorded(ports, making).content
        changes = followed.tombstones.changes
        assert (followed.content, followed.tombstones) == (
            replace(recorded, signers=followed.content.signers),
            srl_records.tombstones(ports, tenant_id, changes=changes),
        )
        assert followed.content.signers == srl_records.revoked_signers(ports, tenant_id)

    def lifetime(self, number: int) -> None:
        change = SettingsChange(srl_ttl_seconds=1800 * (number % 3 + 1))
        tenant_settings.update(self.ports, self.tenant.operator, change=change)


STEPS: dict[str, Callable[[World, int], None]] = {
    each.__name__.replace("_", " "): each
    for each in (
        *(World.revoke, World.restore, World.sign, World.revoke_key, World.move_key),
        *(World.end_api_key, World.move_account, World.rotate_signer, World.wait),
        *(World.state, World.publish, World.lifetime),
    )
}


TOMBSTONE_STEPS = [
    *(("move key", 0), ("move key", 2), ("move key", 4)),
    *(("end api key", 0), ("end api key", 3), ("end api key", 4)),
    *(("move account", 0), ("move account", 2), ("move account", 4)),
    ("rotate signer", 0),
]


def world(folder: Path) -> World:
    clock = Clock()
    return inhabited(embedded(folder, clock), clock)


def inhabited(ports: Ports, clock: Clock) -> World:
    tenant = Tenant.create(ports)
    accounts = [tenant.account(ports, name) for name in ("first", "second")]
    keys = [tenant.api_key(ports, Scope.AUTHORIZER).api_key for _ in range(3)]
    signers = [tenant.key(ports), tenant.key(ports)]
    return World(ports, clock, tenant, signers, accounts, keys)
