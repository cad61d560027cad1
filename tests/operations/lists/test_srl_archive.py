"""Old list signers are archived: nothing that happens often reads them (docs/adr/13)."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from shared.errors import Conflict, PreconditionFailed
from shared.model.lists import signers as srl_statements
from shared.model.lists.signers import SrlSigner, SrlSignerStatus
from shared.operations.changes import list_signers, srl
from shared.operations.lists import in_force
from shared.operations.lists import signers as srl_signers
from shared.operations.operator import doctor
from shared.operations.operator.recovery import recovery
from shared.ports import Ports
from tests.kit.reads import reading
from tests.kit.tenants import Tenant
from tests.kit.worlds import Clock
from tests.operations.restores import Deployment, deployed
from tests.operations.signers import archive_all, store, stored_signers

pytestmark = pytest.mark.usefixtures("few_partitions")

_MOST = srl_signers.KEPT


@pytest.fixture
def deployment(tmp_path: Path, clock: Clock) -> Iterator[Deployment]:
    with deployed(tmp_path, clock) as deployment:
        yield deployment


def rotate(ports: Ports, tenant: Tenant) -> SrlSigner:
    return list_signers.rotate(ports, tenant.operator).record


def revoke(ports: Ports, tenant: Tenant, key: SrlSigner) -> None:
    list_signers.revoke(ports, tenant.operator, key_id=key.id)


def listed(ports: Ports, tenant: Tenant) -> list[tuple[str, SrlSignerStatus]]:
    """All pages of the list of keys."""
    pages, before = [], None
    while True:
        page = list_signers.page(ports, tenant.operator, before=before)
        pages += [(each.record.id, each.record.status) for each in page.entries]
        before = page.next_before
        if before is None:
            return pages


def recorded(ports: Ports, tenant: Tenant) -> tuple[SrlSigner, ...]:
    """The signers in the state of the list in force."""
    head = in_force.read_srl_head(ports, tenant.id)
    return in_force.read_srl_state(
        ports, head, in_force.read_active_signer(ports, tenant.id)
    ).srl_signers


@pytest.mark.slow
def test_what_happens_often_does_not_read_all_signers(ports: Ports, tenant: Tenant) -> None:
    """F146a: After 800 rotations, a publication and the list of keys read about 100 signers."""
    then = ports.now() - timedelta(days=30)
    stored_signers(ports, tenant.id, 400, SrlSignerStatus.RETIRED)
    stored_signers(ports, tenant.id, 400, SrlSignerStatus.RETIRED, first=400, listed_until=then)
    archive_all(ports, tenant.id)
    with reading(ports) as (watched, reads):
        list_signers.page(watched, tenant.operator)
    assert reads.items < _MOST + 10
    with reading(ports) as (watched, reads):
        srl.regenerate(watched, tenant.operator)
    assert reads.items < _MOST + 100
    assert len(recorded(ports, tenant)) == _MOST + 1
    assert list(doctor.examine(ports)) == []


def test_a_rotation_archives_some(ports: Ports, tenant: Tenant) -> None:
    """F146b: Each rotation archives old signers, and numbers of statements rise meanwhile."""
    old = stored_signers(ports, tenant.id, _MOST + 30, SrlSignerStatus.RETIRED)
    pinned = in_force.read_active_signer(ports, tenant.id).public_bytes
    left = []
    for _ in range(3):
        rotate(ports, tenant)
        left.append(len(in_force.read_signers(ports, tenant.id)))
        assert [each.id for each in recorded(ports, tenant)] == [
            each.id for each in in_force.read_signers(ports, tenant.id)
        ]
    assert left == [_MOST + 12, _MOST + 2, _MOST + 2]
    found = srl_signers.read_by_ids(ports, tenant.id, [each.id for each in old])
    assert [found[each.id].is_archived for each in old] == [True] * 32 + [None] * (_MOST - 2)
    forms = [each.statement for each in in_force.read_signers(ports, tenant.id) if each.statement]
    last = in_force.read_active_signer(ports, tenant.id)
    assert last.public_bytes in srl_statements.follow([pinned], forms)
    assert list(doctor.examine(ports)) == []


def test_revoked_signers_are_on_further_pages(ports: Ports, tenant: Tenant) -> None:
    """F147a: The pages of the list of keys name each revoked signer once."""
    old = stored_signers(ports, tenant.id, 2 * _MOST + 50, SrlSignerStatus.REVOKED)
    archive_all(ports, tenant.id)
    active = in_force.read_active_signer(ports, tenant.id)
    newest_first = [(each.id, SrlSignerStatus.REVOKED) for each in reversed(old)]
    assert listed(ports, tenant) == [(active.id, SrlSignerStatus.ACTIVE), *newest_first]
    with reading(ports) as (watched, reads):
        list_signers.page(watched, tenant.operator)
    assert reads.items < _MOST + 10


def test_an_archived_signer_can_be_revoked(ports: Ports, tenant: Tenant) -> None:
    """SIGNER-7, F147b: An archived list signer that is revoked is listed as revoked."""
    oldest, *_ = stored_signers(ports, tenant.id, _MOST + 1, SrlSignerStatus.RETIRED)
    archive_all(ports, tenant.id)
    assert oldest.id not in [each.id for each in recorded(ports, tenant)]
    revoke(ports, tenant, oldest)
    srl.regenerate(ports, tenant.operator)
    assert listed(ports, tenant).count((oldest.id, SrlSignerStatus.REVOKED)) == 1
    assert {each.id: each.status for each in recorded(ports, tenant)}[
        oldest.id
    ] is SrlSignerStatus.REVOKED
    assert list(doctor.examine(ports)) == []


def test_a_revocation_is_not_lost_to_the_archive(ports: Ports, tenant: Tenant) -> None:
    """F147c: A signer that is revoked while it is archived stays revoked."""
    oldest, *_ = stored_signers(ports, tenant.id, _MOST + 1, SrlSignerStatus.RETIRED)
    moves = srl_signers.archive_changes(ports, tenant.id)
    revoke(ports, tenant, oldest)
    with pytest.raises(PreconditionFailed):
        ports.store.write(*moves)
    assert (oldest.id, SrlSignerStatus.REVOKED) in listed(ports, tenant)


def test_rotations_in_a_loop_are_refused(ports: Ports, tenant: Tenant, clock: Clock) -> None:
    """F148a: Rotations in a loop are refused; a stolen signer can still be revoked."""
    until = clock() + timedelta(hours=1)
    stored_signers(ports, tenant.id, _MOST, SrlSignerStatus.RETIRED, listed_until=until)
    for refused in (list_signers.rotate, list_signers.create):
        with pytest.raises(Conflict, match="At most 100 retired signers"):
            refused(ports, tenant.operator)
    revoke(ports, tenant, in_force.read_active_signer(ports, tenant.id))
    clock.advance(hours=1)
    assert rotate(ports, tenant).status is SrlSignerStatus.ACTIVE


def test_a_restored_signer_that_was_archived_signs_no_more(
    deployment: Deployment, ports: Ports, tenant: Tenant, clock: Clock
) -> None:
    """F149a: A restore that brings back an archived signer revokes it."""
    first = in_force.read_active_signer(ports, tenant.id)
    copy = deployment.copy()
    clock.advance(hours=1)
    _retired_later(ports, first, _MOST)
    rotate(ports, tenant)
    clock.advance(hours=2)
    last = rotate(ports, tenant)
    assert first.id not in [each.id for each in recorded(ports, tenant)]
    deployment.restore(copy)
    problem = f"the SRL signer {first.id} was archived, but is active"
    assert problem in [each.problem for each in doctor.examine(ports)]
    recovery.recover(ports, tenant.operator)
    now = {each.id: each.status for each in in_force.read_signers(ports, tenant.id)}
    assert (now[first.id], now[last.id]) == (SrlSignerStatus.REVOKED, SrlSignerStatus.RETIRED)
    assert in_force.read_active_signer(ports, tenant.id).id not in (first.id, last.id)
    assert list(doctor.examine(ports)) == []


def _retired_later(ports: Ports, key: SrlSigner, count: int) -> None:
    """Store signers that were made after this one, and that signed until now."""
    made = [
        srl_signers.create_signer(ports, key.tenant_id, SrlSignerStatus.RETIRED)
        for _ in range(count)
    ]
    store(ports, [replace(each, sealed_seed=None, listed_until=ports.now()) for each in made])
