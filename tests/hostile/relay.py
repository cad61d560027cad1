"""The relay as a subject: it follows the service, and a Python client follows the relay."""

import json
import logging
import os
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from typing import Any, Final, TextIO

from shared.authorizer import AuthorizerClient, FileStateStore, NotReady, PollPolicy
from shared.authorizer.events import Event, PollFailed, ResponseRejected
from tests.kit import processes

_START_SECONDS: Final = 60
# What the relay logs if an exchange with the service fails.
_FAILURES: Final = ("cannot poll the feed", "rejected a response")


class Subject:
    """A relay in a process, and a client of it in this one."""

    def __init__(self) -> None:
        self._client: AuthorizerClient | None = None
        self._failures = 0

    def connect(self, url: str, api_key: str, **settings: Any) -> dict[str, Any]:
        """Start both. The relay refuses its key with its exit."""
        port = processes.free_port()
        command = [sys.executable, "-m", "shared.authorizer", "relay", url]
        command += ["--tenant", settings["tenant"], "--trust-pin", settings["trust_root"]]
        command += ["--state", tempfile.mkdtemp(dir=settings["floor"])]
        command += ["--listen", f"127.0.0.1:{port}"]
        relay = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | {"RESCIND_API_KEY": api_key},
        )
        assert relay.stdout
        threading.Thread(target=self._read, args=(relay.stdout,), daemon=True).start()
        deadline = time.monotonic() + _START_SECONDS
        while not processes.answers(port, 404) and time.monotonic() < deadline:
            if relay.poll() is not None:
                return {"refused": "the relay ended"}
            time.sleep(0.05)
        self._client = AuthorizerClient(
            f"http://127.0.0.1:{port}",
            api_key="svc_any",
            tenant=settings["tenant"],
            trust_pin=settings["trust_root"],
            state=FileStateStore(settings["floor"]),
            policy=PollPolicy(max_staleness=settings["max_staleness"]),
            on_event=self._count,
            report=False,
        )
        with suppress(NotReady):
            self._client.start()
        # Before the first answer of the service, the relay has nothing to pass on.
        self._failures = 0
        return {"ready": True}

    def verdicts(self, ids: list[str]) -> dict[str, Any]:
        """Return the verdict on each warrant, and the failures of the relay and its client."""
        assert self._client
        found = [self._client.check([each]).value for each in ids]
        return {"verdicts": found, "failures": self._failures}

    def _count(self, event: Event) -> None:
        print(event, file=sys.stderr, flush=True)
        self._failures += isinstance(event, PollFailed | ResponseRejected)

    def _read(self, printed: TextIO) -> None:
        for line in printed:
            print(line, end="", file=sys.stderr, flush=True)
            self._failures += any(each in line for each in _FAILURES)


def main() -> None:
    """Answer requests on standard input."""
    logging.basicConfig(level=logging.INFO)
    subject = Subject()
    for line in sys.stdin:
        ((name, given),) = json.loads(line).items()
        answer = subject.connect(**given) if name == "connect" else subject.verdicts(given)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
