"""Revoking signing keys: every warrant at once, whatever their number, whatever stops it."""

from collections.abc import Iterable
from datetime import datetime, timedelta

import pytest

from shared.errors import DataCorrupt
from shared.model import revocations as signer_model
from shared.model import signing_keys as model
from shared.model import warrants as warrant_model
from shared.model.signing_keys import KeyStatus, SigningKey
from shared.model.warrant_format import WarrantFormat
from shared.model.warrants import WarrantRecord, WarrantState
from shared.operations.changes import revocations
from shared.operations.lists import publication, records
from shared.operations.operator import consistency
from shared.ports import Ports
from shared.ports.store import Change, Delete, Expect, Increment, Put
from tests.kit.faults import Script, scripted
from tests.kit.reads import Reads, reading
from tests.kit.tenants import Tenant
from tests.kit.worlds import Clock
from tests.operations.races import races
from tests.operations.revoked_keys import fill

pytestmark = pytest.mark.usefixtures("at_once")

# More than one write can take, and more than two.
MANY = 100


def store_warrants(
    ports: Ports, key: SigningKey, number: int, *, ends_at: datetime | None = None, start: int = 0
) -> list[str]:
    """Warrants as if the key had signed them, straight into the store."""
    made = [
        WarrantRecord(f"svc_wrt_{count:05}", key.id, key.key_version, ports.now(), ends_at)
        for count in range(start * number, (start + 1) * number)
    ]
    changes: list[Change] = []
    for each in made:
        address = warrant_model.signed_by(key.tenant_id, key.id).address(ports.new_id("wrt"))
        own = warrant_model.warrant_address(key.tenant_id, each.warrant_id)
        standing = WarrantState(key.id, key.key_version, WarrantFormat.COSE, ends_at)
        changes.append(Put(address, each.to_item(), Expect.ABSENT))
        changes.append(records.end_index_change(key.tenant_id, each))
        changes.append(Put(own, standing.to_item(), Expect.ABSENT))
    for first in range(0, len(changes), 100):
        ports.store.write(*changes[first : first + 100])
    amounts = {"count": number, warrant_model.version_count(key.key_version): number}
    counter = warrant_model.signed_count_address(key.tenant_id, key.id, "svc_wrt_00000")
    ports.store.write(Increment(counter, amounts, Expect.ANYTHING))
    return [each.warrant_id for each in made]


def revoked_of(ports: Ports, tenant: Tenant, ids: Iterable[str]) -> list[bool]:
    verdicts = revocations.check_batch(ports, tenant.operator, warrant_ids=ids)
    return [verdict.revoked for verdict in verdicts.values()]


def expired_long_ago(ports: Ports, tenant: Tenant, clock: Clock, *, expired: int) -> list[str]:
    """A revoked key signed so many that ended long ago, and eight that did not: these."""
    key = tenant.key(ports)
    store_warrants(ports, key, expired, ends_at=clock() + timedelta(days=1))
    clock.advance(days=100)
    living = [*store_warrants(ports, key, 5, ends_at=clock() + timedelta(days=1), start=expired)]
    living += [tenant.sign(ports, key) for _ in range(3)]
    tenant.revoke_key(ports, key)
    return sorted(living)


def test_what_ended_long_ago_is_not_read(ports: Ports, tenant: Tenant, clock: Clock) -> None:
    """F132a: A list does not read warrants of revoked keys that expired long ago."""
    living = expired_long_ago(ports, tenant, clock, expired=1000)
    for anew in (False, True):
        with reading(ports) as (watched, reads):
            publication.publish(watched, tenant.operator, compare_all=anew)
        assert tenant.published(ports).revoked_ids == living
        assert reads.items < 60


def test_what_a_revoked_key_signed_is_listed_until_its_time(
    ports: Ports, tenant: Tenant, clock: Clock
) -> None:
    """F132b: A warrant of a revoked key is listed until one lifetime after its expiry."""
    key = tenant.key(ports)
    ends = [None, *(clock() + timedelta(minutes=each) for each in range(0, 200, 20))]
    for number, end in enumerate(ends):
        store_warrants(ports, key, 1, ends_at=end, start=number)
    tenant.revoke_key(ports, key)
    for _ in range(12):
        publication.publish(ports, tenant.operator, compare_all=True)
        since = clock() - timedelta(hours=1)
        expected = [f"svc_wrt_{n:05}" for n, end in enumerate(ends) if end is None or end >= since]
        assert tenant.published(ports).revoked_ids == expected
        clock.advance(minutes=20)


def without_the_order(ports: Ports, tenant: Tenant) -> None:
    """Take away the order of ends, as a restore of a part of the records may."""
    for entry in list(ports.store.query(model.keys(tenant.id))):
        order = warrant_model.by_end(tenant.id, entry.sk)
        for each in list(ports.store.query(order)):
            ports.store.write(Delete(order.address(each.sk), Expect.PRESENT))
    ports.store.write(Delete(warrant_model.is_by_end_address(tenant.id), Expect.PRESENT))


def test_what_was_signed_and_has_lost_its_order(ports: Ports, tenant: Tenant, clock: Clock) -> None:
    """F133a: Without the order of ends, lists read all warrants that revoked keys signed."""
    living = expired_long_ago(ports, tenant, clock, expired=150)
    without_the_order(ports, tenant)
    publication.publish(ports, tenant.operator, compare_all=True)
    assert tenant.published(ports).revoked_ids == living


def test_a_repair_puts_what_was_signed_in_order(ports: Ports, tenant: Tenant, clock: Clock) -> None:
    """F133b: After a restore of older records, `recover` puts warrants in order of expiry."""
    living = expired_long_ago(ports, tenant, clock, expired=150)
    without_the_order(ports, tenant)
    assert any("SRLs can miss" in each.problem for each in consistency.examine(ports, tenant.id))
    consistency.repair(ports, tenant.operator)
    assert records.is_end_index_complete(ports, tenant.id)
    publication.publish(ports, tenant.operator, compare_all=True)
    assert tenant.published(ports).revoked_ids == living
    assert list(consistency.examine(ports, tenant.id)) == []


def test_a_warrant_that_expires_with_the_calendar(ports: Ports, tenant: Tenant) -> None:
    """The last moment that there is does not stop the list, which every tenant depends on."""
    key = tenant.key(ports)
    end = datetime.fromisoformat("9999-12-31T23:59:59+00:00")
    made = store_warrants(ports, key, 1, ends_at=end)
    tenant.revoke_key(ports, key)
    assert tenant.regenerate(ports).revoked_ids == made


def test_taking_back_while_the_key_is_revoked(ports: Ports) -> None:
    """F05: whichever comes first, the warrant of a revoked key stays revoked."""

    def make(ports: Ports) -> tuple[Tenant, SigningKey, str, str]:
        tenant = Tenant.another(ports)
        key = tenant.key(ports)
        warrant_id = tenant.sign(ports, key)
        return tenant, key, warrant_id, tenant.revoke(ports, warrant_id)

    for race in races(
        ports,
        make,
        lambda p, world: world[0].revoke_key(p, world[1]),
        lambda p, world: world[0].unrevoke(p, world[3]),
    ):
        tenant, _, warrant_id, _ = race.world
        assert tenant.is_revoked(ports, warrant_id)
        assert tenant.regenerate(ports).revoked_ids == [warrant_id]
        tenant.check_totals(ports)


def test_a_check_costs_the_same_whatever_was_revoked(ports: Ports, tenant: Tenant) -> None:
    """F126a: A check reads three units at most for its verdict, however many keys were revoked."""
    key, other = tenant.key(ports), tenant.key(ports)
    revoked, holds = tenant.sign(ports, key), tenant.sign(ports, other)
    assert _check(ports, tenant, holds) == (False, Reads(trips=1, items=2, units=2))
    tenant.revoke_key(ports, key)
    for more in (0, 5000):
        fill(ports, tenant, more)
        two, three = Reads(trips=1, items=2, units=2), Reads(trips=2, items=3, units=3)
        assert _check(ports, tenant, "svc_wrt_unknown") == (False, two)
        assert _check(ports, tenant, holds) == (False, three)
        assert _check(ports, tenant, revoked) == (True, three)


def test_revoked_versions_take_one_more_unit(ports: Ports, tenant: Tenant) -> None:
    """F126b: If a superseded version is revoked, a check reads one more marker."""
    key = tenant.key(ports)
    old = tenant.sign(ports, key)
    tenant.rotate(ports, key)
    new = tenant.sign(ports, key)
    superseded = tenant.versions(ports, key)[1]
    tenant.revoke_key(ports, superseded)
    fill(ports, tenant, 5000, version=1)
    # No whole key is revoked, so none is looked for.
    assert _check(ports, tenant, old) == (True, Reads(trips=2, items=3, units=3))
    assert _check(ports, tenant, new) == (False, Reads(trips=2, items=3, units=3))
    tenant.revoke_key(ports, tenant.key(ports))
    assert _check(ports, tenant, old) == (True, Reads(trips=2, items=4, units=4))


def _check(ports: Ports, tenant: Tenant, warrant_id: str) -> tuple[bool, Reads]:
    with reading(ports) as (watched, reads):
        return tenant.is_revoked(watched, warrant_id), reads


def test_a_batch_costs_the_same_whatever_was_revoked(ports: Ports, tenant: Tenant) -> None:
    """F126c: A batch reads one marker for each key that signed its warrants."""
    keys = [tenant.key(ports) for _ in range(20)]
    made = [id_ for n, key in enumerate(keys) for id_ in store_warrants(ports, key, 50, start=n)]
    for key in keys:
        tenant.revoke_key(ports, key)
    for more in (0, 5000):
        fill(ports, tenant, more)
        with reading(ports) as (watched, reads):
            assert all(revoked_of(watched, tenant, made))
        assert reads == Reads(trips=2, items=1021, units=1021)


def test_a_revocation_writes_no_growing_item(ports: Ports, tenant: Tenant) -> None:
    """F126d: The revocation of a key writes small items, however many were revoked before."""
    key = tenant.key(ports)
    fill(ports, tenant, 5000)
    with reading(ports) as (watched, reads):
        tenant.revoke_key(watched, key)
    assert reads.units <= 5
    address = signer_model.marker_count_address(tenant.id)
    assert ports.store.get(address) == {"signers": 5001, "versions": 0, "version": 2}


def test_a_list_that_follows_does_not_read_revoked_keys(ports: Ports, tenant: Tenant) -> None:
    """F126e: A list reads the revoked keys only if a key was revoked since or at a full rebuild."""
    fill(ports, tenant, 5000)
    tenant.regenerate(ports)
    tenant.revoke(ports, "svc_wrt_a")
    with reading(ports) as (watched, reads):
        assert tenant.regenerate(watched).revoked_ids == ["svc_wrt_a"]
    assert reads.items < 100


def test_a_marker_that_is_lost(ports: Ports, tenant: Tenant) -> None:
    """F127a, F10: If the marker of a revoked key is lost, no list is made until it is repaired."""
    key = tenant.key(ports)
    warrant_id = tenant.sign(ports, key)
    tenant.revoke_key(ports, key)
    ports.store.write(Delete(signer_model.marker_address(tenant.id, key.signer), Expect.PRESENT))
    with pytest.raises(DataCorrupt):
        publication.publish(ports, tenant.operator)
    assert consistency.repair(ports, tenant.operator)
    assert tenant.is_revoked(ports, warrant_id)
    assert tenant.regenerate(ports).revoked_ids == [warrant_id]
    tenant.check_totals(ports)


def branch(ports: Ports, tenant: Tenant, *, keys: int) -> tuple[SigningKey, list[SigningKey]]:
    """A root with descendants down to the third generation, among them a superseded version."""
    root = tenant.key(ports)
    below = [tenant.key(ports, root)]
    tenant.rotate(ports, below[0])
    below.append(tenant.versions(ports, below[0])[1])
    while len(below) < keys:
        above = (root, below[0], below[-1] if len(below) % 3 else below[0])[len(below) % 3]
        parent = above if above.current_id is None else below[0]
        below.append(tenant.key(ports, parent))
    return root, below


@pytest.mark.slow
def test_a_cascade_over_many_keys(ports: Ports, tenant: Tenant) -> None:
    """All descendants are revoked, in as many writes as it takes, with an entry for each."""
    root, below = branch(ports, tenant, keys=MANY)
    beside = tenant.key(ports, tenant.key(ports))
    made = [tenant.sign(ports, key) for key in below if key.current_id is None][::7]
    script = Script()
    tenant.revoke_key(scripted(ports, script), root, cascade=True)
    assert script.calls.count("write") == 4
    assert {tenant.status(ports, key) for key in [root, *below]} == {KeyStatus.REVOKED}
    assert tenant.status(ports, beside) is KeyStatus.ACTIVE
    assert tenant.actions(ports).count("key.revoke") == 1 + MANY
    assert all(revoked_of(ports, tenant, made))
    tenant.check_totals(ports)


@pytest.mark.parametrize("earlier", [0, 1])
def test_two_keys_revoked_at_once(ports: Ports, earlier: int) -> None:
    """F90a: Two keys that are revoked simultaneously are both recorded and counted."""

    def make(ports: Ports) -> tuple[Tenant, SigningKey, SigningKey]:
        tenant = Tenant.another(ports)
        for _ in range(earlier):
            tenant.revoke_key(ports, tenant.key(ports))
        return tenant, tenant.key(ports), tenant.key(ports)

    for race in races(
        ports,
        make,
        lambda p, world: world[0].revoke_key(p, world[1]),
        lambda p, world: world[0].revoke_key(p, world[2]),
    ):
        tenant, *keys = race.world
        assert {tenant.status(ports, key) for key in keys} == {KeyStatus.REVOKED}
        tenant.check_totals(ports)
