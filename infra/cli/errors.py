"""Errors, exit codes, options and arguments of commands."""

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


def option(
    names: str,
    help_: str,
    metavar: str | None = None,
    read: Callable[[str], object] | None = None,
    **settings: Any,
) -> Any:
    """Return an option with these `names`, separated by spaces.

    `read` parses a value, and raises `ValueError` if it is invalid. `settings` are for Typer.
    """
    parser = None if read is None else argument_type(read)
    return typer.Option(*names.split(), help=help_, metavar=metavar, parser=parser, **settings)


def argument(
    metavar: str,
    help_: str | None = None,
    read: Callable[[str], object] | None = None,
    **settings: Any,
) -> Any:
    """Return an argument. The parameters have the same meaning as in `option`."""
    parser = None if read is None else argument_type(read)
    return typer.Argument(help=help_, metavar=metavar, parser=parser, **settings)


def public_keys(name: str, help_: str, metavar: str = "BASE64") -> Any:
    """Return an option that takes Ed25519 public keys of 32 bytes each."""

    def read(value: str) -> bytes:
        # Imported here because the import is slow, and most commands do not need it.
        from shared.model.lists.verification import public_key_bytes  # noqa: PLC0415

        return public_key_bytes(value)

    return option(name, help_, metavar, read)


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


Limit = Annotated[int, option("--limit -n", "Maximum number of results; 0 returns all.", min=0)]
WarrantIds = Annotated[
    list[str],
    argument("WARRANT", "Warrant identifier, such as svc_wrt_laptop-17.", identifiers.warrant_id),
]
Since = Annotated[
    str | None,
    option("--since", "At or after this time; 15m, 1h and 7d count back from now.", "TIME", ago),
]
Until = Annotated[
    str | None,
    option("--until", "At or before this time; 15m, 1h and 7d count back from now.", "TIME", ago),
]
Expires = Annotated[
    str | None,
    option(
        "--expires-at",
        "Expiry, such as 2027-01-01T00:00:00Z, or 15m, 1h, 7d from now.",
        "TIME",
        parse_future_time,
    ),
]
NeverExpires = Annotated[
    bool, option("--never-expires", "Create a key without an expiry (default: 90 days).")
]
Reason = Annotated[
    str, option("--reason", "Reason, which the audit log records.", read=text.reason)
]
DryRun = Annotated[bool, option("--dry-run", "Print the effects; change nothing.")]
Yes = Annotated[bool, option("--yes -y", "Skip the confirmation.")]
