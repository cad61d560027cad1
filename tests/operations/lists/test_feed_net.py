"""The schedule is the net below the stream: what the stream loses is out after the next tick."""

import logging
from random import Random

import pytest

from shared.operations.base import operation
from shared.operations.changes import revocations
from shared.operations.lists import in_force, publication, wake
from shared.ports import Ports
from tests.kit.log_lines import lines, metrics
from tests.kit.tenants import Tenant
from tests.kit.worlds import Clock

_TICK_SECONDS = 60
_TICKS = 6


@pytest.fixture(autouse=True)
def _pauses_pass(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    pacing = operation.Pacing(pause=0, sleep=lambda seconds: clock.advance(seconds=seconds))
    monkeypatch.setattr(operation, "PACING", pacing)


def folded(ports: Ports, tenant: Tenant) -> set[str]:
    """What a client of the feed refuses, who has read all of it."""
    head = in_force.feed_head(ports, tenant.id)
    assert head is not None
    refused: set[str] = set()
    for stored in in_force.entries(ports, tenant.id, after=0, until=head.sequence):
        entry, _ = stored.opened()
        refused = refused.difference(entry.removed).union(entry.revoked)
    return refused


class World:
    """Tenants whose warrants change at random, and who is woken by some of the changes only."""

    def __init__(self, ports: Ports, random: Random) -> None:
        self.ports, self.random = ports, random
        self.tenants = [Tenant.create(ports, handle) for handle in ("acme", "globex")]
        self.revoked: dict[str, set[str]] = {each.id: set() for each in self.tenants}
        self.restorable: dict[str, dict[str, str]] = {each.id: {} for each in self.tenants}
        self.lost = 0

    def change(self, number: int) -> None:
        """Revoke or restore a warrant, or revoke a key; the event is delivered, or dropped."""
        tenant = self.random.choice(self.tenants)
        known, restorable = self.revoked[tenant.id], self.restorable[tenant.id]
        match self.random.randrange(4):
            case 0 if restorable:
                warrant_id, revocation_id = restorable.popitem()
                revocations.delete(self.ports, tenant.operator, revocation_id=revocation_id)
                known.remove(warrant_id)
            case 1:
                key = tenant.key(self.ports)
                known.update(tenant.sign(self.ports, key) for _ in range(2))
                tenant.revoke_key(self.ports, key)
            case _:
                warrant_id = f"svc_wrt_{number}"
                restorable[warrant_id] = tenant.revoke(self.ports, warrant_id)
                known.add(warrant_id)
        if self.random.random() < 0.5:
            wake.publish_soon(self.ports, tenant.id)
        else:
            self.lost += 1

    def check(self) -> None:
        """Every change is in the feed."""
        for tenant in self.tenants:
            assert folded(self.ports, tenant) == self.revoked[tenant.id]


@pytest.mark.parametrize("seed", range(3))
def test_a_lost_event_is_made_up_for_by_the_next_tick(
    ports: Ports, clock: Clock, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    """F225a, FEED-5: Whichever events the stream loses, the next tick publishes each change."""
    caplog.set_level(logging.INFO)
    world = World(ports, Random(seed))
    for number in range(_TICKS * 5):
        world.change(number)
        clock.advance(seconds=_TICK_SECONDS / 5)
        if number % 5 == 4:
            assert not publication.publish_due(ports).failed
            world.check()
    assert world.lost > _TICKS
    caught_up = [metrics(line).get("FeedCaughtUp") for line in lines(caplog, "feed")]
    assert [each for each in caught_up if each]


def test_what_the_stream_brought_is_not_caught_up(
    ports: Ports, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """F225b: The schedule counts an entry as caught up only if no event published it."""
    caplog.set_level(logging.INFO)
    tenant = Tenant.create(ports)
    tenant.revoke(ports, "svc_wrt_a")
    wake.publish_soon(ports, tenant.id)
    clock.advance(seconds=_TICK_SECONDS)
    publication.publish_due(ports)
    assert lines(caplog, "feed") == []
    tenant.revoke(ports, "svc_wrt_b")
    publication.publish_due(ports)
    (line,) = lines(caplog, "feed")
    assert (line["tenant_id"], metrics(line)) == (tenant.id, {"FeedCaughtUp": (1, "Count")})
