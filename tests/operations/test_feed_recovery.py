"""The feed after a restore, and over releases without a feed: clients go on, and lose nothing."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from shared.authorizer.refusals import Reason, Refused
from shared.authorizer.state import FAST_FORWARD_MAX
from shared.model import feed as model
from shared.model.items import Table
from shared.model.srl.blobs import states_folder
from shared.model.srl.head import FORMAT, head_address, publications
from shared.operations.operator import doctor, migration, onboarding
from shared.operations.operator.recovery import newest, recovery
from shared.operations.rules import operation
from shared.operations.srl import feed, in_force, publication, wake, worker
from shared.ports import Ports
from shared.ports.store import Delete, Expect, Put
from tests.operations.followers import Follower
from tests.operations.restores import Deployment
from tests.operations.tenants import Tenant
from tests.processes import ROOT
from tests.worlds import Clock, close, embedded

pytestmark = pytest.mark.usefixtures("at_once", "few_partitions")

OLD = ROOT / "tests/golden/before-the-feed"


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
    assert feed.publish(ports, tenant.id)


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
    """F582a: What is normal after a restore is one line of the log, without a traceback."""
    deployment.restore(past.copy)
    recovery.recover(deployment.ports, past.tenant.operator)
    assert [each.message for each in caplog.records if "cannot be followed" in each.message]
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
    """OPS-9, FEED-7, F248a: After a restore, a client that followed the feed goes on with it.

    The sequence exceeds all that were published, also those after the newest list.
    """
    ports, before = deployment.ports, past.sequence
    deployment.restore(past.copy, *tables)
    recovery.recover(ports, past.tenant.operator)
    assert_goes_on(ports, past, *kept)
    assert past.sequence >= before + model.LEAP


def test_again_and_again(deployment: Deployment, past: Past) -> None:
    """F248: Each recovery leaps once more."""
    ports = deployment.ports
    for _ in range(3):
        before = past.sequence
        deployment.restore(past.copy)
        recovery.recover(ports, past.tenant.operator)
        past.client.poll(ports)
        assert past.sequence >= before + model.LEAP
    assert_goes_on(ports, past)


def test_before_the_recovery_a_client_keeps_what_it_has(deployment: Deployment, past: Past) -> None:
    """F248b: Between a restore and the recovery, a client refuses the feed and keeps its state."""
    ports = deployment.ports
    deployment.restore(past.copy)
    with pytest.raises(Refused) as refused:
        past.client.poll(ports)
    assert refused.value.reason is Reason.ROLLBACK
    for number in range(4):
        say(ports, past.tenant, f"svc_wrt_fork-{number}")
    with pytest.raises(Refused) as refused:
        past.client.poll(ports)
    assert refused.value.reason is Reason.CHAIN
    assert "svc_wrt_unlisted" in past.client.refuses
    recovery.recover(ports, past.tenant.operator)
    assert past.client.poll(ports).refuses > {"svc_wrt_a", "svc_wrt_b", "svc_wrt_fork-0"}


def without_feed(ports: Ports, tenant: Tenant) -> None:
    """Leave of a tenant's feed what a release without one would have stored: nothing."""
    partition = model.feed(tenant.id)
    for row in list(ports.store.query(partition)):
        ports.store.write(Delete(partition.address(row.sk), Expect.PRESENT))
    old = {"sequence", "base", "base_size", "payload_sha256"}
    published = publications(tenant.id)
    for row in list(ports.store.query(published)):
        item = {name: value for name, value in row.item.items() if name not in old}
        change = Put(published.address(row.sk), {**item, "format": FORMAT - 1}, Expect.PRESENT)
        ports.store.write(change)


def test_a_backup_from_before_the_feed(deployment: Deployment, past: Past) -> None:
    """F248c: A client goes on also if the backup is of a release that had no feed."""
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
    found = newest.Newest(10**9, (), (), ())
    assert found.sequence + model.LEAP < FAST_FORWARD_MAX


# --- releases without a feed ---


@dataclass(frozen=True)
class Upgraded:
    """The data of a release without a feed, as this one finds it."""

    ports: Ports
    tenant: Tenant
    facts: dict[str, Any]

    @property
    def revoked(self) -> set[str]:
        return {*self.facts["listed"], *self.facts["pending"]}


@pytest.fixture
def upgraded(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Upgraded]:
    folder = tmp_path / "data"
    shutil.copytree(OLD, folder)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
    facts = json.loads((OLD / "facts.json").read_text())
    clock.moment = datetime.fromisoformat(facts["now"])
    monkeypatch.undo()  # `few_partitions` does not fit data that is stored.
    monkeypatch.setattr(operation, "PACING", operation.Pacing(pause=0, in_flight=0))
    ports = embedded(folder, clock, store=str(folder / "svc.db"))
    tenant = Tenant(facts["tenant_id"], onboarding.operator(ports, handle="acme"))
    yield Upgraded(ports, tenant, facts)
    close(ports)


@pytest.mark.parametrize("way", ["schedule", "migrate"])
def test_an_upgrade_begins_the_feed(upgraded: Upgraded, way: str) -> None:
    """F249a: The first list after an upgrade begins the feed; until then marks are kept for it."""
    ports, tenant = upgraded.ports, upgraded.tenant
    assert list(doctor.examine(ports)) == []
    assert feed.publish(ports, tenant.id) is None
    assert wake.publish(ports, tenant.id) == wake.Woken()
    if way == "schedule":
        assert worker.publish_due(ports).published == [tenant.id]
    else:
        assert migration.migrate(ports, tenant.operator).published == upgraded.facts["version"] + 1
        assert migration.migrate(ports, tenant.operator).published is None
    assert set(tenant.published(ports).revoked_ids) == upgraded.revoked
    say(ports, tenant, "svc_wrt_new")
    assert Follower(tenant).poll(ports).refuses == upgraded.revoked | {"svc_wrt_new"}
    assert list(doctor.examine(ports)) == []


def _as_before(ports: Ports, tenant: Tenant, clock: Clock) -> None:
    """Publish as the release before does: a list of its format, and no word to the feed.

    It makes its first list from all records, since it does not know the format of ours.
    """
    assert in_force.head(ports, tenant.id).format != FORMAT - 1
    address = model.head_address(tenant.id)
    held = ports.store.get(address)
    assert held is not None
    sequence = model.FeedHead.from_item(held).sequence
    clock.advance(minutes=1)
    publication.publish(ports, tenant.operator, anew=True)
    partition = model.feed(tenant.id)
    for row in list(ports.store.query(partition)):
        if model.entry_sk(sequence) < row.sk < model.HEAD:
            ports.store.write(Delete(partition.address(row.sk), Expect.PRESENT))
    ports.store.write(Put(address, held, Expect.PRESENT))
    old = {"sequence", "base", "base_size", "payload_sha256"}
    item = ports.store.get(head_address(tenant.id)) or {}
    before = {name: value for name, value in item.items() if name not in old}
    ports.store.write(
        Put(head_address(tenant.id), {**before, "format": FORMAT - 1}, Expect.PRESENT)
    )


@pytest.mark.parametrize("says", [False, True], ids=["list first", "feed first"])
def test_a_rollback_and_forward_again(upgraded: Upgraded, clock: Clock, says: bool) -> None:
    """F249b: What a release without a feed published meanwhile is in the feed by a break.

    No head that is signed after it leads past what the older release revoked.
    """
    ports, tenant = upgraded.ports, upgraded.tenant
    worker.publish_due(ports)
    say(ports, tenant, "svc_wrt_in-the-feed")
    client = Follower(tenant).poll(ports)
    tenant.revoke(ports, "svc_wrt_meanwhile")
    _as_before(ports, tenant, clock)
    assert "svc_wrt_meanwhile" in tenant.published(ports).revoked_ids
    assert list(doctor.examine(ports)) == []
    clock.advance(minutes=1)
    if says:
        tenant.revoke(ports, "svc_wrt_later")
        assert wake.publish(ports, tenant.id).list_due
        with pytest.raises(Refused) as refused:
            client.poll(ports)
        assert refused.value.reason is Reason.BREAK
    clock.advance(hours=12)
    assert worker.publish_due(ports).published == [tenant.id]
    wanted = upgraded.revoked | {"svc_wrt_in-the-feed", "svc_wrt_meanwhile"}
    wanted |= {"svc_wrt_later"} if says else set()
    assert set(tenant.published(ports).revoked_ids) == wanted
    assert Follower(tenant).poll(ports).refuses == wanted
    assert client.poll(ports).refuses == wanted
    assert list(doctor.examine(ports)) == []


def test_the_older_release_makes_its_first_list_from_all_records(upgraded: Upgraded) -> None:
    """F249c: A list has a format that releases without a feed do not know.

    They know format 2. Any other one makes them read all records, so that they do not lose what
    only the feed has said.
    """
    ports, tenant = upgraded.ports, upgraded.tenant
    before = in_force.head(ports, tenant.id)
    worker.publish_due(ports)
    assert (before.format, in_force.head(ports, tenant.id).format) == (2, 3)
