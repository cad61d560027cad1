"""The service as processes of their own: started, watched, and always ended.

A process is started as the leader of its own group, so that whatever it starts goes with it and
nothing else does. On Linux the commands of this checkout are forked from a process that has loaded
them (`tests.kit.loaded`).
"""

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Final, Protocol

from tests.kit.loaded import Forked
from tests.kit.surroundings import is_proxy
from tests.kit.waiting import soon

ROOT: Final = Path(__file__).parent.parent.parent
HOST: Final = "127.0.0.1"
_SERVE: Final = ("-m", "infra.cli", "serve")
# Only what hangs takes so long, on a busy machine too.
_START_SECONDS: Final = 120
_STOP_SECONDS: Final = 60


class Process(Protocol):
    """What tests use of a process that was started, whether it was forked or executed."""

    args: Any
    pid: int

    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, number: int, /) -> None: ...


@dataclass(frozen=True)
class LocalServer:
    """A running local server; `output` is the file of all that it prints."""

    process: Process
    data: Path
    port: int
    output: Path

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def admin_key(self) -> str:
        return (self.data / "admin.key").read_text().strip()

    def serving(self) -> list[int]:
        """The identifiers of the processes that answer requests."""
        return _workers(self.process.pid)

    def interrupt(self) -> int:
        """Ctrl-C, which a terminal sends to the whole group; the exit code."""
        os.killpg(self.process.pid, signal.SIGINT)
        return self.process.wait(timeout=_STOP_SECONDS)

    def kill(self) -> None:
        """Let no process of the group run another instruction."""
        _kill(self.process)


@dataclass
class Group:
    """A command that is killed and started again, with all processes that it starts itself.

    It is up once `answers`; whatever it prints is added to `output`.
    """

    command: list[str]
    output: Path
    answers: Callable[[], bool]
    settings: dict[str, str] = field(default_factory=dict)
    killed: int = 0
    _process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it is up."""
        with self.output.open("ab") as log:
            self._process = subprocess.Popen(
                self.command,
                cwd=ROOT,
                env=environment(self.settings),
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        _wait_until(self.answers, self._process, self.output)

    def kill(self) -> None:
        """Let none of its processes run another instruction."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self.killed += 1 + len(self.workers())
        _kill(self._process)

    def end(self) -> int:
        """Tell it to end at once, and wait for its exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(_STOP_SECONDS)

    @property
    def pid(self) -> int:
        """The identifier of the first process."""
        assert self._process is not None
        return self._process.pid

    def kill_worker(self, number: int) -> None:
        """Kill one of the workers, where it has any just now; its parent starts another."""
        if workers := self.workers():
            with suppress(ProcessLookupError):
                os.kill(workers[number % len(workers)], signal.SIGKILL)
                self.killed += 1

    def workers(self) -> list[int]:
        """The identifiers of the worker processes."""
        return _workers(self.pid)


def _kill(first: Process) -> None:
    """Kill a process with its group, and wait until none of them has a file open."""
    if first.poll() is None:
        os.killpg(first.pid, signal.SIGKILL)
    first.wait(timeout=_STOP_SECONDS)
    # Only the first process is waited for by its end; the others end at about the same time.
    soon(lambda: not _running(first.pid), seconds=_STOP_SECONDS)


def _running(group: int) -> list[int]:
    """The processes of a group that have not ended. Those that nobody has waited for have.

    The first thread of a process may have ended before others, which still have its files.
    """
    found = []
    for each in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # After the name: state, parent, group, and later the number of threads.
            state, _, of, *more = each.read_text().rpartition(")")[2].split()
            if int(of) == group and (state not in "XZ" or int(more[14]) > 1):
                found.append(int(each.parent.name))
    return found


def _workers(parent: int) -> list[int]:
    return [child for name, child in children(parent) if name.startswith("rescind-worker")]


def children(parent: int) -> list[tuple[str, int]]:
    """The names and identifiers of the processes that one has started."""
    found = []
    with suppress(OSError):
        for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
            with suppress(OSError):
                found.append((Path(f"/proc/{child}/comm").read_text().strip(), int(child)))
    return found


def _is_up(worker: int) -> bool:
    """Whether the worker has its event loop, and with it its answer to signals."""
    try:
        descriptors = [str(each.readlink()) for each in Path(f"/proc/{worker}/fd").iterdir()]
    except OSError:
        return False
    return "anon_inode:[eventpoll]" in descriptors


@contextmanager
def local_server(
    data: Path,
    *options: str,
    workers: int = 1,
    ready: bool = True,
    open_files: int | None = None,
    settings: dict[str, str] | None = None,
    program: Sequence[str] | None = None,
    cwd: Path = ROOT,
    port: int | None = None,
) -> Iterator[LocalServer]:
    """The real server on the folder `data`, or on the stores of `settings`; it is gone at the end.

    It answers, or, where `ready` is false, has only said that it will. `open_files` is how many
    files each of its processes may have open at once.
    """
    port = port or free_port()
    output = data.with_name(f"{data.name}-{port}.log")
    places = _places(None if "RESCIND_STORE" in (settings or {}) else data, port)
    arguments = [*places, "--workers", str(workers), *options]
    process: Process
    with output.open("wb") as log, Path(os.devnull).open() as nothing:
        # The umask is that of most systems, whatever that of the tests is.
        if program is None and open_files is None and _is_loaded(_SERVE, cwd, settings):
            files = [nothing.fileno(), log.fileno(), log.fileno()]
            process = Forked([*_SERVE[1:], *arguments], environment(settings), files, umask=0o022)
        else:
            process = subprocess.Popen(
                _limited(open_files, [*(program or (sys.executable, *_SERVE)), *arguments]),
                cwd=cwd,
                env=environment(settings),
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                umask=0o022,
            )
    server = LocalServer(process, data, port, output)
    try:
        _wait_until(partial(_answers if ready else _is_coming, server), process, output)
        if ready:
            # One worker may answer while another has hardly begun.
            _wait_until(lambda: all(map(_is_up, _workers(process.pid))), process, output)
        yield server
    finally:
        server.kill()


def start_in_vain(
    data: Path, *options: str, port: int, cwd: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    """What a server says that ends by itself."""
    return run(*_SERVE, *_places(data, port), *options, cwd=cwd)


def serve_in_vain(*options: str, settings: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """What a server says that ends by itself, as these settings make it do."""
    port = str(free_port())
    return run(*_SERVE, "--port", port, *options, settings=settings)


def run(
    *arguments: str,
    settings: dict[str, str] | None = None,
    stdin: str = "",
    seconds: float = _START_SECONDS,
    cwd: Path = ROOT,
) -> subprocess.CompletedProcess[str]:
    """Run Python with these arguments to its end, which must come within `seconds`.

    `cwd` has the source that it runs.
    """
    if _is_loaded(arguments, cwd, settings):
        return _run_loaded(arguments[1:], environment(settings), stdin, seconds)
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=environment(settings),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def _is_loaded(
    arguments: Sequence[str], cwd: Path = ROOT, settings: dict[str, str] | None = None
) -> bool:
    """Whether a process that has loaded the commands of `rescind` can become this one."""
    is_of_python = any(name.startswith("PYTHON") for name in settings or ())
    is_ours = tuple(arguments[:2]) == _SERVE[:2] and cwd == ROOT
    return sys.platform == "linux" and is_ours and not is_of_python


def _run_loaded(
    arguments: Sequence[str], settings: dict[str, str], stdin: str, seconds: float
) -> subprocess.CompletedProcess[str]:
    with TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as said:
        given.write(stdin.encode())
        given.seek(0)
        process = Forked(arguments, settings, [each.fileno() for each in (given, out, said)])
        try:
            process.wait(seconds)
        finally:
            process.send_signal(signal.SIGKILL)
        printed = [
            os.pread(each.fileno(), os.fstat(each.fileno()).st_size, 0) for each in (out, said)
        ]
    return subprocess.CompletedProcess(
        process.args, process.wait(), *(each.decode() for each in printed)
    )


def figures_of(program: str, *, processes: int) -> list[int]:
    """The number that each of some processes prints, which run a program at once."""
    started = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        for _ in range(processes)
    ]
    figures = [int(process.communicate(timeout=120)[0]) for process in started]
    assert [process.returncode for process in started] == [0] * processes
    return figures


def environment(settings: dict[str, str] | None = None) -> dict[str, str]:
    """The environment of a process: nothing of whoever runs the tests leads it anywhere else."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AWS_", "AZURE_", "RESCIND_")) and not is_proxy(name)
    }
    return inherited | (settings or {})


def free_port() -> int:
    """A port for a server, which the kernel gives to nobody else for a minute.

    A connection that its server has closed keeps the port from all who do not name it.
    """
    with socket.create_server((HOST, 0)) as probe:
        port: int = probe.getsockname()[1]
        with socket.create_connection((HOST, port)) as caller:
            probe.accept()[0].close()
            assert caller.recv(1) == b""
    return port


def _places(data: Path | None, port: int) -> list[str]:
    return ["--port", str(port), *(["--data", str(data)] if data else [])]


def _limited(open_files: int | None, command: list[str]) -> list[str]:
    if open_files is None:
        return command
    return ["sh", "-c", f'ulimit -n {open_files} && exec "$@"', "sh", *command]


def _wait_until(is_so: Callable[[], bool], process: Process, output: Path) -> None:
    """Wait until it is so. Fails with what the process printed if it ends, or takes too long."""
    deadline = time.monotonic() + _START_SECONDS
    while not is_so():
        said = output.read_text()
        assert process.poll() is None, f"{process.args!r} has ended: {said}"
        assert time.monotonic() < deadline, f"{process.args!r} does not answer: {said}"
        time.sleep(0.02)


def _is_coming(server: LocalServer) -> bool:
    return "Ctrl-C stops it" in server.output.read_text()


def _answers(server: LocalServer) -> bool:
    return answers(server.port, http.client.UNAUTHORIZED)


def answers(port: int, status: int) -> bool:
    """Whether whoever listens on the port says this to an anonymous caller."""
    connection = http.client.HTTPConnection(HOST, port, timeout=5)
    try:
        connection.request("GET", "/")
        return connection.getresponse().status == status
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
