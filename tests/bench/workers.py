"""Requests a second of the local server with two workers, beside one.

wrk asks with kept connections. It shares the machine's cores with the workers, so the requests for
each second of a core are told as well: if these are as many with two workers as with one, nothing
but cores limits them.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tests.bench.measure import alternate
from tests.bench.report import Row, compared, progress
from tests.bench.scratch import scratch
from tests.bench.server import CHECK, SCRIPT, SIGNED, callers, rate
from tests.processes import HOST, LocalServer, local_server

_ROUNDS: Final = 9
_CONNECTIONS: Final = 8
# Each may make a thousand requests a second.
_TENANTS: Final = 8
_PER_CORE: Final = os.sysconf("SC_CLK_TCK")


class _Side:
    """A server under load, and the processor time that its workers took for it."""

    def __init__(self, server: LocalServer, path: str, script: Path, seconds: int) -> None:
        self._server, self._script, self._seconds = server, script, seconds
        self._url = f"http://{HOST}:{server.port}{path}"
        self.of_a_core: list[float] = []

    def __call__(self) -> float:
        """Requests a second."""
        before = self._processor_seconds()
        found = rate(self._url, self._script, self._seconds, connections=_CONNECTIONS)
        taken = self._processor_seconds() - before
        self.of_a_core.append(found * self._seconds / taken)
        return found

    def _processor_seconds(self) -> float:
        taken = 0
        for process in self._server.serving():
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
            taken += int(fields[11]) + int(fields[12])
        return taken / _PER_CORE


def run(*, seconds: int = 1, rounds: int = _ROUNDS) -> Iterator[Row]:
    """Checks, and lists that did not change."""
    if shutil.which("wrk") is None:
        yield Row.missing("two workers", "no wrk on PATH")
        return
    with scratch() as folder, ExitStack() as stack:
        servers = []
        for workers in (2, 1):
            data = folder / f"data{workers}"
            script = folder / f"callers{workers}.lua"
            script.write_text(SCRIPT % ", ".join(callers(data, _TENANTS)))
            server = stack.enter_context(
                local_server(data, "--log-level", "warning", workers=workers)
            )
            servers.append((server, script))
        for name, path in (("check", CHECK), ("signed list, 304", SIGNED)):
            progress(f"two workers, {name}")
            two, one = (_Side(server, path, script, seconds) for server, script in servers)
            figures = alternate(two, one, rounds=rounds)
            said = f"two workers, {name}"
            yield compared(
                said, figures[0], "one worker", figures[1], unit=("requests/s", 1.0), goal="≥ 1.5"
            )
            yield compared(
                f"{said}, for each second of a core",
                two.of_a_core,
                "one worker",
                one.of_a_core,
                unit=("requests", 1.0),
                goal="≥ 0.75",
            )
