"""How long a check takes on the local server while another connection asks for something large.

    python -m tests.bench.meanwhile 1000000

measures it with so many revoked warrants, and prints the table for it alone.
"""

import http.client
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles
from typing import Final

from shared.model.callers import Scope
from shared.operations.access import api_keys
from shared.operations.lists import publication
from shared.operations.operator import onboarding
from tests.bench import revoked
from tests.bench.report import NotMeasured, Row, compared, progress, table
from tests.bench.scratch import scratch
from tests.kit.processes import HOST, LocalServer, local_server

_MANY: Final = 100_000
_ENTRIES: Final = 20_000
_ROUNDS: Final = 3
_SECONDS: Final = 3.0
_EACH_SECONDS: Final = 0.025
_MILLISECONDS: Final = ("ms", 1e3)
_OK: Final = 200
_TOO_MANY: Final = 429
_CHECK: Final = "/v1/revocations/check?warrant_id=svc_wrt_none"
_LIST: Final = "/v1/revocations/srl/signed"
_REGENERATE: Final = "/v1/revocations/srl/regenerate"
_POST: Final = 'wrk.method = "POST"\n'


@dataclass(frozen=True)
class _Load:
    """What others ask for meanwhile: over so many connections, again and again."""

    name: str
    path: str
    connections: int = 1
    script: str = ""


@dataclass(frozen=True)
class _TwoTenants:
    """A server with a tenant that has much, and another one whose checks are measured."""

    server: LocalServer
    owner: str
    other: str
    folder: Path
    seconds: float

    def loads(self) -> Iterator[_Load]:
        yield _Load("pages of the audit log", "/v1/audit-logs?limit=100")
        yield _Load("regenerations", _REGENERATE, script=_POST)
        yield _Load("ten downloads", self._address_of_list(), connections=10)

    def _address_of_list(self) -> str:
        """Where the bytes of the list are: its own address, or that of a redirect."""
        connection = http.client.HTTPConnection(HOST, self.server.port)
        with closing(connection):
            connection.request("GET", _LIST, headers={"Authorization": f"Bearer {self.owner}"})
            return connection.getresponse().headers.get("Location", _LIST)

    @contextmanager
    def under(self, load: _Load) -> Iterator[None]:
        """Let wrk ask for it as long as the body takes, and wait until the server is done."""
        script = self.folder / "load.lua"
        script.write_text(load.script)
        asked = ["--threads", "1", "--connections", str(load.connections), "--timeout", "60s"]
        asked += ["--duration", "60s", "--script", str(script)]
        asked += ["--header", f"Authorization: Bearer {self.owner}"]
        with subprocess.Popen(
            ["wrk", *asked, f"{self.server.url}{load.path}"], stdout=subprocess.DEVNULL
        ) as wrk:
            try:
                yield
                if wrk.poll() is not None:
                    raise NotMeasured(f"wrk ended with {wrk.returncode}")
            finally:
                wrk.terminate()
        # What was begun goes on without its caller. One that waits for its turn comes after it.
        while load.script and self._regenerate() == _TOO_MANY:
            time.sleep(0.5)

    def _regenerate(self) -> int:
        return _ask(self.server.port, self.owner, "POST", _REGENERATE)

    def checks(self) -> tuple[float, float]:
        """The median and the 99th percentile, in seconds, of checks that are due at fixed times.

        A check that is late because the one before it was slow counts from when it was due.
        """
        seconds = []
        with closing(http.client.HTTPConnection(HOST, self.server.port, timeout=60)) as connection:
            began = time.perf_counter()
            for number in range(round(self.seconds / _EACH_SECONDS)):
                due = began + number * _EACH_SECONDS
                if (now := time.perf_counter()) < due:
                    time.sleep(due - now)
                elif now > due + 2 * self.seconds:
                    break
                _ask_on(connection, self.other, "GET", _CHECK)
                seconds.append(time.perf_counter() - due)
        percentiles = quantiles(seconds, n=100)
        return percentiles[49], percentiles[98]


def _ask(port: int, secret: str, method: str, path: str) -> int:
    """The status of the answer. Raises `NotMeasured` unless it is 200, or 429."""
    with closing(http.client.HTTPConnection(HOST, port, timeout=60)) as connection:
        return _ask_on(connection, secret, method, path)


def _ask_on(connection: http.client.HTTPConnection, secret: str, method: str, path: str) -> int:
    connection.request(method, path, headers={"Authorization": f"Bearer {secret}"})
    answer = connection.getresponse()
    body = answer.read()
    if answer.status not in (_OK, _TOO_MANY):
        raise NotMeasured(f"{path} answered {answer.status}: {body[:200]!r}")
    return answer.status


@contextmanager
def _two_tenants(folder: Path, number: int, seconds: float) -> Iterator[_TwoTenants]:
    progress(f"{number:,} revoked warrants")
    with revoked.tenant(folder / "data", revoked=number) as tenant:
        ports, operator = tenant.ports, tenant.operator
        revoked.fill_audit_log(folder / "data", ports, operator.tenant_id, min(number, _ENTRIES))
        publication.publish(ports, operator)
        owner = api_keys.create(ports, operator, name="bench", scopes=(Scope.ADMIN,)).secret
        _, other = onboarding.create_tenant(ports, handle="local")
        (folder / "data" / "admin.key").write_text(other.secret)
    with local_server(folder / "data", "--log-level", "warning") as server:
        # The store makes up for entries that were put there past it.
        _ask(server.port, owner, "GET", "/v1/audit-logs")
        yield _TwoTenants(server, owner, other.secret, folder, seconds)


def run(number: int = _MANY, *, rounds: int = _ROUNDS, seconds: float = _SECONDS) -> Iterator[Row]:
    """Checks beside each load, against checks alone, by turns."""
    if shutil.which("wrk") is None:
        yield Row.missing("check meanwhile", "no wrk on PATH")
        return
    with scratch() as folder, _two_tenants(folder, number, seconds) as tenants:
        loads = list(tenants.loads())
        alone: list[tuple[float, float]] = []
        beside: dict[str, list[tuple[float, float]]] = {load.name: [] for load in loads}
        tenants.checks()
        for _ in range(rounds):
            alone.append(tenants.checks())
            for load in loads:
                progress(f"checks during {load.name}")
                with tenants.under(load):
                    beside[load.name].append(tenants.checks())
        for name, figures in beside.items():
            for place, said in enumerate(("p50", "p99")):
                yield compared(
                    f"check during {name} ({number:,}), {said}",
                    [each[place] for each in figures],
                    "check alone",
                    [each[place] for each in alone],
                    unit=_MILLISECONDS,
                )


def main() -> int:
    """Measure one size."""
    print(table(list(run(int(sys.argv[1]), rounds=1))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
