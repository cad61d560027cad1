"""The local server as a real process: what `make run` promises to whoever starts and stops it."""

import json
import re
import shutil
import socket
import sqlite3
import stat
from contextlib import closing
from datetime import datetime
from pathlib import Path
from subprocess import CompletedProcess

import httpx2
import pytest

from infra import data_folder
from shared.operations.changes import srl
from shared.operations.operator import onboarding
from tests.infra.folders import opened
from tests.kit import processes
from tests.kit.processes import HOST, free_port, start_in_vain

_SECRET = re.compile(r"svc_[A-Za-z0-9_-]{43}\b")


def test_the_first_start_makes_a_tenant_and_keeps_its_admin_key(tmp_path: Path) -> None:
    """S8: A first start listens on 127.0.0.1 only; its admin key is in a private file, unprinted.

    A start on existing data tells no key and changes nothing.
    """
    with processes.local_server(tmp_path / "data") as server:
        said = server.output.read_text()
        assert str(server.data / "admin.key") in said
        assert not _SECRET.search(said)
        assert _mode(server.data / "admin.key") == 0o600
        assert _mode(server.data / "master.key") == 0o600
        assert _mode(server.data) == 0o700
        assert [key["name"] for key in _api_keys(server)] == ["admin"]
        with pytest.raises(OSError):  # noqa: PT011 (each system has its own words)
            socket.create_connection(("127.0.0.2", server.port), timeout=5)
        assert "TLS" not in said
        before = _key_ids(server), _secrets(server.data)
        assert server.interrupt() == 0
    with processes.local_server(tmp_path / "data") as server:
        assert not _SECRET.search(server.output.read_text())
        assert (_key_ids(server), _secrets(server.data)) == before


def test_an_address_that_others_reach_is_said_to_have_no_tls(tmp_path: Path) -> None:
    """F157a, S8: The start says that there is no TLS if other machines reach the server."""
    with processes.local_server(tmp_path / "data", "--host", "0.0.0.0") as server:
        said = server.output.read_text()
        socket.create_connection(("127.0.0.2", server.port), timeout=5).close()
    assert f"Rescind serves on http://0.0.0.0:{server.port}" in said
    assert "Other machines can reach this address, and there is no TLS" in said


@pytest.mark.parametrize("workers", [1, 2])
def test_each_request_leaves_a_line_with_its_time(tmp_path: Path, workers: int) -> None:
    """F72: an anonymous call is logged by every worker: when, from where, and what came of it."""
    with processes.local_server(tmp_path / "data", workers=workers) as server:
        answer = httpx2.get(f"{server.url}/v1/keys", headers={"Authorization": "Bearer svc_x"})
        assert server.interrupt() == 0
        said = server.output.read_text().splitlines()
    logged = [json.loads(line) for line in said if line.startswith("{")]
    (line,) = [each for each in logged if each.get("request_id") == answer.headers["x-request-id"]]
    assert datetime.fromisoformat(line["time"]).tzinfo is not None
    result = (line["status"], line["outcome"], line["source_ip"], line["Rejected401"])
    assert result == (401, "invalid_api_key", HOST, 1)


def test_a_port_in_use_is_said_before_anything_is_written(tmp_path: Path) -> None:
    """Where the port is taken, the start names it, says what to try, and makes no data folder."""
    with closing(_bind(0)) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        refused = start_in_vain(tmp_path / "data", port=port)
    _assert_refused(refused, f"port {port}", "make run PORT=")
    assert not (tmp_path / "data").exists()


def test_data_without_its_master_key_is_left_alone(tmp_path: Path) -> None:
    """Data whose master key is missing is not opened with a new one: refused, nothing written."""
    (tmp_path / "svc.db").write_bytes(b"data")
    refused = start_in_vain(tmp_path, port=free_port())
    _assert_refused(refused, str(tmp_path / "master.key"), "missing", "Restore")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"svc.db": b"data"}


@pytest.mark.parametrize(
    ("mode", "store", "words"),
    [(0o644, None, ["chmod 600", "master.key"]), (0o600, "no database " * 100, [])],
    ids=["a key open to others", "no database"],
)
def test_files_that_cannot_be_used_are_refused_in_plain_words(
    tmp_path: Path, mode: int, store: str | None, words: list[str]
) -> None:
    """They stop the start with a message, not with a traceback."""
    (tmp_path / "master.key").write_bytes(bytes(32))
    (tmp_path / "master.key").chmod(mode)
    if store:
        (tmp_path / "svc.db").write_text(store)
    _assert_refused(start_in_vain(tmp_path, port=free_port()), *words)


def test_a_damaged_database_is_not_served(tmp_path: Path) -> None:
    """F55a, S6: A server does not start on a damaged `svc.db`."""
    data_folder.prepare(tmp_path)
    with opened(tmp_path) as ports:
        onboarding.create_tenant(ports, handle="local", user="root")
    database = tmp_path / "svc.db"
    with closing(sqlite3.connect(database)) as connection:
        ((page,),) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE type = 'table' AND name = 'keys'"
        )
    content = bytearray(database.read_bytes())
    # The first byte of a page says of what kind it is.
    content[(page - 1) * 4096] = 0
    database.write_bytes(content)
    refused = start_in_vain(tmp_path, port=free_port())
    _assert_refused(refused, "svc.db is damaged", "Restore svc.db", "recover")


@pytest.mark.slow_on("removed", "emptied")
@pytest.mark.parametrize("left", ["admin.key", "lists"])
@pytest.mark.parametrize("loss", ["removed", "emptied", "without its log"])
def test_lost_records_are_not_replaced_by_an_empty_store(
    tmp_path: Path, loss: str, left: str
) -> None:
    """F59a: The server and the commands do not replace lost records by an empty store."""
    data_folder.prepare(tmp_path)
    with opened(tmp_path) as ports:
        if loss == "without its log":
            # Nothing but the schema has left the write-ahead log yet.
            shutil.copy(tmp_path / "svc.db", tmp_path / "old")
        onboarding.create_tenant(ports, handle="local")
        srl.regenerate(ports, onboarding.operator(ports, handle="local"))
    for name in ("svc.db", "svc.db-wal", "svc.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    if loss == "emptied":
        (tmp_path / "svc.db").touch()
    if loss == "without its log":
        (tmp_path / "old").rename(tmp_path / "svc.db")
    if left == "admin.key":
        shutil.rmtree(tmp_path / "blobs")
        (tmp_path / "admin.key").write_text("svc_old\n")
    refused = start_in_vain(tmp_path, port=free_port())
    _assert_refused(refused, "lost or incomplete", "Restore svc.db", "recover")
    if loss != "without its log":
        result = processes.run("-m", "infra.cli", "doctor", "--data", str(tmp_path))
        assert result.returncode == 2
        assert "lost or incomplete" in result.stderr


def _api_keys(server: processes.LocalServer) -> list[dict[str, object]]:
    headers = {"Authorization": f"Bearer {server.admin_key}"}
    answer = httpx2.get(f"{server.url}/v1/api-keys", headers=headers)
    assert answer.status_code == 200, answer.text
    keys: list[dict[str, object]] = answer.json()["api_keys"]
    return keys


def _key_ids(server: processes.LocalServer) -> list[object]:
    return [key["id"] for key in _api_keys(server)]


def _secrets(data: Path) -> list[bytes]:
    return [(data / name).read_bytes() for name in ("admin.key", "master.key")]


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _bind(port: int) -> socket.socket:
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind((HOST, port))
    return bound


def _assert_refused(process: CompletedProcess[str], *words: str) -> None:
    assert process.returncode == 1
    assert process.stderr.startswith("Cannot start:\n")
    assert "Traceback" not in process.stderr
    assert process.stdout == ""
    for word in words:
        assert word in process.stderr
