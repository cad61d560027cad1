"""A list that follows from the one before is, byte for byte, the one made from all records."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shared.model import revocations as revocation_model
from shared.model.lists.head import head_address
from shared.operations.lists import in_force, publication, storage
from shared.ports import Ports
from shared.ports.store import Expect, Put
from tests.kit.faults import Script, scripted
from tests.kit.tenants import Tenant
from tests.operations import histories
from tests.operations.histories import STEPS, TOMBSTONE_STEPS

_ANY_STEPS = st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 5)), max_size=30)


@pytest.mark.usefixtures("few_partitions")
@settings(max_examples=20)
# Revoked by itself, and by its key as well.
@example([("sign", 0), ("revoke", 0), ("revoke key", 0)])
# Stated by the feed, and over long before the next list.
@example([("sign", 0), ("revoke", 0), ("state", 0), ("wait", 5)])
# One after the other, each is the only change since the list before it.
@example([each for move in TOMBSTONE_STEPS for each in (("publish", 0), move)])
@given(_ANY_STEPS)
def test_both_ways_make_the_same_list(steps: list[tuple[str, int]]) -> None:
    """SRL-7, F48a: A list that is derived from the last equals one that is made from all records.

    The state beside the list is the same too, with all tombstones.
    """
    _compare_after(steps)


@pytest.mark.slow
@settings(max_examples=200)
@given(_ANY_STEPS)
def test_both_ways_make_the_same_list_in_the_long_run(steps: list[tuple[str, int]]) -> None:
    """F48: The same for more steps."""
    _compare_after(steps)


def _compare_after(steps: list[tuple[str, int]]) -> None:
    with TemporaryDirectory() as folder:
        world = histories.world(Path(folder))
        for name, number in steps:
            STEPS[name](world, number)
        world.compare()


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
    state = in_force.head(ports, tenant.id).state
    assert state is not None
    path = tmp_path / "blobs" / state
    path.write_bytes(damage) if damage else path.unlink()
    tenant.revoke(ports, "svc_wrt_z")
    assert tenant.regenerate(ports).revoked_ids == sorted([signed, "svc_wrt_z"])
    assert "reading all records instead" in caplog.text


def test_a_list_that_fails_its_check_is_made_anew(
    ports: Ports, tenant: Tenant, caplog: pytest.LogCaptureFixture
) -> None:
    """A base that is not in order heals: the check refuses what follows from it."""
    for name in ("svc_wrt_a", "svc_wrt_b"):
        tenant.revoke(ports, name)
    tenant.regenerate(ports)
    head = in_force.head(ports, tenant.id)
    body = in_force.body(ports, head).replace(b'"svc_wrt_b"]', b'"svc_wrt_b","svc wrt"]')
    blob = storage.put(ports, "srl/damaged", head.version, body)
    damaged = {**head.to_item(), "blob": blob, "sha256": blob.rpartition("-")[2][:-5]}
    address = head_address(tenant.id)
    ports.store.write(Put(address, damaged, Expect.PRESENT))
    assert tenant.regenerate(ports).revoked_ids == ["svc_wrt_a", "svc_wrt_b"]
    assert "reading all records instead" in caplog.text


@pytest.mark.usefixtures("few_partitions")
def test_every_hundredth_list_is_made_from_all_records(ports: Ports, tenant: Tenant) -> None:
    """F93a: A change that lost its mark reaches the list within a hundred versions."""
    shard = revocation_model.shard_of(tenant.id, "svc_wrt_lost")
    ports.store.write(Put(shard.address("svc_wrt_lost"), {}, Expect.ABSENT))
    for version in range(2, 100):
        assert tenant.regenerate(ports).revoked_ids == [], version
    assert tenant.regenerate(ports).revoked_ids == ["svc_wrt_lost"]
