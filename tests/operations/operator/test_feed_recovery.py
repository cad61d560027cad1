"""The feed after a restore, and over releases without a feed: clients go on, and lose nothing."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from shared.authorizer.policy import RejectionReason, ResponseRejectedError
from shared.authorizer.state import FAST_FORWARD_MAX
from shared.model import feed as model
from shared.model.items import Table
from shared.model.lists.head import heads_partition, states_folder
from shared.operations.lists import publication
from shared.operations.operator import doctor
from shared.operations.operator.recovery import newest, recovery
from shared.ports import Ports
from shared.ports.store import Delete, Expect, Put
from tests.kit.tenants import Tenant
from tests.kit.worlds import Clock
from tests.operations.followers import Follower
from tests.operations.restores import Deployment

pytestmark = pytest.mark.usefixtures("at_once", "few_partitions")


@dataclass(frozen=True)
class Past:
    """A tenant of which a copy was made, and a client that followed its feed since."""

    tenant: Tenant
    copy: Path
    client: Follower

    @property
    def sequence(self) -> int:
        """That of the client."""
        assert self.client.state is not None
        return self.client.state.sequence


def say(ports: Ports, tenant: Tenant, warrant_id: str) -> None:
    """Revoke a warrant, and let the feed say so."""
    tenant.revoke(ports, warrant_id)
    assert publication.publish_feed(ports, tenant.id)


@pytest.fixture
def past(deployment: Deployment, clock: Clock) -> Past:
    """Three entries after the copy, of which the newest list has two."""
    ports = deployment.ports
    tenant = Tenant.create(ports)
    say(ports, tenant, "svc_wrt_early")
    tenant.regenerate(ports)
    copy = deployment.copy()
    for warrant_id in ("svc_wrt_a", "svc_wrt_b"):
        clock.advance(minutes=1)
        say(ports, tenant, warrant_id)
    tenant.regenerate(ports)
    say(ports, tenant, "svc_wrt_unlisted")
    client = Follower(tenant).poll(ports)
    assert client.refuses == {"svc_wrt_early", "svc_wrt_a", "svc_wrt_b", "svc_wrt_unlisted"}
    return Past(tenant, copy, client)


def test_a_recovery_logs_no_traceback(
    deployment: Deployment, past: Past, caplog: pytest.LogCaptureFixture
) -> None:
    """F582a: After a restore, the log has one line, without a traceback."""
    deployment.restore(past.copy)
    recovery.recover(deployment.ports, past.tenant.operator)
    assert [each.message for each in caplog.records if "cannot follow" in each.message]
    assert [each for each in caplog.records if each.exc_info] == []


def assert_goes_on(ports: Ports, past: Past, *more: str) -> None:
    """The client goes on, and refuses what is revoked by the records of now."""
    say(ports, past.tenant, "svc_wrt_after")
    listed = {"svc_wrt_early", "svc_wrt_a", "svc_wrt_b", "svc_wrt_after", *more}
    assert past.client.poll(ports).refuses == listed
    assert Follower(past.tenant).poll(ports).refuses == listed
    assert list(doctor.examine(ports)) == []


@pytest.mark.parametrize(
    ("tables", "kept"),
    [((), ()), ((Table.KEYS,), ("svc_wrt_unlisted",)), ((Table.REVOCATIONS,), ())],
    ids=["everything", "keys alone", "revocations alone"],
)
def test_a_client_goes_on_after_a_restore(
    deployment: Deployment, past: Past, tables: tuple[Table, ...], kept: tuple[str, ...]
) -> None:
    """OPS-9, FEED-7, F248a: After a restore, a client that followed the feed goes on with it."""
    ports, before = deployment.ports, past.sequence
    deployment.restore(past.copy, *tables)
    recovery.recover(ports, past.tenant.operator)
    assert_goes_on(ports, past, *kept)
    assert past.sequence >= before + model.LEAP


def test_again_and_again(deployment: Deployment, ports: Ports, past: Past) -> None:
    """F248: Each recovery leaps once more."""
    for _ in range(3):
        before = past.sequence
        deployment.restore(past.copy)
        recovery.recover(ports, past.tenant.operator)
        past.client.poll(ports)
        assert past.sequence >= before + model.LEAP
    assert_goes_on(ports, past)


def test_before_the_recovery_a_client_keeps_what_it_has(
    deployment: Deployment, ports: Ports, past: Past
) -> None:
    """F248b: Between a restore and the recovery, a client refuses the feed and keeps its state."""
    deployment.restore(past.copy)
    with pytest.raises(ResponseRejectedError) as refused:
        past.client.poll(ports)
    assert refused.value.reason is RejectionReason.ROLLBACK
    for number in range(4):
        say(ports, past.tenant, f"svc_wrt_fork-{number}")
    with pytest.raises(ResponseRejectedError) as refused:
        past.client.poll(ports)
    assert refused.value.reason is RejectionReason.CHAIN
    assert "svc_wrt_unlisted" in past.client.refuses
    recovery.recover(ports, past.tenant.operator)
    assert past.client.poll(ports).refuses > {"svc_wrt_a", "svc_wrt_b", "svc_wrt_fork-0"}


def without_feed(ports: Ports, tenant: Tenant) -> None:
    """Lose a tenant's feed, and the sequences that its lists cover."""
    partition = model.feed_partition(tenant.id)
    for row in list(ports.store.query(partition)):
        ports.store.write(Delete(partition.address(row.sk), Expect.PRESENT))
    published = heads_partition(tenant.id)
    for row in list(ports.store.query(published)):
        item = {name: value for name, value in row.item.items() if name != "sequence"}
        ports.store.write(Put(published.address(row.sk), item, Expect.PRESENT))


def test_a_backup_without_the_feed(deployment: Deployment, past: Past) -> None:
    """F248c: A client goes on also if the backup lacks the feed."""
    ports, before = deployment.ports, past.sequence
    deployment.restore(past.copy)
    without_feed(ports, past.tenant)
    recovery.recover(ports, past.tenant.operator)
    assert_goes_on(ports, past)
    assert past.sequence >= before + model.LEAP


def test_a_state_that_is_lost(deployment: Deployment, past: Past) -> None:
    """F248d: If the newest list has no valid state, the feed leaps past what it may cover."""
    ports, tenant = deployment.ports, past.tenant
    deployment.restore(past.copy)
    recovery.recover(ports, tenant.operator)
    past.client.poll(ports)
    before = past.sequence
    path = deployment.folder / "blobs" / states_folder(tenant.id)
    for each in sorted(path.iterdir())[-1:]:
        each.unlink()
    deployment.restore(past.copy)
    without_feed(ports, tenant)
    recovery.recover(ports, tenant.operator)
    past.client.poll(ports)
    assert past.sequence > before + model.LEAP // 2


def test_states_that_are_all_lost() -> None:
    """F248: However many states are lost, the leap is one that clients accept."""
    found = newest.NewestPublication(10**9, (), (), ())
    assert found.sequence + model.LEAP < FAST_FORWARD_MAX
