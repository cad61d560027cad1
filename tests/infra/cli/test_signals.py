"""Commands that SIGTERM, SIGHUP or Ctrl+C ends."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

import pytest
import typer

from infra.cli.commands import raise_on_signals
from tests.kit.processes import ROOT, environment
from tests.kit.waiting import soon

pytestmark = pytest.mark.usefixtures("default_signals")

_CALL: Final = 1000


class Holding(ThreadingHTTPServer):
    """A service that answers the first call of a batch, and no other one before it is released."""

    daemon_threads = True

    def __init__(self) -> None:
        self.calls = 0
        self.released = threading.Event()
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, *_: object) -> None:
        """Log nothing: a command that was ended reads no answer."""


class _Handler(BaseHTTPRequestHandler):
    server: Holding

    def do_POST(self) -> None:
        ids = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["warrant_ids"]
        self.server.calls += 1
        if self.server.calls > 1:
            self.server.released.wait()
        answer = json.dumps({"results": [{"id": each, "outcome": "revoked"} for each in ids]})
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer.encode())

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def holding() -> Iterator[Holding]:
    with Holding() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.released.set()
        server.shutdown()
        thread.join()


def _begun(
    server: Holding, folder: Path, *before: str, more: tuple[str, ...] = ()
) -> subprocess.Popen[bytes]:
    """Return a revocation of 2000 warrants of which the service has answered the first call."""
    lost = folder / "lost.csv"
    lost.write_text("".join(f"svc_wrt_{number}\n" for number in range(2 * _CALL)))
    url = f"http://127.0.0.1:{server.server_port}"
    typed = ("revoke", "--file", str(lost), "--reason", "lost", "--yes", *more)
    process = subprocess.Popen(
        [*before, sys.executable, "-m", "infra.cli", *typed],
        cwd=ROOT,
        env=environment({"RESCIND_URL": url, "RESCIND_API_KEY": "svc_key"}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    soon(lambda: server.calls == 2 or process.poll() is not None, seconds=60)
    return process


@pytest.mark.slow_on("1", "2")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_names_the_batch_that_it_stops(
    holding: Holding, tmp_path: Path, number: signal.Signals
) -> None:
    """F1821a: A batch that a signal stops prints its results, and the option that continues it."""
    process = _begun(holding, tmp_path)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    words = " ".join(said.decode().split())
    assert process.returncode == 128 + number
    assert f"Stopped: {_CALL} revoked. The last call may have changed more." in words
    assert "run the same command with --resume-batch svc_bat_" in words
    assert "Traceback" not in words


def test_a_signal_that_is_ignored_stops_nothing(holding: Holding, tmp_path: Path) -> None:
    """F1821b: `nohup` protects a command: it ignores SIGHUP, and completes its batch."""
    process = _begun(holding, tmp_path, "nohup")
    process.send_signal(signal.SIGHUP)
    holding.released.set()
    _, said = process.communicate(timeout=60)
    assert (process.returncode, f"{2 * _CALL} revoked. Batch" in said.decode()) == (0, True)


def test_a_batch_whose_output_has_no_reader_is_named(holding: Holding, tmp_path: Path) -> None:
    """F1821c: If the reader of the output ends, too, the batch is printed all the same."""
    process = _begun(holding, tmp_path, more=("-o", "json"))
    assert process.stdout is not None
    process.stdout.close()
    process.stdout = None
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert (process.returncode, "--resume-batch svc_bat_" in said.decode()) == (
        128 + signal.SIGPIPE,
        True,
    )


def test_a_second_signal_does_not_end_the_clean_up() -> None:
    """F1821d: After a signal, others are ignored until the command has cleaned up."""
    done = []

    def work() -> None:
        try:
            os.kill(os.getpid(), signal.SIGHUP)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            done.append("cleaned up")

    with pytest.raises(typer.Exit) as ended, raise_on_signals():
        work()
    assert (ended.value.exit_code, done) == (128 + signal.SIGHUP, ["cleaned up"])
    assert signal.getsignal(signal.SIGTERM) is signal.getsignal(signal.SIGHUP) is signal.SIG_DFL


def test_a_thread_handles_no_signals() -> None:
    """F1821e: A command that runs in another thread leaves the signals as they are."""
    found = []

    def run() -> None:
        with raise_on_signals():
            found.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [signal.SIG_DFL]


# Opens the terminal of its standard input as its controlling one, so that keys send signals.
_CONTROLLED: Final = (
    "import os, sys; os.open(os.ttyname(0), os.O_RDWR); os.execv(sys.executable, sys.argv[1:])"
)
_DELETE: Final = ("webhooks", "delete", "svc_whk_01jd8x6d5v0000000000000000")


def _is_asleep(process: int) -> bool:
    stat = Path(f"/proc/{process}/stat").read_text()
    return stat.rpartition(")")[2].split()[0] == "S"


def _answered(
    folder: Path, typed: tuple[str, ...], asked: str, answer: Callable[[int, int], object]
) -> tuple[int, str]:
    """Run a command in a terminal, and call `answer` with both processes when it has asked.

    Return its exit code, and the text that the terminal showed.
    """
    ours, theirs = pty.openpty()
    settings = {
        "RESCIND_URL": "http://127.0.0.1:9",
        "RESCIND_API_KEY": "svc_key",
        "RESCIND_CONFIG_DIR": str(folder / "home"),
        "TERM": "dumb",
    }
    process = subprocess.Popen(
        [sys.executable, "-c", _CONTROLLED, sys.executable, "-m", "infra.cli", *typed],
        cwd=ROOT,
        env=environment(settings),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    shown, is_asked = b"", False
    try:
        while select.select([ours], [], [], 60)[0]:
            shown += os.read(ours, 65536)
            if asked.encode() in shown and not is_asked:
                is_asked = True
                # A signal before the read would be noted only after it.
                soon(lambda: _is_asleep(process.pid), seconds=60)
                answer(ours, process.pid)
    except OSError:
        pass  # Linux reports the end of the terminal as an error.
    finally:
        process.kill()
    os.close(ours)
    return process.wait(), shown.decode()


@pytest.mark.slow_on("SIGTERM", "SIGHUP", "a number")
@pytest.mark.parametrize("asks_for", ["a key", "a yes", "a number"])
@pytest.mark.parametrize(
    ("answer", "code"),
    [(b"\x03", 130), (b"\x04", 1), (signal.SIGTERM, 143), (signal.SIGHUP, 129)],
    ids=["Ctrl+C", "Ctrl+D", "SIGTERM", "SIGHUP"],
)
def test_a_question_that_a_signal_ends(
    tmp_path: Path, asks_for: str, answer: bytes | signal.Signals, code: int
) -> None:
    """F1953a: Ctrl+C and signals at a question end a command as elsewhere; Ctrl+D exits with 1."""
    lost = tmp_path / "lost.csv"
    lost.write_text("".join(f"svc_wrt_{number}\n" for number in range(101)))
    typed, asked = {
        "a key": (("login", "--url", "http://127.0.0.1:9"), "API key: "),
        "a yes": (_DELETE, "[y/N]: "),
        "a number": (("revoke", "--file", str(lost), "--reason", "lost"), "Type 101 to confirm: "),
    }[asks_for]

    def give(terminal: int, process: int) -> None:
        if isinstance(answer, signal.Signals):
            os.kill(process, answer)
        else:
            os.write(terminal, answer)

    ended, shown = _answered(tmp_path, typed, asked, give)
    assert (ended, asked in shown, "Traceback" in shown) == (code, True, False), shown
    assert ("Aborted" in shown) == (code == 1)


@pytest.mark.slow
def test_a_wrong_answer(tmp_path: Path) -> None:
    """F1953b: A wrong answer to a question exits with 1."""
    ended, shown = _answered(
        tmp_path, _DELETE, "[y/N]: ", lambda terminal, _: os.write(terminal, b"n\n")
    )
    assert (ended, "Aborted" in shown) == (1, True)
