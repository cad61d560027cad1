"""Supervisor of a server's processes on one machine: starts, restarts and stops them.

Processes are forked, so the modules that the supervisor has imported share memory (docs/adr/21).
"""

import gc
import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import wait
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Final, NoReturn, Self

from infra.server.board import ProcessStatus

# The seconds before a restart, after the first exit in a row, the second, and so on.
_PAUSES: Final = (0.1, 0.5, 2.0, 10.0, 30.0)
# After this many seconds of running, an exit counts as the first one.
_STEADY_SECONDS: Final = 60.0
# A process without a heartbeat during this many checks is killed.
_LOOK_SECONDS: Final = 5.0
_LOOKS_MAX: Final = 6
# The seconds between checks while the server starts.
_START_SECONDS: Final = 0.02

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_fork: Final = multiprocessing.get_context("fork")

_log = logging.getLogger("rescind")

# The work of a process. It returns soon after end of file on its descriptor.
Work = Callable[[int], None]


def pause_after(ends: int) -> float:
    """Return the seconds to wait before a restart, after this number of exits in a row."""
    return _PAUSES[min(ends, len(_PAUSES)) - 1]


@dataclass(slots=True)
class _Child:
    """A process. If it does not run, it is started at `start_at`."""

    name: str
    work: Work
    process: ForkProcess | None = None
    start_at: float = 0.0
    started_at: float = 0.0
    ends: int = 0
    beats: int = 0
    silent: int = 0

    def schedule_restart(self, now: float) -> float:
        """Schedule the next start. Return the seconds until then."""
        is_steady = now - self.started_at >= _STEADY_SECONDS
        self.ends = 1 if is_steady else self.ends + 1
        pause = pause_after(self.ends)
        self.process, self.start_at = None, now + pause
        return pause

    def is_hung(self, beats: int) -> bool:
        """Return whether the process sent no heartbeat for `_LOOKS_MAX` checks.

        Checks are counted instead of time, because the process stops too while the machine sleeps.
        """
        self.silent = self.silent + 1 if beats == self.beats and beats else 0
        self.beats = beats
        return self.silent >= _LOOKS_MAX


class ProcessSupervisor:
    """Keeps the processes of a server running until the `with` block ends, then stops them.

    Each process has the end of a pipe, so none can outlive this process.
    """

    def __init__(self, board: ProcessStatus) -> None:
        self._board = board
        self._children: list[_Child] = []
        # No bytes are written. The first pipe closes when this process ends, the second to stop
        # others.
        self._server_end, self._server_pipe = os.pipe()
        self._stop_end, self._stop_pipe = os.pipe()
        self._check_at = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Stop all processes, and wait for their work in progress."""
        os.close(self._stop_pipe)
        for child in self._children:
            if child.process is not None:
                child.process.join()

    def start(self, name: str, work: Work) -> None:
        """Start a process. Its name must be on the board."""
        child = _Child(name, work)
        self._children.append(child)
        self._start(child)

    def keep(self) -> NoReturn:
        """Restart processes that exit, until a signal raises an exception."""
        while True:
            self._restart_processes(_LOOK_SECONDS)

    def wait(self, is_so: Callable[[], bool], *, seconds: float) -> None:
        """Supervise until the condition is true, for at most `seconds`."""
        deadline = time.monotonic() + seconds
        while not is_so() and time.monotonic() < deadline:
            self._restart_processes(_START_SECONDS)

    def _restart_processes(self, seconds: float) -> None:
        """Wait for an exit or a due start. Start due processes, and kill hung ones."""
        now = time.monotonic()
        due = [each.start_at for each in self._children if each.process is None]
        running = [each.process.sentinel for each in self._children if each.process is not None]
        wait(running, timeout=max(0.0, min([now + seconds, *due]) - now))
        now = time.monotonic()
        for child in self._children:
            if child.process is None:
                if now >= child.start_at:
                    self._start(child)
            elif (code := child.process.exitcode) is not None:
                name = f"{child.name} (process {child.process.pid})"
                child.process.close()
                self._board.record_exit(child.name)
                pause = child.schedule_restart(now)
                cause = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
                _log.error("%s %s; restarting it in %.1f seconds", name, cause, pause)
        if now >= self._check_at:
            self._check_at = now + _LOOK_SECONDS
            for child in self._children:
                if child.process is not None and child.is_hung(self._board.beats(child.name)):
                    _log.error("%s sends no heartbeat; killing it", child.name)
                    child.process.kill()

    def _start(self, child: _Child) -> None:
        child.started_at, child.beats, child.silent = time.monotonic(), 0, 0
        process = _fork.Process(target=self._run_child, args=(child,), name=child.name)
        # Keeps existing objects in shared memory. The garbage collector would write to them.
        gc.freeze()
        # A signal must not separate the process from its record, or end it before its setup.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            process.start()
            child.process = process
            self._board.record_start(child.name)
        except OSError as error:
            # The machine lacks resources for another process right now.
            pause = child.schedule_restart(child.started_at)
            _log.error("%s cannot start: %s; retrying in %.1f seconds", child.name, error, pause)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def _run_child(self, child: _Child) -> None:
        """Run the work of a process."""
        os.close(self._server_pipe)
        os.close(self._stop_pipe)
        # A terminal and systemd signal all processes, but only the supervisor stops the others.
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        threading.Thread(target=self._end_with_server, name="alive", daemon=True).start()
        with suppress(OSError):
            # Shows distinct process names in `ps` and `top`.
            Path("/proc/self/comm").write_text(f"rescind-{child.name}"[:15])
        try:
            child.work(self._stop_end)
        except Exception:  # noqa: BLE001 (without this, a traceback would be no line of the log)
            _log.exception("%s failed", child.name)
            sys.exit(1)

    def _end_with_server(self) -> None:
        os.read(self._server_end, 1)
        os._exit(1)
