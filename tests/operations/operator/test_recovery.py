"""Recovery: records from a backup, lists from the present, and nothing that was told is lost."""

from dataclasses import dataclass, replace
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from functions.status_lists import operations as status_lists
from shared.errors import DataCorrupt, InvalidApiKey, ListFull
from shared.model.items import Address, Partition, Table
from shared.model.lists import content as model
from shared.model.lists import signers as srl_signers
from shared.model.lists.content import Payload
from shared.model.lists.head import SrlHead, blob_name, lists_folder, states_folder, version_of
from shared.model.lists.schedule import ISSUES, TURNS, PublicationDeadline, issue_address
from shared.model.lists.verification import verify
from shared.operations.changes import revocations
from shared.operations.identities import authentication, sessions
from shared.operations.lists import in_force, publication
from shared.operations.lists import schedule as srl_schedule
from shared.operations.operator import doctor, restored
from shared.operations.operator.recovery import recovery
from shared.ports import Ports
from tests.kit import identities
from tests.kit.faults import Crash, Script, meeting, raises, scripted
from tests.kit.intercepted import Call, Intercepted
from tests.kit.tenants import Tenant, item_at
from tests.kit.worlds import Clock
from tests.operations.restores import Deployment

pytestmark = pytest.mark.usefixtures("few_partitions")


@dataclass(frozen=True)
class Past:
    """A tenant whose lists went on for a while after a copy of its records was made."""

    tenant: Tenant
    copy: Path
    seen: Payload  # the newest list, which verifiers have seen


@pytest.fixture
def past(deployment: Deployment, clock: Clock) -> Past:
    """Versions 1 and 2 before the copy; after it three more, each with a change of its own."""
    ports = deployment.ports
    tenant = Tenant.create(ports)
    key = tenant.key(ports)
    tenant.revoke(ports, "svc_wrt_early")
    tenant.sign(ports, key, "svc_wrt_signed-early")
    tenant.regenerate(ports)
    copy = deployment.copy()
    clock.advance(minutes=1)
    tenant.revoke(ports, "svc_wrt_late")
    tenant.regenerate(ports)
    clock.advance(minutes=1)
    tenant.sign(ports, key, "svc_wrt_signed-late")
    tenant.revoke_key(ports, key)
    tenant.regenerate(ports)
    clock.advance(minutes=1)
    tenant.revoke(ports, "svc_wrt_last")
    return Past(tenant, copy, tenant.regenerate(ports))


def recover(ports: Ports, tenant: Tenant) -> recovery.RecoveryResult:
    return recovery.recover(ports, tenant.operator)


def believed(ports: Ports, past: Past, clock: Clock) -> Payload:
    """The list in force, as one verifies it who has seen the newest before."""
    head = in_force.read_srl_head(ports, past.tenant.id)
    item = item_at(ports, srl_signers.signers_partition(past.tenant.id).address(head.key_id))
    return verify(
        in_force.read_srl_body(ports, head),
        public_key=srl_signers.SrlSigner.from_item(item).public_bytes,
        now=clock(),
        min_version=past.seen.version,
    )


def assert_one_turn(ports: Ports, tenant: Tenant) -> None:
    """Of turns from two moments, that of the list in force is left."""
    (entry,) = ports.store.query(TURNS)
    head = in_force.read_srl_head(ports, tenant.id)
    assert PublicationDeadline.from_item(entry.item) == PublicationDeadline.after_publication(
        head, tenant.id
    )


def assert_healthy(ports: Ports, past: Past) -> None:
    """Nothing is wrong, there is nothing to publish, and the schedule goes on from here."""
    assert_one_turn(ports, past.tenant)
    assert list(doctor.examine(ports)) == []
    assert publication.publish_due(ports) == publication.PublicationRun()
    assert srl_schedule.read_due_tenants(ports) == srl_schedule.DueTenants([], late=0)
    version = in_force.read_srl_head(ports, past.tenant.id).version
    past.tenant.revoke(ports, "svc_wrt_after")
    assert publication.publish_due(ports).published == [past.tenant.id]
    assert past.tenant.published(ports).version == version + 1


MOMENTS = {
    "everything": (),
    "keys alone": (Table.KEYS,),
    "revocations alone": (Table.REVOCATIONS,),
    "keys and revocations": (Table.KEYS, Table.REVOCATIONS),
}
# The calls that change anything.
_CHANGES = ("write", "put", "discard", "remove")
_EACH_MOMENT = pytest.mark.parametrize("tables", MOMENTS.values(), ids=MOMENTS)


@_EACH_MOMENT
def test_published_revocations_survive_a_restore(
    deployment: Deployment, ports: Ports, past: Past, clock: Clock, tables: tuple[Table, ...]
) -> None:
    """OPS-9, S5: After a restore of any tables, versions rise and no listed revocation is lost."""
    deployment.restore(past.copy, *tables)
    recovered = recover(ports, past.tenant)
    assert recovered.head.version == past.seen.version + 1
    assert believed(ports, past, clock).revoked_ids == past.seen.revoked_ids
    assert all(past.tenant.is_revoked(ports, each) for each in past.seen.revoked_ids)
    past.tenant._check_revocations(ports)
    assert_healthy(ports, past)


@_EACH_MOMENT
def test_an_extension_survives_a_restore(
    deployment: Deployment, past: Past, clock: Clock, tables: tuple[Table, ...]
) -> None:
    """OPS-9, F568g: A restore does not bring back the false end of a revocation."""
    ports, tenant = deployment.ports, past.tenant
    soon = clock() + timedelta(minutes=1)
    revocations.create(
        ports, tenant.operator, warrant_id="svc_wrt_false", reason="r", warrant_expires_at=soon
    )
    tenant.regenerate(ports)
    copy = deployment.copy()
    tenant.revoke(ports, "svc_wrt_false")
    tenant.regenerate(ports)
    deployment.restore(copy, *tables)
    lines = list[str]()
    recovery.recover(ports, tenant.operator, report=lines.append)
    assert recover(ports, tenant).revoked_again == []
    clock.advance(days=100)
    assert "svc_wrt_false" in tenant.regenerate(ports).revoked_ids
    if Table.REVOCATIONS in (tables or Table):
        assert "Extended again to its later expiry: svc_wrt_false" in lines


def test_a_copy_of_records_whose_list_is_kept_no_longer(
    deployment: Deployment, past: Past, clock: Clock
) -> None:
    """F125a: A restore of records whose list is no longer kept uses the newest list."""
    ports, tenant = deployment.ports, past.tenant
    for _ in range(3):
        clock.advance(days=3)
        tenant.regenerate(ports)
    seen = tenant.published(ports)
    stored = list(ports.blobs.names(states_folder(tenant.id)))
    assert min(map(version_of, stored)) == past.seen.version + 1
    deployment.restore(past.copy)
    head = in_force.read_srl_head(ports, tenant.id)
    assert ports.blobs.get(head.blob) is None
    assert list(doctor.examine(ports))
    recovered = recover(ports, tenant)
    assert recovered.head.version == seen.version + 1
    assert recovered.revoked_again == ["svc_wrt_last", "svc_wrt_late", "svc_wrt_signed-late"]
    assert believed(ports, past, clock).revoked_ids == past.seen.revoked_ids
    assert_healthy(ports, past)


def test_a_recovery_ends_all_sessions(deployment: Deployment, past: Past, clock: Clock) -> None:
    """AUTH-16, F1148a: A session that was ended after the backup does not revive by a restore.

    A recovery ends all sessions; what begins after it is accepted.
    """
    ports = deployment.ports
    provider = identities.bound(ports, past.tenant.operator)
    ended, other = (identities.signed_in(ports, provider, sub=name) for name in "ab")
    copy = deployment.copy()
    sessions.delete(ports, past.tenant.operator, session_id=ended.session.id)
    deployment.restore(copy)
    authentication.authenticate(ports, ended.secret)
    recover(ports, past.tenant)
    for made in (ended, other):
        with pytest.raises(InvalidApiKey):
            authentication.authenticate(ports, made.secret)
    clock.advance(seconds=1)
    again = identities.signed_in(ports, provider, sub="b")
    assert authentication.authenticate(ports, again.secret).person_id == other.session.owner


def test_a_recovery_closes_status_lists(deployment: Deployment, past: Past) -> None:
    """TOKEN-6, F1457a: After a restore no entry is given out that may have been since the backup.

    Lists of after the recovery give out entries, also once it is reviewed.
    """
    ports, operator = deployment.ports, past.tenant.operator
    url = "https://rescind.example"
    old = status_lists.create(ports, operator, name="old", url=url)
    copy = deployment.copy()
    status_lists.allocate(ports, operator, list_id=old.id, count=5)
    deployment.restore(copy)
    restored.mark(ports, copied_at=None)
    recover(ports, past.tenant)
    new = status_lists.create(ports, operator, name="new", url=url)
    for _ in range(2):
        with pytest.raises(ListFull):
            status_lists.allocate(ports, operator, list_id=old.id, count=1)
        assert status_lists.allocate(ports, operator, list_id=new.id, count=1).indexes
        recovery.recover(ports, operator, reviewed=True)


def test_what_was_unrevoked_since_is_revoked_again(deployment: Deployment, past: Past) -> None:
    """Too much rather than too little: a revocation taken back since the copy holds again."""
    ports, tenant = deployment.ports, past.tenant
    records = revocations.page(ports, tenant.operator, before=None, limit=50).entries
    early = next(each.id for each in records if each.warrant_id == "svc_wrt_early")
    tenant.unrevoke(ports, early)
    tenant.regenerate(ports)
    deployment.restore(past.copy)
    recover(ports, tenant)
    assert "svc_wrt_early" in tenant.published(ports).revoked_ids


def test_an_orphan_above_the_head(deployment: Deployment, past: Past, clock: Clock) -> None:
    """F01: a list that was stored and never published may have been seen; its version is left."""
    ports, tenant = deployment.ports, past.tenant
    tenant.revoke(ports, "svc_wrt_orphan")
    calls = Script()
    publication.publish(scripted(ports, calls), tenant.operator)
    tenant.revoke(ports, "svc_wrt_orphan-2")
    # The list is stored, and its head is not: the last call is the write that replaces it.
    stopped = Script(before={len(calls.calls) - 1: raises(Crash())})
    with pytest.raises(Crash):
        publication.publish(scripted(ports, stopped), tenant.operator)
    orphan = in_force.read_srl_head(ports, tenant.id).version + 1
    deployment.restore(past.copy)
    recovered = recover(ports, tenant)
    assert recovered.head.version == orphan + 1
    assert "svc_wrt_orphan-2" in recovered.revoked_again
    assert set(past.seen.revoked_ids) < set(believed(ports, past, clock).revoked_ids)


def test_two_lists_of_the_newest_version(deployment: Deployment, past: Past, clock: Clock) -> None:
    """What either of them revokes is revoked: nobody can tell which of the two was in force."""
    ports, tenant = deployment.ports, past.tenant
    calls = Script()
    newest = publication.publish(scripted(ports, calls), tenant.operator)
    deployment.restore(past.copy)
    above = publication.RestoredPosition(newest.version - 1, 0)
    # Each of the two has a warrant that the other lacks, whichever is read first.
    tenant.revoke(ports, "svc_wrt_of-the-other")
    other = publication.publish(ports, tenant.operator, restored_position=above)
    assert (other.version, other.blob != newest.blob) == (newest.version, True)
    deployment.restore(past.copy)
    recover(ports, tenant)
    seen = {*past.seen.revoked_ids, "svc_wrt_of-the-other"}
    assert set(believed(ports, past, clock).revoked_ids) == seen


def test_blobs_that_are_older_than_the_records(deployment: Deployment, past: Past) -> None:
    """Where blobs were lost, the version still rises above that of the records."""
    ports, tenant = deployment.ports, past.tenant
    for path in (deployment.folder / "blobs" / lists_folder(tenant.id)).iterdir():
        path.unlink()
    recovered = recover(ports, tenant)
    assert (recovered.head.version, recovered.revoked_again) == (past.seen.version + 1, [])
    assert tenant.published(ports).revoked_ids == past.seen.revoked_ids
    assert list(doctor.examine(ports)) == []


def test_a_newest_list_that_cannot_be_read_stops_it(deployment: Deployment, past: Past) -> None:
    """F10: what an altered list revoked is not guessed; nothing is published or revoked."""
    ports, tenant = deployment.ports, past.tenant
    newest = in_force.read_srl_head(ports, tenant.id)
    deployment.restore(past.copy)
    before = in_force.read_srl_head(ports, tenant.id)
    (deployment.folder / "blobs" / newest.blob).write_bytes(b"{}")
    with pytest.raises(DataCorrupt, match=f"version {newest.version} is missing or altered"):
        recover(ports, tenant)
    assert in_force.read_srl_head(ports, tenant.id) == before
    assert not tenant.is_revoked(ports, "svc_wrt_late")


def test_a_file_that_is_no_list_stops_it(deployment: Deployment, past: Past) -> None:
    """A name that tells no version is an error with words, not a crash."""
    deployment.ports.blobs.put(f"{lists_folder(past.tenant.id)}/notes.txt", b"")
    with pytest.raises(DataCorrupt, match="an unexpected name"):
        recover(deployment.ports, past.tenant)


@pytest.mark.slow
@_EACH_MOMENT
def test_stopped_anywhere_it_is_healed_by_repeating(
    deployment: Deployment,
    ports: Ports,
    past: Past,
    clock: Clock,
    at_once: None,
    tables: tuple[Table, ...],
) -> None:
    """Wherever it dies, the next run publishes all that was told, above all that was.

    That is after each change: what it would read on the way to the next one, nobody sees.
    """
    deployment.restore(past.copy, *tables)
    restored = deployment.copy()
    rehearsal = Script()
    recover(scripted(ports, rehearsal), past.tenant)
    changes = [step for step, verb in enumerate(rehearsal.calls) if verb in _CHANGES]
    assert len(changes) > 2
    for step in changes:
        deployment.restore(restored)
        script = Script(after={step: raises(Crash())})
        with pytest.raises(Crash):
            recover(scripted(ports, script), past.tenant)
        recover(ports, past.tenant)
        assert believed(ports, past, clock).revoked_ids == past.seen.revoked_ids
        assert list(doctor.examine(ports)) == []
        assert publication.publish_due(ports) == publication.PublicationRun()


@pytest.mark.parametrize("partition", [TURNS, ISSUES], ids=["turns", "issues"])
def test_a_publication_while_old_turns_are_removed(
    deployment: Deployment, past: Past, at_once: None, partition: Partition
) -> None:
    """F316a: A list that is published while `recover` removes old turns keeps its own turn."""
    ports, tenant = deployment.ports, past.tenant
    before, published = in_force.read_srl_head(ports, tenant.id), list[SrlHead]()

    def meanwhile(call: Call) -> Any:
        is_turn = call.verb == "query" and call.arguments == (partition,) and not published
        if is_turn and in_force.read_srl_head(ports, tenant.id).version > before.version:
            published.append(publication.publish(ports, tenant.operator))
        return call()

    recover(replace(ports, store=Intercepted(ports.store, meanwhile)), tenant)
    (head,) = published
    assert in_force.read_srl_head(ports, tenant.id) == head
    assert_one_turn(ports, tenant)
    assert [row.sk for row in ports.store.query(ISSUES)] == [issue_address(head, tenant.id).sk]


def _partitions(call: Call) -> set[tuple[Table, str]]:
    """The partitions that a call of the store names."""
    match call.verb, call.arguments:
        case (("query" | "column"), (partition, *_)):
            return {partition[:2]}
        case "get", (Address() as address,):
            return {address[:2]}
        case "get_many", (addresses,):
            return {each[:2] for each in addresses}
        case "write", changes:
            return {each.address[:2] for each in changes}
    return set()


def _is_affected(call: Call, written: set[tuple[Table, str]]) -> bool:
    """Whether these writes before a call differ from the same ones after it."""
    read = _partitions(call)
    return call.verb == "write" or not read or not read.isdisjoint(written)


@pytest.mark.slow
@_EACH_MOMENT
def test_the_schedule_at_any_moment(
    deployment: Deployment, past: Past, clock: Clock, at_once: None, tables: tuple[Table, ...]
) -> None:
    """A publication between any two steps keeps its turn, and costs the list nothing.

    Before a read of what it does not write, it does the same as after it: one of both suffices.
    """
    ports, tenant = deployment.ports, past.tenant
    deployment.restore(past.copy, *tables)
    restored, written = deployment.copy(), set[tuple[Table, str]]()

    def publish() -> None:
        script = Script()
        publication.publish(scripted(ports, script), tenant.operator)
        written.update(*(_partitions(each) for each in script.made if each.verb == "write"))

    publish()
    deployment.restore(restored)
    rehearsal = Script()
    recover(scripted(ports, rehearsal), tenant)
    publish()
    left = dict(enumerate(rehearsal.made))
    while affected := [step for step, call in left.items() if _is_affected(call, written)]:
        for step in affected:
            del left[step]
            deployment.restore(restored)
            recover(meeting(ports, step, publish), tenant)
            assert believed(ports, past, clock).revoked_ids == past.seen.revoked_ids
            assert_one_turn(ports, tenant)


def test_a_list_under_another_version_is_not_believed(deployment: Deployment, past: Past) -> None:
    """F98a: A list that is copied under a higher version does not use up versions."""
    ports, tenant = deployment.ports, past.tenant
    body = in_force.read_srl_body(ports, in_force.read_srl_head(ports, tenant.id))
    name = blob_name(lists_folder(tenant.id), version=10**12 - 2, sha256=sha256(body).hexdigest())
    ports.blobs.put(name, body)
    with pytest.raises(DataCorrupt):
        recover(ports, tenant)
    assert in_force.read_srl_head(ports, tenant.id).version < 100


@pytest.mark.parametrize("version", [9, 10**12 - 2])
def test_a_planted_list_is_not_believed(
    deployment: Deployment, past: Past, clock: Clock, version: int
) -> None:
    """OPS-9: An attacker who writes to the bucket can neither revoke nor use up versions."""
    ports, tenant = deployment.ports, past.tenant
    now = clock()
    payload = Payload(version, now, now + timedelta(hours=1), ["svc_wrt_innocent"])
    body = model.sign(payload, seed=bytes(32))
    name = blob_name(lists_folder(tenant.id), version=version, sha256=sha256(body).hexdigest())
    ports.blobs.put(name, body)
    with pytest.raises(DataCorrupt, match="lack the key that signed the newest"):
        recover(ports, tenant)
    assert not tenant.is_revoked(ports, "svc_wrt_innocent")
