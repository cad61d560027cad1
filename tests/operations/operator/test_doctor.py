"""The doctor: what it names, that it names nothing else, and that it only looks."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest

from shared.adapters.aws.dynamodb import DynamoStore
from shared.adapters.aws.s3 import S3Blobs
from shared.adapters.local.file_sealer import FileSealer
from shared.errors import Unavailable
from shared.model import tenants
from shared.model.items import Table
from shared.model.lists import signers as srl_signers
from shared.model.lists.head import SrlHead, blob_name, head_address, lists_folder
from shared.model.lists.schedule import PublicationDeadline
from shared.operations.changes import list_signers
from shared.operations.lists import in_force
from shared.operations.lists import marks as srl_marks
from shared.operations.lists.publication import publish_due, publish_if_due
from shared.operations.operator import doctor
from shared.operations.operator.recovery import recovery
from shared.ports import Ports
from shared.ports.store import Delete, Expect, Put
from tests.kit.aws import Account, aws
from tests.kit.faults import Script, meeting, raises, scripted
from tests.kit.tenants import Tenant
from tests.kit.worlds import Clock, close, embedded

pytestmark = pytest.mark.usefixtures("few_partitions")


@pytest.fixture
def tenant(ports: Ports) -> Tenant:
    """A tenant, with another before and after it, in whom nothing is wrong."""
    Tenant.create(ports, "before")
    tenant = Tenant.create(ports)
    tenant.revoke(ports, "svc_wrt_a")
    tenant.revoke_key(ports, tenant.key(ports))
    tenant.regenerate(ports)
    Tenant.create(ports, "zafter").revoke(ports, "svc_wrt_b")
    return tenant


def findings(ports: Ports) -> list[tuple[str, str]]:
    return [(each.subject, each.problem) for each in doctor.examine(ports)]


@pytest.mark.slow_on("cloud")
def test_nothing_is_wrong(anywhere: Ports) -> None:
    """A healthy deployment has no findings: changed or not, rotated or not, here or there."""
    assert findings(anywhere) == []
    tenant = Tenant.create(anywhere)
    tenant.revoke(anywhere, "svc_wrt_a")
    assert findings(anywhere) == []
    tenant.regenerate(anywhere)
    list_signers.rotate(anywhere, tenant.operator)
    tenant.revoke_key(anywhere, tenant.key(anywhere))
    assert findings(anywhere) == []


def _head(ports: Ports, tenant: Tenant) -> SrlHead:
    return in_force.read_srl_head(ports, tenant.id)


def _blob(ports: Ports, tenant: Tenant, folder: Path) -> Path:
    return folder / "blobs" / _head(ports, tenant).blob


def _lose_blob(ports: Ports, tenant: Tenant, folder: Path) -> None:
    _blob(ports, tenant, folder).unlink()


def _alter_blob(ports: Ports, tenant: Tenant, folder: Path) -> None:
    path = _blob(ports, tenant, folder)
    path.write_bytes(path.read_bytes().replace(b"svc_wrt_a", b"svc_wrt_b"))


def _lose_turn(ports: Ports, tenant: Tenant, _folder: Path) -> None:
    turn = PublicationDeadline.after_publication(_head(ports, tenant), tenant.id)
    ports.store.write(Delete(turn.address, Expect.PRESENT))


def _lose_marks(ports: Ports, tenant: Tenant, _folder: Path) -> None:
    tenant.revoke(ports, "svc_wrt_unmarked")
    ports.store.write(
        *(Delete(key, Expect.ANYTHING) for key in srl_marks.read_tenant_marks(ports, tenant.id))
    )


def _store_newer(ports: Ports, tenant: Tenant, _folder: Path) -> None:
    folder = lists_folder(tenant.id)
    ports.blobs.put(blob_name(folder, version=3, sha256="0" * 64), b"{}")


def _store_stray(ports: Ports, tenant: Tenant, _folder: Path) -> None:
    ports.blobs.put(f"{lists_folder(tenant.id)}/notes.txt", b"")


def _swap_seed(ports: Ports, tenant: Tenant, _folder: Path) -> None:
    signer = in_force.read_active_signer(ports, tenant.id)
    sealed = ports.sealer.seal(b"\x01" * 32, context=signer.seal_context)
    swapped = replace(signer, sealed_seed=sealed)
    ports.store.write(Put(signer.address, swapped.to_item(), Expect.PRESENT))


def _lose_master_key(ports: Ports, tenant: Tenant, folder: Path) -> None:
    signer = in_force.read_active_signer(ports, tenant.id)
    another = FileSealer.create(folder / "another.key")
    sealed = another.seal(b"\x01" * 32, context=signer.seal_context)
    ports.store.write(
        Put(signer.address, replace(signer, sealed_seed=sealed).to_item(), Expect.PRESENT)
    )


def _lose_signer(ports: Ports, tenant: Tenant, _folder: Path) -> None:
    old = in_force.read_active_signer(ports, tenant.id)
    new = list_signers.rotate(ports, tenant.operator).record
    ports.store.write(
        Put(old.address, old.to_item(), Expect.PRESENT), Delete(new.address, Expect.PRESENT)
    )


def _lose_active_signer(ports: Ports, tenant: Tenant, _folder: Path) -> None:
    signer = in_force.read_active_signer(ports, tenant.id)
    retired = replace(signer, status=srl_signers.SrlSignerStatus.RETIRED)
    ports.store.write(Put(signer.address, retired.to_item(), Expect.PRESENT))


def _lose_standby(ports: Ports, tenant: Tenant, _folder: Path) -> None:
    ports.store.write(Delete(srl_signers.standby_address(tenant.id), Expect.PRESENT))


def _garble_settings(ports: Ports, tenant: Tenant, _folder: Path) -> None:
    address = tenants.settings_address(tenant.id)
    ports.store.write(Put(address, {"tenant_id": tenant.id, "handle": 1}, Expect.PRESENT))


def _lose_settings(ports: Ports, tenant: Tenant, _folder: Path) -> None:
    ports.store.write(Delete(tenants.settings_address(tenant.id), Expect.PRESENT))


def _lose_head(ports: Ports, tenant: Tenant, _folder: Path) -> None:
    ports.store.write(Delete(head_address(tenant.id), Expect.PRESENT))


Break = Callable[[Ports, Tenant, Path], None]
DAMAGE: dict[str, tuple[Break, str]] = {
    "missing blob": (_lose_blob, "the blob of version 2 is missing or altered"),
    "altered blob": (_alter_blob, "the blob of version 2 is missing or altered"),
    "missing turn": (_lose_turn, "its SRL has no publication deadline"),
    "missing marks": (_lose_marks, "changes after its SRL have no outbox mark"),
    "newer blob": (_store_newer, "a newer SRL than the current one is stored"),
    "stray file": (_store_stray, "a blob in the folder of SRLs has an unexpected name"),
    "seed of another key": (_swap_seed, "the seed of its SRL signer belongs to another key"),
    "another master key": (_lose_master_key, "cannot unwrap the seed of its SRL signer"),
    "no active signer": (
        _lose_active_signer,
        "it has no active SRL signer; give verifiers the public key of the new signer",
    ),
    "missing standby": (_lose_standby, "its standby signer has no record"),
    "malformed settings": (
        _garble_settings,
        "cannot read its records: stored field TenantSettings.handle is malformed",
    ),
    "missing settings": (_lose_settings, "cannot read its records: a tenant has no settings"),
    "missing head": (_lose_head, "cannot read its records: a tenant has no published SRL"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_each_damage_is_named(ports: Ports, tenant: Tenant, tmp_path: Path, damage: str) -> None:
    """What is wrong with a tenant is said of it alone, in one finding with a way out."""
    break_, problem = DAMAGE[damage]
    break_(ports, tenant, tmp_path)
    assert findings(ports) == [("acme", problem)]
    (finding,) = doctor.examine(ports)
    assert finding.remedy


def test_a_signer_that_came_back_in_place_of_another(
    ports: Ports, tenant: Tenant, tmp_path: Path
) -> None:
    """A record that is missing, and one that is older than the list, are two findings."""
    old = in_force.read_active_signer(ports, tenant.id)
    _lose_signer(ports, tenant, tmp_path)
    assert findings(ports) == [
        ("acme", "the key that signed the current SRL has no record"),
        ("acme", f"the SRL signer {old.id} was retired, but is not now"),
    ]


@pytest.mark.parametrize(
    "damage", ["missing blob", "missing turn", "missing marks", "missing standby"]
)
def test_the_remedy_heals(ports: Ports, tenant: Tenant, tmp_path: Path, damage: str) -> None:
    """What is not lost for good is right again after `recover`."""
    break_, _ = DAMAGE[damage]
    break_(ports, tenant, tmp_path)
    recovery.recover(ports, tenant.operator)
    assert findings(ports) == []


def test_a_list_that_is_late_and_then_expired(ports: Ports, clock: Clock, tenant: Tenant) -> None:
    """A list is late at three quarters of its lifetime, and no longer valid at its end."""
    late = ("acme", "its SRL is late")
    clock.advance(minutes=44, seconds=59)
    assert late not in findings(ports)
    clock.advance(seconds=1)
    assert late in findings(ports)
    clock.advance(minutes=16)
    expired = [problem for subject, problem in findings(ports) if subject == "acme"]
    assert len(expired) == 2
    assert expired[0].startswith("its SRL is not valid: ")
    assert expired[1] == late[1]


@pytest.mark.parametrize("ahead", [{"minutes": 6}, {"hours": 6}, {"days": 365}])
@pytest.mark.parametrize("remedy", ["the scheduler runs", "recover"])
def test_a_list_of_the_future(
    ports: Ports, clock: Clock, tenant: Tenant, ahead: dict[str, float], remedy: str
) -> None:
    """F35e: The doctor reports a list from a clock that is ahead, and either remedy repairs it."""
    clock.advance(**ahead)
    tenant.regenerate(ports)
    clock.moment = Clock().moment
    (finding,) = doctor.examine(ports)
    assert finding.subject == "acme"
    assert "issued in the future" in finding.problem
    assert "clock" in finding.remedy
    assert remedy in finding.remedy
    if remedy == "recover":
        recovery.recover(ports, tenant.operator)
    else:
        publish_due(ports)
    assert findings(ports) == []


def test_all_that_is_wrong_is_named_at_once(ports: Ports, tenant: Tenant, tmp_path: Path) -> None:
    """One finding hides no other, of the same tenant or of another."""
    for name in ("missing blob", "missing turn", "missing marks", "seed of another key"):
        DAMAGE[name][0](ports, tenant, tmp_path)
    other = next(each for each in (t.tenant_id for t in _directory(ports)) if each != tenant.id)
    ports.store.write(Delete(head_address(other), Expect.PRESENT))
    found = findings(ports)
    assert len(found) == 5
    assert {subject for subject, _ in found} == {"acme", "before"}


def _directory(ports: Ports) -> list[tenants.DirectoryEntry]:
    return [tenants.DirectoryEntry.from_item(e.item) for e in ports.store.query(tenants.DIRECTORY)]


@pytest.mark.slow
@pytest.mark.parametrize("stride", [48, pytest.param(1, marks=pytest.mark.slow)])
def test_a_publication_meanwhile_is_no_finding(ports: Ports, tenant: Tenant, stride: int) -> None:
    """On a deployment at work, no step of another's publication is taken for damage."""
    rehearsal = Script()
    assert list(doctor.examine(scripted(ports, rehearsal))) == []

    def publish() -> None:
        number = in_force.read_srl_head(ports, tenant.id).version
        tenant.revoke(ports, f"svc_wrt_{number}")
        publish_if_due(ports, tenant.id)

    for step in range(0, len(rehearsal.calls), stride):
        assert findings(meeting(ports, step, publish)) == []


def test_a_place_that_does_not_answer_is_named(ports: Ports, tenant: Tenant) -> None:
    """Each port that fails is named by its setting; nothing is said of tenants then."""
    for step, (setting, verb) in enumerate(
        [
            ("RESCIND_STORE", "used"),
            ("RESCIND_BLOBS", "used"),
            *[("RESCIND_KEY_WRAPPER", "used")] * 2,
            *[("RESCIND_STORE", "written to")] * 4,
        ]
    ):
        down = Script(before={step: raises(Unavailable("down"))})
        assert findings(scripted(ports, down)) == [(setting, f"cannot be {verb}: down")]


@pytest.fixture
def cloud(ports: Ports) -> Iterator[tuple[Account, Ports]]:
    """A pretended account, and ports that keep store and blobs there."""
    with aws() as account:
        store = DynamoStore(account.dynamodb, table_prefix=account.table_prefix)
        blobs = S3Blobs(lambda: account.s3, bucket=account.bucket)
        yield account, replace(ports, store=store, blobs=blobs)


def test_a_wrong_bucket(cloud: tuple[Account, Ports]) -> None:
    """A bucket that is not there is named, with what S3 says of it."""
    account, ports = cloud
    wrong = replace(ports, blobs=S3Blobs(lambda: account.s3, bucket="nowhere"))
    ((subject, problem),) = findings(wrong)
    assert subject == "RESCIND_BLOBS"
    assert "NoSuchBucket" in problem


@pytest.mark.parametrize("table", Table)
def test_a_missing_table(cloud: tuple[Account, Ports], table: Table) -> None:
    """Each table is looked for, that of the audit log too, without which nothing changes."""
    account, ports = cloud
    account.dynamodb.delete_table(TableName=f"{account.table_prefix}{table}")
    ((subject, problem),) = findings(ports)
    assert subject == "RESCIND_STORE"
    assert "ResourceNotFound" in problem


def test_a_folder_that_went_away(ports: Ports, tenant: Tenant, tmp_path: Path) -> None:
    """Blobs whose whole folder is gone cannot be used; they are not taken for lost one by one."""
    rmtree((tmp_path / "blobs").resolve())
    ((subject, problem),) = findings(ports)
    assert subject == "RESCIND_BLOBS"
    assert "cannot be used" in problem


def test_it_changes_nothing(tmp_path: Path, clock: Clock) -> None:
    """Whatever it finds, store and blobs are to the byte as they were."""
    file = tmp_path / "svc.db"
    ports = embedded(tmp_path, clock, store=str(file))
    tenant = Tenant.create(ports)
    tenant.revoke(ports, "svc_wrt_a")
    for break_ in (_lose_turn, _lose_marks, _store_newer):
        break_(ports, tenant, tmp_path)
    before = _content(file), _files(tmp_path)
    assert len(findings(ports)) == 3
    assert (_content(file), _files(tmp_path)) == before
    close(ports)


def _content(file: Path) -> list[Any]:
    with closing(sqlite3.connect(file)) as connection:
        names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master")]
        return [names, *(connection.execute(f"SELECT * FROM {each}").fetchall() for each in Table)]


def _files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in (folder / "blobs").rglob("*") if path.is_file()}
