"""The command `relay`, and what the rest of the package needs of it: nothing."""

import http.client
import re
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from shared.authorizer.__main__ import main
from shared.authorizer.relay import command
from tests.authorizer.feeds import TENANT
from tests.authorizer.service import KEY, PIN, Service, serving
from tests.kit.processes import ROOT, environment, run


def arguments(url: str, folder: Path, *more: str) -> list[str]:
    given = ["--tenant", TENANT, "--trust-pin", PIN, "--state", str(folder)]
    return ["relay", url, *given, *more]


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESCIND_API_KEY", KEY)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "tokens").write_text("a-token-of-the-relay-itself\nanother-one-of-these\n")
    (tmp_path / "short").write_text("short\n")
    (tmp_path / "empty").write_text("\n")
    return tmp_path


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (["--listen", "0.0.0.0:8181"], "pass --tokens"),
        (["--listen", "[::]:8181"], "pass --tokens"),
        (["--listen", "0.0.0.0:8181", "--tokens", "tokens"], "pass --certificate"),
        (["--listen", "here:8181"], "does not appear to be an IPv4"),
        (["--listen", "127.0.0.1:http"], "invalid literal"),
        (["--tokens", "short"], "each of 16 or more characters"),
        (["--tokens", "empty"], "one token per line"),
        (["--tokens", "none"], "No such file"),
        (["--certificate", "tokens"], "--certificate and --key together"),
    ],
)
def test_a_relay_that_others_could_misuse_does_not_start(
    files: Path, more: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """F301c: A relay does not answer other machines without tokens, or without TLS."""
    paths = {str(each.name): str(each) for each in files.iterdir()} | {"none": str(files / "none")}
    given = [paths.get(each, each) for each in more]
    assert main(arguments("https://rescind.example.com", files / "state", *given)) == 1
    assert why in capsys.readouterr().err


def test_a_damaged_saved_state_is_said(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "floor").mkdir()
    (files / "floor" / "floor.json").write_text("damaged")
    assert main(arguments("http://127.0.0.1:1", files)) == 1
    assert "is damaged" in capsys.readouterr().err


class _Stopped(command.Server):
    """A server that is interrupted at once, or that ends by itself."""

    seen: tuple[Any, ...] = ()
    ends = False

    def __init__(self, *given: Any) -> None:
        _Stopped.seen = given

    def run(self, *_: Any) -> None:
        if not self.ends:
            raise KeyboardInterrupt


def test_an_interrupt_ends_a_relay(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """F303b: A relay ends with code 0 after a signal to stop, and else with 1."""
    monkeypatch.setattr(command, "Server", _Stopped)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    tls = ["--certificate", "chain.pem", "--key", "key.pem", "--tokens", str(files / "tokens")]
    given = arguments("http://127.0.0.1:1", files, "--listen", "127.0.0.1:0", *tls)
    assert main(given) == 0
    assert re.search(r"listening on 127\.0\.0\.1:\d+\n", capsys.readouterr().out)
    assert _Stopped.seen[-2:] == ("chain.pem", "key.pem")
    monkeypatch.setattr(_Stopped, "ends", True)
    assert main(given) == 1
    # uvicorn does not raise each signal again.
    monkeypatch.setattr(_Stopped, "is_stop_requested", True)
    assert main(given) == 0


def test_the_limit_of_files_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """F303c: A relay raises its limit of open files, and has half as many connections."""
    soft, hard, raised = 1024, 4096, []

    def set_limit(_: int, limit: tuple[int, int]) -> None:
        nonlocal soft
        raised.append(limit)
        soft = limit[0]

    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", set_limit)
    assert command.limits() == (2048, 256)
    soft, hard = 1024, -1
    assert command.limits() == (8000, 1000)
    soft = -1
    assert command.limits() == (8000, 1024)
    assert raised == [(4096, 4096), (16000, -1)]


def test_the_client_needs_nothing_of_the_relay() -> None:
    """F304a: Without the extra `relay`, the client works, and the command says what to install."""
    program = """
import importlib, pkgutil, sys
for name in ("starlette", "uvicorn", "anyio"):
    sys.modules[name] = None
import shared.authorizer as package
for each in pkgutil.iter_modules(package.__path__, "shared.authorizer."):
    importlib.import_module(each.name)
package.AuthorizerClient, package.AsyncAuthorizerClient, package.Guard
from shared.authorizer.__main__ import main
sys.exit(main(sys.argv[1:]))
"""
    done = run("-c", program, *arguments("http://127.0.0.1:1", Path("x")), settings={})
    assert done.returncode == 1
    assert "install rescind-authorizer[relay]" in done.stderr


@contextmanager
def _started(
    url: str, folder: Path, *command: str
) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """A relay in a process of its own that has not ended, and its port."""
    with subprocess.Popen(
        [*command, "-m", "shared.authorizer", *arguments(url, folder, "--listen", "127.0.0.1:0")],
        cwd=ROOT,
        env=environment({"RESCIND_API_KEY": KEY}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout
            yield process, int(process.stdout.readline().rpartition(":")[2])
        finally:
            process.kill()


@pytest.mark.slow
@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_a_relay_in_a_process_of_its_own_stops_in_order(tmp_path: Path, stop: int) -> None:
    """F303d: A relay that gets SIGTERM or an interrupt answers who waits, and exits with 0."""
    command = [sys.executable, "-X", "dev", "-W", "error"]
    with (
        serving(Service()) as service,
        _started(service.url, tmp_path, *command) as (process, port),
    ):
        with closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
            connection.request("GET", "/healthz")
            assert connection.getresponse().status == 200
        process.send_signal(stop)
        assert process.stderr
        assert process.wait(60) == 0, process.stderr.read()
        assert "Warning" not in process.stderr.read()


@pytest.mark.slow
@pytest.mark.parametrize("sent", [b"", b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-a: "])
def test_idle_connections_do_not_stop_a_relay(tmp_path: Path, sent: bytes) -> None:
    """F1742b: 300 idle connections do not stop a relay that may open 256 files."""
    with serving(Service()) as service, ExitStack() as stack:
        command = ["prlimit", "--nofile=256", sys.executable]
        process, port = stack.enter_context(_started(service.url, tmp_path, *command))

        def open_idle(_: int) -> socket.socket:
            caller = socket.create_connection(("127.0.0.1", port), timeout=10)
            caller.sendall(sent)
            return caller

        callers = stack.enter_context(ThreadPoolExecutor(max_workers=50))
        for idle in callers.map(open_idle, range(300)):
            stack.enter_context(idle)
        for _ in range(20):
            with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as one:
                one.request("GET", "/healthz")
                assert one.getresponse().status == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
        assert process.stderr
        assert "out of system resource" not in process.stderr.read()
