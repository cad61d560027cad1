"""How a list follows from the one before; worlds hold it to the one made from all records."""

from pathlib import Path

import pytest

from shared.model import revocations as revocation_model
from shared.model.identifiers import token_id
from shared.model.lists.head import head_address
from shared.operations.lists import in_force, publication, storage, verdicts
from shared.ports import Ports
from shared.ports.store import Expect, Put
from tests.kit.faults import Script, scripted
from tests.kit.tenants import Tenant


@pytest.mark.usefixtures("few_partitions")
def test_it_reads_what_changed_and_no_more(ports: Ports, tenant: Tenant) -> None:
    """Among three hundred revoked warrants, two changes cost as many calls as among none."""
    for number in range(300):
        tenant.revoke(ports, f"svc_wrt_{number}")
    tenant.regenerate(ports)
    for number in range(300, 302):
        tenant.revoke(ports, f"svc_wrt_{number}")
    script = Script()
    head = publication.publish(scripted(ports, script), tenant.operator)
    assert head.count == 302
    # The counters and what changed, in every shard, and the signers.
    assert script.calls.count("query") == 2 * revocation_model.SHARDS + 2
    assert len(script.calls) == 14 + script.calls.count("query")


@pytest.mark.parametrize("damage", [b"", b"{}"])
def test_without_its_state_a_list_is_made_anew(
    ports: Ports, tenant: Tenant, tmp_path: Path, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """A lost or altered state is not believed; the list is right all the same, and that is told."""
    key = tenant.key(ports)
    signed = tenant.sign(ports, key)
    tenant.revoke_key(ports, key)
    tenant.regenerate(ports)
    state = in_force.read_srl_head(ports, tenant.id).state
    assert state is not None
    path = tmp_path / "blobs" / state
    path.write_bytes(damage) if damage else path.unlink()
    tenant.revoke(ports, "svc_wrt_z")
    assert tenant.regenerate(ports).revoked_ids == sorted([signed, "svc_wrt_z"])
    assert "rebuilding the SRL from all records" in caplog.text


def test_a_list_that_fails_its_check_is_made_anew(
    ports: Ports, tenant: Tenant, caplog: pytest.LogCaptureFixture
) -> None:
    """A base that is not in order heals: the check refuses what follows from it."""
    for name in ("svc_wrt_a", "svc_wrt_b"):
        tenant.revoke(ports, name)
    tenant.regenerate(ports)
    head = in_force.read_srl_head(ports, tenant.id)
    body = in_force.read_srl_body(ports, head).replace(b'"svc_wrt_b"]', b'"svc_wrt_b","svc wrt"]')
    blob = storage.store_blob(ports, "srl/damaged", head.version, body)
    damaged = {**head.to_item(), "blob": blob, "sha256": blob.rpartition("-")[2][:-5]}
    address = head_address(tenant.id)
    ports.store.write(Put(address, damaged, Expect.PRESENT))
    assert tenant.regenerate(ports).revoked_ids == ["svc_wrt_a", "svc_wrt_b"]
    assert "rebuilding the SRL from all records" in caplog.text


def test_a_restored_cutoff_leaves_the_list(ports: Ports, tenant: Tenant) -> None:
    """F2404a: An earlier cutoff that is restored leaves the list, though a later one counts."""
    cutoffs = [token_id("jwt-subject", "https://as.example", "ann", each) for each in (1, 2)]
    earlier, _ = (tenant.revoke(ports, each) for each in cutoffs)
    assert tenant.regenerate(ports).revoked_ids == cutoffs
    tenant.unrevoke(ports, earlier)
    assert tenant.regenerate(ports).revoked_ids == cutoffs[1:]
    found = verdicts.read_statuses(ports, tenant.id, cutoffs)
    assert [found[each].revoked for each in cutoffs] == [False, True]
    assert verdicts.token_verdicts(ports, tenant.id, cutoffs)[cutoffs[0]].revoked


@pytest.mark.slow
@pytest.mark.usefixtures("few_partitions")
def test_every_hundredth_list_is_made_from_all_records(ports: Ports, tenant: Tenant) -> None:
    """F93a: A change that lost its mark reaches the list within a hundred versions."""
    shard = revocation_model.shard_of(tenant.id, "svc_wrt_lost")
    ports.store.write(Put(shard.address("svc_wrt_lost"), {}, Expect.ABSENT))
    for version in range(2, 100):
        assert tenant.regenerate(ports).revoked_ids == [], version
    assert tenant.regenerate(ports).revoked_ids == ["svc_wrt_lost"]
