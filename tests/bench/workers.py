"""Requests a second of the local server with two workers, beside one.

wrk asks with kept connections. It shares the machine's cores with the workers, so the requests for
each second of a core are told as well: if these are as many with two workers as with one, nothing
but cores limits them.
"""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from infra import data_folder
from shared.operations.lists import in_force
from shared.operations.operator import onboarding
from tests.bench.measure import alternate, processor_seconds
from tests.bench.report import NotMeasured, Row, compared, progress
from tests.bench.scratch import scratch
from tests.infra.folders import opened
from tests.kit.processes import HOST, LocalServer, local_server

_ROUNDS: Final = 9
_CONNECTIONS: Final = 8
# Each may make a thousand requests a second.
_TENANTS: Final = 8
_CHECK: Final = "/v1/revocations/check?warrant_id=svc_wrt_none"
_SIGNED: Final = "/v1/revocations/srl/signed"

# Each request has the next tenant's key, and with it the entity tag of that tenant's list.
_SCRIPT: Final = """
local callers = {%s}
local next = 0
request = function()
  next = next %% #callers + 1
  return wrk.format("GET", nil, callers[next])
end
done = function(summary, latency, requests)
  local e = summary.errors
  local failed = e.connect + e.read + e.write + e.status + e.timeout
  io.write(string.format("%%d %%d %%d\\n", summary.requests, summary.duration, failed))
end
"""


class _Side:
    """A server under load, and the processor time that its workers took for it."""

    def __init__(self, server: LocalServer, path: str, script: Path, seconds: int) -> None:
        self._server, self._script, self._seconds = server, script, seconds
        self._url = f"http://{HOST}:{server.port}{path}"
        self.of_a_core: list[float] = []

    def __call__(self) -> float:
        """Requests a second."""
        before = self._processor_seconds()
        found = _rate(self._url, self._script, self._seconds)
        taken = self._processor_seconds() - before
        self.of_a_core.append(found * self._seconds / taken)
        return found

    def _processor_seconds(self) -> float:
        return sum(map(processor_seconds, self._server.serving()))


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
            script.write_text(_SCRIPT % ", ".join(_callers(data, _TENANTS)))
            server = stack.enter_context(
                local_server(data, "--log-level", "warning", workers=workers)
            )
            servers.append((server, script))
        for name, path in (("check", _CHECK), ("signed list, 304", _SIGNED)):
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


def _callers(data: Path, tenants: int) -> Iterator[str]:
    """The headers of a caller of each of so many new tenants, as Lua has them."""
    data_folder.prepare(data)
    with opened(data) as ports:
        for number in range(tenants):
            settings, key = onboarding.create_tenant(ports, handle=f"bench{number}")
            etag = in_force.head(ports, settings.tenant_id).form().etag
            yield f"{{Authorization = 'Bearer {key.secret}', ['If-None-Match'] = '{etag}'}}"


def _rate(url: str, script: Path, seconds: int) -> float:
    """Requests a second over kept connections, which begin anew with each call.

    Raises `NotMeasured` if one of them failed or was refused.
    """
    load = ["--threads", "2", "--connections", str(_CONNECTIONS), "--duration", str(seconds)]
    done = subprocess.run(
        ["wrk", *load, "--script", str(script), url], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise NotMeasured(done.stderr)
    requests, microseconds, failed = map(int, done.stdout.splitlines()[-1].split())
    if failed or not requests:
        raise NotMeasured(f"{failed} of {requests} requests to {url} failed")
    return requests / microseconds * 1e6
