"""Many callers, several worker processes and sudden death on one data folder."""

import random
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from itertools import chain
from pathlib import Path
from typing import Final

import httpx2
import pytest

from infra import data_folder
from shared.model.audit_log import Action, month
from shared.model.srl import encoding as srl
from shared.model.srl.verification import public_key_bytes, verify
from shared.operations.rules import tenants
from tests.infra.crowd import HANDLE, Crowd
from tests.infra.folders import opened
from tests.infra.published import published_versions
from tests.infra.publisher import check_published, publishing
from tests.processes import HOST, Group, LocalServer, answers, free_port, local_server

_VICTIMS: Final = ["worker"] * 4 + ["server", "publisher"] * 3

# Many processes, or many requests: part of `make test-all`.
pytestmark = pytest.mark.slow


@dataclass
class Callers:
    """Threads that call the server, and what was acknowledged to them.

    Each request comes over a connection of its own, so that any worker may get it.
    """

    attempted: set[str] = field(default_factory=set)
    acknowledged: set[str] = field(default_factory=set)
    versions: list[int] = field(default_factory=list)

    def revoke(self, server: LocalServer, name: str, *, many: int) -> None:
        """Revoke warrants until there are enough, or the server is gone."""
        with _client(server) as http:
            for number in range(many):
                warrant_id = f"svc_wrt_{name}-{number}"
                self.attempted.add(warrant_id)
                body = {"warrant_id": warrant_id, "reason": "stolen"}
                try:
                    answer = http.post("/v1/revocations", json=body)
                except httpx2.TransportError:
                    return
                assert answer.status_code == 201, answer.text
                self.acknowledged.add(warrant_id)

    def regenerate(self, server: LocalServer, *, many: int) -> None:
        """Publish lists, one after the other, until there are enough, or the server is gone."""
        with _client(server) as http:
            for _ in range(many):
                known = len(self.acknowledged)
                try:
                    answer = http.post("/v1/revocations/srl/regenerate")
                except httpx2.TransportError:
                    return
                if answer.status_code == 429:  # more often than a tenant may
                    time.sleep(0.1)
                    continue
                assert answer.status_code == 200, answer.text
                assert answer.json()["revocation_count"] >= known
                self.versions.append(answer.json()["version"])


def test_no_acknowledged_revocation_is_lost_when_the_server_is_killed(tmp_path: Path) -> None:
    """F01: killed in the middle of writes, again and again, it has all that it acknowledged."""
    callers = Callers()
    for turn in range(3):
        with local_server(tmp_path / "data") as server, ThreadPoolExecutor() as pool:
            known = len(callers.acknowledged)
            tasks = [
                pool.submit(callers.revoke, server, f"{turn}-{number}", many=150)
                for number in range(4)
            ]
            tasks.append(pool.submit(callers.regenerate, server, many=150))
            _wait_for(callers, known + 40, tasks)
            server.kill()
        _finish(tasks)
    assert len(callers.acknowledged) < 3 * 4 * 150, "the server was never killed in the middle"
    _check_all(tmp_path / "data", callers, workers=1)


def test_two_workers_lose_nothing_and_publish_no_version_twice(tmp_path: Path) -> None:
    """F03: publications by two processes at once rise by one each, and end with all revocations."""
    callers = Callers()
    with local_server(tmp_path / "data", workers=2) as server:
        with ThreadPoolExecutor() as pool:
            tasks = [
                pool.submit(callers.revoke, server, str(number), many=30) for number in range(5)
            ]
            tasks += [pool.submit(callers.regenerate, server, many=10) for _ in range(3)]
        _finish(tasks)
        assert sorted(callers.versions) == list(range(2, 2 + 30))
        assert callers.acknowledged == callers.attempted
    _check_all(tmp_path / "data", callers, workers=2)


def test_two_workers_killed_together_lose_nothing(tmp_path: Path) -> None:
    """F02: after the death of all workers at once, all that was acknowledged is still there."""
    callers = Callers()
    with local_server(tmp_path / "data", workers=2) as server, ThreadPoolExecutor() as pool:
        tasks = [pool.submit(callers.revoke, server, str(number), many=150) for number in range(4)]
        tasks += [pool.submit(callers.regenerate, server, many=150) for _ in range(2)]
        _wait_for(callers, 60, tasks)
        server.kill()
    _finish(tasks)
    assert len(callers.acknowledged) < 4 * 150, "the server was not killed in the middle"
    _check_all(tmp_path / "data", callers, workers=2)


def test_nothing_acknowledged_is_lost_if_a_process_is_killed(tmp_path: Path) -> None:
    """F01, F03, F31: workers, publisher or all of them killed at random, over and over."""
    data, port = tmp_path / "data", free_port()
    options = ["--port", str(port), "--data", str(data), "--workers", "2"]
    server = Group(
        [sys.executable, "-m", "infra.local_server", *options],
        tmp_path / "server.log",
        lambda: answers(port, HTTPStatus.UNAUTHORIZED),
    )
    with ExitStack() as stack:
        stack.callback(server.kill)
        server.start()
        publisher = publishing(tmp_path, HANDLE, data_folder.environment(data))
        stack.callback(publisher.kill)
        publisher.start()
        crowd = Crowd(f"http://{HOST}:{port}", (data / "admin.key").read_text().strip())
        with crowd.working():
            for victim in random.sample(_VICTIMS, len(_VICTIMS)):
                crowd.wait_for(random.randint(50, 350), lambda crowd: crowd.acknowledged)
                if victim == "worker":
                    server.kill_worker(random.randrange(2))
                else:
                    group = server if victim == "server" else publisher
                    group.kill()
                    group.start()
            crowd.wait_for(100, lambda crowd: crowd.acknowledged)
        publisher.kill()
        print(f"{server.killed + publisher.killed} processes killed, {crowd.figures()}")
        with opened(data) as ports:
            crowd.check(ports)
            check_published(publisher, ports, tenants.find(ports, HANDLE).tenant_id)


def _check_all(data: Path, callers: Callers, *, workers: int) -> None:
    """Everything that tells of revocations agrees, and has all that was acknowledged."""
    with local_server(data, workers=workers) as server, _client(server) as http:
        published = http.post("/v1/revocations/srl/regenerate").json()
        listed, total = _walk(http)
        in_force = _fetch_list(http)
        verdicts = _check(http, callers.attempted)
    assert callers.acknowledged <= set(listed) <= callers.attempted
    assert sorted(listed) == in_force.revoked_ids
    assert len(listed) == total == published["revocation_count"]
    assert published["version"] == in_force.version
    assert {warrant_id for warrant_id, revoked in verdicts.items() if revoked} == set(listed)
    _check_records(data, published["version"], callers, total)


def _check_records(data: Path, version: int, callers: Callers, total: int) -> None:
    with opened(data) as ports:
        tenant_id = tenants.find(ports, "local").tenant_id
        versions = published_versions(ports, tenant_id)
        partitions = month(tenant_id, datetime.now(UTC))
        walks = [list(ports.store.query(each)) for each in partitions]
        entries = sorted(chain.from_iterable(walks), key=lambda entry: entry.sk)
    assert versions == list(range(2, version + 1))
    assert set(callers.versions) <= set(range(2, version))
    assert len(set(callers.versions)) == len(callers.versions)
    actions = [entry.item["action"] for entry in entries]
    assert actions.count(Action.REVOCATION_CREATE.value) == total
    assert actions.count(Action.SRL_REGENERATE.value) == version - 1


def _walk(http: httpx2.Client) -> tuple[list[str], int]:
    warrant_ids: list[str] = []
    params = {"limit": "100"}
    while True:
        page = http.get("/v1/revocations", params=params).json()
        warrant_ids += [record["warrant_id"] for record in page["revocations"]]
        if page["cursor"] is None:
            return warrant_ids, page["total"]
        params["cursor"] = page["cursor"]


def _check(http: httpx2.Client, warrant_ids: set[str]) -> dict[str, bool]:
    wanted = sorted(warrant_ids)
    verdicts: dict[str, bool] = {}
    for start in range(0, len(wanted), 1000):
        body = {"warrant_ids": wanted[start : start + 1000]}
        results = http.post("/v1/revocations/check-batch", json=body).json()["results"]
        verdicts |= {warrant_id: verdict["revoked"] for warrant_id, verdict in results.items()}
    return verdicts


def _fetch_list(http: httpx2.Client) -> srl.Payload:
    signers = http.get("/v1/revocations/srl/keys").json()["keys"]
    key = public_key_bytes(signers[0]["public_key"])
    body = http.get("/v1/revocations/srl/signed").content
    return verify(body, public_key=key, now=datetime.now(UTC))


def _client(server: LocalServer) -> httpx2.Client:
    headers = {"Authorization": f"Bearer {server.admin_key}", "Connection": "close"}
    return httpx2.Client(base_url=server.url, headers=headers, timeout=30)


def _wait_for(callers: Callers, many: int, tasks: list[Future[None]]) -> None:
    deadline = time.monotonic() + 30
    while len(callers.acknowledged) < many:
        assert not any(task.done() for task in tasks), "too few were acknowledged"
        assert time.monotonic() < deadline
        time.sleep(0.005)


def _finish(tasks: list[Future[None]]) -> None:
    for task in tasks:
        task.result()
