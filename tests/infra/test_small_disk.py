"""The local server on a disk that is too small for what a loop of regenerations would store."""

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from shared.operations.base import tenants
from shared.operations.lists import in_force
from tests.infra.folders import opened, revoke_many
from tests.kit.processes import LocalServer, local_server

_SECONDS = 5
_REVOKED = 10_000


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 48 MB, in memory."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount a file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.slow
def test_regenerations_in_a_loop_leave_room_for_revocations(small_disk: Path) -> None:
    """F119d: A loop of publications on a small disk leaves room to revoke.

    F120: not even a disk that something else fills to the last byte but what is spared stops it.
    """
    with local_server(small_disk / "data") as server:
        revoke_many(server.data, _REVOKED)
        with _client(server) as http:
            answers = _regenerate(http, seconds=_SECONDS)
            assert answers <= {200, 429}
            _revoke(http, "svc_wrt_in_the_loop")
            # As long as there are old lists, they make room.
            for _ in range(10):
                _fill(small_disk, spared=4 * 1024 * 1024)
                if 503 in _regenerate(http, seconds=0.3):
                    break
            else:
                pytest.fail("the disk is never full")
            for number in range(20):
                _revoke(http, f"svc_wrt_full_{number}")
            (small_disk / "ballast").unlink()
            assert 200 in _regenerate(http, seconds=1)
    with opened(small_disk / "data") as ports:
        tenant_id = tenants.find(ports, "local").tenant_id
        assert in_force.head(ports, tenant_id).count == _REVOKED + 21


def _client(server: LocalServer) -> httpx2.Client:
    headers = {"Authorization": f"Bearer {server.admin_key}"}
    return httpx2.Client(base_url=server.url, headers=headers, timeout=60)


def _regenerate(http: httpx2.Client, *, seconds: float) -> set[int]:
    """Publish again and again; the statuses of the answers."""
    end, answers = time.monotonic() + seconds, set()
    while time.monotonic() < end:
        answers.add(http.post("/v1/revocations/srl/regenerate").status_code)
    return answers


def _revoke(http: httpx2.Client, warrant_id: str) -> None:
    body = {"warrant_id": warrant_id, "reason": "stolen"}
    answer = http.post("/v1/revocations", json=body)
    assert answer.status_code == 201, answer.text


def _fill(disk: Path, *, spared: int) -> None:
    """Take all of the disk but what is spared."""
    free = os.statvfs(disk)
    with (disk / "ballast").open("ab") as file:
        file.write(bytes(free.f_bavail * free.f_frsize - spared))
