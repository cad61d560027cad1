"""`rescind backup`, `restore`, `tenant …` and `migrate`, typed by an operator."""

import json
from datetime import timedelta
from pathlib import Path

import httpx2
import pytest

from shared import wiring
from shared.operations.base import operation
from shared.operations.operator import onboarding
from tests.infra.cli.conftest import Shell
from tests.infra.folders import opened
from tests.kit.processes import local_server


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
    assert "Created and verified" in ended.err
    assert "The backup contains the wrapping key" in ended.err
    assert "lacks the wrapping key" not in ended.err
    ended = shell.run("backup", tmp_path / "tuesday", "--data", data)
    assert "The backup lacks the wrapping key" in ended.err
    assert "The backup contains the wrapping key" not in ended.err
    assert shell.run("backup", made, "--data", data).code == 1
    ended = shell.run("restore", made, "--data", new)
    assert ended.code == 0, ended.err
    assert f"rescind recover acme --data {new}" in ended.err
    ended = shell.run("recover", "acme", "--data", new)
    assert ended.code == 3, ended.err
    assert "Horizon: revocations and ended keys and accounts until" in ended.err
    assert "Review: active API key" in ended.err
    examined = shell.run("doctor", "--data", new)
    assert (examined.code, "the restore is not reviewed" in examined.err) == (1, True)
    assert shell.run("recover", "acme", "--data", new).code == 3
    assert shell.run("recover", "acme", "--complete-review", "--data", new).code == 0
    assert shell.run("doctor", "--data", new).code == 0
    assert shell.run("restore", made, "--data", new).code == 1
    assert "before-restore-1." in shell.run("restore", made, "--data", new, "--replace").err


def test_a_tenant_is_renamed_and_removed(
    shell: Shell, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F410b, TENANT-6, TENANT-7: An operator renames, keeps, exports and removes a tenant."""
    at = ("--data", data)
    assert shell.run("tenant", "rename", "acme", "acme-2", *at).code == 0
    shown = shell.json("tenant", "show", "acme", *at)
    assert (shown["name"], shown["api_keys"], shown["delete_after"]) == ("acme-2", 1, None)
    assert shell.run("tenant", "schedule-delete", "acme-2", "--grace", "1h", *at).code == 2
    assert shell.run("tenant", "schedule-delete", "acme-2", *at).code == 0
    assert shell.run("tenant", "cancel-delete", "acme-2", *at).code == 0
    assert shell.json("tenant", "schedule-delete", "acme-2", "--grace", "1d", *at)["delete_after"]
    remove = ("tenant", "purge", "acme-2", *at)
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


def test_data_is_migrated(
    shell: Shell, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F410c, OPS-16: An operator moves data to another store, which is then in charge."""
    monkeypatch.setattr(operation, "PACING", operation.RetryPacing(sleep=lambda _seconds: None))
    places = ("--from", f"sqlite:{data / 'svc.db'}", "--to", f"sqlite:{tmp_path / 'to/svc.db'}")
    begun = shell.run("migrate", *places)
    assert begun.code == 0, begun.err
    assert "RESCIND_MODE=read-only" in begun.err
    refused = shell.run("doctor", "--data", tmp_path / "to")
    assert refused.code == 2
    assert "is not complete" in refused.err
    ended = shell.run("migrate", *places, "--finish")
    assert ended.code == 0, ended.err
    assert "acme: published version 2" in ended.err
    assert "was migrated" in shell.run("doctor", "--data", data).err
    assert shell.run("doctor", "--data", tmp_path / "to").code == 0
    incomplete = shell.run("migrate", *places[:2], "--to", "dynamodb:rescind-prod-")
    assert incomplete.code == 2
    assert "requires blobs and a wrapping key" in incomplete.err


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
        assert "RESCIND_MODE=read-only" in refused.err
        assert "is not complete" in shell.run("doctor", "--data", tmp_path / "to").err
    with local_server(data, settings={"RESCIND_MODE": "read-only"}):
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
        local_server(data, settings={"RESCIND_MODE": "read-only"}) as server,
        httpx2.Client(base_url=server.url, headers=headers, trust_env=False) as http,
    ):
        for path in ("/healthz", "/readyz", "/v1/revocations/check?warrant_id=svc_wrt_a"):
            assert http.get(path).status_code == 200, path
        refused = http.post("/v1/revocations", json={"warrant_id": "svc_wrt_a", "reason": "r"})
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "30")
    assert (data / "svc.db").read_bytes() == before
    assert not (data / "blobs/srl").is_dir() or len([*(data / "blobs/srl").rglob("*.json")]) == 1
