"""The proof of propagation: what is said of a revocation, and that a fault is never complete."""

from datetime import timedelta

import pytest

from functions.authorizers import propagation as of_tenant
from functions.authorizers import records as model
from functions.authorizers.enforcement import EnforcementState, Propagation
from functions.authorizers.propagation import PropagationProgress
from shared.errors import DataCorrupt, NotFound, Unavailable
from shared.model import feed as feed_model
from shared.model.lists.schedule import warrant_mark_address
from shared.operations.changes import srl
from shared.operations.lists import publication
from shared.operations.operator import doctor
from shared.ports import Ports
from shared.ports.store import Delete, Expect, Put
from tests.kit.faults import Script, broken_at, scripted
from tests.kit.log_lines import lines, metrics
from tests.kit.tenants import Tenant, break_off, item_at
from tests.kit.worlds import Clock
from tests.operations.fleets import Fleet

pytestmark = pytest.mark.usefixtures("few_partitions")


@pytest.fixture
def fleet(ports: Ports, tenant: Tenant) -> Fleet:
    """Two authorizers that have the whole feed."""
    fleet = Fleet(ports, tenant).add("north", "south")
    fleet.report("north", "south")
    return fleet


def progress(ports: Ports, tenant: Tenant, revocation_id: str) -> PropagationProgress:
    return of_tenant.progress_of(ports, tenant.operator, revocation_id=revocation_id)


def counts(found: Propagation) -> tuple[int, int, int, int, bool]:
    return found.total, found.enforced, found.fail_closed, found.unknown, found.is_complete


def test_from_nothing_to_complete(ports: Ports, tenant: Tenant, fleet: Fleet, clock: Clock) -> None:
    """FLEET-10, F264a: A revocation is complete once each authorizer has it or refuses everything.

    Before the feed has it, nobody is known to refuse the warrant.
    """
    revocation_id = tenant.revoke(ports, "svc_wrt_a")
    found = progress(ports, tenant, revocation_id)
    assert (found.traced.published, counts(found.propagation)) == (None, (2, 0, 0, 2, False))
    publication.publish_feed(ports, tenant.id)
    found = progress(ports, tenant, revocation_id)
    assert found.traced.published is not None
    assert (found.traced.published.sequence, found.traced.srl_version) == (1, None)
    assert counts(found.propagation) == (2, 0, 0, 2, False)
    fleet.report("north")
    clock.advance(seconds=89)
    assert counts(progress(ports, tenant, revocation_id).propagation) == (2, 1, 0, 1, False)
    clock.advance(seconds=1)
    (straggler,) = progress(ports, tenant, revocation_id).propagation.lagging_authorizers
    assert (straggler.authorizer.name, straggler.enforcement) == (
        "south",
        EnforcementState.FAIL_CLOSED,
    )
    fleet.report("south")
    assert counts(progress(ports, tenant, revocation_id).propagation) == (2, 2, 0, 0, True)
    srl.regenerate(ports, tenant.operator)
    assert progress(ports, tenant, revocation_id).traced.srl_version == 2


def test_what_has_no_propagation(ports: Ports, tenant: Tenant, fleet: Fleet) -> None:
    """FLEET-12: A revocation that is unknown, deleted or of another tenant is not found."""
    revocation_id = tenant.revoke(ports, "svc_wrt_a")
    tenant.unrevoke(ports, revocation_id)
    theirs = Tenant.create(ports, "other").revoke(ports, "svc_wrt_b")
    for each in (revocation_id, theirs, "svc_rev_x", ports.new_id("rev")):
        with pytest.raises(NotFound):
            progress(ports, tenant, each)


def test_a_warrant_that_has_left_the_list(
    ports: Ports, tenant: Tenant, fleet: Fleet, clock: Clock
) -> None:
    """FLEET-12: A warrant that is not listed any more says when it ended, and is not complete."""
    end = clock() + timedelta(hours=1)
    made = tenant.revoke(ports, "svc_wrt_a", ends_at=end)
    srl.regenerate(ports, tenant.operator)
    fleet.report("north", "south")
    assert progress(ports, tenant, made).propagation.is_complete
    clock.advance(days=8)
    found = progress(ports, tenant, made)
    assert (found.traced.published, found.traced.ended_at) == (None, end)
    assert not found.propagation.is_complete


def test_a_revocation_that_only_a_list_has(ports: Ports, tenant: Tenant, fleet: Fleet) -> None:
    """FLEET-12, F265a: After a break, authorizers hold a revocation that no entry names."""
    revocation_id = tenant.revoke(ports, "svc_wrt_a")
    break_off(ports, tenant.id)
    mark = warrant_mark_address(tenant.id, "svc_wrt_a")
    ports.store.write(Delete(mark, Expect.PRESENT))
    srl.regenerate(ports, tenant.operator)
    assert counts(progress(ports, tenant, revocation_id).propagation) == (2, 0, 0, 2, False)
    fleet.report("north", "south")
    assert progress(ports, tenant, revocation_id).propagation.is_complete


def test_a_warrant_that_is_revoked_again(ports: Ports, tenant: Tenant, fleet: Fleet) -> None:
    """FLEET-12, F265b: A holder of an earlier revocation need not have the present one."""
    first = tenant.revoke(ports, "svc_wrt_a")
    publication.publish_feed(ports, tenant.id)
    fleet.report("north", "south")
    assert progress(ports, tenant, first).propagation.is_complete
    tenant.unrevoke(ports, first)
    publication.publish_feed(ports, tenant.id)
    fleet.report("north")
    second = tenant.revoke(ports, "svc_wrt_a")
    for unknown in (2, 2):
        assert progress(ports, tenant, second).propagation.unknown == unknown
        publication.publish_feed(ports, tenant.id)
    fleet.report("north", "south")
    assert progress(ports, tenant, second).propagation.is_complete


def test_entries_that_a_restore_lost(ports: Ports, tenant: Tenant, fleet: Fleet) -> None:
    """F265c: An authorizer that has entries of before a restore is not taken for enforced."""
    revocation_id = tenant.revoke(ports, "svc_wrt_a")
    publication.publish_feed(ports, tenant.id)
    # Entry 2, which the restored feed never had, restored the warrant.
    fleet.report("north")
    item = item_at(ports, model.authorizers(tenant.id).address(fleet.ids["south"]))
    break_off(ports, tenant.id, above=1)
    lost = dict(item) | {"sequence": 2, "chain": b"1" * 32}
    ports.store.write(
        Put(model.authorizers(tenant.id).address(fleet.ids["south"]), lost, Expect.PRESENT)
    )
    found = progress(ports, tenant, revocation_id)
    assert found.traced.published is not None
    assert found.traced.published.sequence == 1
    assert counts(found.propagation) == (2, 1, 0, 1, False)


def test_an_expired_registration_does_not_count(
    ports: Ports, tenant: Tenant, fleet: Fleet, clock: Clock
) -> None:
    """FLEET-10: An authorizer that was not seen for 30 days is not registered any more."""
    clock.advance(days=29)
    fleet.report("north")
    clock.advance(days=2)
    revocation_id = tenant.revoke(ports, "svc_wrt_a")
    assert progress(ports, tenant, revocation_id).propagation.total == 1


def test_a_fault_is_never_complete(ports: Ports, tenant: Tenant, fleet: Fleet) -> None:
    """FLEET-12, F264b: If any read fails, there is no answer; a damaged registration is a fault."""
    revocation_id = tenant.revoke(ports, "svc_wrt_a")
    publication.publish_feed(ports, tenant.id)
    fleet.report("north", "south")
    watched = Script()
    assert progress(scripted(ports, watched), tenant, revocation_id).propagation.is_complete
    assert len(watched.calls) > 5
    for step in range(len(watched.calls)):
        broken = broken_at(ports, step, Unavailable("down"))
        with pytest.raises(Unavailable):
            progress(broken, tenant, revocation_id)
    address = model.authorizers(tenant.id).address(fleet.ids["south"])
    ports.store.write(Put(address, {"id": "x"}, Expect.PRESENT))
    with pytest.raises(DataCorrupt):
        progress(ports, tenant, revocation_id)


def unknown(ports: Ports) -> int | None:
    found = of_tenant.survey(ports)
    return None if found is None else found.unknown


def findings(ports: Ports) -> list[str]:
    return [each.problem for each in doctor.examine(ports)]


def test_who_is_behind(ports: Ports, tenant: Tenant, fleet: Fleet, clock: Clock) -> None:
    """FLEET-15, F266a: An authorizer is unknown if it had five minutes to report an entry."""
    fleet.add("stock", "asleep")
    fleet.report("stock", staleness=None)
    fleet.report("asleep", staleness=60)
    tenant.revoke(ports, "svc_wrt_a")
    srl.regenerate(ports, tenant.operator)
    fleet.report("north", "south")
    clock.advance(minutes=5)
    assert (unknown(ports), findings(ports)) == (0, [])
    clock.advance(seconds=1)
    assert unknown(ports) == 1
    (problem,) = findings(ports)
    assert problem == (
        f"its authorizer stock ({fleet.ids['stock']}) has not proved that it has feed entry 1: "
        "at 2026-11-21T12:00:00Z it reported entry 0"
    )
    fleet.report("stock", staleness=None)
    assert (unknown(ports), findings(ports)) == (0, [])


def test_new_entries_hide_no_straggler(
    ports: Ports, tenant: Tenant, fleet: Fleet, clock: Clock
) -> None:
    """F266b: While the feed goes on, what counts is the newest entry of five minutes ago."""
    fleet.report("north", "south", staleness=None)
    for number in range(8):
        tenant.revoke(ports, f"svc_wrt_{number}")
        publication.publish_feed(ports, tenant.id)
        # It is three minutes behind.
        if number >= 3:
            chain = feed_model.StoredEntry.from_item(
                ports.store.get(feed_model.entry_address(tenant.id, number - 2)) or {}
            ).chain
            fleet.beat("north", number - 2, chain.hex(), staleness=None)
        clock.advance(minutes=1)
    settled = of_tenant.of_feed(ports, tenant.id)
    assert settled is not None
    assert (settled.published.sequence, settled.propagation.unknown) == (3, 1)
    (found,) = findings(ports)
    assert f"its authorizer south ({fleet.ids['south']})" in found
    assert "that it has feed entry 3:" in found


def test_a_new_authorizer_is_no_straggler(ports: Ports, tenant: Tenant, clock: Clock) -> None:
    """FLEET-15: An authorizer is given five minutes after its registration, too."""
    tenant.revoke(ports, "svc_wrt_a")
    srl.regenerate(ports, tenant.operator)
    assert unknown(ports) is None
    clock.advance(minutes=10)
    Fleet(ports, tenant).add("new")
    assert unknown(ports) == 0
    clock.advance(minutes=5)
    assert unknown(ports) == 1
    assert findings(ports)[0].endswith("it reported none")


def test_a_foreign_feed(ports: Ports, tenant: Tenant, fleet: Fleet, clock: Clock) -> None:
    """F267a: The doctor names an authorizer that reported what this service did not publish."""
    tenant.revoke(ports, "svc_wrt_a")
    srl.regenerate(ports, tenant.operator)
    fleet.report("north")
    fleet.beat("south", 1, "11" * 32)
    clock.advance(minutes=6)
    (problem,) = findings(ports)
    assert problem == (
        f"its authorizer south ({fleet.ids['south']}) reported feed entries that this service did "
        "not publish"
    )


def test_a_foreign_report_is_counted_once(
    ports: Ports, tenant: Tenant, fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    """FLEET-16, F267b: The first report of a foreign chain is counted and names the authorizer."""
    for chain in ("11", "11", "22"):
        fleet.beat("south", 7, chain * 32)
    fleet.report("north", "south")
    fleet.beat("south", 7, "11" * 32)
    told = lines(caplog, "equivocation")
    assert [metrics(line)["EquivocationReported"] for line in told] == [(1, "Count")] * 2
    assert [line["authorizer_ids"] for line in told] == [[fleet.ids["south"]]] * 2
    assert told[0]["tenant_id"] == tenant.id


def test_many_stragglers(ports: Ports, tenant: Tenant, clock: Clock) -> None:
    """The doctor names ten authorizers of a tenant, and says how many more there are."""
    Fleet(ports, tenant).add(*(f"a{number:02}" for number in range(12)))
    tenant.revoke(ports, "svc_wrt_a")
    srl.regenerate(ports, tenant.operator)
    clock.advance(minutes=6)
    found = findings(ports)
    assert len(found) == 11
    assert found[-1] == "the same is true of 2 more of its authorizers"


def test_a_tenant_that_cannot_be_read_hides_no_other(
    ports: Ports, tenant: Tenant, fleet: Fleet, clock: Clock
) -> None:
    """F266c: A tenant whose registrations cannot be read counts as an unknown authorizer."""
    other = Fleet(ports, Tenant.create(ports, "other")).add("lost")
    tenant.revoke(ports, "svc_wrt_a")
    srl.regenerate(ports, tenant.operator)
    fleet.report("north", "south")
    clock.advance(minutes=6)
    assert unknown(ports) == 1
    address = model.authorizers(tenant.id).address(other.ids["lost"])
    ports.store.write(Put(address, {"id": "x"}, Expect.ABSENT))
    assert unknown(ports) == 2


def test_a_heartbeat_makes_no_further_write(
    ports: Ports, tenant: Tenant, fleet: Fleet, clock: Clock
) -> None:
    """FLEET-31, F1487a: What a curve needs is in the write that a heartbeat with news makes anyway.

    That is one write with news, and none without.
    """
    script = Script()
    watched = Fleet(scripted(ports, script), tenant, fleet.ids)
    for number in range(20):
        tenant.revoke(ports, f"svc_wrt_{number}")
        publication.publish_feed(ports, tenant.id)
        clock.advance(seconds=7)
        for news in (1, 0):
            script.calls.clear()
            watched.beat("north", number + 1)
            assert script.calls.count("write") == news
