"""Clients in the programs that run applications: servers with processes, Lambda, JavaScript."""

import http.client
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Final, TypeAlias

import pytest

from tests.authorizer.feeds import TENANT
from tests.authorizer.service import KEY, PIN, Response, Service
from tests.hosts.settings import MAX_STALENESS
from tests.kit import typescript
from tests.kit.artefact import LAMBDA, Artefact
from tests.kit.processes import HOST, ROOT, Group, environment, free_port
from tests.kit.rie import emulator
from tests.kit.waiting import soon

# Servers that other people wrote, in processes of their own: part of `make test-all`.
pytestmark = pytest.mark.slow

_FOLDER: Final = ROOT / "tests/hosts"
_PYTHON: Final = ROOT / ".tools/hosts/bin/python"
_RUNTIMES: Final = ROOT / ".tools/runtimes/node_modules"

# Returns the process that answers, and its verdict on a warrant.
Ask: TypeAlias = Callable[[str], tuple[str, str]]
# Runs a host in a folder, with settings.
Run: TypeAlias = Callable[[Path, dict[str, str]], AbstractContextManager[Ask]]


@dataclass
class Workers:
    """The processes of a host, with each answer and the time of its request."""

    ask: Ask
    count: int
    given: list[tuple[float, str, str]] = field(default_factory=list, repr=False)

    def all_say(self, warrant_id: str, *verdicts: str) -> None:
        """Wait until the last answer of each process is among the verdicts."""
        last: dict[str, str] = {}

        def agree() -> bool:
            last.update(callers.map(self._request, [warrant_id] * at_once))
            return len(last) == self.count and set(last.values()) <= set(verdicts)

        # So many requests keep several processes busy. The emulator of Lambda takes a single one.
        at_once = 2 * self.count - 1
        with ThreadPoolExecutor(at_once) as callers:
            try:
                soon(agree)
            except AssertionError:
                pytest.fail(f"{warrant_id} is {last}, not {verdicts} in {self.count} processes")

    def last_clear(self, warrant_id: str) -> float:
        """Return the time of the last request to which the answer was `clear`."""
        return max(at for at, of, verdict in self.given if (of, verdict) == (warrant_id, "clear"))

    def _request(self, warrant_id: str) -> tuple[str, str]:
        at = monotonic()
        process, verdict = self.ask(warrant_id)
        self.given.append((at, warrant_id, verdict))
        return process, verdict


def _is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


def _over_http(port: int, warrant_id: str) -> tuple[str, str]:
    with closing(http.client.HTTPConnection(HOST, port, timeout=60)) as connection:
        connection.request("GET", f"/?{warrant_id}")
        response = connection.getresponse()
        assert response.status == http.client.OK
        process, verdict = response.read().decode().split()
        return process, verdict


@contextmanager
def _serving(command: Sequence[str], folder: Path, settings: dict[str, str]) -> Iterator[Ask]:
    port = free_port()
    output = folder / "host.log"
    words = [word.format(port=port) for word in command]
    group = Group(words, output, partial(_is_listening, port), settings)
    try:
        group.start()
        yield partial(_over_http, port)
    finally:
        group.kill()
        # Pytest prints it if the test fails.
        print(output.read_text()[-5000:])


def _gunicorn(*options: str) -> Run:
    words = [str(_PYTHON), "-m", "gunicorn", "--bind", f"{HOST}:{{port}}", "--workers", "2"]
    return partial(_serving, [*words, "--no-control-socket", *options, "tests.hosts.wsgi"])


def _uwsgi(module: str, *options: str) -> Run:
    words = [str(_PYTHON.with_name("uwsgi")), "--http-socket", f"{HOST}:{{port}}", "--master"]
    words += ["--processes", "2", "--need-app", "--disable-logging", "--module", module]
    return partial(_serving, [*words, *options])


def _uvicorn() -> Run:
    words = [str(_PYTHON), "-m", "uvicorn", "--port", "{port}", "--workers", "2"]
    return partial(_serving, [*words, "tests.hosts.asgi:application"])


def _javascript(runtime: str, *options: str, mode: str = "") -> Run:
    """Run the server in JavaScript; `runtime` is Node, or a program among the runtimes."""

    @contextmanager
    def run(folder: Path, settings: dict[str, str]) -> Iterator[Ask]:
        node = typescript.node()
        # In this folder it finds the client as it is installed.
        program = typescript.installed() / "server.mjs"
        program.write_text((_FOLDER / "server.mjs").read_text())
        found = [node] if runtime == "node" else [str(each) for each in _RUNTIMES.glob(runtime)]
        assert found, "`make .tools/runtimes/.installed` installs it"
        with _serving([found[0], *options, str(program), "{port}", mode], folder, settings) as ask:
            yield ask

    return run


@contextmanager
def _lambda(folder: Path, settings: dict[str, str]) -> Iterator[Ask]:
    """Run the function in the emulator of Lambda. It is frozen between events."""
    (packages,) = _PYTHON.parent.parent.glob("lib/python*/site-packages")
    artefact = Artefact(ROOT, packages, str(_PYTHON), LAMBDA)
    frozen: list[int] = []

    def thaw() -> None:
        while frozen:
            os.kill(frozen.pop(), signal.SIGCONT)

    def ask(warrant_id: str) -> tuple[str, str]:
        thaw()
        process, verdict = runtime.invoke({"warrant_id": warrant_id})
        frozen.append(int(process))
        os.kill(frozen[0], signal.SIGSTOP)
        return process, verdict

    found = settings | {"PYTHONPATH": str(packages)}
    with emulator(artefact, "tests.hosts.polling.handler", found) as runtime:
        try:
            yield ask
        finally:
            thaw()


# Each host with the number of its processes that answer.
HOSTS: Final[dict[str, tuple[int, Run]]] = {
    "gunicorn sync": (2, _gunicorn()),
    "gunicorn gthread": (2, _gunicorn("--worker-class", "gthread", "--threads", "2")),
    "gunicorn sync, preload": (2, _gunicorn("--preload")),
    "gunicorn gevent": (2, _gunicorn("--worker-class", "gevent")),
    "gunicorn gevent, preload": (2, _gunicorn("--worker-class", "gevent", "--preload")),
    # Without the hooks, it forks while another thread has the lock of the interpreter.
    "uWSGI": (2, _uwsgi("tests.hosts.wsgi", "--enable-threads", "--py-call-uwsgi-fork-hooks")),
    "uWSGI, lazy": (2, _uwsgi("tests.hosts.wsgi", "--enable-threads", "--lazy-apps")),
    "uWSGI, poll": (2, _uwsgi("tests.hosts.polling")),
    "uvicorn": (2, _uvicorn()),
    "Lambda": (1, _lambda),
    "Node": (1, _javascript("node")),
    "Node cluster": (2, _javascript("node", mode="cluster")),
    "Deno": (1, _javascript("@deno/*/deno", "run", "--allow-all")),
    "Bun": (1, _javascript("@oven/bun-*/bin/bun")),
}


def _settings(service: Service, folder: Path) -> dict[str, str]:
    return {
        "HOST_URL": service.url,
        "HOST_KEY": KEY,
        "HOST_TENANT": TENANT,
        "HOST_PIN": PIN,
        "HOST_STATE_DIR": str(folder / "state"),
        "PYTHONPATH": str(ROOT),
    }


@pytest.mark.parametrize("host", HOSTS)
def test_each_process_follows_the_feed(host: str, service: Service, tmp_path: Path) -> None:
    """F1770a: Each process of a host refuses a revoked warrant, and fails closed without news."""
    service.poll_seconds = 0.2
    service.revoke("svc_wrt_revoked")
    count, run = HOSTS[host]
    with run(tmp_path, _settings(service, tmp_path)) as ask:
        workers = Workers(ask, count)
        workers.all_say("svc_wrt_good", "clear")
        workers.all_say("svc_wrt_revoked", "revoked")
        workers.all_say("svc_wrt_later", "clear")
        service.revoke("svc_wrt_later")
        acknowledged = monotonic()
        workers.all_say("svc_wrt_later", "revoked")
        assert workers.last_clear("svc_wrt_later") < acknowledged + MAX_STALENESS
        workers.all_say("svc_wrt_last", "clear")
        service.instead = lambda _path: Response(b"", 503)
        service.revoke("svc_wrt_last")
        acknowledged = monotonic()
        # A poll that had begun may have had the news.
        workers.all_say("svc_wrt_last", "stale", "revoked")
        assert workers.last_clear("svc_wrt_last") < acknowledged + MAX_STALENESS
        service.instead = lambda _path: None
        workers.all_say("svc_wrt_last", "revoked")
        workers.all_say("svc_wrt_good", "clear")


@pytest.mark.parametrize("waits", ["start", "wait_for"])
def test_a_cancelled_wait_does_not_delay_the_exit(
    waits: str, service: Service, tmp_path: Path
) -> None:
    """F1771a: A program of asyncio that cancels a wait exits, though the wait has an hour left."""
    if waits == "start":
        service.instead = lambda _path: Response(b"", 503)
    ran = subprocess.run(
        [_PYTHON, "-m", "tests.hosts.cancelling", waits],
        cwd=ROOT,
        env=environment(_settings(service, tmp_path)),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (0, "cancelled\n"), ran.stderr
