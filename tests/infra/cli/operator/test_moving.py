"""`rescind backup`, `restore`, `tenant …` and `migrate`, typed by an operator."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

import httpx2
import pytest
from botocore.session import get_session

from infra import data_folder
from shared import wiring
from shared.adapters import aws
from shared.errors import InvalidSettings
from shared.model.lists import encoding
from shared.operations.audit import sealing
from shared.operations.lists import in_force, publication
from shared.operations.operator import doctor, onboarding
from shared.ports import Ports
from tests.engines.clouds import Cloud, container, transit
from tests.engines.programs import azurite, ministack, openbao
from tests.infra.cli.conftest import Shell
from tests.infra.folders import opened
from tests.kit import postgresql, tour
from tests.kit.processes import local_server
from tests.kit.worlds import Clock

# The store, the blobs and the key of a place.
Home: TypeAlias = tuple[str, ...]


@pytest.fixture
def data(data: Path) -> Path:
    """A data folder with a tenant."""
    with opened(data) as ports:
        onboarding.create_tenant(ports, handle="acme")
    return data


def test_a_backup_is_put_back(shell: Shell, data: Path, tmp_path: Path) -> None:
    """F410a, OPS-15: An operator makes a backup, and puts it back on another machine."""
    made, new = tmp_path / "monday", tmp_path / "new"
    ended = shell.run("backup", made, "--data", data, "--with-master-key")
    assert ended.code == 0, ended.err
    assert "Made and verified" in ended.err
    assert "It has the master key" in ended.err
    assert "lacks the master key" not in ended.err
    ended = shell.run("backup", tmp_path / "tuesday", "--data", data)
    assert "It lacks the master key" in ended.err
    assert "It has the master key" not in ended.err
    assert shell.run("backup", made, "--data", data).code == 1
    ended = shell.run("restore", made, "--data", new)
    assert ended.code == 0, ended.err
    assert f"rescind recover acme --data {new}" in ended.err
    ended = shell.run("recover", "acme", "--data", new)
    assert ended.code == 3, ended.err
    assert "Horizon: revocations until" in ended.err
    assert "Review: active API key" in ended.err
    examined = shell.run("doctor", "--data", new)
    assert (examined.code, "that is not reviewed" in examined.err) == (1, True)
    assert shell.run("recover", "acme", "--data", new).code == 3
    assert shell.run("recover", "acme", "--reviewed", "--data", new).code == 0
    assert shell.run("doctor", "--data", new).code == 0
    assert shell.run("restore", made, "--data", new).code == 1
    assert "before-restore-1 now" in shell.run("restore", made, "--data", new, "--replace").err


def test_a_tenant_is_renamed_and_removed(
    shell: Shell, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F410b, TENANT-6, TENANT-7: An operator renames, keeps, exports and removes a tenant."""
    at = ("--data", data)
    assert shell.run("tenant", "rename", "acme", "acme-2", *at).code == 0
    shown = shell.json("tenant", "show", "acme", *at)
    assert (shown["name"], shown["api_keys"], shown["removal_at"]) == ("acme-2", 1, None)
    assert shell.run("tenant", "delete", "acme-2", "--grace", "1h", *at).code == 2
    assert shell.run("tenant", "delete", "acme-2", *at).code == 0
    assert shell.run("tenant", "keep", "acme-2", *at).code == 0
    assert shell.json("tenant", "delete", "acme-2", "--grace", "1d", *at)["removal_at"]
    remove = ("tenant", "remove", "acme-2", *at)
    assert shell.run(*remove, "--no-export", "--yes").code == 1
    later = wiring.now() + timedelta(days=1, seconds=1)
    monkeypatch.setattr(wiring, "now", lambda: later)
    file = tmp_path / "acme.ndjson"
    for wrong in (("--yes",), ("--yes", "--no-export", "--export", file), ("--no-export",)):
        assert shell.run(*remove, *wrong).code == 2
    assert shell.run("tenant", "export", "acme-2", tmp_path / "early.ndjson", *at).code == 0
    ended = shell.run(*remove, "--yes", "--export", file)
    assert ended.code == 0, ended.err
    lines = file.read_text().splitlines()
    assert json.loads(lines[-1])["lines"] == len(lines) - 1 > 5
    assert shell.json("tenant", "list", *at) == {"tenants": []}


def test_data_is_migrated(shell: Shell, data: Path, tmp_path: Path) -> None:
    """F410c, OPS-16: An operator moves data to another store, which is then in charge."""
    places = ("--from", f"sqlite:{data / 'svc.db'}", "--to", f"sqlite:{tmp_path / 'to/svc.db'}")
    begun = shell.run("migrate", *places)
    assert begun.code == 0, begun.err
    assert "SVC_MODE=read-only" in begun.err
    refused = shell.run("doctor", "--data", tmp_path / "to")
    assert refused.code == 2
    assert "has not ended" in refused.err
    ended = shell.run("migrate", *places, "--finish")
    assert ended.code == 0, ended.err
    assert "acme: published version 2" in ended.err
    assert "was moved" in shell.run("doctor", "--data", data).err
    assert shell.run("doctor", "--data", tmp_path / "to").code == 0
    incomplete = shell.run("migrate", *places[:2], "--to", "dynamodb:rescind-prod-")
    assert incomplete.code == 2
    assert "needs its blobs and its key" in incomplete.err


@contextmanager
def _homes(folder: Path, environment: pytest.MonkeyPatch) -> Iterator[list[Home]]:
    """Homes of each kind, in the order of a move from one machine to another."""
    with ExitStack() as stack:
        for name, start in {"aws": ministack, "azure": azurite, "bao": openbao}.items():
            (folder / name).mkdir()
            for setting, value in stack.enter_context(start(folder / name)).items():
                environment.setenv(setting, value)
                if setting.startswith("SVC_TEST_"):
                    service = setting.split("_")[2]
                    own = {"VAULT": "VAULT_ADDR", "AZURE": "AZURE_STORAGE_ENDPOINT"}
                    environment.setenv(own.get(service, f"AWS_ENDPOINT_URL_{service}"), value)
        # The session in use may hold the credentials of another test.
        environment.setattr(aws, "_session", get_session)
        cloud, (one, two) = Cloud(), (folder / "one", folder / "two")
        for each in (one, two):
            data_folder.prepare(each)
        here, there = (tuple(data_folder.environment(each).values()) for each in (one, two))
        shared = stack.enter_context(postgresql.server().database("homes"))
        azure = f"azure:{stack.enter_context(container())}"
        bucket, key = (stack.enter_context(each()) for each in (cloud.bucket, cloud.key))
        on_aws = f"dynamodb:{stack.enter_context(cloud.tables())}", f"s3:{bucket}", f"kms:{key}"
        on_azure = shared, azure, f"vault:{stack.enter_context(transit())}"
        alone = stack.enter_context(postgresql.server().database("alone"))
        yield [here, on_azure, on_aws, (alone, "postgresql:", here[2]), there]


def _settings(home: Home) -> dict[str, str]:
    return dict(zip(("SVC_STORE", "SVC_BLOBS", "SVC_KEYS"), home, strict=True))


@contextmanager
def _at(home: Home) -> Iterator[Ports]:
    """The ports of a home that is in charge."""
    ports = wiring.build(wiring.settings(_settings(home)))
    yield ports
    ports.close()


def _move(shell: Shell, source: Home, target: Home) -> None:
    names = [f"--{end}{part}" for end in ("from", "to") for part in ("", "-blobs", "-keys")]
    places = [each for pair in zip(names, (*source, *target), strict=True) for each in pair]
    for finish in ([], ["--finish"]):
        ended = shell.run("migrate", *places, *finish)
        assert ended.code == 0, ended.err


def _told(ports: Ports, tenant_id: str) -> tuple[int, list[str]]:
    """The version of the list in force, and what it revokes."""
    head = in_force.head(ports, tenant_id)
    return head.version, encoding.revoked_ids(in_force.body(ports, head))


def _findings(ports: Ports) -> list[doctor.Finding]:
    """What the doctor finds, but for the PostgreSQL of the tests, which is hasty."""
    return [each for each in doctor.examine(ports) if each.subject != "SVC_STORE"]


@pytest.mark.slow
def test_data_moves_between_all_homes(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F408c, F641a, OPS-16: An item of each kind moves through homes of all kinds.

    At each the lists, the feed and the log are whole, and the home that was left refuses to serve.
    """
    with _homes(tmp_path, monkeypatch) as homes:
        with opened(tmp_path / "one") as ports:
            clock = Clock(datetime.now(UTC) - timedelta(days=9))
            tenant = tour.take(replace(ports, now=clock, new_id=wiring.identifiers(clock)), clock)
            # What ended since the tour is in none of the lists to compare.
            publication.publish(ports, onboarding.operator(ports, handle="acme"))
            sealing.extend(ports, tenant.id)
            (version, revoked), found = _told(ports, tenant.id), _findings(ports)
            # Authorizers that have not reported since, and roots of the tour, which are nowhere.
            assert {each.remedy.partition(";")[0] for each in found} == {
                "see docs/fleet.md#stragglers",
                "let the roots sign: rescind trust draft, sign, publish",
            }
        for source, target in pairwise(homes):
            _move(shell, source, target)
            with pytest.raises(InvalidSettings, match="was moved"), _at(source):
                pass
            version += 1
            with _at(target) as ports:
                assert _told(ports, tenant.id) == (version, revoked)
                sealing.extend(ports, tenant.id)
                assert _findings(ports) == found


@pytest.mark.slow
def test_a_move_does_not_end_while_the_source_can_change(
    shell: Shell, data: Path, tmp_path: Path
) -> None:
    """F542a, OPS-16: A move is not ended while a server on this machine can change the source."""
    places = ("--from", f"sqlite:{data / 'svc.db'}", "--to", f"sqlite:{tmp_path / 'to/svc.db'}")
    with local_server(data):
        assert shell.run("migrate", *places).code == 0
        refused = shell.run("migrate", *places, "--finish")
        assert refused.code == 1
        assert "SVC_MODE=read-only" in refused.err
        assert "has not ended" in shell.run("doctor", "--data", tmp_path / "to").err
    with local_server(data, settings={"SVC_MODE": "read-only"}):
        ended = shell.run("migrate", *places, "--finish")
    assert ended.code == 0, ended.err


@pytest.mark.slow
def test_a_read_only_server_changes_nothing(data: Path) -> None:
    """F403c, OPS-14: A read-only server answers checks, refuses changes, and publishes nothing."""
    with opened(data) as ports:
        secret = onboarding.mint_admin_key(ports, handle="acme").secret
    before = (data / "svc.db").read_bytes()
    headers = {"Authorization": f"Bearer {secret}"}
    with (
        local_server(data, settings={"SVC_MODE": "read-only"}) as server,
        httpx2.Client(base_url=server.url, headers=headers, trust_env=False) as http,
    ):
        for path in ("/healthz", "/readyz", "/v1/revocations/check?warrant_id=svc_wrt_a"):
            assert http.get(path).status_code == 200, path
        refused = http.post("/v1/revocations", json={"warrant_id": "svc_wrt_a", "reason": "r"})
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "30")
    assert (data / "svc.db").read_bytes() == before
    assert not (data / "blobs/srl").is_dir() or len([*(data / "blobs/srl").rglob("*.json")]) == 1
