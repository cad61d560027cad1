"""The forms of results, times as people say them, and any request of the API."""

import csv
import json
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path

import pytest
import typer
import yaml

from infra.cli.columns import Column
from infra.cli.commands import confirm
from infra.cli.errors import ago, parse_future_time
from infra.cli.output import Output, OutputFormat
from tests.infra.cli.conftest import Shell
from tests.kit.processes import ROOT, LocalServer

_COLUMNS = [Column("id", "id"), Column("other", "other"), Column("name", "name", wraps=True)]
_ROWS = [
    {"id": f"svc_key_{'1' * 25}{n}", "other": f"svc_ak_{'0' * 25}{n}", "name": name}
    for n, name in enumerate(["=1+1", "a, b", "\x1b[2J"])
]


def _shown(capsys: pytest.CaptureFixture[str], format_: OutputFormat) -> str:
    Output(format_).print_table({"rows": _ROWS}, _ROWS, _COLUMNS)
    return capsys.readouterr().out


def test_each_format_of_a_table(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """F1080a: In 60 columns identifiers are shortened where they differ; `wide` has them whole.

    CSV has no cell that a spreadsheet takes for a formula, and `name` the identifiers alone.
    """
    monkeypatch.setenv("COLUMNS", "60")
    names = [each["id"] for each in _ROWS]
    table = _shown(capsys, OutputFormat.TABLE)
    assert max(map(len, table.splitlines())) <= 60
    assert "svc_key_…111111" in table
    assert all(each in _shown(capsys, OutputFormat.WIDE) for each in names)
    assert _shown(capsys, OutputFormat.NAME).split() == names
    cells = list(csv.DictReader(StringIO(_shown(capsys, OutputFormat.CSV))))
    assert [each["name"] for each in cells] == ["'=1+1", "a, b", "\\x1b[2J"]
    assert json.loads(_shown(capsys, OutputFormat.JSON)) == {"rows": _ROWS}
    assert yaml.safe_load(_shown(capsys, OutputFormat.YAML)) == {"rows": _ROWS}


def test_a_record_and_a_refusal_as_csv(admin: Shell) -> None:
    """F1080b: One record is a line of CSV below its names; a refusal is no line of it."""
    made = admin.run("signing-keys", "create", "root", "csv", "-o", "csv")
    (record,) = csv.DictReader(StringIO(made.out))
    assert (record["type"], record["name"]) == ("root", "csv")
    assert record["id"] in admin.run("signing-keys", "tree", "-o", "name").out.split()
    refused = admin.run("signing-keys", "show", "svc_key_none", "-o", "csv")
    assert (refused.code, refused.out) == (1, "")
    assert refused.err.startswith("error: ")


@pytest.mark.parametrize(("span", "seconds"), [("15m", 900), ("1h", 3600), ("7d", 604800)])
def test_times_as_people_say_them(span: str, seconds: int) -> None:
    """F1081a: `15m`, `1h`, `7d` are so long ago for filters, and so far ahead for ends."""
    for read, direction in ((ago, -1), (parse_future_time, 1)):
        wanted = datetime.now(UTC) + direction * timedelta(seconds=seconds)
        assert abs(datetime.fromisoformat(read(span)) - wanted) < timedelta(minutes=1)
    assert ago("2026-11-01T00:00:00Z") == "2026-11-01T00:00:00Z"
    with pytest.raises(ValueError, match="RFC 3339"):
        ago(f"1{span}x")


def test_any_request_of_the_api(admin: Shell, tmp_path: Path) -> None:
    """F1082a: `api` sends fields, a body or a file, reads all pages, and prints answers as JSON."""
    create = ("api", "post", "/v1/keys")
    made = [
        json.loads(admin.run(*create, "-f", "type=root", "-f", f"name=api-{number}").out)["id"]
        for number in range(3)
    ]
    body = tmp_path / "body.json"
    body.write_text('{"reason": "lost"}')
    path = f"/v1/keys/{made[0]}/revoke"
    assert json.loads(admin.run("api", "POST", path, "--input", body).out)["status"] == "revoked"
    paged = admin.run("api", "GET", "/v1/keys", "-f", "limit=1", "--paginate")
    found = json.loads(paged.out)
    assert {*made} <= {each["id"] for each in found["keys"]}
    assert found["cursor"] is None
    searched = json.loads(admin.run("api", "GET", "/v1/search?q=api-1").out)
    assert [each["id"] for each in searched["results"]] == [made[1]]
    checked = ("api", "POST", "/v1/revocations/check-batch", "-f", 'warrant_ids:=["svc_wrt_a"]')
    assert "svc_wrt_a" in json.loads(admin.run(*checked).out)["results"]
    for wrong in (
        ("GET", "https://elsewhere.example/v1/keys"),
        ("GET", "/v1/keys", "--input", body),
        ("POST", "/v1/keys", "--paginate"),
        ("POST", "/v1/keys?type=root"),
        ("POST", "/v1/keys", "-f", "name"),
        ("POST", "/v1/keys", "-f", "name:=x"),
    ):
        assert admin.run("api", *wrong).code == 2


def test_a_request_as_curl_does_the_same(admin: Shell, service: LocalServer) -> None:
    """F1082b: `--debug` prints a command of curl without the key, which a shell can run."""
    ended = admin.run("signing-keys", "create", "root", "it's $HOME", "--debug", "-o", "json")
    line = ended.err.splitlines()[0]
    assert service.admin_key not in ended.err
    again = subprocess.run(
        ["sh", "-c", f"{line} --silent"],
        env={"RESCIND_API_KEY": service.admin_key, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        check=True,
    )
    # The same Idempotency-Key: nothing is made twice.
    assert json.loads(again.stdout)["id"] == json.loads(ended.out)["id"]


@pytest.mark.slow
def test_programs_load_no_tables() -> None:
    """F1083a, F1345a: `--version` parses nothing; results in JSON load nothing else."""
    program = (
        "import sys; from infra.cli.__main__ import main; sys.argv[1:] = {}\n"
        "try: main()\nexcept SystemExit: pass\nprint({!r} in sys.modules)"
    )
    for words, module in (
        (["--version"], "typer"),
        (["logout", "--profile", "nobody", "-o", "json"], "pydantic"),
        (["logout", "--profile", "nobody", "-o", "json"], "rich.table"),
        (
            ["signing-keys", "list", "--profile", "nobody", "-o", "json"],
            "shared.model.lists.verification",
        ),
    ):
        ended = subprocess.run(
            [sys.executable, "-c", program.format(words, module)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        assert ended.stdout.splitlines()[-1] == "False"


@pytest.mark.parametrize(
    ("number", "answer", "is_done"),
    [(100, "y", True), (100, "n", False), (101, "101", True), (101, "y", False)],
)
def test_a_large_change_is_confirmed_by_its_number(
    monkeypatch: pytest.MonkeyPatch, number: int, answer: str, is_done: bool
) -> None:
    """F1084a: Above 100 warrants the answer is their number, so that nobody says yes by habit."""

    class Terminal(StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdin", Terminal(f"{answer}\n"))
    if is_done:
        confirm("Revoke?", yes=False, number=number)
    else:
        with pytest.raises(typer.Abort):
            confirm("Revoke?", yes=False, number=number)


@pytest.mark.slow
@pytest.mark.usefixtures("default_signals")
def test_a_command_watches_and_prints_what_is_new(admin: Shell) -> None:
    """F1356a: `--watch` prints again only after a change, asks by ETag, and ends by Ctrl+C."""
    name = f"svc_wrt_watched-{datetime.now(UTC).microsecond}"
    watch = [sys.executable, "-m", "infra.cli", "revocations", "list", "--watch", "1", "-n", "1"]
    with subprocess.Popen(
        [*watch, "-o", "name"], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        for number in range(2):
            admin.run("revoke", f"{name}-{number}", "--reason", "watched")
            told = iter(process.stdout.readline, "")
            assert any(each == f"{name}-{number}\n" for each in told)
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == ""
        assert process.wait(60) == 0


def test_a_watched_status_is_not_sent_again(admin: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """F1356b: A status with an ETag is asked for by it, and printed once, here in YAML."""
    admin.run("srl", "publish")
    rounds = iter([None, None])

    def sleep(seconds: float) -> None:
        assert seconds == 2
        if next(rounds, KeyboardInterrupt):
            raise KeyboardInterrupt

    monkeypatch.setattr("infra.cli.commands.time.sleep", sleep)
    ended = admin.run("srl", "status", "--watch", "-o", "yaml", "--debug")
    assert ended.code == 0, ended.err
    assert ended.err.count("curl") == 3
    assert ended.err.count("If-None-Match") == 2
    assert yaml.safe_load(ended.out)["version"]
    assert ended.out.count("\nversion:") + ended.out.startswith("version:") == 1


def test_a_watch_of_nothing_good(admin: Shell) -> None:
    """F1356c: A refusal ends a watch; a pause of no second, or a change, is none to watch."""
    assert admin.run("signing-keys", "show", "svc_key_none", "--watch").code == 1
    assert admin.run("signing-keys", "list", "--watch", "0").code == 2
    assert admin.run("revoke", "svc_wrt_a", "--reason", "x", "--watch").code == 2
