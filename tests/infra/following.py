"""The installed client as a process that a test asks, and a server that it kills and restores."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final

import httpx2

from shared.authorizer.formats import documents
from tests.kit import processes
from tests.kit.processes import ROOT, Group, environment, free_port
from tests.kit.waiting import soon as soon

UV: Final = [str(Path(sys.executable).with_name("uv")), "--quiet"]
_PROGRAM = """
import json, sys
from dataclasses import asdict
from rescind_authorizer import AuthorizerClient, FileStateStore, PollPolicy
settings = json.loads(sys.argv[1])
state = FileStateStore(settings.pop("folder"))
policy = PollPolicy(max_staleness=5, poll_seconds=0.1)
client = AuthorizerClient(state=state, policy=policy, **settings).start(wait=60)
print("ready", flush=True)
for line in sys.stdin:
    verb, *ids = line.split()
    if verb == "check":
        print(client.check(ids), flush=True)
    else:
        print(json.dumps(asdict(client.status), default=str), flush=True)
client.close()
"""


def installed(folder: Path, *others: str) -> Path:
    """Return the Python of a new environment with the wheel of the client, and with others.

    Their dependencies have the versions that the server is locked to.
    """
    _run(*UV, "build", "--wheel", "--out-dir", str(folder), str(ROOT / "infra/clients/python"))
    (wheel,) = map(str, folder.glob("*.whl"))
    _run(*UV, "venv", "--python", sys.executable, str(folder / "venv"))
    python = folder / "venv" / "bin" / "python"
    locked = ["--constraint", str(ROOT / "infra" / "requirements.lock")]
    _run(*UV, "pip", "install", "--python", str(python), *locked, wheel, *others)
    return python


def _run(*command: str) -> None:
    subprocess.run(command, check=True, env=environment())


@dataclass
class Asked:
    """A client in a process of its own."""

    process: "subprocess.Popen[str]"

    def check(self, *ids: str) -> str:
        return self._ask(f"check {' '.join(ids)}")

    def refuses(self, warrant_id: str) -> bool:
        """Return whether the client knows that the warrant is revoked."""
        return self.check(warrant_id) == "revoked"

    @property
    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._ask("status"))
        return found

    def _ask(self, line: str) -> str:
        assert self.process.stdin
        assert self.process.stdout
        print(line, file=self.process.stdin, flush=True)
        return self.process.stdout.readline().strip()


@contextmanager
def following(python: Path, folder: Path, **settings: object) -> Iterator[Asked]:
    """The installed client with its saved state in `folder`, ready; it is killed at the end."""
    with subprocess.Popen(
        [str(python), "-c", _PROGRAM, json.dumps(settings | {"folder": str(folder)})],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=folder.parent,
        env=environment(),
    ) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == "ready\n"
            yield Asked(process)
        finally:
            process.kill()


class Server:
    """The local server with an admin's calls. It keeps its port when it is started again.

    Its data is in the folder `data`, or in the stores of `settings`, of which `key` is an admin's.
    """

    def __init__(
        self,
        data: Path,
        *options: str,
        settings: dict[str, str] | None = None,
        key: str | None = None,
    ) -> None:
        self.port = free_port()
        self.data, self._key = data, key
        self.url = f"http://127.0.0.1:{self.port}"
        place = [] if settings else ["--data", str(data)]
        command = [sys.executable, "-m", "infra.cli.operator.serve", *place, *options]
        command += ["--port", str(self.port)]
        output = data.with_name(f"server-{self.port}.log")
        answers = partial(processes.answers, self.port, 401)
        self.group = Group(command, output, answers, settings or {})
        self.group.start()

    @property
    def key(self) -> str:
        """The key of an administrator."""
        return self._key or (self.data / "admin.key").read_text().strip()

    @contextmanager
    def caller(self) -> Iterator[httpx2.Client]:
        """An administrator with a connection of his own."""
        headers = {"Authorization": f"Bearer {self.key}"}
        # No certificates: to read those of all authorities takes longer than a call.
        with httpx2.Client(base_url=self.url, headers=headers, timeout=60, verify=False) as caller:
            yield caller

    def call(self, method: str, path: str, **body: object) -> dict[str, Any]:
        """The answer to an administrator; it is not an error."""
        with self.caller() as caller:
            answer = caller.request(method, f"/v1{path}", json=body if method == "POST" else None)
        assert answer.is_success, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def client_settings(self) -> dict[str, Any]:
        """What a new client of the feed needs, but for the address of the service."""
        key = self.call("POST", "/api-keys", name="client", scopes=["authorizer"])["key"]
        return {
            "api_key": key,
            "tenant": self.call("GET", "/tenant/settings")["tenant_id"],
            "trust_pin": self.pin,
        }

    @property
    def pin(self) -> str:
        """The pin of the roots with which the newest document is signed."""
        found = soon(lambda: self.call("GET", "/trust")["documents"])
        return documents.documents(json.dumps({"documents": found}).encode())[-1].document.roots.pin

    def revoke(self, warrant_id: str) -> str:
        """Revoke a warrant; return the identifier of the revocation."""
        return str(self.call("POST", "/revocations", warrant_id=warrant_id, reason="a test")["id"])

    @contextmanager
    def revoking(self, number: int) -> Iterator[list[str]]:
        """Let three callers revoke so many warrants meanwhile; yield those that were acknowledged.

        A caller who gets no answer goes on with another warrant.
        """
        acknowledged: list[str] = []
        names = map("svc_wrt_{}".format, count())

        def work() -> None:
            with self.caller() as caller:
                while len(acknowledged) < number:
                    body = {"warrant_id": next(names), "reason": "a test"}
                    try:
                        if caller.post("/v1/revocations", json=body).is_success:
                            acknowledged.append(body["warrant_id"])
                    except httpx2.HTTPError:
                        time.sleep(0.05)

        with ThreadPoolExecutor(3) as callers:
            working = [callers.submit(work) for _ in range(3)]
            yield acknowledged
            for each in working:
                each.result()

    def publish(self) -> None:
        """Publish the list now, which the timer would do within a minute."""
        self.call("POST", "/revocations/srl/regenerate")

    def admin(self, *arguments: str) -> None:
        """Run a command of the operator."""
        ran = processes.run("-m", "infra.cli", *arguments, "--data", str(self.data))
        assert ran.returncode in {0, 3}, ran.stderr

    def restore(self, backup: Path) -> None:
        """Put a backup in place of what is stored. The server must not run."""
        self.admin("restore", str(backup), "--replace")
