"""`rescind service-accounts`: the service accounts that API keys belong to."""

from typing import Annotated

from infra.cli import api_keys
from infra.cli.columns import Column
from infra.cli.commands import ApiSession, Identifier, Resource, command, noun
from infra.cli.errors import SHOWN, Limit, argument, drop_missing, option

Description = Annotated[str | None, option("--description", "Description of the account.")]

app = noun("Create, list, disable and delete service accounts.")
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
_accounts.add_action(
    "disable", "Disable a service account. Its API keys are refused until it is enabled."
)
_accounts.add_action("enable", "Enable a disabled service account.", is_protected=True)
_accounts.add_delete(
    "Delete a service account and revoke its API keys. This cannot be undone.",
    "the account {} and its API keys",
)


@command(app, "create", example='rescind service-accounts create ci --description "builds"')
def create(
    session: ApiSession,
    name: Annotated[str, argument("NAME", "Name, which becomes part of the email.")],
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
