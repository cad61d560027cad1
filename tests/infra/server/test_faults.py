"""What callers and clients are told while processes, the network or the clock of a server fail.

Each test revokes without end. A client may say STALE at any time, but never CLEAR for a warrant
whose revocation was acknowledged longer ago than its `max_staleness` and five seconds. Afterwards
all recover without a command, and nothing that was acknowledged is lost.
"""

import os
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from itertools import count
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from tests.infra.following import JUMPING, Asked, Server, following, set_clock, soon
from tests.kit.processes import HOST, Group, children, free_port

pytestmark = pytest.mark.slow

# The `max_staleness` of `following`, and what a busy machine may add.
_BOUND: Final = 5 + 5
_CONTROL: Final = "svc_wrt_never_revoked"


class Client:
    """A client in a process of its own, which keeps its floor if it is started again."""

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        self._folder, self._settings = folder, settings
        self.start()

    def start(self) -> None:
        self._open = ExitStack()
        here = following(
            Path(sys.executable), self._folder, package="shared.authorizer", **self._settings
        )
        self._asked: Asked = self._open.enter_context(here)

    @property
    def pid(self) -> int:
        return self._asked.process.pid

    def check(self, warrant_id: str) -> str:
        return self._asked.check(warrant_id)

    def says(self, warrant_id: str, verdict: str) -> bool:
        return self.check(warrant_id) == verdict

    def close(self) -> None:
        self._open.close()


@dataclass
class Watch:
    """Revokes all the time, and holds each client to what was acknowledged."""

    server: Server
    clients: list[Client] = field(default_factory=list)
    acknowledged: dict[str, float] = field(default_factory=dict)
    _names: Iterator[str] = field(default_factory=lambda: map("svc_wrt_{}".format, count()))

    def go_on(self, seconds: float, *, but: Client | None = None) -> None:
        """Revoke and ask for so long; the client `but` cannot be asked."""
        end = time.monotonic() + seconds
        with self.server.caller() as caller:
            while time.monotonic() < end:
                self._revoke(caller)
                for each in self.clients:
                    if each is not but:
                        self._ask(each)

    def _revoke(self, caller: httpx2.Client) -> None:
        body = {"warrant_id": next(self._names), "reason": "a test"}
        try:
            answer = caller.post("/v1/revocations", json=body, timeout=1)
        except httpx2.HTTPError:
            time.sleep(0.1)
            return
        if answer.status_code == HTTPStatus.CREATED:
            self.acknowledged[body["warrant_id"]] = time.monotonic()
        time.sleep(0.1)

    def _ask(self, client: Client) -> None:
        asked = time.monotonic()
        late = [each for each, at in self.acknowledged.items() if asked > at + _BOUND]
        assert "clear" not in {client.check(each) for each in late}
        assert client.check(_CONTROL) in {"clear", "stale"}

    def recovers(self) -> None:
        """Wait until each client says of each warrant what is true; the server does, too."""
        for client in self.clients:
            soon(partial(client.says, _CONTROL, "clear"))
            for each in self.acknowledged:
                soon(partial(client.says, each, "revoked"))
        names = list(self.acknowledged)
        assert names
        for first in range(0, len(names), 1000):
            body = {"warrant_ids": names[first : first + 1000]}
            found = self.server.call("POST", "/revocations/check-batch", **body)["results"]
            assert all(each["revoked"] for each in found.values())


@dataclass
class World:
    """A server, a relay, a client of each; `watch` looks at both clients."""

    server: Server
    relay: Group
    watch: Watch

    def process(self, name: str) -> int:
        """The identifier of a process."""
        if name in {"direct", "relayed"}:
            return self.client(name).pid
        if name == "relay":
            return self.relay.pid
        first = self.server.group.pid
        return first if name == "first" else dict(children(first))[f"rescind-{name}"[:15]]

    def client(self, name: str) -> Client:
        return self.watch.clients[name == "relayed"]

    def start_again(self, name: str) -> None:
        """Start what its operator has to start; the rest does it by itself."""
        if name in {"direct", "relayed"}:
            self.client(name).close()
            self.client(name).start()
        elif name in {"first", "relay"}:
            group = self.relay if name == "relay" else self.server.group
            group.kill()
            group.start()


def _relay(folder: Path, url: str, settings: dict[str, Any]) -> tuple[Group, str]:
    port = free_port()
    command = [sys.executable, "-m", "shared.authorizer", "relay", url, "--state", str(folder)]
    command += ["--listen", f"{HOST}:{port}", "--tenant", settings["tenant"]]
    command += ["--root", settings["trust_root"]]
    address = f"http://{HOST}:{port}"
    environment = {"RESCIND_API_KEY": settings["api_key"]}
    return Group(command, folder.with_suffix(".log"), lambda: _holds(address), environment), address


def _holds(relay: str) -> bool:
    try:
        return httpx2.get(f"{relay}/healthz", timeout=5).status_code == HTTPStatus.OK
    except httpx2.TransportError:
        return False


@contextmanager
def _world(folder: Path, *options: str) -> Iterator[World]:
    with ExitStack() as stack:
        server = Server(folder / "data", *options)
        stack.callback(server.group.kill)
        settings = server.client_settings()
        relay, address = _relay(folder / "relay", server.url, settings)
        stack.callback(relay.kill)
        relay.start()
        clients = []
        for name, url in (("direct", server.url), ("relayed", address)):
            clients.append(Client(folder / name, settings | {"url": url}))
            stack.callback(clients[-1].close)
        world = World(server, relay, Watch(server, clients))
        world.watch.go_on(1)
        yield world


_STOPPED: Final = [("worker", 1), ("publisher", 1), ("first", 2), ("worker", 2), ("publisher", 2)]


@pytest.mark.parametrize(("name", "workers"), [*_STOPPED, ("relay", 1), ("direct", 1)])
def test_a_process_that_stands_still(tmp_path: Path, name: str, workers: int) -> None:
    """FEED-12, F559a: While any process stands still, no client trusts a warrant for too long."""
    with _world(tmp_path, "--workers", str(workers)) as world:
        stopped = world.process(name)
        os.kill(stopped, signal.SIGSTOP)
        try:
            world.watch.go_on(_BOUND + 3, but=world.client(name) if name == "direct" else None)
        finally:
            os.kill(stopped, signal.SIGCONT)
        world.watch.recovers()


@pytest.mark.parametrize("workers", [1, 2])
def test_each_process_is_killed_in_turn(tmp_path: Path, workers: int) -> None:
    """F559b: After the death of each process in turn, nothing is lost and all clients recover."""
    with _world(tmp_path, "--workers", str(workers)) as world:
        for name in ("publisher", "worker", "first", "relay", "direct"):
            os.kill(world.process(name), signal.SIGKILL)
            world.watch.go_on(1, but=world.client(name) if name == "direct" else None)
            world.start_again(name)
            world.watch.go_on(1)
            world.watch.recovers()


def test_each_of_two_servers_is_killed(tmp_path: Path) -> None:
    """F559c: Of two servers on one folder, the other one goes on to publish if one is killed."""
    with ExitStack() as stack:
        servers, watches = [], []
        for name in ("one", "two"):
            server = Server(tmp_path / "data")
            stack.callback(server.group.kill)
            settings = server.client_settings() | {"url": server.url}
            client = Client(tmp_path / name, settings)
            stack.callback(client.close)
            servers.append(server)
            watches.append(
                Watch(server, [client], _names=map(f"svc_wrt_{name}_{{}}".format, count()))
            )
        for killed, other in ((0, 1), (1, 0)):
            os.kill(servers[killed].group.pid, signal.SIGKILL)
            watches[other].go_on(2)
            # Its own client has everything, though the publisher was perhaps that of the other.
            watches[other].recovers()
            servers[killed].group.kill()
            servers[killed].group.start()
            watches[killed].acknowledged |= watches[other].acknowledged
            watches[killed].recovers()


class Proxy:
    """Stands between a server and its clients, and spoils what the server says."""

    def __init__(self, port: int) -> None:
        self._port, self._listener = port, socket.create_server((HOST, 0))
        self.fault = ""
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._listener.getsockname()[1]}"

    def close(self) -> None:
        self.fault = ""
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                caller, _ = self._listener.accept()
                try:
                    server = socket.create_connection((HOST, self._port))
                except OSError:
                    caller.close()
                    continue
                for ways in ((caller, server, False), (server, caller, True)):
                    threading.Thread(target=self._pump, args=ways, daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket, spoils: bool) -> None:
        with suppress(OSError), source, target:
            while data := source.recv(65536):
                target.sendall(self._spoiled(data, target) if spoils else data)

    def _spoiled(self, data: bytes, target: socket.socket) -> bytes:
        while self.fault == "stall":
            time.sleep(0.05)
        if self.fault == "reset":
            target.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            raise ConnectionResetError
        if self.fault == "halve":
            target.sendall(data[: len(data) // 2])
            raise ConnectionResetError
        if self.fault == "corrupt":
            place = len(data) * 3 // 4
            return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        return data


@contextmanager
def _through(folder: Path, server: Server, url: str) -> Iterator[Watch]:
    """A client that reaches the server at `url`."""
    client = Client(folder / "client", server.client_settings() | {"url": url})
    try:
        watch = Watch(server, [client])
        watch.go_on(1)
        yield watch
    finally:
        client.close()


@pytest.mark.parametrize("fault", ["stall", "reset", "halve", "corrupt"])
def test_a_network_that_spoils_answers(tmp_path: Path, fault: str) -> None:
    """FEED-12, F559d: A client whose answers stall, break off or change trusts no old state."""
    server = Server(tmp_path / "data")
    proxy = Proxy(int(server.url.rpartition(":")[2]))
    try:
        with _through(tmp_path, server, proxy.url) as watch:
            proxy.fault = fault
            watch.go_on(_BOUND + 3)
            proxy.fault = ""
            watch.recovers()
    finally:
        proxy.close()
        server.group.kill()


@pytest.mark.parametrize("seconds", [-3600, 3600])
def test_a_clock_that_jumps(tmp_path: Path, seconds: int) -> None:
    """F559e: While the clock of the server is wrong by an hour, and after that, nothing is lost."""
    offset = tmp_path / "offset"
    set_clock(offset, 0)
    server = Server(tmp_path / "data", program=("-c", JUMPING, str(offset)))
    try:
        with _through(tmp_path, server, server.url) as watch:
            for each in (seconds, 0):
                set_clock(offset, each)
                watch.go_on(_BOUND + 2)
            watch.recovers()
    finally:
        server.group.kill()
