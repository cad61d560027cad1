"""A list that follows from the one before is, byte for byte, the one made from all records."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shared.errors import Conflict, InvalidState, NotFound
from shared.model import revocations as revocation_model
from shared.model.api_keys import ApiKey
from shared.model.callers import Scope
from shared.model.lists.head import head_address
from shared.model.service_accounts import ServiceAccount
from shared.model.signing_keys import SigningKey
from shared.model.tenants import SettingsChange
from shared.operations.access import api_keys, service_accounts, tenant_settings
from shared.operations.changes import list_signers, revocations, signing_keys, warrants
from shared.operations.changes.warrants import Order
from shared.operations.lists import decisions, facts, in_force, publication, storage, verdicts
from shared.operations.lists import records as srl_records
from shared.operations.lists.decisions import Plan
from shared.operations.lists.storage import Pen
from shared.ports import Ports
from shared.ports.store import Expect, Put
from tests.kit.faults import Script, scripted
from tests.kit.tenants import Tenant
from tests.kit.worlds import Clock, embedded

_IDS = [f"svc_wrt_{letter}" for letter in "abcdef"]


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
        self.records[_IDS[number]] = self.tenant.revoke(self.ports, _IDS[number])

    def restore(self, number: int) -> None:
        record = self.records.pop(_IDS[number], None)
        if record:
            revocations.delete(self.ports, self.tenant.operator, revocation_id=record)

    def sign(self, number: int) -> None:
        """A warrant that soon expires, by the first key or the second."""
        key = self.keys[number % 2]
        if self.tenant.status(self.ports, key) != "active":
            return
        with suppress(Conflict):  # of this name there is one
            warrants.sign(
                self.ports,
                self.tenant.operator,
                key_id=key.id,
                order=Order(
                    b"grant",
                    warrant_id=_IDS[number],
                    expires_at=self.ports.now() + timedelta(minutes=10 * (number + 1)),
                ),
            )

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
        assert followed.content.signers == verdicts.revoked_signers(ports, tenant_id)

    def lifetime(self, number: int) -> None:
        change = SettingsChange(srl_ttl_seconds=1800 * (number % 3 + 1))
        tenant_settings.update(self.ports, self.tenant.operator, change=change)


_STEPS: dict[str, Callable[[World, int], None]] = {
    "revoke": World.revoke,
    "restore": World.restore,
    "sign": World.sign,
    "revoke key": World.revoke_key,
    "move key": World.move_key,
    "end API key": World.end_api_key,
    "move account": World.move_account,
    "rotate signer": World.rotate_signer,
    "wait": World.wait,
    "state": World.state,
    "publish": World.publish,
    "lifetime": World.lifetime,
}


_TOMBSTONE_STEPS = [
    *(("move key", 0), ("move key", 2), ("move key", 4)),
    *(("end API key", 0), ("end API key", 3), ("end API key", 4)),
    *(("move account", 0), ("move account", 2), ("move account", 4)),
    ("rotate signer", 0),
]


def _world(folder: Path) -> World:
    clock = Clock()
    ports = embedded(folder, clock)
    tenant = Tenant.create(ports)
    accounts = [tenant.account(ports, name) for name in ("first", "second")]
    keys = [tenant.api_key(ports, Scope.AUTHORIZER).api_key for _ in range(3)]
    signers = [tenant.key(ports), tenant.key(ports)]
    return World(ports, clock, tenant, signers, accounts, keys)


_ANY_STEPS = st.lists(st.tuples(st.sampled_from(sorted(_STEPS)), st.integers(0, 5)), max_size=30)


@pytest.mark.usefixtures("few_partitions")
@settings(max_examples=20)
# Revoked by itself, and by its key as well.
@example([("sign", 0), ("revoke", 0), ("revoke key", 0)])
# Stated by the feed, and over long before the next list.
@example([("sign", 0), ("revoke", 0), ("state", 0), ("wait", 5)])
# One after the other, each is the only change since the list before it.
@example([each for move in _TOMBSTONE_STEPS for each in (("publish", 0), move)])
@given(_ANY_STEPS)
def test_both_ways_make_the_same_list(steps: list[tuple[str, int]]) -> None:
    """SRL-7, F48a: A list that is derived from the last equals one that is made from all records.

    The state beside the list is the same too, with all tombstones.
    """
    _compare_after(steps)


@pytest.mark.slow
@settings(max_examples=200)
@given(_ANY_STEPS)
def test_both_ways_make_the_same_list_in_the_long_run(steps: list[tuple[str, int]]) -> None:
    """F48: The same for more steps."""
    _compare_after(steps)


def _compare_after(steps: list[tuple[str, int]]) -> None:
    with TemporaryDirectory() as folder:
        world = _world(Path(folder))
        for name, number in steps:
            _STEPS[name](world, number)
        world.compare()


@pytest.mark.usefixtures("few_partitions")
def test_it_reads_what_changed_and_no_more(ports: Ports, tenant: Tenant) -> None:
    """Among three hundred revoked warrants, two changes cost as many calls as among none."""
    for number in range(300):
        tenant.revoke(ports, f"svc_wrt_{number}")
    tenant.regenerate(ports)
    for number in range(300, 302):
        tenant.revoke(ports, f"svc_wrt_{number}")
    script = Script()
    head = publication.publish(scripted(ports, script), tenant.operator)
    assert head.count == 302
    # The counters and what changed, in every shard, and the signers.
    assert script.calls.count("query") == 2 * revocation_model.SHARDS + 2
    assert len(script.calls) == 14 + script.calls.count("query")


@pytest.mark.parametrize("damage", [b"", b"{}"])
def test_without_its_state_a_list_is_made_anew(
    ports: Ports, tenant: Tenant, tmp_path: Path, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """A lost or altered state is not believed; the list is right all the same, and that is told."""
    key = tenant.key(ports)
    signed = tenant.sign(ports, key)
    tenant.revoke_key(ports, key)
    tenant.regenerate(ports)
    state = in_force.head(ports, tenant.id).state
    assert state is not None
    path = tmp_path / "blobs" / state
    path.write_bytes(damage) if damage else path.unlink()
    tenant.revoke(ports, "svc_wrt_z")
    assert tenant.regenerate(ports).revoked_ids == sorted([signed, "svc_wrt_z"])
    assert "reading all records instead" in caplog.text


def test_a_list_that_fails_its_check_is_made_anew(
    ports: Ports, tenant: Tenant, caplog: pytest.LogCaptureFixture
) -> None:
    """A base that is not in order heals: the check refuses what follows from it."""
    for name in ("svc_wrt_a", "svc_wrt_b"):
        tenant.revoke(ports, name)
    tenant.regenerate(ports)
    head = in_force.head(ports, tenant.id)
    body = in_force.body(ports, head).replace(b'"svc_wrt_b"]', b'"svc_wrt_b","svc wrt"]')
    blob = storage.put(ports, "srl/damaged", head.version, body)
    damaged = {**head.to_item(), "blob": blob, "sha256": blob.rpartition("-")[2][:-5]}
    address = head_address(tenant.id)
    ports.store.write(Put(address, damaged, Expect.PRESENT))
    assert tenant.regenerate(ports).revoked_ids == ["svc_wrt_a", "svc_wrt_b"]
    assert "reading all records instead" in caplog.text


@pytest.mark.usefixtures("few_partitions")
def test_every_hundredth_list_is_made_from_all_records(ports: Ports, tenant: Tenant) -> None:
    """F93a: A change that lost its mark reaches the list within a hundred versions."""
    shard = revocation_model.shard_of(tenant.id, "svc_wrt_lost")
    ports.store.write(Put(shard.address("svc_wrt_lost"), {}, Expect.ABSENT))
    for version in range(2, 100):
        assert tenant.regenerate(ports).revoked_ids == [], version
    assert tenant.regenerate(ports).revoked_ids == ["svc_wrt_lost"]


def test_a_longer_lifetime_brings_back_what_had_left(tmp_path: Path) -> None:
    """A warrant stays on the list for a lifetime after its end, however long that was before."""
    world = _world(tmp_path)
    world.lifetime(0)
    world.sign(0)
    world.revoke(0)
    world.clock.advance(minutes=41)
    assert world.tenant.regenerate(world.ports).revoked_ids == []
    world.lifetime(1)
    assert world.tenant.regenerate(world.ports).revoked_ids == [_IDS[0]]
