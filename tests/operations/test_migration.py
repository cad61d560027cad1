"""Migration of what earlier versions sealed: stopped anywhere, repeated, attacked."""

from contextlib import suppress
from dataclasses import replace

import pytest

from shared.errors import Corrupt, Unavailable
from shared.model import seeds
from shared.model.signing_keys import SigningKey, Status, Type
from shared.model.srl.head import FORMAT, head_address
from shared.model.srl.signers import ListSigner
from shared.operations.operator import doctor, migration
from shared.operations.srl import in_force
from shared.ports import Ports
from shared.ports.store import At, Expect, Put
from tests.faults import Crash, Script, raises, scripted
from tests.operations.tenants import Tenant

pytestmark = pytest.mark.usefixtures("few_partitions")


def aged(ports: Ports, key: SigningKey | ListSigner) -> None:
    """Seal the seed of a key as earlier versions did."""
    assert key.sealed_seed is not None
    seed = ports.sealer.unseal(key.sealed_seed, context=key.seal_context)
    sealed = ports.sealer.seal(seed, context=seeds.first_seal_context(key.tenant_id, key.id))
    old = replace(key, sealed_seed=sealed, version=key.version + 1)
    ports.store.write(Put(key.address, old.to_item(), At(key.version)))


def aged_tenant(ports: Ports, handle: str = "acme") -> tuple[Tenant, list[SigningKey]]:
    """A tenant with two keys, a list signer and a list, all as of an earlier version."""
    tenant = Tenant.create(ports, handle)
    keys = [tenant.key(ports), tenant.key(ports)]
    aged(ports, in_force.signer(ports, tenant.id))
    for key in keys:
        aged(ports, key)
    address = head_address(tenant.id)
    head = dict(ports.store.get(address) or {})
    del head["format"]
    ports.store.write(Put(address, head, Expect.PRESENT))
    return tenant, keys


@pytest.mark.parametrize("stride", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_a_migration_that_is_stopped(ports: Ports, stride: int) -> None:
    """F46b: A migration that is stopped at any call and repeated ends as if it had not been."""
    rehearsal = Script()
    tenant, _ = aged_tenant(ports, "rehearsal")
    done = migration.migrate(scripted(ports, rehearsal), tenant.operator)
    assert (done.resealed, done.dropped, done.published, done.failed) == (3, 0, 2, {})
    for step in range(0, len(rehearsal.calls), stride):
        for late in (False, True):
            tenant, keys = aged_tenant(ports, f"t-{step}-{int(late)}")
            hooks = {step: raises(Crash())}
            script = Script(after=hooks) if late else Script(before=hooks)
            # What follows a call that fails of itself, as a seal of before does, is not reached.
            with suppress(Crash):
                migration.migrate(scripted(ports, script), tenant.operator)
            again = migration.migrate(ports, tenant.operator)
            assert again.failed == {}
            assert migration.migrate(ports, tenant.operator) == migration.Migrated()
            assert tenant.published(ports).version == 2
            for key in keys:
                tenant.sign(ports, key)
            assert tenant.regenerate(ports).version == 3


def test_a_planted_list_signer_is_not_migrated(ports: Ports) -> None:
    """F46c, F44: The migration seals no list signer as a signing key."""
    tenant, keys = aged_tenant(ports)
    signer = in_force.signer(ports, tenant.id)
    planted = replace(
        keys[0], id=signer.id, public_key=signer.public_key, sealed_seed=signer.sealed_seed
    )
    ports.store.write(Put(planted.address, planted.to_item(), Expect.ABSENT))
    done = migration.migrate(ports, tenant.operator)
    assert list(done.failed) == [signer.id]
    assert (done.resealed, done.published) == (3, None)
    assert ports.store.get(planted.address) == planted.to_item()
    with pytest.raises(Corrupt):
        tenant.sign(ports, planted)


def test_a_seed_of_another_key_is_not_migrated(ports: Ports) -> None:
    """F46: a seal that opens but holds another seed, or does not open, is reported and kept."""
    tenant, keys = aged_tenant(ports)
    seed, _ = seeds.new()
    old = seeds.first_seal_context(tenant.id, keys[0].id)
    addresses = [keys[0].address, keys[1].address]
    before = [SigningKey.from_item(ports.store.get(address) or {}) for address in addresses]
    damaged = [
        replace(before[0], sealed_seed=ports.sealer.seal(seed, context=old)),
        replace(before[1], sealed_seed=ports.sealer.seal(seed, context={"other": "context"})),
    ]
    for each in damaged:
        ports.store.write(Put(each.address, each.to_item(), Expect.PRESENT))
    done = migration.migrate(ports, tenant.operator)
    assert set(done.failed) == {each.id for each in damaged}
    assert (done.resealed, done.published) == (1, None)
    for each in damaged:
        assert ports.store.get(each.address) == each.to_item()
    problems = [finding.problem for finding in doctor.examine(ports)]
    assert any("does not open" in each for each in problems)


def test_a_key_service_that_is_down(ports: Ports) -> None:
    """F46: if the key service cannot answer, nothing counts as failed, and nothing is changed."""
    tenant, keys = aged_tenant(ports)
    script = Script()
    migration.migrate(scripted(ports, script), Tenant.create(ports, "other").operator)
    down = Script(before={script.calls.index("unseal"): raises(Unavailable("down"))})
    with pytest.raises(Unavailable, match="down"):
        migration.migrate(scripted(ports, down), tenant.operator)
    assert migration.migrate(ports, tenant.operator).resealed == 3
    tenant.sign(ports, keys[0])


def test_what_signs_no_more_loses_its_seed(ports: Ports) -> None:
    """F46: no seed is sealed anew for a key that is revoked."""
    tenant, keys = aged_tenant(ports)
    tenant.revoke_key(ports, keys[1])
    done = migration.migrate(ports, tenant.operator)
    assert (done.resealed, done.dropped) == (2, 1)
    item = ports.store.get(keys[1].address)
    assert item is not None
    revoked = SigningKey.from_item(item)
    assert (revoked.sealed_seed, revoked.status, revoked.type) == (None, Status.REVOKED, Type.ROOT)


def test_the_doctor_names_the_migration(ports: Ports) -> None:
    """F46: before it the doctor names the command, for signer and keys; after it all is well."""
    tenant, _ = aged_tenant(ports)
    remedies = {finding.problem: finding.remedy for finding in doctor.examine(ports)}
    assert set(remedies.values()) == {"run: upgrade acme"}
    assert len(remedies) == 2
    migration.migrate(ports, tenant.operator)
    assert list(doctor.examine(ports)) == []
    assert in_force.head(ports, tenant.id).format == FORMAT
