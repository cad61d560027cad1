"""What all commands of `rescind` have in common."""

import json
import re
import shlex
from typing import Final

import pytest
from typer.testing import CliRunner

from infra.cli.app import NAME, app
from shared import __version__
from shared.authorizer.http1 import printable
from tests.infra import console
from tests.infra.cli.conftest import COMMANDS, ROOT_COMMAND, Shell
from tests.kit.processes import ROOT, LocalServer

# Where a page has a variable of the shell, a public key will do.
_KEY: Final = "3Wu7mlkdA5sjA639d9p7b5CNORg92qQQz0uZixfeYJg="


def test_each_command_shows_an_example_that_it_accepts(monkeypatch: pytest.MonkeyPatch) -> None:
    """F416a: The help of each command has an example, which the command accepts as it stands."""
    for path, command in COMMANDS:
        for name in ("PROFILE", "OUTPUT"):
            monkeypatch.delenv(f"RESCIND_{name}", raising=False)
        found = re.fullmatch(r"Example: \[bold\](.*)\[/bold\]", command.epilog or "")
        assert found, path
        typed = shlex.split(re.split(r" (?:\|\|?|<|>|&&) ", found[1])[0])
        assert tuple(typed[: len(path)]) == path, path
        command.make_context(path[-1], typed[len(path) :])
        assert len((command.help or "").splitlines()[0]) > 10, path


@pytest.mark.slow
def test_each_help_fits_a_terminal() -> None:
    """F1302a: In 80 columns, the help of each command has every option whole, and no wider line."""
    for path, command in COMMANDS:
        said = CliRunner().invoke(app, [*path[1:], "--help"], env={"TERM": "dumb"})
        assert said.exit_code == 0, path
        assert max(map(len, said.output.splitlines())) <= 80, path
        shown = set(re.findall(r"(?<!\S)--?[a-z][a-z-]*", said.output))
        options = {each.opts[0] for each in command.params if each.param_type_name == "option"}
        assert options - shown - {"--help"} == set(), path


_TYPED: Final = re.compile(r"(?:^|(?<!exec)[(\s])(?:\.venv/bin/)?rescind ([a-z].*)")
_DOCUMENTED: Final = [
    typed[1]
    for page in console.PAGES
    for block in console.blocks(page)
    for line in block.replace("\\\n", " ").splitlines()
    if (typed := _TYPED.search(line))
]


def test_each_documented_command_is_accepted() -> None:
    """F416c: The program accepts the arguments of each `rescind` command in the documentation."""
    for typed in _DOCUMENTED:
        words = shlex.split(re.split(r" (?:\|\|?|<|>|&&|-o json \|)|\)$", typed)[0])
        command, path = ROOT_COMMAND, [NAME]
        while hasattr(command, "commands"):
            path.append(words.pop(0))
            command = command.commands[path[-1]]
        given = {"$TENANT": "acme", "$PIN": "0" * 64}
        filled = [given.get(each, _KEY) if each.startswith("$") else each for each in words]
        command.make_context(path[-1], filled)


_FENCED: Final = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
_NAMED: Final = [
    named.replace("\n", " ")
    for page in console.PAGES
    for named in re.findall(r"`rescind ([a-z][^`]*)`", _FENCED.sub("", console.text(page)))
]


def test_each_command_in_a_sentence_exists() -> None:
    """F416: The commands and options that the sentences of the documentation name exist."""
    for named in _NAMED:
        command, words = ROOT_COMMAND, named.replace("|", " ").split()
        while hasattr(command, "commands") and words:
            command = command.commands[words.pop(0)]
        known = {option for each in getattr(command, "params", ()) for option in each.opts}
        assert {each for each in words if each.startswith("-")} <= known | {"--help"}, named


def test_the_version_is_of_the_newest_release_or_after_it(shell: Shell) -> None:
    """F33n: The command line prints the version of the newest release, or of the build after it.

    Before the first release, it prints the version of a development build.
    """
    ended = shell.run("--version")
    assert (ended.code, ended.out) == (0, f"rescind {__version__}\n")
    newest = re.search(r"^## (\d.*?) - ", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    if newest is None:
        assert re.fullmatch(r"\d+\.\d+\.0\.dev0", __version__)
        return
    major, minor, _ = newest[1].split(".")
    assert __version__ in (newest[1], f"{major}.{int(minor) + 1}.0.dev0")


def test_no_secret_is_an_argument() -> None:
    """F418a: No command takes an API key or another secret as an argument or option."""
    taken = {
        option
        for _, command in COMMANDS
        for parameter in command.params
        for option in [parameter.name, *parameter.opts]
        # This one names a token by its issuer and its number.
        if parameter.metavar != "KIND ISSUER VALUE"
    }
    assert "reason" in taken
    assert not [
        each
        for each in taken
        # A file that has one is no secret.
        if re.search(r"(secret|token)(?!.file$|.reuse$)|api.key$|password", each)
    ]


def test_the_key_is_read_and_kept_for_its_owner_alone(shell: Shell, service: LocalServer) -> None:
    """F418b: `login` reads the key from standard input, and keeps it in a file of mode 0600."""
    ended = shell.run("login", "--url", service.url, stdin=service.admin_key + "\n")
    assert ended.code == 0, ended.err
    assert service.admin_key not in ended.out + ended.err
    (file,) = (path for path in shell.home.rglob("*") if path.is_file())
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert shell.json("whoami")["scopes"] == ["admin"]
    assert shell.run("logout").code == 0
    assert not file.exists()
    for command in (["whoami"], ["revoke", "svc_wrt_1", "--reason", "a"]):
        ended = shell.run(*command)
        assert (ended.code, ended.out) == (2, "")
        assert ended.err == "error: there is no profile default; to create it, run: rescind login\n"


def test_only_who_signed_in_is_shown_a_session(admin: Shell) -> None:
    """F1220c: `whoami` shows nothing of sessions to the holder of an API key."""
    shown = admin.json("whoami")
    assert shown["api_key_id"]
    assert not {"session_id", "person_id", "role", "authenticated_at"} & shown.keys()


def test_a_key_that_is_refused_makes_no_profile(shell: Shell, service: LocalServer) -> None:
    """F418c: A key that the service does not accept is not kept."""
    ended = shell.run("login", "--url", service.url, stdin="svc_ak_wrong\n")
    assert ended.code == 2
    assert not shell.home.exists()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"URL": "http://rescind.example.com", "API_KEY": "k"}, "without TLS"),
        ({"URL": "ftp://rescind.example.com", "API_KEY": "k"}, "URL is invalid"),
        ({"URL": "https://me:x@rescind.example.com", "API_KEY": "k"}, "URL is invalid"),
        ({"URL": "https://rescind.example.com"}, "both"),
        ({"API_KEY": "k"}, "both"),
        ({"URL": "https://rescind.example.com", "API_KEY": "k\nHost: x"}, "invalid character"),
        ({"PROFILE": "../other"}, "a profile name"),
    ],
)
def test_a_key_goes_only_where_it_belongs(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], said: str
) -> None:
    """F419a: No key is sent without TLS to another machine, or to an address not given with it."""
    for name, value in settings.items():
        monkeypatch.setenv(f"RESCIND_{name}", value)
    ended = shell.run("whoami")
    assert (ended.code, ended.out) == (2, "")
    assert said in " ".join(ended.err.split())


def test_a_profile_that_others_can_change_is_refused(shell: Shell, service: LocalServer) -> None:
    """F419b: A profile that other users can write to is refused, since they choose the address."""
    assert shell.run("login", "--url", service.url, stdin=service.admin_key).code == 0
    (shell.home / "default").chmod(0o777)
    ended = shell.run("whoami")
    assert (ended.code, ended.out) == (2, "")
    assert "writable by others" in " ".join(ended.err.split())


def test_a_command_tells_what_went_wrong(admin: Shell) -> None:
    """F417a: A refusal has exit code 1 and its error code, a wrong argument has exit code 2."""
    ended = admin.run("revocations", "show", "svc_rev_01jd8x6d5v0000000000000000")
    assert (ended.code, ended.out) == (1, "")
    assert "(not_found)" in ended.err
    ended = admin.run("signing-keys", "show", "../api-keys", "-o", "json")
    assert ended.code == 1
    assert json.loads(ended.err)["error"]["code"] in {"not_found", "invalid_request"}
    assert admin.run("check", "laptop-17").code == 2
    assert admin.run("signing-keys", "frobnicate").code == 2


def test_a_service_that_is_not_there_is_named(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F417b: If nothing answers, the exit code is 1 and the message names the address."""
    monkeypatch.setenv("RESCIND_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("RESCIND_API_KEY", "svc_ak_never_sent")
    ended = shell.run("check", "svc_wrt_a")
    assert (ended.code, ended.out) == (1, "")
    assert "http://127.0.0.1:9/v1/revocations/check" in ended.err
    assert "never_sent" not in ended.err


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, ünï", "plain, ünï"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("abc\u202edcb", "abc\\u202edcb"),
        ("two\nlines", "two\\nlines"),
        ("\x9b2J", "\\x9b2J"),
        ("[bold]no markup[/bold]", "[bold]no markup[/bold]"),
    ],
)
def test_text_cannot_command_the_terminal(text: str, shown: str) -> None:
    """F420a: Control characters in text of the service are shown as escapes."""
    assert printable(text, most=None) == shown
