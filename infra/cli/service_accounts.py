"""`rescind accounts`: the service accounts that API keys belong to."""

from typing import Annotated, Final

import typer

from infra.cli import api_keys
from infra.cli.client import segment
from infra.cli.commands import ApiSession, command, confirm, noun
from infra.cli.errors import SHOWN, Limit, Yes, given
from infra.cli.output import Column

_PATH: Final = "/v1/service-accounts"
_COLUMNS: Final = (
    Column("account", "id"),
    Column("status", "status"),
    Column("email", "email"),
    Column("name", "name", wraps=True),
)

AccountId = Annotated[str, typer.Argument(metavar="ACCOUNT", help="svc_sa_…")]
Description = Annotated[str | None, typer.Option("--description", help="Its purpose.")]

app = noun("Service accounts: create, list, disable.")


def register(root: typer.Typer) -> None:
    """Add the commands."""
    root.add_typer(app, name="accounts")


@command(app, "list", example="rescind accounts list")
def list_(session: ApiSession, limit: Limit = SHOWN) -> None:
    """List the service accounts."""
    page = session.api.listed(_PATH, "service_accounts", most=limit)
    session.out.page(page, "service_accounts", _COLUMNS)


@command(app, "show", example="rescind accounts show svc_sa_01J…")
def show(session: ApiSession, account: AccountId) -> None:
    """Show one service account."""
    session.out.record(session.api.get(_one(account)))


@command(app, "create", example='rescind accounts create ci --description "builds"')
def create(
    session: ApiSession,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Becomes a part of its email.")],
    description: Description = None,
) -> None:
    """Create a service account. Its keys are created with `api-keys create --account`."""
    body = given({"name": name, "description": description})
    session.out.record(session.api.post(_PATH, body))


@command(app, "disable", example="rescind accounts disable svc_sa_01J…")
def disable(session: ApiSession, account: AccountId) -> None:
    """Refuse all API keys of an account until it is enabled again."""
    session.out.record(session.api.post(_one(account, "/disable")))


@command(app, "enable", example="rescind accounts enable svc_sa_01J…")
def enable(session: ApiSession, account: AccountId) -> None:
    """Accept the API keys of a disabled account again."""
    session.out.record(session.api.post(_one(account, "/enable")))


@command(app, "delete", example="rescind accounts delete svc_sa_01J… --yes")
def delete(session: ApiSession, account: AccountId, yes: Yes = False) -> None:
    """Delete a service account; all its API keys are refused. This cannot be undone."""
    confirm(f"Delete the account {account} and its API keys?", yes=yes)
    session.api.delete(_one(account))
    session.out.say(f"{account} is deleted.")


@command(app, "api-keys", example="rescind accounts api-keys svc_sa_01J…")
def list_api_keys(session: ApiSession, account: AccountId, limit: Limit = SHOWN) -> None:
    """List the API keys of an account."""
    page = session.api.listed(_one(account, "/api-keys"), "api_keys", most=limit)
    session.out.page(page, "api_keys", api_keys.COLUMNS)


def _one(account: str, action: str = "") -> str:
    return f"{_PATH}/{segment(account)}{action}"
