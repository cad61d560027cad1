"""One side of a comparison in a process of its own.

The worker runs `serve({"hello": call})` with the calls that it offers. Whoever measures holds a
`Worker` and asks it to repeat one of them.
"""

import copy
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any, Final

from tests.bench.report import NotMeasured
from tests.kit.processes import ROOT

HELLO_PATH: Final = "/v1/hello"
_EVENT: Final = ROOT / "infra" / "sam" / "events" / "http_api.json"
_OK: Final = 200

Answer = Mapping[str, Any]


def hello_event() -> dict[str, Any]:
    """API Gateway's event for the least that a framework can be asked."""
    event: dict[str, Any] = json.loads(_EVENT.read_text())
    event["rawPath"] = event["requestContext"]["http"]["path"] = HELLO_PATH
    return event


def call_of(
    handler: Callable[[dict[str, Any], Any], Answer], event: dict[str, Any], *, status: int = _OK
) -> Callable[[], None]:
    """A call of a Lambda handler, which has to answer with this status."""

    def call() -> None:
        answer = handler(copy.copy(event), None)
        if answer["statusCode"] != status:
            raise RuntimeError(f"{event['rawPath']} answered {answer['statusCode']}")

    return call


def serve(
    calls: Mapping[str, Callable[[], None]], *, apart: Callable[[], float] = lambda: 0.0
) -> None:
    """Repeat calls as asked for, and tell the seconds of processor time that one took.

    `apart` gives the seconds so far that are not to count.
    """
    for line in sys.stdin:
        name, times = line.split()
        call = calls[name]
        started = time.process_time() - apart()
        for _ in range(int(times)):
            call()
        seconds = (time.process_time() - apart() - started) / int(times)
        # Not `print`: standard output may be where the service logs to.
        os.write(sys.stderr.fileno(), f"{seconds}\n".encode())


class Worker:
    """A running worker."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def seconds(self, name: str, times: int) -> float:
        """The processor time of one call among so many. Raises `NotMeasured` where it fails."""
        asked, answers = self._pipes()
        asked.write(f"{name} {times}\n")
        asked.flush()
        line = answers.readline()
        try:
            return float(line)
        except ValueError:
            raise NotMeasured(line + answers.read()) from None

    def _pipes(self) -> tuple[IO[str], IO[str]]:
        if self._process.stdin is None or self._process.stderr is None:
            raise RuntimeError("a worker without pipes")
        return self._process.stdin, self._process.stderr


@contextmanager
def worker(module: str, environment: Mapping[str, str]) -> Iterator[Worker]:
    """The worker that `module` is; it is gone at the end."""
    with subprocess.Popen(
        [sys.executable, "-m", module],
        cwd=ROOT,
        env=dict(environment),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Worker(process)
        finally:
            process.kill()
