"""Trust documents after a restore of the records: no client is behind, and none is led back."""

from dataclasses import replace
from typing import Any

import pytest

from functions.trust import documents, publishing
from functions.trust import records as model
from shared.authorizer.formats.documents import answer
from shared.authorizer.formats.trust import KeyUse
from shared.errors import Unavailable
from shared.model.lists.head import states_folder
from shared.model.lists.signers import SrlSignerStatus
from shared.operations.changes import list_signers
from shared.operations.lists import signers
from shared.operations.operator import consistency
from shared.operations.operator.recovery import recovery
from shared.ports import Ports
from shared.ports.store import Delete, Expect
from tests.functions.trust.clients import PinnedClient, active, keep, standby, without_root
from tests.kit.intercepted import Call, Intercepted
from tests.kit.roots import OFFLINE, SeedRoot, roots_of, signed_draft
from tests.kit.tenants import Tenant
from tests.kit.worlds import Clock
from tests.operations.restores import Deployment

pytestmark = pytest.mark.usefixtures("few_partitions", "at_once")

LEAP = 2**20
OTHER = SeedRoot(2)


def recover(ports: Ports, tenant: Tenant, **options: int) -> list[str]:
    said: list[str] = []
    recovery.recover(ports, tenant.operator, report=said.append, **options)  # type: ignore[arg-type]
    return said


def test_a_restored_store_goes_on_far_above(deployment: Deployment, clock: Clock) -> None:
    """F681a: After a restore the next document exceeds those of records, blobs and operator."""
    ports, tenant = deployment.ports, Tenant.create(deployment.ports)
    keep(ports, tenant)
    copy, client = deployment.copy(), PinnedClient(ports, tenant)
    for _ in range(3):
        clock.advance(days=1)
        tenant.regenerate(ports)
        keep(ports, tenant)
    assert client.polls().document.version == 4
    deployment.restore(copy)
    recover(ports, tenant)
    assert client.polls().document.version == 4 + LEAP
    recover(ports, tenant, trust_version=2**30)
    assert client.polls().document.version == 2**30 + LEAP


def test_a_standby_that_took_over_signs_again(deployment: Deployment, clock: Clock) -> None:
    """F681b: If the records are older than a theft, the standby of then signs again.

    The pending signer stays the next one.
    """
    ports, tenant = deployment.ports, Tenant.create(deployment.ports)
    keep(ports, tenant)
    pending = list_signers.create(ports, tenant.operator).record
    copy, client = deployment.copy(), PinnedClient(ports, tenant)
    stolen, named = active(ports, tenant), standby(ports, tenant)
    clock.advance(minutes=1)
    list_signers.rotate(ports, tenant.operator, compromised=True)
    keep(ports, tenant)
    client.polls()
    deployment.restore(copy)
    recover(ports, tenant)
    assert active(ports, tenant).id == named.id
    assert active(ports, tenant).pending_id == pending.id
    held = client.polls().document
    assert stolen.public_bytes not in held.keys_for_use(KeyUse.LISTS)
    assert standby(ports, tenant).public_bytes in held.keys_for_use(KeyUse.LISTS)


def test_a_lost_standby_is_created_again(deployment: Deployment) -> None:
    """SIGNER-2, F1860a: A recovery creates a lost standby, and the next document names it."""
    ports, tenant = deployment.ports, Tenant.create(deployment.ports)
    keep(ports, tenant)
    client, lost = PinnedClient(ports, tenant), standby(ports, tenant)
    client.polls()
    ports.store.write(Delete(lost.address, Expect.PRESENT))
    # Documents are published without it; only the operator learns of it and creates another.
    keep(ports, tenant)
    assert signers.read_standby(ports, tenant.id) is None
    recover(ports, tenant)
    new = standby(ports, tenant)
    lists = client.polls().document.keys_for_use(KeyUse.LISTS)
    assert {*lists} == {active(ports, tenant).public_bytes, new.public_bytes}
    assert lost.public_bytes != new.public_bytes
    list_signers.rotate(without_root(ports), tenant.operator)
    assert active(ports, tenant).id == new.id


def test_a_rotation_that_was_stopped_makes_nobody_active(deployment: Deployment) -> None:
    """F681f: If one of two states is of a rotation that was stopped, one signer is active."""
    ports, tenant = deployment.ports, Tenant.create(deployment.ports)
    keep(ports, tenant)

    def stop(call: Call) -> Any:
        if call.verb == "put" and states_folder(tenant.id) not in call.arguments[0]:
            raise Unavailable
        return call()

    stopped = replace(ports, blobs=Intercepted(ports.blobs, stop))
    with pytest.raises(Unavailable):
        list_signers.rotate(stopped, tenant.operator)
    pending = list_signers.create(ports, tenant.operator).record
    keep(ports, tenant)
    copy = deployment.copy()
    list_signers.activate(ports, tenant.operator, key_id=pending.id, force=True)
    deployment.restore(copy)
    recover(ports, tenant)
    found = signers.read_unarchived(ports, tenant.id)
    assert [each.id for each in found if each.status is SrlSignerStatus.ACTIVE] == [pending.id]
    assert not [*consistency.examine(ports, tenant.id)]


def test_roots_that_changed_since(deployment: Deployment) -> None:
    """F681c: Roots that were replaced after the copy stay those of the tenant."""
    ports, tenant = without_root(deployment.ports), Tenant.create(deployment.ports)
    publish(ports, tenant, OFFLINE)
    copy, client = deployment.copy(), PinnedClient(ports, tenant)
    publish(ports, tenant, OFFLINE, OTHER, roots=(OTHER,))
    client.polls()
    deployment.restore(copy)
    said = recover(ports, tenant)
    assert f"Adopted: trust document 2, pin {roots_of(OTHER).pin}" in said
    assert "The next trust document requires root signatures; run: rescind trust draft" in said
    assert client.polls().document.version == 2
    publish(ports, tenant, OTHER)
    assert client.polls().document.version == 2 + LEAP


def test_records_from_before_the_first_document(deployment: Deployment) -> None:
    """F681d: A store that is older than the first document takes over those that blobs have.

    The recovery appends entries first, which creates the audit signer that the document names.
    """
    ports, tenant = deployment.ports, Tenant.create(deployment.ports)
    copy = deployment.copy()
    keep(ports, tenant)
    client = PinnedClient(ports, tenant)
    client.polls()
    deployment.restore(copy)
    assert documents.read_head(ports, tenant.id) is None
    recover(ports, tenant)
    document = client.polls().document
    assert document.version == 1 + LEAP
    assert document.keys_for_use(KeyUse.LOG)


def test_what_is_no_document_is_passed_over(deployment: Deployment) -> None:
    """F681e: A blob that its roots did not sign is not taken over, and named."""
    ports, tenant = deployment.ports, Tenant.create(deployment.ports)
    keep(ports, tenant)
    client = PinnedClient(ports, tenant)
    forged = signed_draft(ports, tenant.operator, OTHER, roots=roots_of(OTHER))
    name = model.document_blob(tenant.id, forged.document.version)
    ports.blobs.put(name, answer((forged,)))
    ports.blobs.put(model.document_blob(tenant.id, 3), b"{}")
    said = recover(ports, tenant)
    assert "Skipped: trust document 2 (root)" in said
    assert "Skipped: the trust document of version 3 is missing or altered" in said
    assert client.polls().document.version == 3 + LEAP


def publish(
    ports: Ports, tenant: Tenant, *signing: SeedRoot, roots: tuple[SeedRoot, ...] = ()
) -> None:
    wanted = roots_of(*roots) if roots else None
    made = signed_draft(ports, tenant.operator, *signing, roots=wanted)
    given = dict(made.signatures)
    publishing.publish(ports, tenant.operator, payload=made.payload, signatures=given)
