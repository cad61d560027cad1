"""The client of the wheel of `tenuo` against a running server, with its loop for the list."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any, Final

import httpx2
import pytest

from tests.kit.processes import ROOT, LocalServer, environment, local_server
from tests.kit.waiting import soon

pytestmark = pytest.mark.slow

HEARTBEAT: Final = 1.0

# What docs/signing-keys.md defines for its readers.
_SESSION: Final = """
api() {
  curl -sSL --fail-with-body -w '\\n' -H "Authorization: Bearer $KEY" \
    -H 'Content-Type: application/json' "$@"
}
member() { "$PYTHON" -c "import json, sys; print(json.load(sys.stdin)$1)"; }
"""


@dataclass
class Running:
    """A stock authorizer, and what it said so far."""

    said: list[dict[str, Any]] = field(default_factory=list)

    def of(self, event: str, **members: object) -> list[dict[str, Any]]:
        chosen = {"event": event, **members}
        return [each for each in self.said if chosen.items() <= each.items()]

    def first(self, event: str, **members: object) -> dict[str, Any]:
        soon(lambda: self.of(event, **members), seconds=60)
        return self.of(event, **members)[0]


@contextmanager
def authorizer(control_plane: str, api_key: str, signer: str) -> Iterator[Running]:
    python = ROOT / ".tools/tenuo/bin/python"
    assert python.exists(), f"{python} is missing; `make test-slow` installs it"
    command = [str(python), str(ROOT / "tests/tools/tenuo_peer.py"), "authorizer"]
    running = Running()
    with subprocess.Popen(
        [*command, control_plane, api_key, signer, str(HEARTBEAT)],
        stdout=subprocess.PIPE,
        text=True,
        stderr=subprocess.STDOUT,
    ) as process:
        assert process.stdout is not None

        def read(lines: Iterator[str]) -> None:
            for line in lines:
                is_ours = line.startswith("{")
                running.said.append(json.loads(line) if is_ours else {"event": "log", "line": line})

        reader = Thread(target=read, args=(iter(process.stdout),))
        reader.start()
        try:
            yield running
        finally:
            process.terminate()
            reader.join()


def test_a_stock_authorizer_refuses_a_revoked_warrant(tmp_path: Path) -> None:
    """NATIVE-4, NATIVE-6, F279a: A stock authorizer refuses a warrant after its next heartbeat.

    The client of the wheel registers, beats and sends events that verify. The warrants of others
    stay allowed.
    """
    with local_server(tmp_path / "data", "--log-level", "info") as server:
        headers = {"Authorization": f"Bearer {server.admin_key}"}
        admin = httpx2.Client(base_url=server.url, headers=headers, timeout=30, verify=False)
        with authorizer(*_as_documented(server)) as stock:
            warrants = stock.first("registered")["warrants"]
            stock.first("decision", warrant="0", decision="allowed")
            for name in "01234":
                _revoke(admin, warrants[name])
                stock.first("decision", warrant=name, decision="RevokedError")
            assert not stock.of("decision", warrant="5", decision="RevokedError")
            assert stock.of("decision", warrant="5", decision="allowed")
            found = admin.get("/v1/authorizers").json()["authorizers"]
            assert [(each["id"], each["name"]) for each in found] == [
                (stock.first("registered")["id"], "stock")
            ]
            soon(_counted(server.output), seconds=60)
            assert not stock.of("log"), stock.of("log")
        admin.close()


def _revoke(admin: httpx2.Client, warrant_id: str) -> None:
    """Revoke a warrant of `tenuo`."""
    ours = warrant_id.replace("tnu_wrt_", "svc_wrt_")
    answer = admin.post("/v1/revocations", json={"warrant_id": ours, "reason": "stolen"})
    assert answer.status_code == 201, answer.text


def _as_documented(server: LocalServer) -> list[str]:
    """The settings that the commands of the page make: address, API key, trusted key."""
    page = (ROOT / "docs/authorizers.md").read_text(encoding="utf-8")
    (commands,) = re.findall(r"```sh\n(export TENUO_.*?)```", page, re.DOTALL)
    names = ["TENUO_CONTROL_PLANE_URL", "TENUO_API_KEY", "TENUO_TRUSTED_KEYS"]
    ended = subprocess.run(
        ["bash", "-euc", f"{_SESSION}{commands}printenv {' '.join(names)}"],
        env=environment({"URL": server.url, "KEY": server.admin_key, "PYTHON": sys.executable}),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return ended.stdout.split()


def _counted(output: Path) -> Callable[[], bool]:
    """Whether the service has counted events of the authorizer, all of them verified."""

    def counted() -> bool:
        lines = [line for line in output.read_text().splitlines() if '"EventsVerified"' in line]
        counts = [json.loads(line) for line in lines]
        assert not any(each["EventsRefused"] for each in counts)
        return any(each["EventsVerified"] for each in counts)

    return counted
