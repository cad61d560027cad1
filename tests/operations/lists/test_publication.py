"""Publishing: whatever stops, races or lies, the list in force is valid and loses nothing."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from shared.errors import DataCorrupt, InvalidSrl, PreconditionFailed, Unavailable
from shared.model import revocations as model
from shared.model.lists import head as head_model
from shared.model.lists.content import Payload
from shared.model.lists.head import head_address, heads_partition
from shared.model.lists.verification import verify
from shared.operations.changes import srl
from shared.operations.lists import decisions, in_force, publication
from shared.operations.operator import consistency
from shared.ports import Ports
from shared.ports.store import Delete, Expect, Partition, Put
from tests.kit.faults import Script, raises, scripted
from tests.kit.intercepted import Call, Intercepted
from tests.kit.log_lines import lines, metrics
from tests.kit.tenants import Tenant, item_at
from tests.kit.worlds import Clock, close, embedded
from tests.operations.conftest import FEW_SHARDS, make_few

pytestmark = pytest.mark.usefixtures("few_partitions")


@pytest.fixture
def tenant(ports: Ports) -> Tenant:
    return _published_tenant(ports)


_COMPARED_EVERY = {"followed": 10**9, "rebuilt": 1}


def _recorded(way: str, *, changed: bool) -> list[str]:
    """The calls of one publication, in order, as it makes a list in one of the two ways."""
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        make_few(patch)
        ports, script = embedded(Path(folder), Clock()), Script()
        tenant = _published_tenant(ports)
        if changed:
            tenant.revoke(ports, "svc_wrt_next")
        patch.setattr(decisions, "COMPARED_EVERY", _COMPARED_EVERY[way])
        publication.publish(scripted(ports, script), tenant.operator)
        close(ports)
    return script.calls


def _published_tenant(ports: Ports) -> Tenant:
    made = Tenant.create(ports)
    made.revoke(ports, "svc_wrt_before")
    made.regenerate(ports)
    return made


_ORDERS = {way: _recorded(way, changed=True) for way in _COMPARED_EVERY}


def _ends_of_runs(calls: list[str]) -> list[int]:
    """Of reads of all shards, the first and the last: whatever is changed, is so in one shard."""
    alike = [before == after for before, after in pairwise(["", *calls, ""])]
    return [step for step in range(len(calls)) if not (alike[step] and alike[step + 1])]


_STEPS = [(way, step) for way, calls in _ORDERS.items() for step in _ends_of_runs(calls)]


def _write_of(way: str) -> int:
    """The step that publishes, which is the last."""
    return len(_ORDERS[way]) - 1


# The calls of a publication if nothing has changed, and the step that publishes.
_UNCHANGED = _recorded("followed", changed=False)


@pytest.fixture
def go(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Make lists in one of the two ways from here on."""

    def go(way: str) -> None:
        monkeypatch.setattr(decisions, "COMPARED_EVERY", _COMPARED_EVERY[way])

    return go


Go = Callable[[str], None]


@pytest.mark.parametrize(
    ("way", "step"), [(way, step) for way, step in _STEPS if _ORDERS[way][step] != "get_blob"]
)
def test_a_fault_at_any_step_is_unavailable(
    ports: Ports, tenant: Tenant, go: Go, way: str, step: int
) -> None:
    """F26a, F22: If any port fails during a publication, the old list stays in force.

    Two are no failure of it: the previous list's blob (test_a_missing_previous_list_is_rebuilt),
    and marks that could not be removed once the list is out.
    """
    tenant.revoke(ports, "svc_wrt_next")
    go(way)
    script = Script(before={step: raises(Unavailable("down"))})
    if step > _write_of(way):
        assert publication.publish(scripted(ports, script), tenant.operator).version == 3
        return
    with pytest.raises(Unavailable):
        publication.publish(scripted(ports, script), tenant.operator)
    assert tenant.published(ports).version == 2
    assert tenant.actions(ports).count("srl.regenerate") == 1


def test_a_run_that_slept_is_fenced(ports: Ports, tenant: Tenant) -> None:
    """SRL-15, F07b: A publisher that slept while others published does not publish its old list."""
    others: list[Payload] = []

    def slept(call: Call) -> Any:
        while call.verb == "write" and len(others) < 2:
            others.append(tenant.regenerate(ports))
        return call()

    sleeper = replace(ports, store=Intercepted(ports.store, slept))
    with pytest.raises(PreconditionFailed):
        publication.publish(sleeper, tenant.operator)
    assert tenant.published(ports).version == 4


def believed(ports: Ports, tenant: Tenant) -> Payload:
    """The list in force, as a verifier sees it whose clock is that of `ports`."""
    head = in_force.read_srl_head(ports, tenant.id)
    public_key = in_force.read_active_signer(ports, tenant.id).public_bytes
    return verify(in_force.read_srl_body(ports, head), public_key=public_key, now=ports.now())


@pytest.mark.parametrize("step_back", [timedelta(seconds=1), timedelta(minutes=5)])
def test_a_clock_that_steps_back(
    ports: Ports, clock: Clock, tenant: Tenant, step_back: timedelta
) -> None:
    """SRL-5, F09a: If the clock steps back, `IssuedAt` does not, and versions still rise."""
    before = tenant.published(ports)
    clock.moment -= step_back
    after = tenant.regenerate(ports)
    assert after.issued_at == before.issued_at
    assert after.expires_at > after.issued_at
    assert after.version == before.version + 1
    assert believed(ports, tenant) == after


_AHEAD = [
    timedelta(minutes=5, seconds=1),
    timedelta(minutes=10),
    timedelta(hours=6),
    timedelta(days=365),
    timedelta(days=3650),
]


@pytest.mark.parametrize("ahead", _AHEAD)
def test_a_list_of_the_future_does_not_spoil_the_next(
    ports: Ports, clock: Clock, tenant: Tenant, ahead: timedelta, caplog: pytest.LogCaptureFixture
) -> None:
    """SRL-5, F35a: After a list from a clock that is ahead, the next is valid; this is logged."""
    clock.moment += ahead
    spoilt = tenant.regenerate(ports)
    clock.moment -= ahead
    with pytest.raises(InvalidSrl, match="issued in the future"):
        believed(ports, tenant)
    caplog.clear()
    after = tenant.regenerate(ports)
    assert believed(ports, tenant) == after
    assert (after.version, after.issued_at) == (spoilt.version + 1, clock())
    (line,) = lines(caplog)
    assert "issued in the future" in line["message"]
    assert (line["level"], line["tenant_id"]) == ("ERROR", tenant.id)
    assert metrics(line) == {"ClockSkew": (1, "Count")}
    tenant.regenerate(ports)
    assert len(caplog.records) == 1


def test_a_clock_that_is_ahead_removes_nothing_for_good(
    ports: Ports, clock: Clock, tenant: Tenant
) -> None:
    """F35c: A warrant that left the list under a clock that is ahead is in the next list again."""
    warrant_id = "svc_wrt_signed"
    ends_at = clock() + timedelta(days=30)
    tenant.sign(ports, tenant.key(ports), warrant_id, ends_at=ends_at)
    tenant.revoke(ports, warrant_id)
    assert warrant_id in tenant.regenerate(ports).revoked_ids
    clock.advance(days=365)
    assert warrant_id not in tenant.regenerate(ports).revoked_ids
    clock.advance(days=-365)
    assert warrant_id in tenant.regenerate(ports).revoked_ids


@pytest.mark.parametrize("ahead", [timedelta(days=365), timedelta(hours=6)])
def test_a_clock_that_jumps_back_during_a_publication(
    ports: Ports, clock: Clock, tenant: Tenant, ahead: timedelta
) -> None:
    """SRL-8, F35d: A list made while the clock steps back is withheld; the next is valid."""

    def set_back() -> None:
        clock.moment -= ahead

    clock.moment += ahead
    script = Script(before={_UNCHANGED.index("unseal"): set_back})
    with pytest.raises(DataCorrupt, match="issued in the future"):
        publication.publish(scripted(ports, script), tenant.operator)
    assert in_force.read_srl_head(ports, tenant.id).version == 2
    tenant.regenerate(ports)
    assert believed(ports, tenant).version == 3


def test_a_malformed_identifier_stops_the_publication(ports: Ports, tenant: Tenant, go: Go) -> None:
    """SRL-8, F10a, S6: A malformed revocation stops the publication, and the old list stays."""
    go("rebuilt")
    shard = model.shards(tenant.id)[-1]
    ports.store.write(Put(shard.address("svc_wrt_no way"), {}, Expect.ABSENT))
    with pytest.raises(DataCorrupt):
        srl.regenerate(ports, tenant.operator)
    assert tenant.published(ports).version == 2


@pytest.mark.parametrize("field", ["version", "issued_at", "sealed_seed", "srl_ttl_seconds"])
def test_a_malformed_record_stops_the_publication(ports: Ports, tenant: Tenant, field: str) -> None:
    """F10: head, signer or settings that cannot be read are an error, never a default."""
    addresses = [
        head_address(tenant.id),
        in_force.read_active_signer(ports, tenant.id).address,
        Partition(in_force.read_active_signer(ports, tenant.id).address.table, tenant.id).address(
            "settings"
        ),
    ]
    for address in addresses:
        item = dict(ports.store.get(address) or {})
        if field in item:
            ports.store.write(Put(address, item | {field: None}, Expect.PRESENT))
    with pytest.raises(DataCorrupt):
        srl.regenerate(ports, tenant.operator)


def test_a_revocation_that_is_gone_from_its_shard_is_not_contention(
    ports: Ports, tenant: Tenant, go: Go
) -> None:
    """F37a: A revocation that is missing from its shard is reported as corrupt."""
    go("rebuilt")
    shard = model.shard_of(tenant.id, "svc_wrt_before")
    ports.store.write(Delete(shard.address("svc_wrt_before"), Expect.PRESENT))
    script = Script()
    with pytest.raises(DataCorrupt, match="missing from its shard: svc_wrt_before"):
        srl.regenerate(scripted(ports, script), tenant.operator)
    assert script.calls.count("column") == 2 * (1 + 2 * FEW_SHARDS)
    assert tenant.published(ports).revoked_ids == ["svc_wrt_before"]


def test_a_walk_that_missed_a_revocation_once_is_made_again(
    ports: Ports, tenant: Tenant, go: Go
) -> None:
    """F37: a shard's entry that becomes visible between two walks is no reason to fail."""
    go("rebuilt")
    address = model.shard_of(tenant.id, "svc_wrt_before").address("svc_wrt_before")
    item = item_at(ports, address)
    ports.store.write(Delete(address, Expect.PRESENT))
    first_walk = _recorded("rebuilt", changed=False).index("column")
    script = Script(
        before={
            first_walk + 1 + 2 * FEW_SHARDS: lambda: ports.store.write(
                Put(address, item, Expect.ABSENT)
            )
        }
    )
    srl.regenerate(scripted(ports, script), tenant.operator)
    assert tenant.published(ports).revoked_ids == ["svc_wrt_before"]


@pytest.mark.parametrize("damage", [b"", b"{}"])
def test_a_missing_previous_list_is_rebuilt(
    ports: Ports, tenant: Tenant, tmp_path: Path, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """OPS-3, S5: A missing or altered list is served to nobody, and the next run makes it anew."""
    head = in_force.read_srl_head(ports, tenant.id)
    blob = tmp_path / "blobs" / head.blob
    blob.write_bytes(damage) if damage else blob.unlink()
    with pytest.raises(DataCorrupt):
        srl.body(ports, tenant.operator, of=head.form())
    assert tenant.regenerate(ports).revoked_ids == ["svc_wrt_before"]
    assert "cannot read the current SRL" in caplog.text


def test_the_schedule_publishes_what_is_due(ports: Ports, clock: Clock, tenant: Tenant) -> None:
    """SRL-11, F08a: The schedule publishes the tenants that are due and no others."""
    assert publication.publish_due(ports).published == []
    tenant.revoke(ports, "svc_wrt_new")
    assert publication.publish_due(ports).published == [tenant.id]
    assert publication.publish_due(ports).published == []
    clock.advance(minutes=29, seconds=59)
    assert publication.publish_due(ports).published == []
    clock.advance(seconds=1)
    assert publication.publish_due(ports).published == [tenant.id]


def test_heads_are_not_kept_for_ever(
    ports: Ports, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F131a: Only the heads of the last lists are kept."""
    monkeypatch.setattr(head_model, "HEADS_KEPT", 3)
    head = [publication.publish(ports, tenant.operator) for _ in range(7)][-1]
    entries = list(ports.store.query(heads_partition(tenant.id)))
    assert sorted(int(str(e.item["version"])) for e in entries) == [7, 8, 9, 9]
    ports.store.write(Delete(head_address(tenant.id), Expect.PRESENT))
    assert consistency.repair(ports, tenant.operator)
    assert in_force.read_srl_head(ports, tenant.id) == head
