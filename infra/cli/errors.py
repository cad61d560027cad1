"""Errors and exit codes of commands, and checks of their arguments."""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import Annotated, Any, Final, TypeVar

import typer

from shared.errors import RescindError
from shared.model import identifiers, text, times

T = TypeVar("T")

SHOWN: Final = 100

# The default lifetime of a new key, as in the console.
LIFETIME: Final = "90d"

_SPAN: Final = re.compile(r"([0-9]{1,5})([smhd])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class ExitCode(IntEnum):
    """The exit codes of commands.

    `REVOKED` means that a requested warrant is revoked. `UNKNOWN` has the same number: a recovery
    succeeded, but some changes since the restored backup are unknown.
    """

    DONE = 0
    FAILED = 1
    USAGE = 2
    REVOKED = 3
    UNKNOWN = 3


class UsageError(RescindError):
    """The arguments, the profile or the environment are wrong. No request was sent."""


class BadResponse(RescindError):
    """The service cannot be reached, or its response is not in the format of this API."""


class NotSignedIn(RescindError):
    """The sign-in failed: the person, the provider or the service refused, or it timed out."""


class NotWritten(RescindError):
    """A file for the result cannot be written."""


class ApiError(RescindError):
    """The service refused the request, with an HTTP `status` and an error `code` of API-10.

    `request_id` identifies the request in the log of the service, if the response contains it.
    `remedy` is a command.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        request_id: str | None,
        remedy: str | None = None,
    ) -> None:
        self.status = status
        self.code = code
        self.message = message
        self.request_id = request_id
        super().__init__(f"{message} ({code})" + (f"\nRun: {remedy}" if remedy else ""))


class ApprovalPending(RescindError):
    """The command requested the approval `asked`, and changed no data."""

    def __init__(self, approval: Mapping[str, Any]) -> None:
        self.asked = approval
        super().__init__("an approval was requested")

    @property
    def next(self) -> str:
        """The next step of the user, after the approval."""
        subject = str(self.asked["subject"])
        is_manifest = subject.startswith(f"svc_{identifiers.MANIFEST}_")
        words = (
            f"rescind unrevoke --reason WHY --manifest {subject}"
            if is_manifest
            else "the same command"
        )
        return (
            f"Nothing was changed. After another administrator has approved it, run {words} "
            f"with --approval {self.asked['approval_id']}"
        )


def argument_type(read: Callable[[str], T]) -> Callable[[str], T]:
    """Return `read` as an argument type that shows the text of its errors to the user."""

    def checked_read(value: str) -> T:
        try:
            return read(value)
        except (TypeError, ValueError) as error:
            raise typer.BadParameter(str(error)) from None

    # Help shows the name of the type, unless the option has a metavar.
    checked_read.__name__ = "text"
    return checked_read


def public_keys(option: str, help_: str) -> Any:
    """Return an option that takes Ed25519 public keys of 32 bytes each."""
    return typer.Option(option, parser=argument_type(_public_key), metavar="BASE64", help=help_)


def _public_key(value: str) -> bytes:
    # Imported here because the import is slow, and most commands do not need it.
    from shared.model.lists.verification import public_key_bytes  # noqa: PLC0415

    return public_key_bytes(value)


def ago(value: str) -> str:
    """Return a time for the API: a timestamp as given, or a span (`15m`, `1h`, `7d`) before now.

    Raises `ValueError` if it is neither.
    """
    return _moment(value, -1)


def parse_future_time(value: str) -> str:
    """Return a time for the API: a timestamp as given, or a span (`15m`, `1h`, `7d`) from now.

    Raises `ValueError` if it is neither.
    """
    return _moment(value, 1)


def _moment(value: str, direction: int) -> str:
    span = _SPAN.fullmatch(value)
    if span is None:
        times.parse(value)
        return value
    seconds = int(span[1]) * _SECONDS[span[2]]
    return times.format_utc(datetime.now(UTC) + direction * timedelta(seconds=seconds))


def drop_missing(body: Mapping[str, object]) -> dict[str, object]:
    """Return a body without the fields that are None."""
    return {name: value for name, value in body.items() if value is not None}


Limit = Annotated[
    int, typer.Option("--limit", "-n", min=0, help="Maximum number of results; 0 returns all.")
]
WarrantIds = Annotated[
    list[str],
    typer.Argument(
        metavar="WARRANT",
        parser=argument_type(identifiers.warrant_id),
        help="Warrant identifier, such as svc_wrt_laptop-17.",
    ),
]
Since = Annotated[
    str | None,
    typer.Option(
        "--since",
        metavar="TIME",
        parser=argument_type(ago),
        help="At or after this time; 15m, 1h and 7d count back from now.",
    ),
]
Until = Annotated[
    str | None,
    typer.Option(
        "--until",
        metavar="TIME",
        parser=argument_type(ago),
        help="At or before this time; 15m, 1h and 7d count back from now.",
    ),
]
Expires = Annotated[
    str | None,
    typer.Option(
        "--expires-at",
        metavar="TIME",
        parser=argument_type(parse_future_time),
        help="Expiry, such as 2027-01-01T00:00:00Z, or 15m, 1h, 7d from now.",
    ),
]
NeverExpires = Annotated[
    bool, typer.Option("--never-expires", help="Create a key without an expiry (default: 90 days).")
]
Reason = Annotated[
    str,
    typer.Option(
        "--reason", parser=argument_type(text.reason), help="Reason, which the audit log records."
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the effects; change nothing.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Skip the confirmation.")]
