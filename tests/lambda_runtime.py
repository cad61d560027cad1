"""The Lambda runtime: a function in a process of its own, and the runtime API that it speaks.

    with runtime("functions.srl.handler.handler", settings) as function:
        answer = Answer.of(function.invoke(Request("GET", "/v1/…").http_api()))

The runtime's client is the real one (`awslambdaric`).
"""

import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, Any, Final

from tests.lambda_events import Event
from tests.processes import HOST, ROOT, environment

_SECONDS: Final = 30
_PREFIX: Final = "/2018-06-01/runtime"


class FunctionError(Exception):
    """The function raised, or could not be loaded; `report` is what the runtime says of it."""

    def __init__(self, report: dict[str, Any]) -> None:
        self.report = report
        super().__init__(f"{report['errorType']}: {report['errorMessage']}")


@dataclass
class Function:
    """A function in a process of the Lambda runtime; `output` is the file of all that it logs."""

    output: Path
    _events: "queue.Queue[bytes | None]" = field(default_factory=queue.Queue)
    _reports: "queue.Queue[tuple[str, bytes]]" = field(default_factory=queue.Queue)

    def invoke(self, event: Event) -> Any:
        """What the function answers to the event. Raises `FunctionError`."""
        self._events.put(json.dumps(event).encode())
        kind, body = self._reports.get(timeout=_SECONDS)
        if kind != "response":
            raise FunctionError(json.loads(body))
        return json.loads(body)


@contextmanager
def runtime(handler: str, settings: dict[str, str]) -> Iterator[Function]:
    """A process that runs `handler` as Lambda does; it is gone at the end."""
    with NamedTemporaryFile() as log:
        function = Function(Path(log.name))
        with _process(handler, settings, function, log):
            yield function


@contextmanager
def _process(
    handler: str, settings: dict[str, str], function: Function, log: IO[bytes]
) -> Iterator[None]:
    server = _Server(function)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    given = {
        "AWS_LAMBDA_FUNCTION_NAME": "rescind-test",
        "AWS_LAMBDA_RUNTIME_API": f"{HOST}:{server.server_port}",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "awslambdaric", handler],
        cwd=ROOT,
        env=environment(settings | given),
        stdout=log,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield
    finally:
        process.kill()
        process.wait(timeout=_SECONDS)
        function._events.put(None)
        server.shutdown()
        thread.join()
        server.server_close()


class _RuntimeApi(BaseHTTPRequestHandler):
    """The runtime API: an event to whoever asks for the next, its outcome to the test."""

    protocol_version = "HTTP/1.1"
    server: "_Server"

    def do_GET(self) -> None:
        assert self.path == f"{_PREFIX}/invocation/next"
        event = self.server.function._events.get()
        if event is None:
            self.close_connection = True
            return
        self._answer(200, event, self._invocation())

    def do_POST(self) -> None:
        kind = self.path.removeprefix(f"{_PREFIX}/").split("/")[-1]
        self.server.function._reports.put((kind, self._body()))
        self._answer(202, b'{"status":"OK"}', {})

    def log_message(self, *_arguments: object) -> None:
        pass

    def _invocation(self) -> dict[str, str]:
        arn = "arn:aws:lambda:eu-west-1:123456789012:function:rescind-test"
        return {
            "Lambda-Runtime-Aws-Request-Id": "8476a536-e9f4-11e8-9739-2dfe598c3fcd",
            "Lambda-Runtime-Deadline-Ms": str(int((time.time() + _SECONDS) * 1000)),
            "Lambda-Runtime-Invoked-Function-Arn": arn,
            "Lambda-Runtime-Trace-Id": "Root=1-6920a5f0-3b0c8c2b5f6a7d8e9f001122;Sampled=0",
        }

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers["Content-Length"]))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class _Server(ThreadingHTTPServer):
    def __init__(self, function: Function) -> None:
        super().__init__((HOST, 0), _RuntimeApi)
        self.function = function
