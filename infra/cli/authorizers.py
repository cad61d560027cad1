"""`rescind authorizers`: list authorizers and the feed entry that each enforces."""

from typing import Annotated, Final

from infra.cli.client import segment
from infra.cli.columns import Column
from infra.cli.commands import ApiSession, command, confirm, noun
from infra.cli.errors import SHOWN, Limit, UsageError, Yes, argument, option
from infra.cli.revocations import format_refused_client

_PATH: Final = "/v1/authorizers"
_COLUMNS: Final = (
    Column("authorizer", "id"),
    Column("entry", "sequence"),
    Column("last seen at", "last_seen_at"),
    Column("key verified", "key_verified"),
    Column("relay", "relay"),
    Column("owner", "owner"),
    Column("name", "name", wraps=True),
)

AuthorizerId = Annotated[str, argument("AUTHORIZER", "svc_azr_…")]

Removed = Annotated[str | None, argument("[AUTHORIZER]", "svc_azr_…")]
Owner = Annotated[
    str | None, option("--owner", "Remove all authorizers of this API key or owner.", "OWNER")
]

app = noun("List authorizers, and show the feed entry that each enforces.")


@command(app, "list", example="rescind authorizers list", watches=True)
def list_(session: ApiSession, limit: Limit = SHOWN) -> None:
    """List registered authorizers and the feed entry that each enforces."""
    page = session.api.list_records(_PATH, "authorizers", most=limit)
    session.out.print_page(page, "authorizers", _COLUMNS)


@command(app, "summary", example="rescind authorizers summary", watches=True)
def show_summary(session: ApiSession) -> None:
    """Count the authorizers that enforce the newest entry, fail closed, or are unknown."""
    summary = session.api.get(f"{_PATH}/summary")
    if session.out.is_for_people:
        summary["unregistered"] = [format_refused_client(each) for each in summary["unregistered"]]
    session.out.record(summary)


@command(app, "show", example="rescind authorizers show svc_azr_01J…", watches=True)
def show(session: ApiSession, authorizer: AuthorizerId) -> None:
    """Show the last heartbeat of an authorizer."""
    session.out.record(session.api.get(f"{_PATH}/{segment(authorizer)}"))


@command(app, "remove", example="rescind authorizers remove svc_azr_01J… --yes")
def remove(
    session: ApiSession, authorizer: Removed = None, owner: Owner = None, yes: Yes = False
) -> None:
    """Remove one authorizer, or all authorizers of an owner.

    An authorizer that still runs registers again.
    """
    if (authorizer is None) == (owner is None):
        raise UsageError("give either an authorizer or --owner.")
    if authorizer is not None:
        confirm(f"Remove the authorizer {authorizer}?", yes=yes)
        session.api.delete(f"{_PATH}/{segment(authorizer)}")
        session.out.print_message(f"Removed {authorizer}.")
    else:
        confirm(f"Remove all authorizers that {owner} registered?", yes=yes)
        session.api.delete(_PATH, {"owner": owner})
        session.out.print_message(f"Removed the authorizers of {owner}.")
