"""PostgreSQL with a standby under Patroni and etcd, as an operator runs it, on this machine."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import httpx2

from tests.kit import postgresql
from tests.kit.postgresql import USER, execute
from tests.kit.processes import HOST, Group, children, free_port
from tests.kit.waiting import soon

PACKAGES: Final = ("patroni", "etcd-server", "postgresql")
TTL_SECONDS: Final = 20
# Only what hangs takes so long, on a busy machine too.
_LONG: Final = 180.0


def missing() -> str:
    """What is not installed of what the cluster needs; empty if all of it is."""
    names = {"patroni": shutil.which("patroni"), "etcd-server": shutil.which("etcd")}
    lacking = [name for name, found in names.items() if found is None]
    return ", ".join(lacking + ([] if postgresql.of_debian() else ["postgresql"]))


def install() -> None:
    """Install it from Debian if this is root there; otherwise, or if that fails, do nothing."""
    if os.getuid() != 0 or shutil.which("apt-get") is None:
        return
    command = ["apt-get", "--quiet", "--yes", "-o", "Acquire::http::Timeout=20"]
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for step in (["update"], ["install", "--no-install-recommends", *PACKAGES]):
        subprocess.run([*command, *step], env=environment, capture_output=True, check=False)


@dataclass
class Node:
    """A PostgreSQL and its Patroni."""

    name: str
    folder: Path
    etcd: int
    port: int = field(default_factory=free_port)
    rest: int = field(default_factory=free_port)

    def __post_init__(self) -> None:
        self.folder.mkdir()
        config = self.folder / "patroni.json"
        config.write_text(json.dumps(self._config()), encoding="utf-8")
        command = ["patroni", str(config)]
        if os.getuid() == 0:
            # PostgreSQL does not run as root.
            shutil.chown(self.folder, USER)
            command = ["setpriv", "--reuid", USER, "--clear-groups", *command]
        self.group = Group(command, self.folder / "log", self.answers)

    def answers(self) -> bool:
        """Whether it is a member of the cluster that works."""
        return self._status("health") == HTTPStatus.OK

    def is_primary(self) -> bool:
        """Whether it is the primary."""
        return self._status("primary") == HTTPStatus.OK

    def is_synchronous(self) -> bool:
        """Whether it is the standby that has each acknowledged write."""
        return self._status("synchronous") == HTTPStatus.OK

    def _status(self, path: str) -> int:
        with suppress(httpx2.TransportError):
            return httpx2.get(f"http://{HOST}:{self.rest}/{path}", timeout=5).status_code
        return 0

    def kill(self) -> None:
        """Let neither Patroni nor PostgreSQL run another instruction."""
        self.group.kill()
        with suppress(OSError):
            first, *_ = (self.folder / "data/postmaster.pid").read_text().splitlines()
            # Each process of PostgreSQL is the leader of a group.
            for process in (int(first), *(pid for _, pid in children(int(first)))):
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            soon(lambda: not Path(f"/proc/{first}").exists(), seconds=_LONG)

    def _config(self) -> dict[str, Any]:
        times = {"ttl": TTL_SECONDS, "loop_wait": 5, "retry_timeout": 5}
        return {
            "scope": "rescind",
            "name": self.name,
            "etcd3": {"host": f"{HOST}:{self.etcd}"},
            "restapi": {"listen": f"{HOST}:{self.rest}", "connect_address": f"{HOST}:{self.rest}"},
            "bootstrap": {
                "dcs": times
                | {
                    "synchronous_mode": True,
                    "maximum_lag_on_failover": 0,
                    "postgresql": {"use_pg_rewind": True},
                },
                "initdb": [{"encoding": "UTF8"}, "no-locale", "data-checksums"],
            },
            "postgresql": {
                "listen": f"{HOST}:{self.port}",
                "connect_address": f"{HOST}:{self.port}",
                "data_dir": str(self.folder / "data"),
                "bin_dir": str(postgresql.of_debian()),
                "pgpass": str(self.folder / "pgpass"),
                "authentication": {
                    "replication": {"username": "standby"},
                    "superuser": {"username": "owner"},
                },
                "parameters": {"unix_socket_directories": str(self.folder)},
                "pg_hba": [
                    f"host all all {HOST}/32 trust",
                    f"host replication all {HOST}/32 trust",
                    "local all all trust",
                ],
            },
        }


@dataclass
class Cluster:
    """The nodes; `url` is a database on the primary, whichever that is."""

    nodes: list[Node]

    @property
    def url(self) -> str:
        hosts = ",".join(f"{HOST}:{each.port}" for each in self.nodes)
        return f"postgresql://owner@{hosts}/rescind?target_session_attrs=read-write"

    def primary(self, *, but: Node | None = None) -> Node:
        """The primary, once there is one that is not `but`."""
        nodes = [each for each in self.nodes if each is not but]
        return soon(lambda: next(filter(Node.is_primary, nodes), None), seconds=_LONG)

    def settle(self) -> Node:
        """Wait until a standby has each acknowledged write, and return the primary."""
        soon(lambda: any(map(Node.is_synchronous, self.nodes)), seconds=_LONG)
        return self.primary()


@contextmanager
def cluster(nodes: int = 2) -> Iterator[Cluster]:
    """A cluster with an empty database `rescind`; it is gone at the end."""
    folder = Path(tempfile.mkdtemp(prefix="rescind-failover-"))
    folder.chmod(0o755)
    etcd, port = _etcd(folder)
    found = Cluster([Node(f"node{each}", folder / f"node{each}", port) for each in range(nodes)])
    try:
        etcd.start()
        for each in found.nodes:
            each.group.start()
            found.primary()
        primary = found.settle()
        execute(f"postgresql://owner@{HOST}:{primary.port}/postgres", "CREATE DATABASE rescind")
        yield found
    finally:
        for node in found.nodes:
            node.kill()
        etcd.kill()
        shutil.rmtree(folder, ignore_errors=True)


def _etcd(folder: Path) -> tuple[Group, int]:
    port, peers = free_port(), f"http://{HOST}:{free_port()}"
    address = f"http://{HOST}:{port}"
    command = ["etcd", "--name", "etcd", "--data-dir", str(folder / "etcd")]
    command += ["--listen-client-urls", address, "--advertise-client-urls", address]
    command += ["--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers]
    command += ["--initial-cluster", f"etcd={peers}", "--unsafe-no-fsync"]
    return Group(command, folder / "etcd.log", lambda: _is_healthy(address)), port


def _is_healthy(etcd: str) -> bool:
    with suppress(httpx2.TransportError):
        return httpx2.get(f"{etcd}/health", timeout=5).status_code == HTTPStatus.OK
    return False
