"""The journal: what was published since the newest list, outside the store."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from functions.trust import publishing
from shared.authorizer.formats.journal import FIRST, JournalRecord
from shared.errors import DataCorrupt, InvalidApiKey, InvalidSettings, Unavailable
from shared.model.lists import journal as model
from shared.model.lists.head import states_folder
from shared.model.signing_keys import KeyStatus, SigningKey
from shared.model.times import format_utc
from shared.operations.access import api_keys
from shared.operations.access.api_key_creation import CreatedKey
from shared.operations.changes import list_signers
from shared.operations.lists import in_force, journal, wake
from shared.operations.lists.journal import Journals
from shared.operations.lists.verdicts import read_statuses
from shared.operations.operator import doctor, restored
from shared.operations.operator.recovery import newest, recovery
from shared.ports import Ports
from tests.kit import faults
from tests.kit.intercepted import Call, Intercepted
from tests.kit.tenants import Tenant
from tests.kit.worlds import Clock
from tests.operations.restores import Deployment

pytestmark = pytest.mark.usefixtures("at_once", "few_partitions")


def published(ports: Ports, tenant: Tenant, writer: Journals | None = None) -> None:
    """Let the feed say what has changed, and the journal what the feed says."""
    woken = wake.publish_within_window(ports, tenant.id)
    (writer or Journals()).write_missing_records(ports, tenant.id, woken.done)


def blobs(ports: Ports, tenant: Tenant) -> list[JournalRecord]:
    names = [name for _, name in journal.list_blobs(ports, tenant.id)][::-1]
    return [model.decode_unverified(ports.blobs.get(name) or b"", name) for name in names]


def test_each_publication_is_in_the_journal(ports: Ports, clock: Clock, tenant: Tenant) -> None:
    """OPS-23, F578a: Each publication of the feed adds a blob with its entries; nothing else does.

    So does a revoked API key, of which the feed says nothing.
    """
    writer = Journals()
    published(ports, tenant, writer)
    begun = len(blobs(ports, tenant))
    for warrant_id in ("svc_wrt_a", "svc_wrt_b"):
        clock.advance(seconds=5)
        tenant.revoke(ports, warrant_id)
        published(ports, tenant, writer)
        published(ports, tenant, Journals())
    made = blobs(ports, tenant)[begun:]
    assert [[e.revoked for e, _ in model.entries_of(each)] for each in made] == [
        [("svc_wrt_a",)],
        [("svc_wrt_b",)],
    ]
    key = a_key(ports, tenant)
    api_keys.revoke(ports, tenant.operator, key_id=key.api_key.id)
    published(ports, tenant, writer)
    last = blobs(ports, tenant)[-1]
    assert [each.id for each in model.tombstones_of(last).api_keys] == [key.api_key.id]
    assert last.entries == ()
    assert [each.number for each in blobs(ports, tenant)] == list(range(1, last.number + 1))


def test_what_a_list_has_is_not_in_the_journal(ports: Ports, clock: Clock, tenant: Tenant) -> None:
    """OPS-23, F578b: Changes that only a list published are not written again."""
    writer = Journals()
    published(ports, tenant, writer)
    begun = blobs(ports, tenant)
    tenant.revoke(ports, "svc_wrt_a")
    tenant.regenerate(ports)
    published(ports, tenant, writer)
    assert blobs(ports, tenant) == begun
    clock.advance(seconds=5)
    tenant.revoke(ports, "svc_wrt_b")
    published(ports, tenant, writer)
    (entry, _), *more = model.entries_of(blobs(ports, tenant)[-1])
    assert (entry.revoked, more) == (("svc_wrt_b",), [])


@pytest.mark.parametrize("late", [False, True])
def test_the_next_pass_writes_what_a_killed_one_did_not(
    ports: Ports, clock: Clock, tenant: Tenant, late: bool
) -> None:
    """OPS-23, F578c: Wherever a pass is killed, the next one writes the same entries.

    It is killed before each call of a port and after it: of the entry with its head, of the marks,
    and of the blob.
    """
    number = 0
    while True:
        clock.advance(seconds=5)
        tenant.revoke(ports, f"svc_wrt_{number}")
        try:
            published(faults.broken_at(ports, number, faults.Crash(), late=late), tenant)
        except faults.Crash:
            pass
        else:
            break
        published(ports, tenant)
        number += 1
    said = {
        id_ for each in blobs(ports, tenant) for e, _ in model.entries_of(each) for id_ in e.revoked
    }
    assert said == {f"svc_wrt_{each}" for each in range(number + 1)}
    assert newest.find(ports, tenant.id).journal.gaps == ()


def test_two_writers_leave_no_gap(ports: Ports, clock: Clock, tenant: Tenant) -> None:
    """OPS-23, F578d: Of two processes that write at once, each number is written once."""
    writers = Journals(), Journals()
    for number in range(6):
        clock.advance(seconds=5)
        tenant.revoke(ports, f"svc_wrt_{number}")
        published(ports, tenant, writers[number % 2])
    assert newest.find(ports, tenant.id).journal.gaps == ()
    numbers = [each.number for each in blobs(ports, tenant)]
    assert numbers == list(range(1, len(numbers) + 1))
    stale = Journals()
    stale._ends[tenant.id] = journal.JournalPosition(0, FIRST, journal.Watermark())
    tenant.revoke(ports, "svc_wrt_more")
    clock.advance(seconds=5)
    published(ports, tenant, stale)
    assert len(blobs(ports, tenant)) == len(numbers) + 1


def a_key(ports: Ports, tenant: Tenant) -> CreatedKey:
    return tenant.api_key(ports, name="leaked")


@dataclass(frozen=True)
class Lost:
    """A tenant whose store is older than what was published, and what was ended since."""

    tenant: Tenant
    copy: Path
    key: CreatedKey
    root: SigningKey
    end: datetime
    until: datetime


@pytest.fixture
def lost(deployment: Deployment, clock: Clock) -> Lost:
    """A key, a root and warrants that ended after the copy, in no list."""
    ports = deployment.ports
    tenant = Tenant.create(ports)
    tenant.api_key(ports, name="other")
    key, root = a_key(ports, tenant), tenant.key(ports)
    back = tenant.revoke(ports, "svc_wrt_back")
    tenant.regenerate(ports)
    clock.advance(minutes=2)
    published(ports, tenant)
    copy = deployment.copy()
    api_keys.revoke(ports, tenant.operator, key_id=key.api_key.id)
    tenant.revoke_key(ports, root)
    tenant.revoke(ports, "svc_wrt_a")
    published(ports, tenant)
    clock.advance(minutes=1)
    end = clock() + timedelta(days=3)
    tenant.revoke(ports, "svc_wrt_b", ends_at=end)
    tenant.unrevoke(ports, back)
    published(ports, tenant)
    until = clock()
    clock.advance(minutes=1)
    return Lost(tenant, copy, key, root, end, until)


def put_back(deployment: Deployment, lost: Lost) -> None:
    deployment.restore(lost.copy)
    restored.mark(deployment.ports, copied_at=None)


def test_a_recovery_replays_the_journal(deployment: Deployment, lost: Lost) -> None:
    """OPS-23, F578e: After a loss of the store, what was published is applied again, to the second.

    No list has any of it. The horizon is the last publication.
    """
    ports, tenant = deployment.ports, lost.tenant
    put_back(deployment, lost)
    assert not tenant.is_revoked(ports, "svc_wrt_a")
    done = recovery.recover(ports, tenant.operator)
    assert done.revoked_again == ["svc_wrt_a", "svc_wrt_b"]
    found = read_statuses(ports, tenant.id, ["svc_wrt_b"])["svc_wrt_b"]
    assert found.ends_at == lost.end
    with pytest.raises(InvalidApiKey):
        api_keys.authenticate(ports, lost.key.secret)
    assert tenant.status(ports, lost.root) is KeyStatus.REVOKED
    assert any(
        f"accounts until {format_utc(lost.until)} are known" in r for r in done.unknown.reasons
    )
    assert any("svc_wrt_back" in line for line in done.unknown.review)
    assert tenant.published(ports).revoked_ids == ["svc_wrt_a", "svc_wrt_b", "svc_wrt_back"]
    restored.check_recovered(ports)
    recovery.recover(ports, tenant.operator, reviewed=True)
    assert [*doctor.examine(ports)] == []
    writer = Journals()
    tenant.revoke(ports, "svc_wrt_after")
    published(ports, tenant, writer)
    assert newest.find(ports, tenant.id).journal.gaps == ()


def test_an_older_copy_of_the_store_is_not_served(deployment: Deployment, lost: Lost) -> None:
    """OPS-22, F581a: An older store beside a newer journal is refused until it is recovered."""
    ports, tenant = deployment.ports, lost.tenant
    restored.check_recovered(ports)
    deployment.restore(lost.copy)
    with pytest.raises(InvalidSettings, match="Run: recover acme"):
        restored.check_recovered(ports)
    with pytest.raises(DataCorrupt, match="older than the journal"):
        Journals().write_missing_records(ports, tenant.id)
    assert recovery.recover(ports, tenant.operator).unknown
    restored.check_recovered(ports)
    Journals().write_missing_records(ports, tenant.id)


def remove_one(ports: Ports, tenant: Tenant) -> str:
    _, (number, name) = journal.list_blobs(ports, tenant.id)
    ports.blobs.remove(name)
    return f"The journal lacks tombstones before its record {number + 1}."


def forge_one(ports: Ports, tenant: Tenant) -> str:
    *_, last = blobs(ports, tenant)
    forged = replace(last, number=last.number + 1, sequence=last.sequence + 1)
    name = model.name_of(tenant.id, forged.number)
    ports.blobs.put(name, model.sign(forged, seed=bytes(32)))
    return f"{name[0].upper()}{name[1:]}: it is not signed by a signer of this tenant."


def garble_one(ports: Ports, tenant: Tenant) -> str:
    name = model.name_of(tenant.id, blobs(ports, tenant)[-1].number + 1)
    ports.blobs.put(name, b"nothing")
    return f"{name[0].upper()}{name[1:]}: it is not signed by a signer of this tenant."


@pytest.mark.parametrize("harm", [remove_one, forge_one, garble_one])
def test_a_gap_of_the_journal_is_named(
    deployment: Deployment, lost: Lost, harm: Callable[[Ports, Tenant], str]
) -> None:
    """OPS-23, F578f: A blob that is missing, or that no signer signed, is named, and not used."""
    ports, tenant = deployment.ports, lost.tenant
    told = harm(ports, tenant)
    put_back(deployment, lost)
    done = recovery.recover(ports, tenant.operator)
    assert told in done.unknown.reasons
    assert "svc_wrt_b" in done.revoked_again


def test_a_revocation_of_a_signer_that_was_stopped(
    deployment: Deployment, tenant: Tenant, clock: Clock
) -> None:
    """F923a, OPS-23: A signer counts as revoked only from the list on that says so.

    Its revocation was stopped between the state and the list; what it signed later is replayed.
    """
    ports = deployment.ports
    publishing.keep(ports, tenant.id)

    def stop(call: Call) -> Any:
        if call.verb == "put" and states_folder(tenant.id) not in call.arguments[0]:
            raise Unavailable
        return call()

    stopped = replace(ports, blobs=Intercepted(ports.blobs, stop))
    stolen = in_force.read_active_signer(ports, tenant.id)
    with pytest.raises(Unavailable):
        list_signers.revoke(stopped, tenant.operator, key_id=stolen.id)
    copy = deployment.copy()
    clock.advance(seconds=5)
    tenant.revoke(ports, "svc_wrt_later")
    published(ports, tenant)
    deployment.restore(copy)
    recovery.recover(ports, tenant.operator)
    assert read_statuses(ports, tenant.id, ["svc_wrt_later"])["svc_wrt_later"].revoked
