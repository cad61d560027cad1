"""The sidecar in Go as a process that a test asks over HTTP."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from tests.kit.processes import HOST, environment


@dataclass
class Sidecar:
    """Answers the check of the service; `port` is its own."""

    port: int

    def asked(self, path: str) -> tuple[int, Any]:
        """Status and body of the answer."""
        connection = HTTPConnection(HOST, self.port, timeout=10)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def check(self, warrant_id: str) -> str:
        """The verdict, by the words of a client."""
        status, body = self.asked(f"/v1/revocations/check?warrant_id={warrant_id}")
        if status == 503:
            return str(body["error"]["code"])
        assert (status, body["warrant_id"]) == (200, warrant_id)
        return "revoked" if body["revoked"] else "clear"

    def refuses(self, warrant_id: str) -> bool:
        """Whether the warrant is known to be revoked."""
        return self.check(warrant_id) == "revoked"

    def clears(self, warrant_id: str) -> bool:
        return self.check(warrant_id) == "clear"

    @property
    def status(self) -> dict[str, Any]:
        """What the client holds, and what failed."""
        return dict(self.asked("/readyz")[1])


@contextmanager
def sidecar(program: Path, settings: dict[str, str], *options: str) -> Iterator[Sidecar]:
    """A sidecar that is killed at the end."""
    command = [str(program), "serve", "--listen", f"{HOST}:0", "--max-staleness", "5s", *options]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=environment(settings)
    ) as process:
        try:
            assert process.stdout
            yield Sidecar(int(process.stdout.readline().rpartition(":")[2]))
        finally:
            process.kill()
