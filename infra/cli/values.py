"""Arguments and options that several commands have."""

from collections.abc import Callable, Mapping
from typing import Annotated, Final, TypeVar

import typer

from shared.model import identifiers, text, times

T = TypeVar("T")

SHOWN: Final = 100


def checked(read: Callable[[str], T]) -> Callable[[str], T]:
    """Return `read` for the type of an argument: the text of its errors is what the user sees."""

    def checked_read(value: str) -> T:
        try:
            return read(value)
        except (TypeError, ValueError) as error:
            raise typer.BadParameter(str(error)) from None

    return checked_read


def moment(value: str) -> str:
    """Return a time as it was typed. Raises `ValueError` unless the API accepts it."""
    times.parse(value)
    return value


def given(body: Mapping[str, object]) -> dict[str, object]:
    """Return a body without the fields that were not given."""
    return {name: value for name, value in body.items() if value is not None}


Limit = Annotated[
    int, typer.Option("--limit", "-n", min=0, help="How many are shown at most; 0 shows all.")
]
WarrantIds = Annotated[
    list[str],
    typer.Argument(
        metavar="WARRANT",
        parser=checked(identifiers.warrant_id),
        help="Such as svc_wrt_laptop-17.",
    ),
]
Since = Annotated[
    str | None,
    typer.Option(
        "--since", metavar="TIME", parser=checked(moment), help="Only at this time or later."
    ),
]
Until = Annotated[
    str | None,
    typer.Option(
        "--until", metavar="TIME", parser=checked(moment), help="Only at this time or before."
    ),
]
Expires = Annotated[
    str | None,
    typer.Option(
        "--expires-at",
        metavar="TIME",
        parser=checked(moment),
        help="Such as 2027-01-01T00:00:00Z.",
    ),
]
Reason = Annotated[
    str,
    typer.Option("--reason", parser=checked(text.reason), help="Why; the audit log keeps it."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done; change nothing.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
