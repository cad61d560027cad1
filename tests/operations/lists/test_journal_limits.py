"""What a journal keeps, states and refuses: its blobs may be old, altered, foreign or forged."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from functions.trust import documents, publishing
from functions.trust.publishing import TrustOutcome
from functions.trust.records import document_blob
from shared.authorizer.formats.journal import JournalRecord
from shared.authorizer.formats.wire import FeedEntry
from shared.errors import DataCorrupt, InvalidSettings
from shared.model import feed, times
from shared.model.lists import journal as model
from shared.model.tenants import SettingsChange
from shared.operations.access import api_keys, tenant_settings
from shared.operations.base import seals
from shared.operations.changes import list_signers
from shared.operations.lists import in_force, journal, wake
from shared.operations.lists.journal import Journals
from shared.operations.operator import doctor, restored
from shared.operations.operator.recovery import newest, recovery
from shared.ports import Ports
from tests.kit import faults
from tests.kit.intercepted import Call, Intercepted
from tests.kit.tenants import Tenant, opens
from tests.kit.worlds import Clock
from tests.operations.restores import Deployment

pytestmark = pytest.mark.usefixtures("at_once", "few_partitions")


def published(ports: Ports, tenant: Tenant, writer: Journals | None = None) -> None:
    woken = wake.publish_within_window(ports, tenant.id)
    (writer or Journals()).write_missing_records(ports, tenant.id, woken.done)


def begun(ports: Ports, clock: Clock, tenant: Tenant, *warrant_ids: str) -> None:
    """A list, and after it a number for each of these warrants."""
    tenant.regenerate(ports)
    for warrant_id in warrant_ids:
        clock.advance(seconds=5)
        tenant.revoke(ports, warrant_id)
        published(ports, tenant)


def last(ports: Ports, tenant: Tenant) -> JournalRecord:
    number, name = next(journal.list_blobs(ports, tenant.id))
    assert name == model.name_of(tenant.id, number)
    return model.decode_unverified(ports.blobs.get(name) or b"", name)


def put(ports: Ports, number: JournalRecord, seed: bytes, name: str = "") -> None:
    name = name or model.name_of(number.tenant_id, number.number)
    ports.blobs.remove(name)
    ports.blobs.put(name, model.sign(number, seed=seed))


def seed_of(ports: Ports, tenant: Tenant) -> bytes:
    return seals.unwrap_seed(ports, in_force.read_active_signer(ports, tenant.id))


def gaps(ports: Ports, tenant: Tenant) -> tuple[str, ...]:
    return newest.read_newest(ports, tenant.id).journal.gaps


def test_a_publication_reads_nothing_for_the_journal(
    ports: Ports, clock: Clock, tenant: Tenant
) -> None:
    """OPS-23, F826a: After a publication of the feed, the journal makes no trip of the store.

    It opens no seed either.
    """
    calls: list[str] = []

    def noted(call: Call) -> Any:
        calls.append(call.verb)
        return call()

    writer = Journals()
    begun(ports, clock, tenant, "svc_wrt_a")
    writer.write_missing_records(ports, tenant.id)
    clock.advance(seconds=5)
    tenant.revoke(ports, "svc_wrt_b")
    woken = wake.publish_within_window(ports, tenant.id)
    watched = replace(
        ports, store=Intercepted(ports.store, noted), sealer=Intercepted(ports.sealer, noted)
    )
    before = last(ports, tenant).number
    writer.write_missing_records(watched, tenant.id, woken.done)
    assert last(ports, tenant).number == before + 1
    assert calls == []


def test_a_number_states_no_later_moment_than_it_knows(
    ports: Ports, clock: Clock, tenant: Tenant
) -> None:
    """OPS-23, F826b: While changes wait for a window, a number states when all before was in it."""
    begun(ports, clock, tenant, "svc_wrt_a")
    known = last(ports, tenant).issued_at
    tenant.api_key(ports, name="other")
    key = tenant.api_key(ports)
    window = SettingsChange(feed_window_ms=5_000)
    tenant_settings.update(ports, tenant.operator, change=window)
    clock.advance(seconds=1)
    tenant.revoke(ports, "svc_wrt_b")
    acknowledged = clock()
    api_keys.revoke(ports, tenant.operator, key_id=key.api_key.id)
    clock.advance(seconds=2)
    woken = wake.publish_feed(ports, tenant.id)
    assert woken.wait_seconds > 0
    Journals().write_missing_records(ports, tenant.id, woken.done)
    made = last(ports, tenant)
    assert [each.id for each in model.tombstones_of(made).api_keys] == [key.api_key.id]
    assert known <= made.issued_at <= acknowledged
    clock.advance(seconds=5)
    published(ports, tenant)
    assert last(ports, tenant).issued_at == clock().replace(microsecond=0)


def test_no_byte_of_a_number_can_be_altered(ports: Ports, clock: Clock, tenant: Tenant) -> None:
    """OPS-23, F827a: Whichever byte of a number is altered, it is named, and nothing of it used."""
    begun(ports, clock, tenant, "svc_wrt_a", "svc_wrt_b")
    number, name = next(journal.list_blobs(ports, tenant.id))
    blob = ports.blobs.get(name) or b""
    keys = [in_force.read_active_signer(ports, tenant.id).public_bytes]
    states = newest.read_newest(ports, tenant.id).states
    assert set(newest.replay(ports, tenant.id, keys, states).revoked) == {"svc_wrt_a", "svc_wrt_b"}
    altered = b""

    def read(call: Call) -> Any:
        return altered if (call.verb, call.arguments) == ("get", (name,)) else call()

    spoilt = replace(ports, blobs=Intercepted(ports.blobs, read))
    for place in range(len(blob)):
        altered = blob[:place] + bytes([blob[place] ^ 1]) + blob[place + 1 :]
        found = newest.replay(spoilt, tenant.id, keys, states)
        assert any(each.startswith(f"{name}: ") for each in found.gaps), place
        assert set(found.revoked) == {"svc_wrt_a"}, place
    assert number == 2


def of_another_tenant(ports: Ports, tenant: Tenant) -> str:
    """The number of another tenant, in the place of the next one."""
    other = Tenant.another(ports)
    other.regenerate(ports)
    other.revoke(ports, "svc_wrt_x")
    published(ports, other)
    foreign = last(ports, other)
    name = model.name_of(tenant.id, last(ports, tenant).number + 1)
    put(ports, foreign, seed_of(ports, other), name)
    return name


def for_another_tenant(ports: Ports, tenant: Tenant) -> str:
    """One that the right signer signed for another tenant, in its place."""
    number = replace(last(ports, tenant), tenant_id="svc_tnt_another")
    name = model.name_of(tenant.id, number.number)
    put(ports, number, seed_of(ports, tenant), name)
    return name


def at_another_number(ports: Ports, tenant: Tenant) -> str:
    """A number that was copied to the next place."""
    number = last(ports, tenant)
    name = model.name_of(tenant.id, number.number + 1)
    put(ports, number, seed_of(ports, tenant), name)
    return name


@pytest.mark.parametrize("harm", [of_another_tenant, for_another_tenant, at_another_number])
def test_a_number_counts_in_its_place_alone(
    ports: Ports, clock: Clock, tenant: Tenant, harm: Callable[[Ports, Tenant], str]
) -> None:
    """OPS-23, F827b: A number of another tenant or another place is named, and not used."""
    begun(ports, clock, tenant, "svc_wrt_a", "svc_wrt_b")
    name = harm(ports, tenant)
    assert any(each.startswith(f"{name}: ") for each in gaps(ports, tenant))
    assert "svc_wrt_x" not in newest.read_newest(ports, tenant.id).journal.revoked
    assert any(name in each.problem for each in doctor.examine(ports))


def test_a_number_follows_the_one_before(ports: Ports, clock: Clock, tenant: Tenant) -> None:
    """OPS-23, F827c: A number in the place of another one is named, though it is signed."""
    begun(ports, clock, tenant, "svc_wrt_a", "svc_wrt_b")
    assert gaps(ports, tenant) == ()
    _, (number, name) = journal.list_blobs(ports, tenant.id)
    first = model.decode_unverified(ports.blobs.get(name) or b"", name)
    seed = seed_of(ports, tenant)
    put(ports, replace(first, trust=7), seed)
    assert gaps(ports, tenant) == (f"{name}: the next record follows another record",)
    ports.blobs.remove(name)
    assert gaps(ports, tenant) == ("the journal lacks the feed entries 1 to 1",)
    assert number == 1


def test_a_stolen_signer_takes_nothing_back(
    deployment: Deployment, ports: Ports, clock: Clock, tenant: Tenant
) -> None:
    """OPS-23, F828a: What a stolen list signer signs after its end takes nothing back.

    It is named. The records were put back to a moment at which that signer was active.
    """
    begun(ports, clock, tenant, "svc_wrt_a")
    copy, thief = deployment.copy(), seed_of(ports, tenant)
    list_signers.rotate(ports, tenant.operator, compromised=True)
    clock.advance(seconds=5)
    tenant.revoke(ports, "svc_wrt_b")
    published(ports, tenant)
    honest = last(ports, tenant)
    entry = FeedEntry(honest.sequence + 1, (), ("svc_wrt_a", "svc_wrt_b"))
    forged = replace(
        honest,
        number=honest.number + 1,
        sequence=entry.sequence,
        entries=(entry.encode(),),
        ends=(feed.encoded_ends([]),),
    )
    put(ports, forged, thief)
    successor = in_force.read_active_signer(ports, tenant.id).public_bytes
    deployment.restore(copy)
    restored.mark(ports, copied_at=None)
    name = model.name_of(tenant.id, forged.number)
    done = recovery.recover(ports, tenant.operator, trusted_keys=[successor])
    assert f"J{name[1:]}: it is not signed by a signer of this tenant." in done.unknown.reasons
    assert tenant.is_revoked(ports, "svc_wrt_a")
    assert tenant.is_revoked(ports, "svc_wrt_b")
    assert tenant.published(ports).revoked_ids == ["svc_wrt_a", "svc_wrt_b"]


def test_numbers_of_a_stolen_signer_are_no_gap_if_a_list_has_them(
    ports: Ports, clock: Clock, tenant: Tenant
) -> None:
    """OPS-23, F828f: After a theft the doctor names no number from before, and a thief hides none.

    What the thief puts above the honest numbers, as if a list had it, does not end the walk.
    """
    begun(ports, clock, tenant, "svc_wrt_a", "svc_wrt_b")
    old, thief = last(ports, tenant), seed_of(ports, tenant)
    list_signers.rotate(ports, tenant.operator, compromised=True)
    assert gaps(ports, tenant) == ()
    clock.advance(seconds=5)
    tenant.revoke(ports, "svc_wrt_c")
    published(ports, tenant)
    put(ports, replace(old, number=last(ports, tenant).number + 1), thief)
    found = newest.read_newest(ports, tenant.id).journal
    assert (set(found.revoked), found.gaps) == ({"svc_wrt_c"}, ())


def test_a_forged_number_stops_no_start_for_good(
    deployment: Deployment, ports: Ports, clock: Clock, tenant: Tenant
) -> None:
    """OPS-22, F828b: After a recovery the journal goes on above whatever others put there."""
    begun(ports, clock, tenant, "svc_wrt_a")
    honest = last(ports, tenant)
    put(ports, replace(honest, number=honest.number + 1, sequence=2**50), bytes(32))
    for name in ("nothing", "0" * 20):
        ports.blobs.put(f"{model.folder(tenant.id)}/{name}", b"")
    with pytest.raises(InvalidSettings, match="older than the journal"):
        restored.check_recovered(ports)
    assert recovery.recover(ports, tenant.operator).unknown
    restored.check_recovered(ports)
    clock.advance(seconds=5)
    tenant.revoke(ports, "svc_wrt_b")
    published(ports, tenant)
    assert gaps(ports, tenant) == ()
    assert [*doctor.examine(ports)] == []


def test_a_bare_copy_is_known_by_each_thing_that_it_lacks(
    deployment: Deployment, ports: Ports, clock: Clock, tenant: Tenant
) -> None:
    """OPS-22, F828c: Records that lack an entry, an end or a document are refused."""
    begun(ports, clock, tenant, "svc_wrt_a")
    seed = seed_of(ports, tenant)
    honest = last(ports, tenant)
    ended = replace(model.tombstones_of(honest), changes=1_000).members()
    later: list[dict[str, Any]] = [{"trust": 3}, {"tombstones": ended}, {"sequence": 2**40}]
    for changes in later:
        put(ports, replace(honest, **changes), seed)
        with pytest.raises(DataCorrupt, match="older than the journal"):
            journal.check_not_ahead(ports, tenant.id)
        with pytest.raises(DataCorrupt, match="older than the journal"):
            Journals().write_missing_records(ports, tenant.id)
    put(ports, honest, seed)
    journal.check_not_ahead(ports, tenant.id)


def test_a_bare_copy_is_known_by_a_trust_document(
    deployment: Deployment, ports: Ports, clock: Clock, tenant: Tenant
) -> None:
    """OPS-22, F828d: Records that lack entries which a trust document knows are refused.

    A document that was stored by a process that was stopped says no more than they do.
    """
    begun(ports, clock, tenant, "svc_wrt_a")
    assert publishing.keep(ports, tenant.id) is TrustOutcome.PUBLISHED
    copy = deployment.copy()
    clock.advance(seconds=5)
    tenant.revoke(ports, "svc_wrt_b")
    assert wake.publish_within_window(ports, tenant.id).entries == 1
    clock.advance(days=2)
    assert publishing.keep(ports, tenant.id) is TrustOutcome.PUBLISHED
    restored.check_recovered(ports)
    deployment.restore(copy)
    with pytest.raises(InvalidSettings, match="older than trust document"):
        restored.check_recovered(ports)
    recovery.recover(ports, tenant.operator)
    restored.check_recovered(ports)
    before = documents.highest(ports, tenant.id)
    clock.advance(days=2)
    with pytest.raises(faults.Crash):
        publishing.keep(stopped_after_a_put(ports), tenant.id)
    assert documents.highest(ports, tenant.id) > before
    restored.check_recovered(ports)


def test_the_next_document_exceeds_those_of_the_journal(
    deployment: Deployment, ports: Ports, clock: Clock, tenant: Tenant
) -> None:
    """OPS-23, F828e: A document that the journal names is exceeded, if its blob is lost too."""
    assert publishing.keep(ports, tenant.id) is TrustOutcome.PUBLISHED
    tenant.regenerate(ports)
    copy = deployment.copy()
    clock.advance(days=2)
    assert publishing.keep(ports, tenant.id) is TrustOutcome.PUBLISHED
    published(ports, tenant)
    assert last(ports, tenant).trust == 2
    # As after a restore before, whose document and blobs are lost.
    put(ports, replace(last(ports, tenant), trust=2**30), seed_of(ports, tenant))
    ports.blobs.remove(document_blob(tenant.id, 2))
    deployment.restore(copy)
    with pytest.raises(InvalidSettings, match="older than the journal"):
        restored.check_recovered(ports)
    recovery.recover(ports, tenant.operator)
    assert documents.highest(ports, tenant.id) > 2**30
    restored.check_recovered(ports)


def stopped_after_a_put(ports: Ports) -> Ports:
    """Ports of a process that is killed once it has stored a blob of a document."""

    def stored(call: Call) -> Any:
        result = call()
        if call.verb == "put" and "/keys/" not in call.arguments[0]:
            raise faults.Crash
        return result

    return replace(ports, blobs=Intercepted(ports.blobs, stored))


def fill(
    ports: Ports, clock: Clock, tenant: Tenant, count: int, name: str = "svc_wrt_"
) -> Journals:
    """Publish so many changes, a number for each."""
    writer = Journals()
    window = SettingsChange(feed_window_ms=0)
    tenant_settings.update(ports, tenant.operator, change=window)
    for number in range(count):
        clock.advance(seconds=1)
        tenant.revoke(ports, f"{name}{number}")
        published(ports, tenant, writer)
    return writer


@pytest.fixture
def few_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "KEPT", 4)
    monkeypatch.setattr(journal, "TIDIED_EVERY", 5)


def numbers(ports: Ports, tenant: Tenant) -> list[int]:
    return [number for number, _ in journal.list_blobs(ports, tenant.id)]


@pytest.mark.usefixtures("few_kept")
def test_a_journal_has_a_bounded_number_of_blobs(
    deployment: Deployment, ports: Ports, clock: Clock, tenant: Tenant
) -> None:
    """OPS-23, F1685a: Whatever the rate, few numbers stay that two lists cover.

    All numbers stay that these do not cover, and a recovery finds everything.
    """
    tenant.regenerate(ports)
    copy = deployment.copy()
    writer = fill(ports, clock, tenant, 22)
    assert numbers(ports, tenant) == list(range(22, 0, -1))
    tenant.regenerate(ports)
    clock.advance(minutes=11)
    tenant.revoke(ports, "svc_wrt_x")
    tenant.regenerate(ports)
    tenant.regenerate(ports)
    for number in range(22, 40):
        clock.advance(seconds=1)
        tenant.revoke(ports, f"svc_wrt_{number}")
        published(ports, tenant, writer)
        found = numbers(ports, tenant)
        assert found == list(range(found[0], found[0] - len(found), -1))
        # Twice the larger of `KEPT` and of those that are not covered, and one interval.
        assert found[0] < 25 or len(found) <= 2 * max(4, found[0] - 22) + 5
    deployment.restore(copy)
    restored.mark(ports, copied_at=None)
    recovery.recover(ports, tenant.operator)
    assert all(tenant.is_revoked(ports, f"svc_wrt_{number}") for number in range(40))
    assert gaps(ports, tenant) == ()


@pytest.mark.usefixtures("few_kept")
@pytest.mark.parametrize("wrong", [timedelta(days=365), -timedelta(days=365)])
def test_a_wrong_clock_removes_no_number_that_no_list_has(
    ports: Ports, clock: Clock, tenant: Tenant, wrong: timedelta
) -> None:
    """OPS-23, F829a: A clock that is wrong, or was, removes no number that no list has."""
    clock.moment += wrong
    tenant.regenerate(ports)
    tenant.regenerate(ports)
    clock.moment -= wrong
    writer = fill(ports, clock, tenant, 11)
    clock.moment += wrong
    for number in range(11, 16):
        tenant.revoke(ports, f"svc_wrt_{number}")
        published(ports, tenant, writer)
    assert numbers(ports, tenant) == list(range(16, 0, -1))


@pytest.mark.usefixtures("few_kept")
@pytest.mark.parametrize("left", [slice(None, None, 2), slice(1, None, 2), slice(3)])
def test_a_removal_that_is_killed_leaves_no_gap(
    ports: Ports, clock: Clock, tenant: Tenant, left: slice
) -> None:
    """OPS-23, F1685b: Whatever a killed removal left, no number is missing. The next removes it."""
    killed = False

    def discard(call: Call) -> Any:
        nonlocal killed
        if call.verb != "discard" or killed or "journal" not in call.arguments[0]:
            return call()
        killed = True
        start = f"{model.folder(tenant.id)}/{call.options['start']}"
        doomed = [name for _, name in journal.list_blobs(ports, tenant.id) if name >= start]
        for name in doomed[left]:
            ports.blobs.remove(name)
        raise faults.Crash

    tenant.regenerate(ports)
    fill(ports, clock, tenant, 12)
    clock.advance(minutes=11)
    tenant.regenerate(ports)
    tenant.regenerate(ports)
    broken = replace(ports, blobs=Intercepted(ports.blobs, discard))
    with pytest.raises(faults.Crash):
        fill(broken, clock, tenant, 5, "svc_wrt_b")
    assert killed
    assert gaps(ports, tenant) == ()
    fill(ports, clock, tenant, 10, "svc_wrt_c")
    assert min(numbers(ports, tenant)) > 12 - 4
    assert gaps(ports, tenant) == ()


@pytest.mark.usefixtures("few_kept")
def test_a_number_written_late_keeps_what_it_ends(
    deployment: Deployment, ports: Ports, clock: Clock, tenant: Tenant
) -> None:
    """OPS-23, F1685d: A number without the result of its pass says no more than the list before.

    It was removed before any list had the end of the API key that is in it.
    """
    tenant.regenerate(ports)
    key = tenant.api_key(ports)
    writer = fill(ports, clock, tenant, 3)
    copy = deployment.copy()
    clock.advance(minutes=30)
    for _ in range(2):
        tenant.regenerate(ports)
    clock.advance(minutes=1)
    api_keys.revoke(ports, tenant.operator, key_id=key.api_key.id)
    wake.publish_within_window(ports, tenant.id)
    writer.write_missing_records(ports, tenant.id)
    assert model.tombstones_of(last(ports, tenant)).api_keys
    for number in range(20):
        clock.advance(seconds=1)
        tenant.revoke(ports, f"svc_wrt_b{number}")
        published(ports, tenant, writer)
    deployment.restore(copy)
    recovery.recover(ports, tenant.operator)
    assert not opens(ports, key)


@pytest.mark.usefixtures("few_kept")
def test_a_damaged_newest_list_loses_nothing(
    deployment: Deployment, ports: Ports, clock: Clock, tenant: Tenant
) -> None:
    """OPS-23, F1685e: The list before it and the journal have all that the newest list has."""
    tenant.regenerate(ports)
    copy = deployment.copy()
    writer = fill(ports, clock, tenant, 20)
    clock.advance(minutes=11)
    tenant.regenerate(ports)
    for number in range(20, 40):
        clock.advance(seconds=1)
        tenant.revoke(ports, f"svc_wrt_{number}")
        published(ports, tenant, writer)
    ports.blobs.remove(in_force.read_srl_head(ports, tenant.id).blob)
    deployment.restore(copy)
    recovery.recover(ports, tenant.operator)
    assert all(tenant.is_revoked(ports, f"svc_wrt_{number}") for number in range(40))


def test_a_journal_with_gaps_states_no_horizon(
    deployment: Deployment, ports: Ports, clock: Clock, tenant: Tenant
) -> None:
    """OPS-23, F1685f: If a number is missing, everything is known only until the newest list."""
    begun(ports, clock, tenant, "svc_wrt_a", "svc_wrt_b", "svc_wrt_c")
    copy, listed = deployment.copy(), in_force.read_srl_head(ports, tenant.id)
    assert (horizon := newest.find(ports, tenant.id).horizon)
    assert horizon > listed.issued_at
    clock.advance(seconds=5)
    tenant.revoke(ports, "svc_wrt_d")
    published(ports, tenant)
    ports.blobs.remove(model.name_of(tenant.id, 2))
    deployment.restore(copy)
    said = list[str]()
    recovery.recover(ports, tenant.operator, report=said.append)
    assert any("lacks the records 2 to 2" in line for line in said)
    (line,) = (each for each in said if each.startswith("Unknown: Horizon"))
    assert f"accounts until {times.format_utc(listed.issued_at)} are" in line


def test_the_horizon_is_not_in_the_future(
    deployment: Deployment, ports: Ports, clock: Clock, tenant: Tenant
) -> None:
    """OPS-10, F829b: A clock that was ahead when the journal was written moves no horizon past now.

    If it was behind after the list, the horizon is the earlier moment.
    """
    begun(ports, clock, tenant, "svc_wrt_a")
    copy, right = deployment.copy(), clock()
    for wrong in (timedelta(days=1), -timedelta(days=1)):
        clock.moment = right + wrong
        tenant.revoke(ports, f"svc_wrt_{wrong.days % 7}")
        published(ports, tenant)
        stated = last(ports, tenant).issued_at
        clock.moment = right + timedelta(minutes=1)
        deployment.restore(copy)
        restored.mark(ports, copied_at=None)
        done = recovery.recover(ports, tenant.operator)
        moment = times.format_utc(min(stated, clock()))
        assert any(f"accounts until {moment} are known" in each for each in done.unknown.reasons)
        tenant.regenerate(ports)
        copy = deployment.copy()
