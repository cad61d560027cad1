"""`rescind failover`, typed by an operator: from one pretended region of AWS to another."""

from __future__ import annotations

import io
import zipfile
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import boto3
import pytest

from infra import data_folder
from infra.cli.operator import failover
from shared import wiring
from shared.adapters.aws import dynamodb
from shared.errors import ReadOnly
from shared.model.items import Table
from shared.operations.base import operation
from shared.operations.operator import deployment, doctor
from shared.operations.operator.failover import NOBODY
from shared.ports.store import MOST_CHANGES, Expect, Put
from tests.infra.templates import LAMBDAS
from tests.kit.aws import REGION, STAGE, aws, create_tables, table_prefix
from tests.kit.tenants import Tenant
from tests.operations.conftest import make_few

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from shared.ports import Ports
    from tests.infra.cli.conftest import Shell

SECOND: Final = "eu-central-1"
TYPED: Final = ("failover", "--from", REGION, "--to", SECOND)
NOWHERE: Final = ("--from-endpoint", "http://127.0.0.1:1")


@dataclass(frozen=True)
class Regions:
    """The stores of a stage in two regions; blobs and key are one, as if copied at once."""

    first: Ports
    second: Ports
    settings: dict[str, str]

    def copy(self, *but: Table) -> None:
        """Let the second region have the items of the first one."""
        for table in set(Table) - set(but):
            items = [Put(*each, Expect.ANYTHING) for each in self.first.store.everything(table)]
            for start in range(0, len(items), MOST_CHANGES):
                self.second.store.write(*items[start : start + MOST_CHANGES])

    def process(self, region: str, mode: str) -> Ports:
        """The ports of a process in a region."""
        named = self.settings | {"AWS_REGION": region, "RESCIND_MODE": mode}
        settings = wiring.settings(named)
        return wiring._require_usable(
            replace(self.first if region == REGION else self.second), settings
        )


@pytest.fixture
def regions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Regions]:
    """Both, with a tenant in the first. A pause of the command lets the tables be copied."""
    make_few(monkeypatch)
    data_folder.prepare(tmp_path)
    settings = data_folder.environment(tmp_path) | {
        "RESCIND_STORE": f"dynamodb:{table_prefix(STAGE)}"
    }
    with aws():
        create_tables(dynamodb.connect(region=SECOND))
        _create_functions()
        first = wiring.assemble(wiring.settings(settings))
        second = replace(first, store=wiring.store_in(wiring.settings(settings), SECOND))
        for name, value in (settings | {"AWS_DEFAULT_REGION": SECOND}).items():
            monkeypatch.setenv(name, value)
        found = Regions(first, second, settings)
        deployment.mark_schema(first)
        pacing = operation.RetryPacing(sleep=lambda _seconds: found.copy(), in_flight=0)
        monkeypatch.setattr(operation, "PACING", pacing)
        with closing(first):
            yield found


def test_the_functions_of_the_template_are_stopped() -> None:
    """OPS-25: All functions with a store are stopped, also a second entry point of a folder."""
    deployed = {each["FunctionName"] for each in LAMBDAS.values()}
    names = failover.function_names(f"rescind-{STAGE}-")
    assert sorted(deployed - {f"rescind-{STAGE}-console"}) == names


def _create_functions() -> None:
    """The functions of the stage; of a release that lacks one."""
    role = boto3.client("iam").create_role(RoleName="r", AssumeRolePolicyDocument="{}")
    code = io.BytesIO()
    with zipfile.ZipFile(code, "w") as archive:
        archive.writestr("a.py", "")
    client = boto3.client("lambda", region_name=REGION)
    for name in failover.function_names(table_prefix(STAGE))[1:]:
        client.create_function(
            FunctionName=name,
            Runtime="python3.13",
            Role=role["Role"]["Arn"],
            Handler="a.handler",
            Code={"ZipFile": code.getvalue()},
        )


def _concurrency() -> set[int | None]:
    client = boto3.client("lambda", region_name=REGION)
    found = [
        client.get_function_concurrency(FunctionName=each)
        for each in failover.function_names(table_prefix(STAGE))[1:]
    ]
    return {each.get("ReservedConcurrentExecutions") for each in found}


@pytest.fixture
def tenant(regions: Regions) -> Tenant:
    return Tenant.create(regions.first)


@pytest.mark.slow
def test_the_second_region_takes_over(shell: Shell, regions: Regions, tenant: Tenant) -> None:
    """OPS-24, F651a: The command stops the first region, waits for its writes, and goes on."""
    tenant.revoke(regions.first, "svc_wrt_a")
    ended = shell.run(*TYPED)
    assert ended.code == 0, ended.err
    assert _concurrency() == {0}
    assert f"{SECOND} is the write region." in ended.err
    assert tenant.published(regions.second).revoked_ids == ["svc_wrt_a"]
    with pytest.raises(ReadOnly):
        tenant.revoke(regions.process(REGION, "open"), "svc_wrt_b")
    tenant.revoke(regions.process(SECOND, "standby"), "svc_wrt_b")
    assert list(doctor.examine(regions.second)) == []
    again = shell.run(*TYPED)
    assert (again.code, f"{SECOND} is already the write region." in again.err) == (0, True)
    assert tenant.is_revoked(regions.second, "svc_wrt_b")


@pytest.mark.slow
def test_a_silent_region_is_given_up_only_if_asked(
    shell: Shell, regions: Regions, tenant: Tenant
) -> None:
    """OPS-24, F651b: Nothing changes without --source-unavailable if a region is silent."""
    regions.copy()
    ended = shell.run(*TYPED, *NOWHERE)
    assert (ended.code, "--source-unavailable" in ended.err) == (1, True)
    assert deployment.read_deployment(regions.second).region is None
    ended = shell.run(*TYPED, *NOWHERE, "--source-unavailable")
    assert ended.code == 0, ended.err
    assert f"Before {REGION} serves again, delete its tables" in ended.err
    assert deployment.read_deployment(regions.second).region == SECOND
    assert tenant.published(regions.second).version > 1


@pytest.mark.slow
def test_a_copy_that_does_not_arrive_stops_it(
    shell: Shell, regions: Regions, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F651c: If a table is not copied, the second region does not take over, and nobody writes."""
    clock = iter(range(0, 10_000, 50))
    pacing = operation.RetryPacing(
        sleep=lambda _seconds: regions.copy(Table.AUDIT), clock=lambda: float(next(clock))
    )
    monkeypatch.setattr(operation, "PACING", pacing)
    ended = shell.run(*TYPED)
    assert (ended.code, "Check their replication" in ended.err) == (1, True)
    assert deployment.read_deployment(regions.second).region == NOBODY
    for region in (REGION, SECOND):
        with pytest.raises(ReadOnly):
            tenant.revoke(regions.process(region, "open"), "svc_wrt_a")


@pytest.mark.slow
def test_the_steps_are_printed(shell: Shell, regions: Regions) -> None:
    """F651d: With --dry-run the command prints its steps, and changes nothing."""
    ended = shell.run(*TYPED, "--dry-run")
    assert ended.code == 0
    assert [line[:2] for line in ended.err.splitlines()] == ["1.", "2.", "3.", "4."]
    assert _concurrency() == {None}
    assert deployment.read_deployment(regions.first).region is None
    lost = shell.run(*TYPED, "--dry-run", "--source-unavailable")
    assert "not replicated are lost" in lost.err


@pytest.mark.slow_on("settings1-does not name the tables of a stage")
@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"AWS_DEFAULT_REGION": REGION}, f"to the values of {SECOND}"),
        ({"RESCIND_STORE": "dynamodb:other-"}, "must name the tables of a stage"),
    ],
)
def test_settings_of_another_place_are_refused(
    shell: Shell,
    regions: Regions,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, str],
    said: str,
) -> None:
    """F651e: The command runs only with the settings of the region that takes over."""
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    ended = shell.run(*TYPED)
    assert (ended.code, said in ended.err) == (2, True)


@pytest.mark.slow
def test_a_region_is_named_before_there_is_another(
    shell: Shell, regions: Regions, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OPS-25, F653a: Once a region is named, nothing in another one writes, not even a command."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    for _ in range(2):
        ended = shell.run("set-write-region", REGION)
        assert (ended.code, ended.err) == (0, f"{REGION} is the write region.\n")
    regions.copy()
    with pytest.raises(ReadOnly):
        tenant.revoke(regions.process(SECOND, "open"), "svc_wrt_a")
    tenant.revoke(regions.process(REGION, "open"), "svc_wrt_a")
    ended = shell.run("set-write-region", SECOND)
    assert (ended.code, "run: rescind failover" in ended.err) == (2, True)
