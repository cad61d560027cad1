"""The Lambda runtime interface emulator: an artefact runs in it as Lambda runs it.

    with emulator(artefact, "functions.srl.handler.handler", settings) as function:
        answer = Answer.of(function.invoke(Request("GET", "/v1/…").http_api()))

The emulator is AWS's own program, from the SAM CLI's package; it keeps Lambda's limits of time and
size. The function has the artefact, the runtime's client and Python's library to import from, and
nothing of the tests, of the repository or of their environment.
"""

import http.client
import json
import platform
import re
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from tests.kit.artefact import Artefact
from tests.kit.lambda_events import Event
from tests.kit.log_lines import Line, read
from tests.kit.processes import HOST, ROOT, free_port

_SECONDS: Final = 250
_INVOCATIONS: Final = "/2015-03-31/functions/function/invocations"
_ARCHITECTURE: Final = {"aarch64": "arm64"}
_EMULATORS_OWN: Final = re.compile(
    r"(START|END|REPORT) RequestId: |\d\d \w{3} \d{4} [\d:,]+ \[[A-Z]+\] \(rapid\)"
)


class FunctionError(Exception):
    """The function raised, or could not be loaded; `report` is what the runtime says of it."""

    def __init__(self, report: dict[str, Any]) -> None:
        self.report = report
        super().__init__(f"{report['errorType']}: {report['errorMessage']}")


@dataclass(frozen=True)
class Emulator:
    """A function in the emulator; it takes one event at a time."""

    process: subprocess.Popen[bytes]
    port: int
    output: IO[bytes]

    @property
    def address(self) -> str:
        """Where it takes events."""
        return f"http://{HOST}:{self.port}{_INVOCATIONS}"

    def invoke(self, event: Event) -> Any:
        """What the function answers to the event. Raises `FunctionError`."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=_SECONDS)
        try:
            connection.request("POST", _INVOCATIONS, json.dumps(event))
            response = connection.getresponse()
            body = response.read().decode()
        finally:
            connection.close()
        if body.startswith("Task timed out"):
            raise FunctionError({"errorType": "Sandbox.Timedout", "errorMessage": body})
        answer = json.loads(body)
        # The emulator reports what a function raised like an answer.
        if isinstance(answer, dict) and "errorType" in answer:
            raise FunctionError(answer)
        assert response.status == http.client.OK, body
        return answer

    def logged(self) -> list[Line]:
        """What the function wrote to its log, which is lines of JSON alone."""
        self.output.seek(0)
        lines = self.output.read().decode().splitlines()
        return [read(line) for line in lines if line and not _EMULATORS_OWN.match(line)]


@contextmanager
def emulator(
    artefact: Artefact, handler: str, settings: dict[str, str], *, timeout_seconds: int = 240
) -> Iterator[Emulator]:
    """The emulator in front of `handler`; both are gone at the end."""
    port, runtime_api = free_port(), free_port()
    addresses = ["--runtime-interface-emulator-address", f"{HOST}:{port}"]
    addresses += ["--runtime-api-address", f"{HOST}:{runtime_api}"]
    # Without -S the interpreter's own packages could stand in for what the artefact lacks.
    runtime = [artefact.interpreter, "-S", "-m", "awslambdaric", handler]
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            [_program(), *addresses, *runtime],
            cwd=artefact.task,
            env=_environment(artefact, handler, timeout_seconds) | settings,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        function = Emulator(process, port, output)
        try:
            wait_until_it_listens(process, port)
            yield function
        finally:
            # Asked, not killed: the runtime is in a process group of its own, which it ends.
            process.terminate()
            process.wait(timeout=_SECONDS)


def _program() -> Path:
    architecture = _ARCHITECTURE.get(platform.machine(), platform.machine())
    packages = (ROOT / ".tools" / "sam" / "lib").glob("python*/site-packages")
    found = [each / "samcli/local/rapid" / f"aws-lambda-rie-{architecture}" for each in packages]
    assert found, "`make .tools/sam/.installed` installs the emulator"
    return found[0]


def _environment(artefact: Artefact, handler: str, timeout_seconds: int) -> dict[str, str]:
    """What Lambda sets. The one name that it does not is the path to the runtime's client."""
    return {
        "AWS_DEFAULT_REGION": "eu-west-1",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1024",
        "AWS_LAMBDA_FUNCTION_NAME": "rescind-test",
        "AWS_LAMBDA_FUNCTION_TIMEOUT": str(timeout_seconds),
        "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
        "AWS_REGION": "eu-west-1",
        "LAMBDA_RUNTIME_DIR": str(artefact.runtime),
        "LAMBDA_TASK_ROOT": str(artefact.task),
        "LANG": "en_US.UTF-8",
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "PYTHONPATH": str(artefact.runtime),
        # The artefact is read-only in Lambda, and other tests compare its files.
        "PYTHONDONTWRITEBYTECODE": "1",
        "TZ": ":UTC",
        "_HANDLER": handler,
    }


def wait_until_it_listens(process: subprocess.Popen[bytes], port: int) -> None:
    """Return once somebody answers at the port; `process` is who should."""
    deadline = time.monotonic() + _SECONDS
    while True:
        assert process.poll() is None, f"ended with {process.returncode}"
        assert time.monotonic() < deadline, "does not listen"
        try:
            socket.create_connection((HOST, port), timeout=1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
