"""The processes of a server on one machine: started again if they end, and ended together."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx2
import pytest

from infra.server import processes as local_processes
from infra.server.board import ProcessStatus
from infra.server.processes import ProcessSupervisor, pause_after
from shared.operations.base import tenants
from shared.operations.lists import in_force
from tests.infra.folders import opened
from tests.kit.processes import HOST, LocalServer, children, free_port, local_server
from tests.kit.waiting import soon

# Those tests that fork this process do little in the new one.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")


def test_pauses_begin_short_and_end_long() -> None:
    """F556a: A process that ends is started again at once, and more slowly if it ends again."""
    pauses = [pause_after(ends) for ends in range(1, 10)]
    assert pauses[0] <= 0.1
    assert pauses == sorted(pauses)
    assert pauses[-1] == pauses[-2] == 30


class Told:
    """What a process does, written to a file: its identifier, at each start."""

    def __init__(self, folder: Path, then: Callable[[int], None]) -> None:
        self._file, self._then = folder / "starts", then

    def __call__(self, stop: int) -> None:
        with self._file.open("a") as file:
            file.write(f"{os.getpid()}\n")
        self._then(stop)

    def starts(self) -> list[int]:
        return list(map(int, self._file.read_text().split())) if self._file.exists() else []


def _until_stopped(stop: int) -> None:
    os.read(stop, 1)


def _fail(_stop: int) -> None:
    raise RuntimeError("no")


@contextmanager
def _running(work: Callable[[int], None]) -> Iterator[tuple[ProcessSupervisor, ProcessStatus]]:
    board = ProcessStatus(["worker 1"])
    with ProcessSupervisor(board) as processes:
        processes.start("worker 1", work)
        yield processes, board


def test_what_ends_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """F556b: A process that ends by itself is started again, and the log says how it ended."""
    monkeypatch.setattr(local_processes, "_PAUSES", (0.0,))
    told = Told(tmp_path, _fail)
    with _running(told) as (processes, board):
        processes.wait(lambda: len(told.starts()) > 3, seconds=60)
        assert board.ends("worker 1") >= 3
    assert len(set(told.starts())) > 3
    assert "ended with code 1; restarting it" in caplog.text


def test_what_does_not_go_on_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """F556c: A process that does not go on for some looks is killed and started again."""
    monkeypatch.setattr(local_processes, "_PAUSES", (0.0,))
    monkeypatch.setattr(local_processes, "_LOOK_SECONDS", 0.01)
    told = Told(tmp_path, _until_stopped)
    with _running(told) as (processes, board):
        processes.wait(lambda: bool(told.starts()), seconds=60)
        # It never said that it goes on: it may still be starting.
        processes.wait(lambda: False, seconds=0.3)
        assert len(told.starts()) == 1
        board.record_heartbeat("worker 1")
        processes.wait(lambda: len(told.starts()) > 1, seconds=60)
        assert board.beats("worker 1") == 0
    assert "worker 1 sends no heartbeat" in caplog.text
    assert "ended by signal 9" in caplog.text


def test_a_machine_without_room_for_a_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """F556h: If a process cannot be started, that is logged and tried again; the others go on."""
    monkeypatch.setattr(local_processes, "_PAUSES", (0.0,))
    failures, fork = [OSError(11, "no room")] * 2, os.fork

    def refuse() -> int:
        if failures:
            raise failures.pop()
        return fork()

    monkeypatch.setattr(os, "fork", refuse)
    told = Told(tmp_path, _until_stopped)
    with _running(told) as (processes, board):
        assert board.down() == ["worker 1"]
        processes.wait(lambda: bool(told.starts()), seconds=60)
        assert board.down() == []
    assert "worker 1 cannot start" in caplog.text


def test_a_stop_waits_for_what_is_under_way(tmp_path: Path) -> None:
    """F556d: A stop ends each process after what it does; signals to it are not for it."""

    def finish(stop: int) -> None:
        for each in (signal.SIGINT, signal.SIGTERM):
            os.kill(os.getpid(), each)
        _until_stopped(stop)
        (tmp_path / "finished").touch()

    told = Told(tmp_path, finish)
    with _running(told) as (processes, _):
        processes.wait(lambda: bool(told.starts()), seconds=60)
    assert (tmp_path / "finished").exists()


def _identifiers(server: LocalServer) -> dict[str, int]:
    """The processes of a server; of workers, the one that is named last."""
    return dict(children(server.process.pid))


def _is_gone(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"


def _is_told(data: Path, warrant_id: str) -> bool:
    """Whether an entry has it, or more than one: a publisher may die before it removes the mark."""
    with opened(data) as ports:
        tenant_id = tenants.identifier(ports, "local")
        head = in_force.read_feed_head(ports, tenant_id)
        entries = in_force.read_entries(
            ports, tenant_id, after=0, until=head.sequence if head else 0
        )
        return any(warrant_id.encode() in each.entry for each in entries)


@pytest.mark.slow
def test_each_process_may_be_killed(tmp_path: Path) -> None:
    """F556e: After the death of any process the server answers and publishes by itself."""
    data, ops = tmp_path / "data", f"{HOST}:{free_port()}"
    with local_server(data, "--ops-address", ops) as server:
        headers = {"Authorization": f"Bearer {server.admin_key}"}
        for number, name in enumerate(("rescind-publish", "rescind-worker", "rescind-ops"), 1):
            before = _identifiers(server)[name]
            os.kill(before, signal.SIGKILL)
            soon(lambda name=name, before=before: _identifiers(server).get(name, before) != before)  # type: ignore[misc]
            body = {"warrant_id": f"svc_wrt_{number}", "reason": "test"}
            asked = httpx2.post(
                f"{server.url}/v1/revocations", json=body, headers=headers, timeout=30
            )
            assert asked.status_code == 201
            soon(partial(_is_told, data, body["warrant_id"]))
        soon(partial(_is_healthy, ops))
        assert server.interrupt() == 0


def _is_healthy(address: str) -> bool:
    try:
        return httpx2.get(f"http://{address}/healthz").status_code == 200
    except httpx2.TransportError:
        return False


def test_nothing_outlives_the_first_process(tmp_path: Path) -> None:
    """F556f: If the first process is killed, none answers or publishes, and the port is free."""
    with local_server(tmp_path / "data") as server:
        others = list(_identifiers(server).values())
        assert len(others) == 2
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
        soon(lambda: all(map(_is_gone, others)))
        port = server.port
    with local_server(tmp_path / "data", port=port) as server:
        assert _is_healthy(f"{HOST}:{port}")


@pytest.mark.parametrize(("how", "workers"), [(signal.SIGINT, 1), (signal.SIGTERM, 2)])
def test_a_signal_to_the_first_process_stops_all(
    tmp_path: Path, how: signal.Signals, workers: int
) -> None:
    """F556g: SIGINT and SIGTERM end all processes in order, also with an idle connection."""
    with (
        local_server(tmp_path / "data", workers=workers) as server,
        httpx2.Client(base_url=server.url) as idle,
    ):
        assert idle.get("/").status_code == 401
        others = [pid for _, pid in children(server.process.pid)]
        server.process.send_signal(how)
        assert server.process.wait(timeout=60) == 0
        assert all(map(_is_gone, others))
        said = server.output.read_text()
        assert said.endswith(f"Stopped; the data is in {server.data}\n")
        assert "Traceback" not in said
