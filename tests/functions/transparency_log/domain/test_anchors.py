"""The sealed log extends what signed records outside the store name of it (LOG-12)."""

import base64
import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from functions.transparency_log import checkpoint, log, outside, sealing
from functions.transparency_log import head as model
from functions.transparency_log.checkpoint import PinnedCheckpoint
from functions.trust import facts as facts_of
from functions.trust import publishing
from shared.authorizer.formats.trust import LogAnchor, TrustDocument
from shared.errors import DataCorrupt
from shared.model.items import Table
from shared.model.lists import content, journal
from shared.model.lists.head import blob_name, states_folder
from shared.model.seeds import public_key
from shared.operations.lists import in_force
from shared.operations.operator import doctor
from shared.operations.operator.recovery import recovery
from shared.ports import Ports
from shared.ports.store import Delete, Expect
from tests.kit import faults, roots
from tests.kit.sealed_log import entered, head_of, many_sealed
from tests.kit.tenants import Tenant
from tests.kit.witnesses import made, policy
from tests.kit.worlds import Clock
from tests.operations.restores import Deployment

pytestmark = pytest.mark.usefixtures("at_once")


def anchored(ports: Ports, tenant: Tenant, anchor: LogAnchor | None, number: int = 9) -> str:
    """The name of a blob of the journal that names this checkpoint, as a list signer wrote it."""
    members = {} if anchor is None else {"Log": anchor.members()}
    name = journal.name_of(tenant.id, number)
    ports.blobs.put(name, content.signed_blob(members, journal.PREFIX, seed=bytes(32)))
    return name


def forget(ports: Ports, tenant: Tenant) -> None:
    """Remove the checkpoints that are kept, as one who can write to the blobs may."""
    for name in list(ports.blobs.names(checkpoint.folder(tenant.id))):
        ports.blobs.remove(name)


def test_an_anchor_is_the_newest_checkpoint(ports: Ports, clock: Clock, tenant: Tenant) -> None:
    """LOG-12, F800a: The anchor for documents and journals is the newest checkpoint."""
    assert log.anchor(ports, tenant.id) is None
    many_sealed(ports, clock, tenant.id, 3)
    head = head_of(ports, tenant.id)
    anchor = log.anchor(ports, tenant.id)
    assert anchor == LogAnchor(f"rescind/{tenant.id}/1", head.size, head.root)
    assert PinnedCheckpoint.from_anchor(anchor, tenant.id) == PinnedCheckpoint.of(head)
    for origin in ("rescind/svc_tnt_other/1", f"rescind/{tenant.id}/01", "1", f"{anchor.origin}x"):
        with pytest.raises(DataCorrupt, match="names the transparency log"):
            PinnedCheckpoint.from_anchor(anchor._replace(origin=origin), tenant.id)


def test_the_checkpoint_of_an_empty_generation_is_the_oldest_of_it(
    ports: Ports, tenant: Tenant
) -> None:
    """LOG-12, F1123a: In a generation that a recovery began, the newest checkpoint has leaves."""
    log.keep_checkpoint(ports, tenant.id, PinnedCheckpoint.empty(2))
    assert log.newest_checkpoint(ports, tenant.id) == PinnedCheckpoint.empty(2)
    for size in (1, 11, 300):
        log.keep_checkpoint(ports, tenant.id, PinnedCheckpoint(2, size, bytes(32)))
        assert log.newest_checkpoint(ports, tenant.id) == PinnedCheckpoint(2, size, bytes(32))


@pytest.mark.parametrize("member", [1, {}, {"Generation": 1, "Size": "x", "Root": bytes(32)}])
def test_a_state_with_a_malformed_checkpoint_is_unreadable(
    clock: Clock, tenant: Tenant, member: object
) -> None:
    """LOG-12, F2912a: A recovery passes over such a state, and a publication rebuilds the list."""
    signed = content.SrlState(tenant.id, 1, clock(), added={"Log": member}).sign(seed=bytes(32))
    name = blob_name(states_folder(tenant.id), version=1, sha256="0")
    key = base64.b64decode(public_key(bytes(32)))
    with pytest.raises(DataCorrupt, match="malformed"):
        in_force.decode_state(signed, name, tenant.id, public_key=key)


def older(deployment: Deployment, ports: Ports, tenant: Tenant, clock: Clock) -> None:
    copy = deployment.copy()
    clock.advance(minutes=2)
    many_sealed(ports, clock, tenant.id, 300)
    anchored(ports, tenant, log.anchor(ports, tenant.id))
    deployment.restore(copy, Table.AUDIT)


def rewritten(_: Deployment, ports: Ports, tenant: Tenant, _clock: Clock) -> None:
    """A log as long as the one that is anchored, with other leaves."""
    anchor = log.anchor(ports, tenant.id)
    assert anchor
    anchored(ports, tenant, anchor._replace(root=bytes(32)))


@pytest.mark.parametrize("spoil", [older, rewritten])
def test_a_log_extends_its_anchors(
    deployment: Deployment,
    ports: Ports,
    tenant: Tenant,
    clock: Clock,
    spoil: Callable[[Deployment, Ports, Tenant, Clock], None],
) -> None:
    """LOG-12, F800b: A log that was cut or rewritten below an anchor is not signed any more.

    That is so also if the kept checkpoints are gone. The doctor says it. `recover` begins the next
    generation, which the older anchors do not stop.
    """
    many_sealed(ports, clock, tenant.id, 3)
    spoil(deployment, ports, tenant, clock)
    forget(ports, tenant)
    clock.advance(minutes=1)
    before = head_of(ports, tenant.id)
    entered(ports, clock, tenant.id)
    with pytest.raises(DataCorrupt, match="was truncated, or its store is an older copy"):
        sealing.extend(ports, tenant.id)
    assert head_of(ports, tenant.id) == before
    assert [each for each in doctor.examine(ports) if "was truncated" in each.problem]
    recovery.recover(ports, tenant.operator)
    sealing.extend(ports, tenant.id)
    assert head_of(ports, tenant.id).generation > 1
    outside.check_anchors(ports, tenant.id)


def documented(ports: Ports, tenant: Tenant) -> TrustDocument:
    """The next trust document, published."""
    signed = roots.signed_draft(ports, tenant.operator)
    payload, signatures = signed.payload, {**signed.signatures}
    publishing.publish(ports, tenant.operator, payload=payload, signatures=signatures)
    return signed.document


def test_a_log_extends_what_documents_name(
    deployment: Deployment, ports: Ports, tenant: Tenant, clock: Clock
) -> None:
    """LOG-12, F800f: A trust document names the newest checkpoint, and an older log is refused.

    That is so also if the kept checkpoints are gone, and if the head of the documents is older.
    """
    assert documented(ports, tenant).log is None
    many_sealed(ports, clock, tenant.id, 3)
    copy = deployment.copy()
    clock.advance(minutes=2)
    many_sealed(ports, clock, tenant.id, 5)
    assert documented(ports, tenant).log == log.anchor(ports, tenant.id)
    forget(ports, tenant)
    outside.check_anchors(ports, tenant.id)
    deployment.restore(copy, Table.AUDIT)
    clock.advance(minutes=1)
    entered(ports, clock, tenant.id)
    with pytest.raises(DataCorrupt, match="was truncated, or its store is an older copy"):
        sealing.extend(ports, tenant.id)
    deployment.restore(copy)
    assert [each for each in doctor.examine(ports) if "was truncated" in each.problem]
    remove = model.address(tenant.id)
    ports.store.write(Delete(remove, Expect.PRESENT))
    with pytest.raises(DataCorrupt, match="no log head"):
        sealing.extend(ports, tenant.id)


def test_a_document_names_the_witnesses(ports: Ports, tenant: Tenant, tmp_path: Path) -> None:
    """LOG-34, F812f: The next trust document names the witnesses that the service asks now."""
    assert documented(ports, tenant).witnesses is None
    asked = policy(1, made(tmp_path, "a"), made(tmp_path, "b"))
    asking = dataclasses.replace(ports, witnesses=asked)
    facts_before, facts = (
        facts_of.read_facts(ports, tenant.id),
        facts_of.read_facts(asking, tenant.id),
    )
    due = [each.is_due(ports.now(), is_online=True) for each in (facts_before, facts)]
    assert due == [False, True]
    found = documented(asking, tenant).witnesses
    assert found == (asked.keys, 1)
    assert not facts_of.read_facts(asking, tenant.id).is_due(ports.now(), is_online=True)


def test_one_pass_in_a_minute_compares(ports: Ports, clock: Clock, tenant: Tenant) -> None:
    """LOG-12, F800c: The first pass of a minute that seals reads anchors, and no other does."""

    def reads() -> list[str]:
        script = faults.Script()
        entered(ports, clock, tenant.id)
        sealing.extend(faults.scripted(ports, script), tenant.id)
        return script.calls

    reads()
    clock.advance(seconds=60)
    first, second = reads(), reads()
    assert len(first) > len(second)
    clock.advance(seconds=60)
    assert reads() == first


def test_the_doctor_compares_all_anchors(ports: Ports, clock: Clock, tenant: Tenant) -> None:
    """LOG-13, F800d: The doctor compares the log with each blob of the journal, not the newest."""
    many_sealed(ports, clock, tenant.id, 600)
    tenant.regenerate(ports)
    for number in range(1, 4):
        anchored(ports, tenant, log.anchor(ports, tenant.id), number)
    log_problems = [each for each in doctor.examine(ports) if "its first" in each.problem]
    assert log_problems == []
    tree = log.LogTree(ports, tenant.id, head_of(ports, tenant.id))
    origin = f"rescind/{tenant.id}/1"
    ports.blobs.remove(journal.name_of(tenant.id, 1))
    anchored(ports, tenant, LogAnchor(origin, 300, tree.root(299)), 1)
    sealing.extend(ports, tenant.id)
    (told,) = (each for each in doctor.examine(ports) if "its first" in each.problem)
    assert "its first 300 leaves differ from the leaves of an anchor" in told.problem


def test_an_anchor_that_cannot_be_read_is_none_of_another_log(
    ports: Ports, clock: Clock, tenant: Tenant
) -> None:
    """LOG-12, F800e: An anchor that is malformed, or of another log, stops sealing with its name.

    A blob without an anchor does not.
    """
    many_sealed(ports, clock, tenant.id, 3)
    anchored(ports, tenant, None, 1)
    outside.check_anchors(ports, tenant.id)
    ports.blobs.put(
        journal.name_of(tenant.id, 2),
        content.signed_blob({"Log": {"Size": -1}}, journal.PREFIX, seed=bytes(32)),
    )
    with pytest.raises(DataCorrupt, match=journal.name_of(tenant.id, 2)):
        outside.check_anchors(ports, tenant.id)
    anchored(ports, tenant, LogAnchor("rescind/another/1", 1, bytes(32)), 3)
    with pytest.raises(DataCorrupt, match="names the transparency log rescind/another/1"):
        outside.check_anchors(ports, tenant.id)


def test_a_recovery_ends_what_a_number_that_cannot_be_read_stops(
    ports: Ports, clock: Clock, tenant: Tenant
) -> None:
    """LOG-13, F800g: A number of the journal that cannot be read is a problem until a newer one."""
    many_sealed(ports, clock, tenant.id, 3)
    tenant.regenerate(ports)
    name = journal.name_of(tenant.id, 1)
    ports.blobs.put(name, bytes(64) + journal.PREFIX + b"\xa1")
    assert any(name in each.problem for each in doctor.examine(ports))
    with pytest.raises(DataCorrupt):
        outside.all_anchors(ports, tenant.id)
    recovery.recover(ports, tenant.operator)
    assert outside.all_anchors(ports, tenant.id)
    assert not any(name in each.problem for each in doctor.examine(ports))
