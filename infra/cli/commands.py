"""How to write a command.

    app = noun("signing keys: create, rotate, suspend, revoke")
    KeyId = Annotated[str, argument("KEY", "svc_key_…")]

    @command(app, "rotate", example="rescind signing-keys rotate svc_key_01J…")
    def rotate(session: ApiSession, key: KeyId) -> None:
        '''Rotate a signing key: later warrants are signed by its new version.'''

The first parameter is the session of the command. It adds the common options. The types of the
other parameters declare an `option` or an `argument`. A command returns its exit code, or None for
0. `--help` shows its example.
"""

import inspect
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn, Self
from urllib.parse import quote

import typer
from typer.core import TyperCommand, TyperGroup

from infra.cli import profiles, streams
from infra.cli.columns import Column
from infra.cli.errors import (
    SHOWN,
    ApiError,
    ApprovalPending,
    BadResponse,
    ExitCode,
    Limit,
    UsageError,
    Yes,
    argument,
    option,
)
from infra.cli.output import Output, OutputFormat
from infra.cli.profiles import Profile
from shared.errors import InvalidSettings, RescindError

if TYPE_CHECKING:
    from infra.cli.client import ApiClient

# The help panel of the common options.
PANEL: Final = "Common options"
_SETTINGS: Final = {"help_option_names": ["-h", "--help"]}
# Changes to more warrants than this require typing the number.
_TYPED: Final = 100
_UNUSABLE: Final = "an argument is not UTF-8, or a number is too large."

Command = Callable[..., int | None]


def _profiles() -> list[str]:
    """Return completions for a profile name."""
    with suppress(UsageError):
        return profiles.names()
    return []


ProfileOption = Annotated[
    str,
    option(
        "--profile",
        "Profile with the service URL and credential.",
        "NAME",
        envvar="RESCIND_PROFILE",
        autocompletion=_profiles,
        rich_help_panel=PANEL,
    ),
]
OutputOption = Annotated[
    OutputFormat,
    option(
        "-o --output",
        "Output format. wide does not shorten tables; name prints only identifiers.",
        envvar="RESCIND_OUTPUT",
        rich_help_panel=PANEL,
    ),
]

DebugOption = Annotated[
    bool,
    option(
        "--debug",
        "Print each request as a curl command, without the credential.",
        rich_help_panel=PANEL,
    ),
]


@dataclass
class ApiSession:
    """The context of a command that calls the API: profile, client and output."""

    out: Output
    profile_name: str = profiles.DEFAULT
    is_debugged: bool = False
    request_approval: str | None = None
    approval: str | None = None
    _open: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @cached_property
    def profile(self) -> Profile:
        """The profile. Raises `UsageError` if there is none."""
        profile = profiles.load(self.profile_name)
        if profiles.is_replaced(profile):
            name = self.profile_name
            self.out.print_message(f"RESCIND_URL and RESCIND_API_KEY replace the profile {name}.")
        return profile

    @cached_property
    def api(self) -> "ApiClient":
        """The client, with the profile's credential. Raises `UsageError` if there is no profile."""
        from infra.cli.client import ASKS, HEADER, REASON, ApiClient

        headers = {}
        if self.approval is not None and self.request_approval is not None:
            raise UsageError("use one of --request-approval and --approval.")
        if self.approval is not None:
            headers = {HEADER: self.approval}
        elif self.request_approval is not None:
            headers = {HEADER: ASKS, REASON: quote(self.request_approval)}
        on_request = self.out.print_message if self.is_debugged else None
        client = ApiClient(self.profile, on_request=on_request, approving=headers)
        return self._open.enter_context(client)


Identifier = Annotated[str, argument("ID", "Identifier, from the first column of `list`.")]

OPTIONS: Final[Mapping[str, tuple[Any, object]]] = {
    "profile": (ProfileOption, profiles.DEFAULT),
    "output": (OutputOption, OutputFormat.TABLE),
    "debug": (DebugOption, False),
}


APPROVAL_OPTIONS: Final[Mapping[str, tuple[Any, object]]] = {
    "request_approval": (
        Annotated[
            str | None,
            option(
                "--request-approval",
                "Request an approval from another administrator; change nothing.",
                "WHY",
            ),
        ],
        None,
    ),
    "approval": (
        Annotated[str | None, option("--approval", "Use this approval (svc_apr_…).", "ID")],
        None,
    ),
}


WATCH_OPTIONS: Final[Mapping[str, tuple[Any, object]]] = {
    "watch": (
        Annotated[
            int | None,
            option(
                "--watch",
                "Refresh every N seconds (default: 2) and print changes.",
                "[SECONDS]",
                min=1,
            ),
        ],
        None,
    ),
}


def noun(help_: str, *, cls: type[TyperGroup] = TyperGroup) -> typer.Typer:
    """Return a command group for one noun."""
    return typer.Typer(
        cls=cls,
        help=unwrap_paragraphs(help_),
        no_args_is_help=True,
        context_settings=_SETTINGS,
        rich_markup_mode="rich",
        # A traceback with the values of variables could show a key.
        pretty_exceptions_enable=False,
    )


def command(
    app: typer.Typer, name: str, *, example: str, is_protected: bool = False, watches: bool = False
) -> Callable[[Command], Command]:
    """Add a command that calls the API. Its first parameter is an `ApiSession`.

    A command that `is_protected` has the options to request and to use an approval. A command that
    `watches` is read-only and has the option `--watch`.
    """
    approvals = APPROVAL_OPTIONS if is_protected else {}
    more = {**approvals, **(WATCH_OPTIONS if watches else {})}

    def run(function: Command, arguments: dict[str, Any]) -> int | None:
        chosen, output = arguments.pop("profile"), Output(arguments.pop("output"))
        seconds = arguments.pop("watch") if watches else None
        approving = {each: arguments.pop(each) for each in approvals}
        session = ApiSession(output, chosen, arguments.pop("debug"), **approving)
        with raise_on_signals(), session:

            def work() -> int | None:
                return function(session, **arguments)

            def work_or_request() -> int | None:
                try:
                    return work()
                except ApprovalPending as error:
                    output.record(error.asked)
                    output.print_message(error.next)
                    return ExitCode.DONE

            if seconds is not None:
                return run_guarded(output, lambda: _watch(session, seconds, work))
            return run_guarded(output, work_or_request)

    return add(app, name, example=example, options={**more, **OPTIONS}, run=run)


class _BufferedOutput(Output):
    """Keeps output until it is known whether the output is new."""

    def __init__(self, out: Output) -> None:
        super().__init__(out.format)
        self._waiting: list[Callable[[], None]] = []
        for name in ("print_table", "print_tree", "record", "show", "print_message"):
            setattr(self, name, partial(self._keep, getattr(out, name)))

    def _keep(self, print_: Callable[..., None], *arguments: Any, **more: Any) -> None:
        self._waiting.append(partial(print_, *arguments, **more))

    def print(self) -> None:
        """Print the kept output. On a terminal, clear the screen first."""
        if sys.stdout.isatty() and self.is_for_people:
            sys.stdout.write("\x1b[H\x1b[2J")
        for each in self._waiting:
            each()
        sys.stdout.flush()


def _watch(session: ApiSession, seconds: int, work: Callable[[], int | None]) -> int | None:
    """Repeat a command until Ctrl+C. Print its result when a response has changed."""
    out, api, code = session.out, session.api, None
    try:
        while True:
            session.out = buffer = _BufferedOutput(out)
            api.begin_round()
            try:
                code = work()
            except BadResponse as error:
                out.print_message(str(error))
            else:
                if api.has_news:
                    buffer.print()
            time.sleep(seconds)
    except KeyboardInterrupt:
        return code


def local_command(app: typer.Typer, name: str, *, example: str) -> Callable[[Command], Command]:
    """Add a command that works on files only. Its first parameter is an `Output`."""

    def run(function: Command, arguments: dict[str, Any]) -> int | None:
        output = Output(arguments.pop("output"))
        return run_guarded(output, lambda: function(output, **arguments))

    return add(app, name, example=example, options={"output": OPTIONS["output"]}, run=run)


def add(
    app: typer.Typer,
    name: str,
    *,
    example: str,
    options: Mapping[str, tuple[Any, object]],
    run: Callable[[Command, dict[str, Any]], int | None],
) -> Callable[[Command], Command]:
    """Add a command with these options and their defaults. `run` supplies its first parameter."""

    def register(function: Command) -> Command:
        def call(**arguments: Any) -> None:
            raise typer.Exit(run(function, arguments) or ExitCode.DONE)

        # Typer reads the name, the help and the parameters of a command from its function.
        keyword = inspect.Parameter.KEYWORD_ONLY
        own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
        parameters = [each.replace(kind=keyword) for each in own]
        for option_name, (type_, default) in options.items():
            parameters.append(
                inspect.Parameter(option_name, keyword, annotation=type_, default=default)
            )
        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        call.__annotations__ = {each.name: each.annotation for each in parameters}
        call.__name__, call.__doc__ = function.__name__, unwrap_paragraphs(function.__doc__ or "")
        # Rich would parse the brackets in the example as markup.
        epilog = f"Example: [bold]{example.replace('[', chr(92) + '[')}[/bold]"
        app.command(name, cls=_StrictCommand, epilog=epilog, context_settings=_SETTINGS)(call)
        return function

    return register


class _StrictCommand(TyperCommand):
    """Rejects an option that is given twice. Typer would use only the last value."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        *_, used = self.make_parser(ctx).parse_args([*args])
        # Shell completion reports no errors.
        for each in [] if ctx.resilient_parsing else ctx.command.params:
            if used.count(each) > 1 and not (each.multiple or each.is_flag):
                ctx.fail(f"{each.opts[0]} was given twice; write it once.")
        return super().parse_args(ctx, args)


@dataclass(frozen=True)
class Resource:
    """Adds standard commands, which need only an identifier, to the group `name` in `app`.

    `path` is the collection of the resources. `sample` is an identifier for examples. `field` is
    the member of a page that contains the records, by default `name`.
    """

    app: typer.Typer
    name: str
    path: str
    sample: str
    columns: Sequence[Column]
    field: str = ""

    def add_list(self, text: str, *, in_pages: bool = True) -> None:
        """Add `list`. Each `text` is the help of its command."""
        field = self.field or self.name

        def list_(session: ApiSession, limit: Limit = SHOWN) -> None:
            page = session.api.list_records(self.path, field, most=limit)
            session.out.print_page(page, field, self.columns)

        def list_whole(session: ApiSession) -> None:
            page = {**session.api.get(self.path), "cursor": None}
            session.out.print_page(page, field, self.columns)

        self._add("list", list_ if in_pages else list_whole, text, "", watches=True)

    def add_show(self, text: str) -> None:
        """Add `show`."""

        def show(session: ApiSession, identifier: Identifier) -> None:
            session.out.record(session.api.get(self.at(identifier)))

        self._add("show", show, text, watches=True)

    def add_action(self, name: str, text: str, *, is_protected: bool = False) -> None:
        """Add a command that posts to a path with this name below a resource."""

        def run_action(session: ApiSession, identifier: Identifier) -> None:
            session.out.record(session.api.post(self.at(identifier, f"/{name}")))

        self._add(name, run_action, text, is_protected=is_protected)

    def add_delete(self, text: str, loss: str, *, is_protected: bool = False) -> None:
        """Add `delete`, with a confirmation.

        `loss` names the resource, for example `the account {}`.
        """

        def delete(session: ApiSession, identifier: Identifier, yes: Yes = False) -> None:
            confirm(f"Delete {loss.format(identifier)}?", yes=yes)
            session.api.delete(self.at(identifier))
            session.out.print_message(f"Deleted {identifier}.")

        words = f" {self.sample} --yes"
        self._add("delete", delete, text, words, is_protected=is_protected)

    def at(self, identifier: str, suffix: str = "") -> str:
        """Return the path of a resource, or of a path below it."""
        from infra.cli.client import segment

        return f"{self.path}/{segment(identifier)}{suffix}"

    def _add(
        self,
        name: str,
        function: Command,
        text: str,
        words: str | None = None,
        *,
        is_protected: bool = False,
        watches: bool = False,
    ) -> None:
        function.__doc__ = text
        example = f"rescind {self.name} {name}{f' {self.sample}' if words is None else words}"
        add_to = command(
            self.app, name, example=example, is_protected=is_protected, watches=watches
        )
        add_to(function)


def confirm(question: str, *, yes: bool, number: int = 0) -> None:
    """Ask for confirmation unless `--yes` is given. Abort if the answer is no.

    For a `number` above 100, the user must type the number. Raises `UsageError` without a terminal.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"{question} Cannot prompt without a terminal; add --yes.")
    if number <= _TYPED:
        typer.confirm(question, abort=True, err=True)
    elif typer.prompt(f"{question} Type {number} to confirm", err=True) != str(number):
        raise typer.Abort


class EndedBySignal(KeyboardInterrupt):
    """SIGTERM or SIGHUP was received.

    Only `KeyboardInterrupt` passes through Python while it compiles.
    """


@contextmanager
def raise_on_signals() -> Iterator[None]:
    """Make SIGTERM and SIGHUP interrupt the block, so it can report and clean up.

    The exit code equals the code that a shell reports for the signal.
    """

    def end(number: int, _: object) -> NoReturn:
        # A closed terminal sends several signals. The first one suffices.
        for each in signals:
            signal.signal(each, signal.SIG_IGN)
        raise EndedBySignal(number)

    signals = [
        each
        for each in (signal.SIGTERM, signal.SIGHUP)
        # `nohup` ignores SIGHUP. Only the main thread can handle signals.
        if signal.getsignal(each) is signal.SIG_DFL
        and threading.current_thread() is threading.main_thread()
    ]
    for each in signals:
        signal.signal(each, end)
    try:
        yield
    except EndedBySignal as ended:
        raise typer.Exit(128 + ended.args[0]) from None
    finally:
        for each in signals:
            signal.signal(each, signal.SIG_DFL)


def run_guarded(out: Output, work: Callable[[], int | None]) -> int | None:
    """Run a command, and return its exit code. Errors become a message and a code."""
    try:
        try:
            return work()
        finally:
            sys.stdout.flush()
    except typer.Abort as error:
        # Typer raises it in place of Ctrl+C, a signal, or the end of the input.
        raise error.__context__ or error from None
    except (UsageError, InvalidSettings, UnicodeEncodeError, OverflowError) as error:
        text = str(error) if isinstance(error, RescindError) else _UNUSABLE
        out.print_error(text, {"code": "usage", "message": text})
        return ExitCode.USAGE
    except ApiError as error:
        text = str(error)
        if error.status >= HTTPStatus.INTERNAL_SERVER_ERROR and error.request_id:
            text += f"\nrequest {error.request_id}"
        out.print_error(text, {"code": error.code, "message": error.message})
        return ExitCode.FAILED
    except BadResponse as error:
        out.print_error(str(error), {"code": "no_answer", "message": str(error)})
        return ExitCode.FAILED
    except RescindError as error:
        text = str(error) if error.__cause__ is None else ""
        out.print_error(
            text or format_error(error), {"code": type(error).__name__, "message": str(error)}
        )
        return ExitCode.FAILED
    except streams.ReaderGone:
        raise
    except OSError as error:
        out.print_error(str(error), {"code": "os_error", "message": str(error)})
        streams.discard_output()
        return ExitCode.FAILED


def format_error(error: BaseException) -> str:
    """Return the type and text of an error and of its causes, one per line."""
    lines = [f"{type(error).__name__}: {error}"]
    while error.__cause__ is not None:
        error = error.__cause__
        lines.append(f"  caused by {type(error).__name__}: {error}")
    return "\n".join(lines)


def unwrap_paragraphs(text: str) -> str:
    """Join each paragraph into one line, because Typer keeps line feeds."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(" ".join(each.split()) for each in paragraphs)
