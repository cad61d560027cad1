"""Killed between two writes, or beside another process: nothing is lost, and no client is stale."""

from collections.abc import Callable

import pytest

from functions.trust import publishing
from functions.trust import records as model
from functions.trust.publishing import TrustOutcome
from shared.authorizer.formats.trust import KeyUse
from shared.operations.changes import list_signers
from shared.ports import Ports
from tests.functions.trust.clients import PinnedClient, active, keep, standby, without_root
from tests.kit.faults import Crash, Script, broken_at, meeting, scripted
from tests.kit.tenants import Tenant

pytestmark = pytest.mark.usefixtures("at_once", "few_partitions")

Change = Callable[[Ports, Tenant], object]


def stolen(ports: Ports, tenant: Tenant) -> object:
    return list_signers.rotate(without_root(ports), tenant.operator, compromised=True)


def new_root_key(ports: Ports, tenant: Tenant) -> object:
    return tenant.key(ports)


def changed(ports: Ports, change: Change) -> tuple[Tenant, PinnedClient]:
    """A tenant after a change that needs another document, and a client that is up to date."""
    tenant = Tenant.another(ports)
    keep(ports, tenant)
    client = PinnedClient(ports, tenant)
    client.polls()
    change(ports, tenant)
    return tenant, client


def steps(ports: Ports, change: Change, run: Change) -> range:
    """The number of each call of ports that it takes."""
    script = Script()
    run(scripted(ports, script), changed(ports, change)[0])
    assert len(script.calls) > 10
    return range(len(script.calls))


def stands(ports: Ports, tenant: Tenant, client: PinnedClient) -> None:
    """Check that the newest document has what it must, and that each one is in the audit log."""
    held = client.polls().document
    named = {active(ports, tenant).public_bytes, standby(ports, tenant).public_bytes}
    assert named <= {*held.keys_for_use(KeyUse.LISTS)}
    assert keep(ports, tenant) is TrustOutcome.KEPT
    assert tenant.actions(ports).count("trust.publish") == 2


def test_an_orphan_is_passed_over(ports: Ports) -> None:
    """TRUST-16, F678a: A blob that no head names keeps its version, and another is published."""
    tenant, client = changed(ports, new_root_key)
    script = Script()
    keep(scripted(ports, script), changed(ports, new_root_key)[0])
    last_write = len(script.calls) - 1 - script.calls[::-1].index("write")
    with pytest.raises(Crash):
        keep(broken_at(ports, last_write, Crash()), tenant)
    orphan = ports.blobs.get(model.document_blob(tenant.id, 2))
    assert orphan is not None
    keep(ports, tenant)
    assert client.polls().document.version == 3
    assert ports.blobs.get(model.document_blob(tenant.id, 2)) == orphan


@pytest.mark.slow
def test_two_at_the_same_time(ports: Ports) -> None:
    """TRUST-16, F679a: Of two processes that make the next document, one publishes it."""
    for step in steps(ports, stolen, keep):
        tenant, client = changed(ports, stolen)

        def meanwhile(tenant: Tenant = tenant) -> object:
            return keep(ports, tenant)

        keep(meeting(ports, step, meanwhile), tenant)
        stands(ports, tenant, client)


@pytest.mark.slow
def test_a_theft_beside_a_document(ports: Ports) -> None:
    """TRUST-16, F679b: A document that is made while a signer is revoked does not bring it back."""
    for step in steps(ports, new_root_key, keep):
        tenant, client = changed(ports, new_root_key)
        key = active(ports, tenant).public_bytes

        def meanwhile(tenant: Tenant = tenant) -> object:
            return stolen(ports, tenant)

        keep(meeting(ports, step, meanwhile), tenant)
        client.polls()
        keep(ports, tenant)
        named = client.polls().document.keys_for_use(KeyUse.LISTS)
        assert key not in named
        assert publishing.find_named(ports, tenant.id, [key, *named]) == [*named]
