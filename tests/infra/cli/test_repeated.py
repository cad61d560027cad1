"""Values that are given twice: the last one must not replace the others in silence."""

from contextlib import suppress
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from infra.cli.app import app
from infra.cli.errors import UsageError
from infra.cli.inputs import by_name
from shared.authorizer.__main__ import main as authorizer
from tests.infra.cli.conftest import COMMANDS, Shell

_OPTIONS = [
    (path, option)
    for path, command in COMMANDS
    for option in command.params
    if option.param_type_name == "option"
]
_SINGLE = [(path, it) for path, it in _OPTIONS if not (it.multiple or it.is_flag)]


@pytest.mark.slow
def test_each_option_with_one_value_is_refused_twice() -> None:
    """F1950a: Every option with one value, of every command, is refused if it is given twice."""
    assert len(_SINGLE) > 400
    assert {("rescind", "revoke"), ("rescind", "serve")} <= {path for path, _ in _SINGLE}
    for path, option in _SINGLE:
        value = ["x"] * option.nargs
        # Each option has one or two names.
        typed = [*path[1:], option.opts[0], *value, option.opts[-1], *value]
        ended = CliRunner().invoke(app, typed, env={"COLUMNS": "200", "TERM": "dumb"})
        assert ended.exit_code == 2, typed
        assert f"{option.opts[0]} was given twice; write it once." in ended.output, typed


def test_lists_and_flags_are_accepted_twice() -> None:
    """F1950b: Options that take several values, and options without a value, may be repeated."""
    others = [each for each in _OPTIONS if each not in _SINGLE]
    assert {option.is_flag for _, option in others} == {True, False}
    commands = dict(COMMANDS)
    for path, option in others:
        typed = [option.opts[0], *([] if option.is_flag else ["x"])] * 2
        # Other arguments are missing, or no value is valid. A refusal is not a `BadParameter`.
        with suppress(typer.BadParameter):
            commands[path].make_context(path[-1], typed)


def test_a_line_with_an_option_twice_is_completed() -> None:
    """F1950c: A shell completes a line also if an option is there twice."""
    command = dict(COMMANDS)["rescind", "revoke"]
    typed = ["--file", "a", "--file", "b"]
    assert command.make_context("revoke", typed, resilient_parsing=True).params["file"]


@pytest.mark.parametrize("option", ["--file", "--jwt", "--token"])
def test_no_file_replaces_another(admin: Shell, tmp_path: Path, option: str) -> None:
    """F1950d: Nothing is revoked if a source of identifiers is given twice."""
    file = tmp_path / "lost.txt"
    file.write_text("svc_wrt_twice\n")
    value = ["other", "issuer", "serial"] if option == "--token" else [str(file)]
    ended = admin.run("revoke", option, *value, option, *value, "--reason", "r")
    assert (ended.code, ended.out) == (2, "")
    assert f"{option} was given twice" in ended.err
    assert admin.run("check", "svc_wrt_twice").code == 0


@pytest.mark.parametrize(
    "typed",
    [
        ["settings", "set", "feed_window_ms=0", "feed_window_ms=5"],
        ["settings", "set", "feed_window_ms=0", "feed window ms=0"],
        [
            "api",
            "PATCH",
            "/v1/tenant/settings",
            "-f",
            "feed_window_ms=0",
            "-f",
            "feed_window_ms:=5",
        ],
        ["api", "GET", "/v1/keys?feed_window_ms=5&feed_window_ms=6"],
        ["api", "GET", "/v1/keys?feed_window_ms=5", "-f", "feed_window_ms=6"],
    ],
)
def test_a_name_that_is_given_twice(admin: Shell, typed: list[str]) -> None:
    """F1951a: A setting, a field or a parameter that is given twice is refused."""
    ended = admin.run(*typed)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == "error: feed_window_ms was given twice; write it once.\n"


def test_values_by_name() -> None:
    """F1951b: Values of different names are kept in their order."""
    assert list(by_name([("b", 1), ("a", None)]).items()) == [("b", 1), ("a", None)]
    with pytest.raises(UsageError):
        by_name([("a", None), ("a", None)])


_AUTHORIZER = ("--tenant", "--trust-pin", "--name")
_OF_A_CLIENT = (*_AUTHORIZER, "--state-dir")


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("status", _OF_A_CLIENT),
        ("watch", _OF_A_CLIENT),
        ("ext-authz", (*_OF_A_CLIENT, "--listen")),
        (
            "relay",
            (*_AUTHORIZER, "--state", "--listen", "--tokens", "--certificate", "--key"),
        ),
    ],
)
def test_each_option_of_an_authorizer(
    command: str, options: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """F1952a: Authorizers and relays refuse an option with a value that is given twice."""
    with pytest.raises(SystemExit):
        authorizer([command, "--help"])
    shown = capsys.readouterr().out
    assert all(f"{each} " in shown for each in options)
    # The metavariable of an option follows it.
    assert shown.count("\n  --") == len(options) + shown.count("\n  --allow") + ("--no-" in shown)
    for option in options:
        with pytest.raises(SystemExit) as ended:
            authorizer([command, "http://a.example", option, "a", f"{option}=b"])
        assert ended.value.code == 2
        assert f"{option} was given twice; write it once." in capsys.readouterr().err
