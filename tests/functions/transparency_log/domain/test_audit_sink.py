"""Copies of the sealed log in a sink (LOG-27)."""

import json
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from functions.transparency_log import log, sealing
from shared import wiring
from shared.adapters.aws.s3 import S3Sink
from shared.adapters.local.files import FileSink
from shared.errors import InvalidSettings, Unavailable
from shared.model.audit import log_state
from shared.model.audit.audit_log import AuditAction
from shared.operations.base import tenants
from shared.ports import Ports
from shared.ports.store import Delete, Expect
from tests.kit import faults
from tests.kit.aws import aws
from tests.kit.sealed_log import head_of
from tests.kit.tenants import Tenant


def copied(folder: Path) -> tuple[list[Any], list[Any]]:
    """The lines of leaves, and the last lines of copies, of the only file of a sink."""
    (file,) = folder.iterdir()
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    return (
        [line for line in lines if "index" in line],
        [line["checkpoint"] for line in lines if "checkpoint" in line],
    )


def test_the_sink_has_each_sealed_entry(
    ports: Ports, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LOG-27, F349a: A sink gets each sealed entry in the order of the log, and the checkpoint."""
    monkeypatch.setattr(sealing, "_COPIED_MAX", 4)
    tenant, folder = Tenant.create(ports), tmp_path / "sink"
    sealing.copy_to_sink(ports, FileSink(folder), tenant.id)
    assert not folder.exists()
    for number in range(3):
        for each in range(number * 3):
            tenant.revoke(ports, f"svc_wrt_{number}-{each}")
        sealing.extend(ports, tenant.id)
        sealing.copy_to_sink(ports, FileSink(folder), tenant.id)
    head = head_of(ports, tenant.id)
    leaves, checkpoints = copied(folder)
    assert [each["index"] for each in leaves] == [*range(head.size)]
    records = log.records(ports, tenant.id, 0, head.size)
    assert [bytes.fromhex(each["record"]) for each in leaves] == [each.data for each in records]
    assert [each["entry"]["id"] for each in leaves] == [each.id for each in records]
    assert checkpoints[-1] == head.checkpoint
    assert leaves[1]["entry"]["action"] == AuditAction.REVOCATION_CREATE


def test_a_sink_that_failed_gets_the_rest_later(
    ports: Ports, tenant: Tenant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LOG-27, F349b: Wherever copying stops, the next call leaves no leaf out."""
    monkeypatch.setattr(sealing, "_COPIED_MAX", 2)
    for number in range(4):
        tenant.revoke(ports, f"svc_wrt_{number}")
    sealing.extend(ports, tenant.id)
    script = faults.Script()
    sealing.copy_to_sink(faults.scripted(ports, script), FileSink(tmp_path / "all"), tenant.id)
    expected, _ = copied(tmp_path / "all")
    for call in range(len(script.calls)):
        for late in (False, True):
            _forget(ports, tenant)
            folder = tmp_path / f"{late}-{call}"
            with suppress(Unavailable):
                broken = faults.broken_at(ports, call, Unavailable("down"), late=late)
                sealing.copy_to_sink(broken, FileSink(folder), tenant.id)
            sealing.copy_to_sink(ports, FileSink(folder), tenant.id)
            found, _ = copied(folder)
            assert {json.dumps(each) for each in found} == {json.dumps(each) for each in expected}


def _forget(ports: Ports, tenant: Tenant) -> None:
    """Lose how far the sink has got."""
    ports.store.write(Delete(log_state.partition(tenant.id).address("sink"), Expect.ANYTHING))


@pytest.mark.slow
def test_an_object_is_locked_for_the_retention(ports: Ports, tenant: Tenant) -> None:
    """LOG-27, F349c: In S3 a copy is an object that Object Lock keeps for the audit retention."""
    sealing.extend(ports, tenant.id)
    with aws() as account:
        account.s3.create_bucket(
            Bucket="audit-copies",
            ObjectLockEnabledForBucket=True,
            CreateBucketConfiguration={"LocationConstraint": "eu-west-1"},
        )
        sealing.copy_to_sink(ports, S3Sink(lambda: account.s3, bucket="audit-copies"), tenant.id)
        (found,) = account.s3.list_objects_v2(Bucket="audit-copies")["Contents"]
        assert found["Key"] == f"{tenant.id}/1/000000000000-000000000001.ndjson"
        stored = account.s3.get_object(Bucket="audit-copies", Key=found["Key"])
        assert stored["ObjectLockMode"] == "COMPLIANCE"
        until = ports.now() + tenants.settings(ports, tenant.id).audit_retention
        assert abs(stored["ObjectLockRetainUntilDate"] - until) < timedelta(seconds=2)
        _forget(ports, tenant)
        absent = S3Sink(lambda: account.s3, bucket="no-such-bucket")
        with pytest.raises(Unavailable):
            sealing.copy_to_sink(ports, absent, tenant.id)


def test_a_folder_that_cannot_be_written(ports: Ports, tenant: Tenant, tmp_path: Path) -> None:
    """LOG-27, F349d: A sink that cannot be written is an outage, and the log stays as it is."""
    sealing.extend(ports, tenant.id)
    (tmp_path / "sink").write_text("a file")
    with pytest.raises(Unavailable):
        sealing.copy_to_sink(ports, FileSink(tmp_path / "sink"), tenant.id)
    assert sealing.extend(ports, tenant.id).size == 1


@pytest.mark.parametrize(
    ("value", "kind"), [("", type(None)), ("file:/mnt/audit", FileSink), ("s3:audit", S3Sink)]
)
def test_the_sink_is_chosen_by_a_setting(
    monkeypatch: pytest.MonkeyPatch, value: str, kind: type
) -> None:
    """`RESCIND_AUDIT_SINK` names a folder or a bucket; without it there is no sink."""
    monkeypatch.setenv("RESCIND_AUDIT_SINK", value)
    assert type(wiring.audit_sink_from_environment.__wrapped__()) is kind
    monkeypatch.setenv("RESCIND_AUDIT_SINK", "ftp:there")
    with pytest.raises(InvalidSettings, match="RESCIND_AUDIT_SINK"):
        wiring.audit_sink_from_environment.__wrapped__()
