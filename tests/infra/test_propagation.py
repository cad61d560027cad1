"""A revocation on its way through a fleet: the real server, real clients, and the command."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from shared.authorizer import AuthorizerClient, Policy
from shared.authorizer.floor import MemoryFloor
from shared.operations.base import tenants
from shared.operations.lists import in_force
from tests.infra.folders import opened
from tests.kit.processes import ROOT, LocalServer, environment, local_server


@dataclass
class World:
    """A server with a tenant, and two authorizers of it that report by themselves."""

    server: LocalServer
    admin: httpx2.Client
    handle: str

    def proof(self, revocation_id: str, query: str = "") -> Any:
        answer = self.admin.get(f"/v1/revocations/{revocation_id}/propagation{query}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def canary(self, *options: str) -> subprocess.CompletedProcess[str]:
        data = ["--data", str(self.server.data)]
        return subprocess.run(
            [sys.executable, "-m", "infra.cli", "canary", self.handle, *options, *data],
            cwd=ROOT,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


def _client(world: World, name: str, tenant_id: str, key: bytes) -> AuthorizerClient:
    client = AuthorizerClient(
        world.server.url,
        api_key=world.server.admin_key,
        tenant=tenant_id,
        public_keys=[key],
        floor=MemoryFloor(),
        policy=Policy(poll_seconds=0.1),
        name=name,
    )
    return client.start()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with ExitStack() as stack:
        server = stack.enter_context(local_server(tmp_path / "data"))
        headers = {"Authorization": f"Bearer {server.admin_key}"}
        admin = stack.enter_context(httpx2.Client(base_url=server.url, headers=headers, timeout=40))
        with opened(server.data) as ports:
            (tenant,) = tenants.directory(ports)
            key = in_force.signer(ports, tenant.tenant_id).public_bytes
        world = World(server, admin, tenant.handle)
        for name in ("north", "south"):
            client = _client(world, name, tenant.tenant_id, key)
            stack.callback(client.close)
        yield world


@pytest.mark.slow
def test_a_revocation_is_followed_until_it_is_complete(world: World) -> None:
    """FLEET-10, FLEET-14, F264c: With the client of the project, a revocation becomes complete.

    An authorizer that does not report keeps it from that, until it is removed.
    """
    body = {"warrant_id": "svc_wrt_stolen", "reason": "stolen"}
    revocation_id = world.admin.post("/v1/revocations", json=body).json()["id"]
    found = world.proof(revocation_id, "?wait=25")
    assert found["complete"], found
    counts = {"registered": 2, "holding": 2, "closed": 0, "unknown": 0, "unproven": 2}
    assert found["authorizers"] == counts
    silent = world.admin.post("/v1/authorizers/register", json={"name": "silent"}).json()["id"]
    found = world.proof(revocation_id, "?wait=1")
    assert (found["complete"], found["stragglers"][0]["name"]) == (False, "silent")
    done = world.canary("--seconds", "3")
    assert (done.returncode, done.stdout) == (1, "")
    assert f"unknown: silent ({silent}) has no entry." in done.stderr
    assert world.admin.delete(f"/v1/authorizers/{silent}").status_code == 204
    assert world.proof(revocation_id)["complete"]
    done = world.canary()
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 20
    (left,) = world.admin.get("/v1/revocations").json()["revocations"]
    assert left["id"] == revocation_id
