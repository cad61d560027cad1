"""The commands of `rescind` in processes that are forked from one that has loaded them.

An interpreter takes half a second of a processor to load the program, and most tests of processes
are about what comes after that. `python -m tests.kit.loaded` loads it, and forks for each request
that it gets on standard input, a socket. Such a process has a session, an environment, arguments
and files of its own, and ends as an interpreter does.

Loaded is only what keeps no state: no ports, no thread, and not the library for metrics, which
reads its folder when it is imported.
"""

import gc
import json
import os
import runpy
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parent.parent.parent
# What commands load to show help.
_HELP: Final = ("rich.markdown", "typer.rich_utils")
# These load the library for metrics.
_OF_METRICS: Final = frozenset({"app", "metrics", "ops"})
_REQUEST_BYTES: Final = 128 * 1024


class Forked:
    """A process that runs `python` with these arguments; the names are those of `Popen`."""

    def __init__(
        self,
        args: Sequence[str],
        environment: dict[str, str],
        files: Sequence[int],
        *,
        umask: int | None = None,
    ) -> None:
        self.args: Any = list(args)
        self.returncode: int | None = None
        self._said, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        request = {"args": self.args, "environment": environment, "umask": umask}
        with its:
            found = [its.fileno(), *files]
            socket.send_fds(_loaded()[0], [json.dumps(request).encode()], found)
        self.pid = self._number()

    def poll(self) -> int | None:
        """The exit code, or None if it runs; below zero is the signal that ended it."""
        with suppress(BlockingIOError):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """The exit code. Raises `TimeoutExpired` after these seconds."""
        if self.returncode is None:
            self._said.settimeout(timeout)
            try:
                self.returncode = self._number()
            except TimeoutError:
                raise subprocess.TimeoutExpired(self.args, timeout or 0) from None
            self._said.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal to it, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def _number(self) -> int:
        return int(self._said.recv(16))


@cache
def _loaded() -> "tuple[socket.socket, subprocess.Popen[bytes]]":
    """Where requests are taken, and the process that takes them, which ends with this one."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with its:
        command = [sys.executable, "-m", "tests.kit.loaded"]
        return ours, subprocess.Popen(command, cwd=ROOT, stdin=its.fileno())


def _load() -> None:
    server = (ROOT / "infra" / "server").glob("[a-z]*.py")
    modules = [each for each in server if each.stem not in _OF_METRICS]
    modules += (ROOT / "infra" / "cli").rglob("[a-z]*.py")
    names = (".".join(each.relative_to(ROOT).with_suffix("").parts) for each in modules)
    for name in (*names, *_HELP):
        import_module(name)
    assert "prometheus_client" not in sys.modules
    assert threading.active_count() == 1
    gc.freeze()


def _requested() -> list[str]:
    """The arguments of a request, in the process that is to run it; no other returns."""
    requests = socket.socket(fileno=os.dup(0))
    while True:
        request, files, *_ = socket.recv_fds(requests, _REQUEST_BYTES, 4)
        if not request:
            os._exit(0)
        if os.fork() == 0:
            requests.close()
            _tell_the_end(*files)
            return _begun(json.loads(request), files[1:])
        for each in files:
            os.close(each)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _tell_the_end(descriptor: int, *files: int) -> None:
    """Fork; say there what the child is and how it ends. Only the child returns."""
    if pid := os.fork():
        for each in (0, 1, 2, *files):
            os.close(each)
        os.write(descriptor, b"%d" % pid)
        _, status = os.waitpid(pid, 0)
        os.write(descriptor, b"%d" % os.waitstatus_to_exitcode(status))
        os._exit(0)
    os.close(descriptor)


def _begun(request: dict[str, Any], files: Sequence[int]) -> list[str]:
    """Let this process be as one that was started so."""
    os.setsid()
    if request["umask"] is not None:
        os.umask(request["umask"])
    os.environ.clear()
    os.environ.update(request["environment"])
    for number, each in enumerate(files):
        os.dup2(each, number)
        os.close(each)
    streams = (os.fdopen(number, mode, closefd=False) for number, mode in enumerate("rww"))
    sys.stdin, sys.stdout, sys.stderr = streams
    return list(request["args"])


if __name__ == "__main__":
    _load()
    sys.argv = _requested()
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
