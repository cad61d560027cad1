"""What was ended in the seconds before the loss of a store, on each kind of store."""

import json
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from starlette.requests import Request

from infra.server.ops import Health
from shared.adapters.aws.dynamodb import DynamoStore
from shared.adapters.local.file_sealer import FileSealer
from shared.adapters.postgresql import schema as postgresql_schema
from shared.adapters.postgresql.blobs import PostgresqlBlobs
from shared.adapters.postgresql.database import PostgresqlDatabase
from shared.adapters.postgresql.store import PostgresqlStore
from shared.model.signing_keys import KeyStatus, SigningKey
from shared.operations.access import api_keys
from shared.operations.access.api_key_creation import CreatedKey
from shared.operations.lists import journal, wake
from shared.operations.lists.journal import Journals
from shared.operations.operator import deployment, doctor, onboarding, restored
from shared.operations.operator.recovery import recovery
from shared.ports import Ports
from shared.web.work import IN_PLACE
from tests.infra.commands import Command
from tests.infra.folders import opened
from tests.kit import postgresql
from tests.kit.asgi import run
from tests.kit.aws import aws
from tests.kit.processes import free_port, start_in_vain
from tests.kit.tenants import Tenant, opens
from tests.kit.worlds import Clock
from tests.operations.conftest import make_few


@dataclass(frozen=True)
class Ended:
    """A tenant, and the admin key and the root that it ended last, with a warrant."""

    tenant: Tenant
    leaked: CreatedKey
    root: SigningKey

    @classmethod
    def begun(cls, ports: Ports) -> "Ended":
        tenant = Tenant.create(ports)
        return cls(tenant, tenant.api_key(ports, name="leaked"), tenant.key(ports))

    def end(self, ports: Ports) -> None:
        """End all of it, as the feed and the journal say within the second; no list says it."""
        api_keys.revoke(ports, self.tenant.operator, key_id=self.leaked.api_key.id)
        self.tenant.revoke_key(ports, self.root)
        self.tenant.revoke(ports, "svc_wrt_a")
        woken = wake.publish_within_window(ports, self.tenant.id)
        Journals().write_missing_records(ports, self.tenant.id, woken.done)

    def is_over(self, ports: Ports) -> list[bool]:
        return [
            not opens(ports, self.leaked),
            self.tenant.status(ports, self.root) is KeyStatus.REVOKED,
            self.tenant.is_revoked(ports, "svc_wrt_a"),
        ]


def recovered(ports: Ports, ended: Ended) -> None:
    """Recover a store that was put back, and see that it takes a review until it is done."""
    assert ended.is_over(ports) == [False] * 3
    done = recovery.recover(ports, ended.tenant.operator)
    assert ended.is_over(ports) == [True] * 3
    assert any(
        each.startswith("Horizon: revocations and ended keys and accounts until ")
        for each in done.unknown.reasons
    )
    assert done.unknown.review
    assert any("is not reviewed" in each.problem for each in doctor.examine(ports))
    assert recovery.recover(ports, ended.tenant.operator).unknown
    assert not recovery.recover(ports, ended.tenant.operator, reviewed=True).unknown
    assert [each for each in doctor.examine(ports) if each.subject == "acme"] == []


def test_what_was_revoked_seconds_before_the_loss_is_revoked_again(
    rescind: Command, data: Path, tmp_path: Path
) -> None:
    """OPS-10, F830a: The key, the root and the warrant that a backup brings back are revoked again.

    They were revoked seconds before the loss, and no list had them. The recovery ends with 3 until
    it is reviewed, and the doctor fails until then.
    """
    with opened(data) as ports:
        ended = Ended.begun(ports)
    monday = tmp_path / "monday"
    assert rescind.run("backup", monday, "--data", data).code == 0
    with opened(data) as ports:
        ended.end(ports)
    assert rescind.run("restore", monday, "--data", data, "--replace").code == 0
    with opened(data) as ports:
        assert ended.is_over(ports) == [False] * 3
        assert _unreviewed(ports) == 1
    done = rescind.run("recover", "acme", "--data", data)
    assert (done.code, "Traceback" in done.err) == (3, False)
    for line in ("Revoked again: API key", "Revoked again: signing key", "Unknown: Horizon: "):
        assert line in done.err
    with opened(data) as ports:
        assert ended.is_over(ports) == [True] * 3
    examined = rescind.run("doctor", "--data", data)
    assert (examined.code, "the restore is not reviewed" in examined.err) == (1, True)
    assert rescind.run("recover", "acme", "--data", data).code == 3
    assert rescind.run("recover", "acme", "--complete-review", "--data", data).code == 0
    assert rescind.run("doctor", "--data", data).code == 0
    with opened(data) as ports:
        assert _unreviewed(ports) == 0


def _unreviewed(ports: Ports) -> int:
    """How many tenants `/readyz` says are not reviewed; it does not fail for them."""
    request = Request({"type": "http", "method": "GET", "path": "/readyz", "headers": []})
    answer = run(Health(lambda: ports, IN_PLACE).ready(request))
    assert answer.status_code == 200
    found: int = json.loads(bytes(answer.body))["unreviewed_restores"]
    return found


def test_a_backup_has_the_journal_since_the_list(
    rescind: Command, data: Path, tmp_path: Path
) -> None:
    """OPS-15, F830b: A backup has the numbers of the journal that no list covers."""
    with opened(data) as ports:
        ended = Ended.begun(ports)
        ended.end(ports)
        names = [name for _, name in journal.list_blobs(ports, ended.tenant.id)]
    monday = tmp_path / "monday"
    assert rescind.run("backup", monday, "--data", data).code == 0
    assert names
    assert all((monday / "blobs" / name).is_file() for name in names)


def test_no_server_starts_on_a_bare_older_store(
    rescind: Command, data: Path, tmp_path: Path
) -> None:
    """OPS-22, F831a: A server does not start if an older `svc.db` was put in place by hand."""
    with opened(data) as ports:
        ended = Ended.begun(ports)
    copy = tmp_path / "old.db"
    with closing(sqlite3.connect(data / "svc.db")) as now, closing(sqlite3.connect(copy)) as then:
        now.backup(then)
    with opened(data) as ports:
        ended.end(ports)
    for left in data.glob("svc.db*"):
        if left.is_file():
            left.unlink()
    shutil.copy(copy, data / "svc.db")
    refused = start_in_vain(data, port=free_port())
    assert refused.returncode == 1
    assert "the records are older than the journal" in refused.stderr
    assert "Run: recover acme" in refused.stderr
    assert rescind.run("recover", "acme", "--data", data).code == 3
    with opened(data) as ports:
        assert ended.is_over(ports) == [True] * 3
        restored.check_recovered(ports)


@pytest.mark.slow
def test_tables_of_dynamodb_that_were_restored_are_recovered(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OPS-10, F830c: From restored tables of DynamoDB all is revoked again, and reviewed."""
    make_few(monkeypatch)
    with aws() as account:
        ports = account.ports(clock)
        ended = Ended.begun(ports)
        restored.are_other_tables(ports)
        other = f"{account.table_prefix}r1-"
        before = time.time()
        copies = {
            name: account.dynamodb.create_backup(
                TableName=f"{account.table_prefix}{name}", BackupName="monday"
            )["BackupDetails"]["BackupArn"]
            for name in ("keys", "revocations", "audit")
        }
        clock.advance(seconds=3)
        ended.end(ports)
        clock.advance(seconds=3)
        while time.time() < before + 1.1:  # the tables state their second
            time.sleep(0.05)
        for name, arn in copies.items():
            account.dynamodb.restore_table_from_backup(
                TargetTableName=f"{other}{name}", BackupArn=arn
            )
        restored_ports = replace(ports, store=DynamoStore(account.dynamodb, table_prefix=other))
        found = [each.problem for each in doctor.examine(restored_ports)]
        assert any("differ from the ones that an operator last confirmed" in each for each in found)
        recovered(restored_ports, ended)


@contextmanager
def in_postgresql(url: str, folder: Path, clock: Clock, ports: Ports) -> Iterator[Ports]:
    """Ports whose records and blobs are both in this database."""
    with closing(PostgresqlDatabase(url)) as database:
        yield replace(
            ports,
            store=PostgresqlStore(database),
            blobs=PostgresqlBlobs(database),
            sealer=FileSealer(folder / "master.key"),
            now=clock,
        )


def _by_tool(name: str, *arguments: str) -> None:
    subprocess.run([postgresql.binaries() / name, *arguments], check=True, capture_output=True)


def dropped(url: str, file: Path) -> None:
    """Restore into the same database."""
    _by_tool("pg_restore", "--clean", "--dbname", url, str(file))


def made_anew(url: str, file: Path) -> None:
    """Restore into a new database of the same name."""
    server, name = url.rpartition("/")[0] + "/postgres", url.rpartition("/")[2].partition("?")[0]
    postgresql.execute(server, f'DROP DATABASE "{name}" WITH (FORCE)')
    postgresql.execute(server, f'CREATE DATABASE "{name}"')
    _by_tool("pg_restore", "--dbname", url, str(file))


@pytest.mark.slow
@pytest.mark.parametrize("restore", [dropped, made_anew])
def test_a_restored_database_is_recovered(
    tmp_path: Path, clock: Clock, ports: Ports, restore: Callable[[str, Path], None]
) -> None:
    """OPS-10, F830d: If PostgreSQL has records and blobs, a restore is known by its tables.

    Nothing outside says what was ended since, so the review alone can find it.
    """
    with postgresql.server().database("window") as url:
        postgresql_schema.setup(url)
        with in_postgresql(url, tmp_path, clock, ports) as found:
            ended = Ended.begun(found)
            assert not recovery.recover(found, ended.tenant.operator).unknown
        _by_tool("pg_dump", "-Fc", "--dbname", url, "--file", str(tmp_path / "dump"))
        with in_postgresql(url, tmp_path, clock, ports) as found:
            clock.advance(seconds=3)
            ended.end(found)
            assert ended.is_over(found) == [True] * 3
        restore(url, tmp_path / "dump")
        with in_postgresql(url, tmp_path, clock, ports) as found:
            assert ended.is_over(found) == [False] * 3
            problems = [each.problem for each in doctor.examine(found)]
            assert any(
                "differ from the ones that an operator last confirmed" in each for each in problems
            )
            done = recovery.recover(found, ended.tenant.operator)
            assert done.unknown.reasons[0].startswith("The records were restored, at ")
            assert any(ended.leaked.api_key.id in each for each in done.unknown.review)
            assert any(ended.root.id in each for each in done.unknown.review)
            assert not recovery.recover(found, ended.tenant.operator, reviewed=True).unknown


@pytest.mark.slow
def test_a_standby_that_took_over_is_another_server() -> None:
    """OPS-10, F832a: A restart is the same server, and a standby that took over is another one.

    So is a server that was recovered to a moment, which begins a timeline as well.
    """

    def made_at(of: postgresql.PostgresqlServer) -> str:
        with closing(PostgresqlDatabase(of.url())) as database:
            return PostgresqlStore(database).made_at()

    with postgresql.running() as primary:
        postgresql_schema.setup(primary.url())
        first = made_at(primary)
        with postgresql.running(of=primary) as standby:
            primary.stop()
            primary.start()
            assert made_at(primary) == first
            postgresql.execute(standby.url(), "SELECT pg_promote()")
            assert made_at(standby) != first
            assert made_at(standby).rpartition(".")[0] == first.rpartition(".")[0]


def test_the_operator_says_what_cannot_be_seen(rescind: Command, data: Path) -> None:
    """OPS-10, F832b: `mark-restored` marks what was put back by other means, as disks in a store.

    With `--no-data-loss` it notes the tables, and marks nothing.
    """
    with opened(data) as ports:
        onboarding.create_tenant(ports, handle="acme")
    said = rescind.run("mark-restored", "--data", data)
    assert (said.code, "rescind recover acme" in said.err) == (0, True)
    assert "is not reviewed" in rescind.run("doctor", "--data", data).err
    assert start_in_vain(data, port=free_port()).returncode == 1
    assert rescind.run("recover", "acme", "--data", data).code == 3
    assert rescind.run("recover", "acme", "--complete-review", "--data", data).code == 0
    assert rescind.run("mark-restored", "--no-data-loss", "--data", data).code == 0
    assert rescind.run("doctor", "--data", data).code == 0


@pytest.mark.slow
def test_tables_with_every_change_are_noted(ports: Ports, monkeypatch: pytest.MonkeyPatch) -> None:
    """OPS-10, F832c: After `--no-data-loss`, doctor and `recover` take the tables as they are."""
    make_few(monkeypatch)
    with aws() as account:
        found = replace(
            ports, store=DynamoStore(account.dynamodb, table_prefix=account.table_prefix)
        )
        acme = Tenant.create(found)
        seen = deployment.read_deployment(found)
        deployment.write(found, seen, seen.next(tables_made_at="others"))
        assert [each.subject for each in doctor.examine(found)] == ["RESCIND_STORE"]
        deployment.note_tables(found)
        assert [*doctor.examine(found)] == []
        assert not recovery.recover(found, acme.operator).unknown
