"""The state of the fleet: what changed since is all that changed, and every answer agrees."""

import random
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from functions.authorizers import operations as authorizers
from functions.authorizers import propagation, registrations
from functions.authorizers import records as model
from functions.authorizers import statuses as present
from functions.authorizers.enforcement import AuthorizerStatus, EnforcementState
from functions.authorizers.statuses import ListingCursor
from shared.errors import Gone
from shared.model.callers import Caller
from shared.operations.lists import publication
from shared.ports import Ports
from tests.kit.tenants import Tenant
from tests.kit.worlds import Clock
from tests.operations.fleets import Fleet

pytestmark = pytest.mark.usefixtures("few_partitions")


@dataclass
class Watcher:
    """A client that reads all authorizers once, and then only what changed."""

    ports: Ports
    caller: Caller
    limit: int = 2
    rows: dict[str, AuthorizerStatus] = field(default_factory=dict)
    token: ListingCursor | None = None

    def read(self) -> dict[str, AuthorizerStatus]:
        """What it knows of each, after another look."""
        since, before, first = self.token, None, None
        while True:
            found = present.page(
                self.ports, self.caller, cursor=since, before=before, limit=self.limit
            )
            first = first or found.token
            assert found.token == first
            for each in found.removed:
                self.rows.pop(each, None)
            self.rows |= {each.authorizer.id: each for each in found.judged}
            before = found.next_before
            if before is None:
                break
        self.token = ListingCursor.parse(str(first))
        return self.rows


@pytest.mark.slow
def test_what_changed_is_all_that_changed(
    ports: Ports, tenant: Tenant, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FLEET-28, FLEET-29, F1370a: Whoever reads only what changed knows what a full read says.

    After each of many random steps the summary and the proof of a revocation count the same.
    """
    monkeypatch.setattr(model, "UNSEEN", timedelta(minutes=20))
    chance, fleet = random.Random(1370), Fleet(ports, tenant).add("a", "b", "c")
    watcher, number, revoked = Watcher(ports, tenant.operator), 0, ""
    proofs = set[EnforcementState]()

    def revoke() -> None:
        nonlocal revoked
        revoked = tenant.revoke(ports, ports.new_id("wrt"))
        publication.publish_feed(ports, tenant.id)

    def remove() -> None:
        name = chance.choice(list(fleet.ids))
        authorizers.remove(ports, tenant.operator, authorizer_id=fleet.ids.pop(name))

    def recount() -> None:
        item = ports.store.get(model.registered_address(tenant.id))
        registrations.recount(ports, tenant.id, registrations.parse_counts(item))

    def report() -> None:
        found = present.page(ports, tenant.operator, cursor=None, before=None, limit=100)
        alive = {each.authorizer.id for each in found.judged}
        names = [name for name, own in fleet.ids.items() if own in alive]
        for name in chance.sample(names, min(len(names), 2)):
            fleet.report(name, staleness=chance.choice([30, 600, None]))

    for step in range(200):
        clock.advance(seconds=chance.choice([0, 1, 2, 20, 70, 300]))
        kind = chance.choice(["revoke", "report", "report", "report", "add", "remove", "recount"])
        if kind == "add" or len(fleet.ids) < 3:
            number += 1
            fleet.add(f"n{number}")
        else:
            {"revoke": revoke, "report": report, "remove": remove, "recount": recount}[kind]()
        known = watcher.read()
        everything = Watcher(ports, tenant.operator).read()
        assert known == everything, step
        counted = present.summary(ports, tenant.operator)
        found = [each.enforcement for each in everything.values()]
        proofs |= {*found}
        assert counted.total == len(found)
        assert [counted.enforced, counted.fail_closed, counted.unknown] == [
            found.count(each)
            for each in (
                EnforcementState.ENFORCED,
                EnforcementState.FAIL_CLOSED,
                EnforcementState.UNKNOWN,
            )
        ]
    # No subject cutoff was revoked.
    assert proofs == {*EnforcementState} - {EnforcementState.UNSUPPORTED}
    revoke()
    of_one = propagation.progress_of(ports, tenant.operator, revocation_id=revoked).propagation
    now = present.summary(ports, tenant.operator)
    assert (of_one.enforced, of_one.fail_closed, of_one.unknown) == (
        now.enforced,
        now.fail_closed,
        now.unknown,
    )


def test_a_look_that_is_too_old_is_gone(ports: Ports, tenant: Tenant, clock: Clock) -> None:
    """FLEET-29, F1372a: After an hour the service does not claim to know what changed."""
    watcher = Watcher(ports, tenant.operator)
    watcher.read()
    clock.advance(minutes=59)
    assert watcher.read() == {}
    clock.advance(minutes=61)
    with pytest.raises(Gone):
        watcher.read()


def test_the_time_of_the_next_change(ports: Ports, tenant: Tenant, clock: Clock) -> None:
    """FLEET-28, F1373a: The summary says when the time alone closes the next authorizer."""
    fleet = Fleet(ports, tenant).add("a", "b")
    fleet.beat("a", 0, staleness=30)
    fleet.beat("b", 0, staleness=None)
    tenant.revoke(ports, "svc_wrt_a")
    publication.publish_feed(ports, tenant.id)
    found = present.summary(ports, tenant.operator)
    assert (found.unknown, found.next_change_at) == (2, clock() + timedelta(seconds=90))
    clock.advance(seconds=90)
    found = present.summary(ports, tenant.operator)
    assert (found.fail_closed, found.unknown, found.next_change_at, found.missed_heartbeat) == (
        1,
        1,
        None,
        0,
    )
    clock.advance(seconds=316)
    assert present.summary(ports, tenant.operator).missed_heartbeat == 2
