"""Killed between two writes, or beside another process: nothing is lost, and no client is stale."""

from collections.abc import Callable

import pytest

from shared.authorizer.formats.trust import Use
from shared.errors import TrustUnsigned
from shared.model import trust as model
from shared.operations.changes import list_signers
from shared.operations.trust import documents
from shared.operations.trust.publishing import TrustOutcome
from shared.ports import Ports
from tests.kit.faults import Crash, Script, broken_at, meeting, scripted
from tests.kit.tenants import Tenant
from tests.operations.trust.clients import PinnedClient, active, keep, standby, without_root

pytestmark = pytest.mark.usefixtures("at_once", "few_partitions")

Change = Callable[[Ports, Tenant], object]


def stolen(ports: Ports, tenant: Tenant) -> object:
    return list_signers.rotate(without_root(ports), tenant.operator, compromised=True)


def new_root_key(ports: Ports, tenant: Tenant) -> object:
    return tenant.key(ports)


def another_signer(ports: Ports, tenant: Tenant) -> object:
    return list_signers.create(without_root(ports), tenant.operator)


EACH_CHANGE = pytest.mark.parametrize(
    "change",
    [
        stolen,
        *(pytest.param(each, marks=pytest.mark.slow) for each in (new_root_key, another_signer)),
    ],
)


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
    assert named <= {*held.named(Use.LISTS)}
    assert keep(ports, tenant) is TrustOutcome.KEPT
    assert tenant.actions(ports).count("trust.publish") == 2


@EACH_CHANGE
def test_killed_at_each_step(ports: Ports, change: Change) -> None:
    """TRUST-16, F678a: A document whose making was killed at any step is made by the next look.

    Meanwhile each client goes on, and a version that was stored is never stored again.
    """
    for step in steps(ports, change, keep):
        tenant, client = changed(ports, change)
        with pytest.raises(Crash):
            keep(broken_at(ports, step, Crash()), tenant)
        client.polls()
        keep(ports, tenant)
        stands(ports, tenant, client)


def test_an_orphan_is_passed_over(ports: Ports) -> None:
    """TRUST-16, F678b: A blob that no head names keeps its version, and another is published."""
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


@EACH_CHANGE
def test_two_at_the_same_time(ports: Ports, change: Change) -> None:
    """TRUST-16, F679a: Of two processes that make the next document, one publishes it."""
    for step in steps(ports, change, keep):
        tenant, client = changed(ports, change)

        def meanwhile(tenant: Tenant = tenant) -> object:
            return keep(ports, tenant)

        keep(meeting(ports, step, meanwhile), tenant)
        stands(ports, tenant, client)


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
        assert key not in client.polls().document.named(Use.LISTS)
        assert documents.list_keys(ports, tenant.id) == client.polls().document.named(Use.LISTS)


def test_a_rotation_killed_at_each_step(ports: Ports) -> None:
    """SIGNER-5, F678c: However a rotation ends, clients accept the head of the feed."""

    def rotate(ports: Ports, tenant: Tenant) -> object:
        return list_signers.rotate(without_root(ports), tenant.operator)

    for step in steps(ports, new_root_key, rotate):
        tenant, client = changed(ports, new_root_key)
        with pytest.raises(Crash):
            rotate(broken_at(ports, step, Crash()), tenant)
        client.polls()
        keep(ports, tenant)
        client.polls()


def test_two_rotations_at_the_same_time(ports: Ports) -> None:
    """SIGNER-2, F679c: Of two rotations one waits for a document that names the next standby."""

    def rotate(ports: Ports, tenant: Tenant) -> object:
        return list_signers.rotate(without_root(ports), tenant.operator)

    refused = 0
    for step in steps(ports, new_root_key, rotate):
        tenant, client = changed(ports, new_root_key)

        def meanwhile(tenant: Tenant = tenant) -> object:
            return rotate(ports, tenant)

        try:
            rotate(meeting(ports, step, meanwhile), tenant)
        except TrustUnsigned:
            refused += 1
        client.polls()
        keep(ports, tenant)
        client.polls()
    assert refused > 10
