"""Each command with inputs that break programs: an error without a traceback, and without a key."""

import json
import os
import pwd
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from infra.cli.errors import ExitCode
from tests.infra.cli.conftest import COMMANDS, Shell
from tests.kit.processes import ROOT, LocalServer, environment

KEY: Final = "svc_canary-of-a-secret"
# These run until they are stopped.
_SERVERS: Final = frozenset({("serve",), ("witness",)})
_TEXTS: Final = ("", "\udcff", "x" * 100_000, "\U0001f511", "-", "9" * 400, "../..", "%00\x1b[2J")


def _hostile(command: Any) -> Iterator[list[str]]:
    """Yield arguments of a command: each text for all of its arguments, and for one option."""
    needed = {each.opts[0]: each for each in command.params if each.param_type_name == "option"}
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    required = [
        word
        for name, each in needed.items()
        if each.required
        for word in [name, *["7d" if each.nargs == 1 else "x"] * each.nargs]
    ]
    for text in _TEXTS:
        typed = ["--", *[text for each in arguments if each.required]]
        yield [*required, *typed]
        for name, each in needed.items():
            if not each.is_flag and name not in ("--watch", "--help"):
                usual = ["--", *["svc_wrt_1" for argument in arguments if argument.required]]
                yield [*required, name, *[text] * each.nargs, *usual]


@pytest.fixture
def user(shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Shell:
    """A user whose service does not answer, in an empty folder."""
    monkeypatch.setenv("RESCIND_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("RESCIND_API_KEY", KEY)
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    return shell


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "command"), COMMANDS, ids=[" ".join(path[1:]) for path, _ in COMMANDS]
)
def test_no_argument_ends_a_command_with_a_traceback(
    user: Shell, path: tuple[str, ...], command: Any
) -> None:
    """F1712a: Whatever is typed, a command ends with a documented code and no traceback."""
    if path[1:] in _SERVERS:
        return
    for typed in _hostile(command):
        ended = user.run(*path[1:], *typed)
        assert ended.code in {*ExitCode}, typed
        assert ended.code == ExitCode.DONE or ended.err, typed
        assert KEY not in ended.out + ended.err, typed


def _no_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(_: int) -> None:
        raise KeyError

    for name in ("RESCIND_CONFIG_DIR", "XDG_CONFIG_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)


def _profile(content: bytes) -> Callable[[Path, pytest.MonkeyPatch], None]:
    def prepare(home: Path, _: pytest.MonkeyPatch) -> None:
        (home / "default").mkdir(mode=0o700, parents=True)
        (home / "default/profile.json").write_bytes(content)

    return prepare


def _with(**members: object) -> Callable[[Path, pytest.MonkeyPatch], None]:
    return _profile(json.dumps({"url": "http://127.0.0.1:9", "api_key": KEY} | members).encode())


HOMES: Final[dict[str, Callable[[Path, pytest.MonkeyPatch], object]]] = {
    "no home": _no_home,
    "a file for the folder": lambda home, _: home.write_text(""),
    "a folder for the file": lambda home, _: (home / "default/profile.json").mkdir(parents=True),
    "an empty file": _profile(b""),
    "a list": _profile(b"[]"),
    "no text": _profile(b'"\xff"'),
    "a deep list": _profile(b"[" * 100_000),
    "a number for the address": _with(url=8080),
    "no address": _with(url=None),
    "an open bracket": _with(url="http://[::1"),
    "a port that is none": _with(url="http://127.0.0.1:99999"),
    "a number for the key": _with(api_key=5),
    "a line feed in the key": _with(api_key=f"{KEY}\nX: y"),
    "a text for a boolean": _with(allow_http="no"),
    "a list for the end": _with(expires_at=[]),
    "an unknown member": _with(more=1),
}


@pytest.mark.parametrize("prepare", HOMES.values(), ids=HOMES.keys())
def test_a_broken_profile_is_named_in_one_line(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, prepare: Callable[..., None]
) -> None:
    """F1712b: A home or profile that cannot be used is an error of one line, without its key."""
    prepare(shell.home, monkeypatch)
    for typed in (["whoami"], ["check", "svc_wrt_1"], ["revoke", "svc_wrt_1", "--reason", "r"]):
        ended = shell.run(*typed)
        assert (ended.code, ended.out) in ((ExitCode.USAGE, ""), (ExitCode.FAILED, ""))
        assert ended.err.startswith("error: ")
        assert len(ended.err.splitlines()) == 1
        assert KEY not in ended.err


KEYS: Final = {
    "a line feed": f"{KEY}\n",
    "both line ends": f"\r\n{KEY}\r\n",
    "spaces": f"  {KEY}\t",
    "a byte order mark": f"\ufeff{KEY}\n",
}


@pytest.mark.parametrize("change", KEYS.values(), ids=KEYS.keys())
def test_a_key_is_used_without_what_its_file_had_around_it(
    shell: Shell, service: LocalServer, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """F1713a: White space and a byte order mark around a key do not count."""
    text = change.replace(KEY, service.admin_key)
    ended = shell.run("login", "--url", service.url, stdin=text.lstrip("\r\n"))
    assert ended.code == 0, ended.err
    monkeypatch.setenv("RESCIND_URL", service.url)
    monkeypatch.setenv("RESCIND_API_KEY", text)
    shown = shell.run("whoami", "--debug")
    assert shown.code == 0, shown.err
    assert service.admin_key not in ended.out + ended.err + shown.out + shown.err


@pytest.mark.parametrize("bad", ["\n", "\r\n", "\0", "\xe9", "\u200b", " ", "\x1b[2J", "\ufeff"])
def test_a_key_with_other_characters_is_refused_without_a_quote(
    shell: Shell, service: LocalServer, monkeypatch: pytest.MonkeyPatch, bad: str
) -> None:
    """F1713b: A key with other characters is refused, and no output has a part of it."""
    text = f"{KEY}{bad}{KEY}"
    if "\n" not in bad:  # `login` reads the first line.
        ended = shell.run("login", "--url", service.url, stdin=text)
        assert ended.code == 2
        assert KEY not in ended.out + ended.err
    if "\0" in bad:
        return
    monkeypatch.setenv("RESCIND_URL", service.url)
    monkeypatch.setenv("RESCIND_API_KEY", text)
    for typed in (["whoami"], ["api", "GET", "/v1/whoami", "--debug"], ["revocations", "list"]):
        for form in ("table", "json"):
            ended = shell.run(*typed, "-o", form)
            assert ended.code == 2
            assert KEY not in ended.out + ended.err


def test_a_token_of_a_job_is_in_no_error(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """F1713c: The credential that a job of GitHub has for its tokens is in no output."""
    monkeypatch.setenv("ACTIONS_ID_TOKEN_REQUEST_URL", "http://127.0.0.1:9/?a=b")
    for text in (f"{KEY}\n", f"{KEY}\nX: y", f"{KEY}\xe9"):
        monkeypatch.setenv("ACTIONS_ID_TOKEN_REQUEST_TOKEN", text)
        ended = shell.run("login", "--url", "http://127.0.0.1:9", "--audience", "svc_idp_1")
        assert ended.code in (1, 2)
        assert len(ended.err.splitlines()) == 1
        assert KEY not in ended.out + ended.err


def _typed(
    redirection: str, *arguments: str, settings: dict[str, str]
) -> subprocess.CompletedProcess[bytes]:
    """Run `rescind` in a shell that changes its standard streams."""
    command = [sys.executable, "-m", "infra.cli", *arguments]
    script = f'set -o pipefail; "$@" {redirection}'
    return subprocess.run(
        ["bash", "-c", script, "bash", *command],
        cwd=ROOT,
        env=environment(settings),
        capture_output=True,
        timeout=60,
        check=False,
    )


@pytest.fixture(scope="module")
def settings(service: LocalServer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    home = str(tmp_path_factory.mktemp("home"))
    key = service.admin_key
    return {"RESCIND_URL": service.url, "RESCIND_API_KEY": key, "RESCIND_CONFIG_DIR": home}


PRINTED: Final = {
    **{form: ("api-keys", "list", "-o", form) for form in ("table", "json", "yaml", "csv", "name")},
    "version": ("--version",),
    "help": ("--help",),
    "help of a group": ("signing-keys", "--help"),
    "usage": ("signing-keys",),
    "export": ("audit-log", "export"),
    "request": ("api", "GET", "/v1/whoami"),
    "watch": ("authorizers", "summary", "--watch", "-o", "json"),
}


@pytest.mark.slow_on("json", "yaml", "csv", "name", "version", "help", "usage", "request")
@pytest.mark.parametrize("typed", PRINTED.values(), ids=PRINTED.keys())
def test_a_pipe_without_a_reader_ends_a_command_quietly(
    settings: dict[str, str], typed: tuple[str, ...]
) -> None:
    """F1820a: If a pipe loses its reader, the code is that of SIGPIPE, without a message."""
    # The reader has gone before the command begins.
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb") as pipe:  # noqa: PTH123 (a descriptor, no path)
        ended = subprocess.run(
            [sys.executable, "-m", "infra.cli", *typed],
            cwd=ROOT,
            env=environment(settings),
            stdout=pipe,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    assert (ended.returncode, ended.stderr) == (128 + signal.SIGPIPE, b"")


@pytest.mark.slow_on("json", "yaml", "csv", "name", "version", "help", "usage", "request")
@pytest.mark.parametrize("typed", PRINTED.values(), ids=PRINTED.keys())
def test_a_full_disk_is_an_error_of_one_line(
    settings: dict[str, str], typed: tuple[str, ...]
) -> None:
    """F1714a: If the output cannot be written, the code is 1 and the error one line."""
    ended = _typed(">/dev/full", *typed, settings=settings)
    assert ended.returncode == 1
    assert len(ended.stderr.splitlines()) == 1, ended.stderr
    assert ended.stderr.startswith((b"error: ", b'{"error"'))
    assert b"cannot write to standard output: No space left" in ended.stderr


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_secret_that_cannot_be_printed_names_its_key(
    settings: dict[str, str], unbuffered: str
) -> None:
    """F2890a: If a new secret cannot be printed, the error names the key that has it."""
    typed = ("api-keys", "create", "lost", "--scope", "revoker")
    given = settings | {"PYTHONUNBUFFERED": unbuffered}
    ended = _typed(">/dev/full", *typed, settings=given)
    assert ended.returncode == 1
    assert re.search(rb"svc_ak_\w{26} was created, but its secret is lost", ended.stderr)


@pytest.mark.slow_on("2>&", "table")
@pytest.mark.parametrize("to", ["2>/dev/full", "2>&-"])
@pytest.mark.parametrize("form", ["table", "json"])
def test_a_message_that_cannot_be_written_is_no_failure(
    settings: dict[str, str], to: str, form: str
) -> None:
    """F1820b: If standard error cannot be written, a command does its work, with its own code."""
    warrant = f"svc_wrt_{form}-{len(to)}"
    ended = _typed(to, "revoke", warrant, "--reason", "r", "-o", form, settings=settings)
    assert (ended.returncode, b"svc_rev_" in ended.stdout) == (0, True)
    assert _typed(to, "check", warrant, "-o", form, settings=settings).returncode == 3
    assert _typed(to, "nonsense", settings=settings).returncode == 2


@pytest.mark.parametrize(
    ("closed", "code", "said"),
    [
        ("<&-", 0, b""),
        ("2>&-", 0, b""),
        (">&-", 2, b"error: standard output is closed; redirect it to /dev/null.\n"),
        ("<&- >&- 2>&-", 2, b""),
    ],
)
def test_closed_streams(settings: dict[str, str], closed: str, code: int, said: bytes) -> None:
    """F1714b: A command needs no standard input and no standard error, but an output."""
    ended = _typed(closed, "whoami", "-o", "json", settings=settings)
    assert (ended.returncode, ended.stderr) == (code, said)
    if code == 0:
        assert json.loads(ended.stdout)["scopes"] == ["admin"]


@pytest.mark.parametrize(("unbuffered", "shown"), [("1", b"begun\n"), ("", b"")])
def test_an_output_without_a_buffer_has_none(unbuffered: str, shown: bytes) -> None:
    """F1820c: With `PYTHONUNBUFFERED`, as in containers, output is written at once."""
    code = (
        "import os; from infra.cli import streams; streams.prepare(); print('begun'); os._exit(0)"
    )
    found = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=environment({"PYTHONUNBUFFERED": unbuffered}),
        stdout=subprocess.PIPE,
        timeout=60,
        check=True,
    )
    assert found.stdout == shown


@pytest.mark.slow
def test_rows_of_standard_input_end_with_any_line_end(settings: dict[str, str]) -> None:
    """F1711g: Standard input of a process is read as a file is: any line end, and strictly."""
    given = r"< <(printf '\xef\xbb\xbfwarrant_id\rsvc_wrt_end-1\r\nsvc_wrt_end-2\n')"
    words = ("revoke", "--file", "-", "--reason", "r")
    ended = _typed(given, *words, settings=settings)
    assert (ended.returncode, b"Read 2 rows" in ended.stderr) == (0, True), ended.stderr
    ended = _typed(r"< <(printf 'svc_wrt_\xff\n')", *words, settings=settings)
    assert (ended.returncode, b"line 1: the line is not UTF-8" in ended.stderr) == (2, True), (
        ended.stderr
    )
    ended = _typed("<&-", *words, settings=settings)
    assert (ended.returncode, ended.stderr) == (2, b"error: - contains no identifiers.\n")


@pytest.mark.slow_on("json", "yaml")
@pytest.mark.parametrize("form", ["table", "json", "yaml", "csv"])
def test_an_output_of_another_encoding_has_escapes(settings: dict[str, str], form: str) -> None:
    """F1714c: A character that the encoding of the output lacks is printed as an escape."""
    encoded = settings | {"PYTHONIOENCODING": "latin-1"}
    made = _typed("", "signing-keys", "create", "root", "\U0001f511", "-o", form, settings=encoded)
    assert made.returncode == 0, made.stderr
    assert b"f511" in made.stdout or b"udd11" in made.stdout
    assert os.fsencode("\U0001f511") not in made.stdout
