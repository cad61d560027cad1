"""Requests a second of the local server, beside a bare application under the same settings.

wrk asks; server and wrk share the machine's cores, on both sides alike.
"""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http import HTTPStatus
from pathlib import Path

from infra import data_folder
from shared.operations.operator import onboarding
from shared.operations.srl import in_force
from tests.bench.measure import Side, alternate
from tests.bench.report import NotMeasured, Row, compared, progress
from tests.bench.scratch import scratch
from tests.bench.worker import HELLO_PATH
from tests.infra.folders import opened
from tests.processes import HOST, Group, answers, free_port, local_server

# Enough that none comes near its rate limit; each leases tokens of its own, with a write each time.
_TENANTS = 4
CHECK = "/v1/revocations/check?warrant_id=svc_wrt_none"
SIGNED = "/v1/revocations/srl/signed"

# Each request has the next tenant's key, and with it the entity tag of that tenant's list.
SCRIPT = """
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


def run(*, seconds: int = 1, rounds: int = 27) -> Iterator[Row]:
    """Checks and lists that did not change, against a hello."""
    if shutil.which("wrk") is None:
        yield Row.missing("local server", "no wrk on PATH")
        return
    with scratch() as folder, ExitStack() as stack:
        (folder / "callers.lua").write_text(SCRIPT % ", ".join(callers(folder / "data", _TENANTS)))
        ours = stack.enter_context(local_server(folder / "data")).port
        bare = stack.enter_context(_bare(folder / "bare.log"))

        def side(port: int, path: str) -> Side:
            return lambda: rate(f"http://{HOST}:{port}{path}", folder / "callers.lua", seconds)

        for name, path in (("check", CHECK), ("signed list, 304", SIGNED)):
            progress(f"local server, {name}")
            figures = alternate(side(ours, path), side(bare, HELLO_PATH), rounds=rounds)
            said, against = f"local server, {name}", "bare FastAPI, same uvicorn"
            unit = ("requests/s", 1.0)
            yield compared(said, figures[0], against, figures[1], unit=unit, goal="≥ 0.5")


def callers(data: Path, tenants: int) -> Iterator[str]:
    """The headers of a caller of each of so many new tenants, as Lua has them."""
    data_folder.prepare(data)
    with opened(data) as ports:
        for number in range(tenants):
            settings, key = onboarding.create_tenant(ports, handle=f"bench{number}")
            etag = in_force.head(ports, settings.tenant_id).form().etag
            yield f"{{Authorization = 'Bearer {key.secret}', ['If-None-Match'] = '{etag}'}}"


@contextmanager
def _bare(log: Path) -> Iterator[int]:
    """The bare application, served as infra/local_server.py serves; its port."""
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "tests.bench.bare:app", "--port", str(port)]
    command += ["--host", HOST, "--workers", "1", "--log-level", "warning", "--lifespan", "off"]
    command += ["--ws", "none", "--no-proxy-headers", "--no-server-header"]
    server = Group(command, log, lambda: answers(port, HTTPStatus.NOT_FOUND))
    server.start()
    try:
        yield port
    finally:
        server.kill()


def rate(url: str, script: Path, seconds: int, *, connections: int = 2) -> float:
    """Requests a second over kept connections, which begin anew with each call.

    Raises `NotMeasured` where one of them failed or was refused.
    """
    load = ["--threads", "2", "--connections", str(connections), "--duration", str(seconds)]
    done = subprocess.run(
        ["wrk", *load, "--script", str(script), url], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise NotMeasured(done.stderr)
    requests, microseconds, failed = map(int, done.stdout.splitlines()[-1].split())
    if failed or not requests:
        raise NotMeasured(f"{failed} of {requests} requests to {url} failed")
    return requests / microseconds * 1e6
