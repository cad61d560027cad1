"""The canary: how long a revocation takes, and that nothing stays behind."""

import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from functions.authorizers import propagation as operators
from shared.model.callers import Caller
from shared.model.revocations import Revocation
from shared.operations.changes import revocations
from shared.operations.lists import publication
from shared.operations.operator import onboarding
from shared.ports import Ports
from tests.infra.commands import Command
from tests.infra.folders import opened
from tests.kit.tenants import Tenant
from tests.operations.fleets import Fleet


class World:
    """A tenant with two authorizers, and what happens in the pauses of the canary."""

    def __init__(self, data: Path, ports: Ports, run: Command) -> None:
        onboarding.create_tenant(ports, handle="acme")
        operator: Caller = onboarding.operator(ports, handle="acme")
        self.data, self.ports, self.run = data, ports, run
        self.tenant = Tenant(operator.tenant_id, operator)
        self.fleet = Fleet(ports, self.tenant)
        self.happens: list[Callable[[], object]] = []

    def pause(self, _seconds: float) -> None:
        self.happens.pop(0)()

    def publish(self) -> None:
        publication.publish_feed(self.ports, self.tenant.id)

    def records(self) -> list[Revocation]:
        page = revocations.page(self.ports, self.tenant.operator, before=None, limit=10)
        return list(page.entries)


@pytest.fixture
def world(data: Path, rescind: Command, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with opened(data) as ports:
        world = World(data, ports, rescind)
        monkeypatch.setattr(operators, "_sleep", world.pause)
        yield world


def test_the_canary_prints_the_seconds(world: World) -> None:
    """FLEET-17, F269a: The canary says how far it got, prints the seconds, and is restored."""
    world.fleet.add("north", "south")
    world.happens = [
        world.publish,
        lambda: world.fleet.report("north"),
        lambda: world.fleet.report("south"),
    ]
    done = world.run.run("canary", "acme", "--data", world.data)
    assert (done.code, world.records()) == (0, [])
    assert float(done.out) < 60
    assert "svc_wrt_canary_" in done.err
    for told in (
        "not in the feed yet; 2 authorizers are registered.",
        "feed entry 1; 0 of 2 enforce it, 0 fail closed, 2 unknown.",
        "feed entry 1; 1 of 2 enforce it, 0 fail closed, 1 unknown.",
        "feed entry 1; 2 of 2 enforce it, 0 fail closed, 0 unknown.",
        "Unrevoked",
    ):
        assert told in done.err


@pytest.mark.usefixtures("default_signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_canary_is_restored(world: World, number: signal.Signals) -> None:
    """FLEET-17, F269b: After an interrupt or a fault, no revocation stays behind."""
    world.fleet.add("north")
    world.happens = [world.publish, partial(os.kill, os.getpid(), number)]
    done = world.run.run("canary", "acme", "--data", world.data)
    assert (done.code, world.records(), done.out) == (1, [], "")
    assert "interrupted" in done.err


def test_an_interrupt_before_the_record_is_known(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F269: An interrupt right after the revocation was stored leaves no revocation either."""
    world.fleet.add("north")
    create = revocations.create

    def interrupted(*args: object, **kwargs: object) -> object:
        monkeypatch.setattr(revocations, "create", create)
        create(*args, **kwargs)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(revocations, "create", interrupted)
    assert world.run.run("canary", "acme", "--data", world.data).code == 1
    assert world.records() == []


def test_a_fleet_that_does_not_follow(world: World) -> None:
    """FLEET-17: If the time is over, the canary names who is behind, and fails."""
    world.fleet.add("north", "south")
    world.fleet.report("north")
    world.happens = [world.publish, lambda: None]
    done = world.run.run("canary", "acme", "--seconds", "0", "--data", world.data)
    assert (done.code, world.records(), done.out) == (1, [], "")
    assert f"unknown: north ({world.fleet.ids['north']}) has entry 0." in done.err
    assert f"unknown: south ({world.fleet.ids['south']}) has no entry." in done.err
    assert "2 authorizer(s) unknown" in done.err
