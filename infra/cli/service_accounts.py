"""`rescind service-accounts`: the service accounts that API keys belong to."""

from typing import Annotated

import typer

from infra.cli import api_keys
from infra.cli.commands import ApiSession, Identifier, Resource, command, noun
from infra.cli.errors import SHOWN, Limit, drop_missing
from infra.cli.output import Column

Description = Annotated[str | None, typer.Option("--description", help="Its purpose.")]

app = noun("Service accounts: create, list, disable.")
_accounts = Resource(
    app,
    "service-accounts",
    "/v1/service-accounts",
    "svc_sa_01J…",
    (
        Column("account", "id"),
        Column("status", "status"),
        Column("email", "email"),
        Column("name", "name", wraps=True),
    ),
    field="service_accounts",
)
_accounts.add_list("List the service accounts.")
_accounts.add_show("Show one service account.")
_accounts.add_action("disable", "Refuse all API keys of an account until it is enabled again.")
_accounts.add_action(
    "enable", "Accept the API keys of a disabled account again.", is_protected=True
)
_accounts.add_delete(
    "Delete a service account; all its API keys are refused. This cannot be undone.",
    "the account {} and its API keys",
)


def register(root: typer.Typer) -> None:
    """Add the commands."""
    root.add_typer(app, name="service-accounts")


@command(app, "create", example='rescind service-accounts create ci --description "builds"')
def create(
    session: ApiSession,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Becomes a part of its email.")],
    description: Description = None,
) -> None:
    """Create a service account. Create its keys with `api-keys create --account`."""
    body = drop_missing({"name": name, "description": description})
    session.out.record(session.api.post(_accounts.path, body))


@command(app, "api-keys", example="rescind service-accounts api-keys svc_sa_01J…")
def list_api_keys(session: ApiSession, account: Identifier, limit: Limit = SHOWN) -> None:
    """List the API keys of an account."""
    page = session.api.list_records(_accounts.at(account, "/api-keys"), "api_keys", most=limit)
    session.out.print_page(page, "api_keys", api_keys.COLUMNS)
