"""`rescind api-keys`: manage the API keys of a tenant."""

import sys
from pathlib import Path
from typing import Annotated, Any, Final

from infra import data_folder
from infra.cli import streams
from infra.cli.client import segment
from infra.cli.columns import Column
from infra.cli.commands import ApiSession, Identifier, Resource, command, confirm, noun
from infra.cli.errors import (
    LIFETIME,
    SHOWN,
    Expires,
    Limit,
    NeverExpires,
    NotWritten,
    UsageError,
    Yes,
    argument,
    drop_missing,
    option,
    parse_future_time,
)
from shared.model.api_keys import GRACE_SECONDS_MAX
from shared.model.callers import Scope
from shared.model.identifiers import API_KEY, PERSON, SERVICE_ACCOUNT, is_identifier

COLUMNS: Final = (
    Column("api key", "id"),
    Column("status", "status"),
    Column("scopes", "scopes"),
    Column("expires at", "expires_at"),
    Column("last used at", "last_used_at"),
    Column("name", "name", wraps=True),
)

Account = Annotated[str | None, option("--account", "Service account (svc_sa_…).", "ACCOUNT")]


def _maker(value: str) -> str:
    """Return the identifier of a key's creator.

    Raises `ValueError` for other text, because a filter by e-mail would match no keys.
    """
    if not any(is_identifier(value, kind=each) for each in (PERSON, SERVICE_ACCOUNT, API_KEY)):
        raise ValueError("must be svc_usr_…, svc_sa_… or svc_ak_…; see `rescind people list`")
    return value


MadeBy = Annotated[
    str | None,
    option(
        "--created-by",
        "Keys created by this person, account or API key (svc_usr_…, svc_sa_… or svc_ak_…).",
        "MAKER",
        _maker,
    ),
]
Grace = Annotated[
    int,
    option(
        "--grace",
        "Seconds during which the old secret is accepted.",
        "SECONDS",
        min=0,
        max=GRACE_SECONDS_MAX,
    ),
]
Networks = Annotated[
    list[str] | None,
    option("--network", "Accept the key only from this network; may be repeated.", "CIDR"),
]
SecretFile = Annotated[
    Path | None,
    option("--secret-file", "Write the secret to a new file that only you can read.", "FILE"),
]

app = noun("Create, list, rotate and revoke API keys.")
_keys = Resource(app, "api-keys", "/v1/api-keys", "svc_ak_01J…", COLUMNS)
_keys.add_show("Show an API key and its usage.")
_keys.add_delete(
    "Revoke an API key and remove its record. This cannot be undone.", "the API key {}"
)


@command(app, "list", example="rescind api-keys list")
def list_(
    session: ApiSession, limit: Limit = SHOWN, account: Account = None, created_by: MadeBy = None
) -> None:
    """List API keys without their secrets."""
    params = {"service_account_id": account, "created_by_id": created_by}
    page = session.api.list_records(_keys.path, "api_keys", most=limit, params=params)
    session.out.print_page(page, "api_keys", COLUMNS)


@command(
    app,
    "create",
    example="rescind api-keys create ci --scope authorizer --secret-file ci.key",
    is_protected=True,
)
def create(
    session: ApiSession,
    name: Annotated[str, argument("NAME", "Display name.")],
    scopes: Annotated[list[Scope], option("--scope", "Scope; may be repeated.")],
    account: Account = None,
    expires_at: Expires = None,
    never_expires: NeverExpires = False,
    network: Networks = None,
    secret_file: SecretFile = None,
) -> None:
    """Create an API key and print its secret, which is shown only once.

    By default, the key expires after 90 days, or when your own key expires if that is earlier. Use
    --expires-at or --never-expires for another expiry.
    """
    if expires_at and never_expires:
        raise UsageError("use one of --expires-at and --never-expires.")
    check_new(secret_file)
    end = None
    if not never_expires:
        if expires_at is None:
            # In 90 days, or the latest expiry that the caller may set.
            expires_at = parse_future_time(LIFETIME)
            if latest := session.api.get("/v1/whoami").get("can_create_until"):
                expires_at = min(expires_at, str(latest))
        end = _end(session, expires_at)
    body = {
        "name": name,
        "scopes": scopes,
        "service_account_id": account,
        "expires_at": end,
        "networks": network,
    }
    show_secret(session, session.api.post(_keys.path, drop_missing(body)), secret_file)


@command(app, "rotate", example="rescind api-keys rotate svc_ak_01J… --grace 0", is_protected=True)
def rotate(
    session: ApiSession,
    key: Identifier,
    grace: Grace,
    expires_at: Expires = None,
    secret_file: SecretFile = None,
) -> None:
    """Rotate an API key and print its new secret, which is shown only once.

    The old secret is accepted during the grace period. With --grace 0 it is refused at once.
    """
    check_new(secret_file)
    body = {"grace_seconds": grace, "expires_at": _end(session, expires_at)}
    show_secret(
        session, session.api.post(_keys.at(key, "/rotate"), drop_missing(body)), secret_file
    )


@command(app, "revoke", example="rescind api-keys revoke svc_ak_01J… --yes")
def revoke(session: ApiSession, key: Identifier, yes: Yes = False) -> None:
    """Revoke an API key immediately. This cannot be undone."""
    confirm(f"Revoke the API key {key}?", yes=yes)
    session.out.record(session.api.post(_keys.at(key, "/revoke")))


def _end(session: ApiSession, expires_at: str | None) -> str | None:
    """Return the expiry of a key.

    An approved request keeps its expiry, because a span counts from now.
    """
    if session.approval is None or expires_at is None:
        return expires_at
    approval = session.api.get(f"/v1/approvals/{segment(session.approval)}")
    changes = approval["details"].get("changes") or {}
    return str(changes.get("expires_at", {}).get("new", expires_at))


def check_new(path: Path | None) -> None:
    """Raise `UsageError` if the secret's file cannot be created, before there is a secret."""
    if path is None:
        return
    try:
        data_folder.write_private(path, b"")
        path.unlink()
    except OSError as error:
        raise UsageError(f"cannot create {path}: {error.strerror}.") from error


def show_secret(
    session: ApiSession, creation: dict[str, Any], secret_file: Path | None, *, field: str = "key"
) -> None:
    """Print a new record with its secret, or write the secret to a file.

    The secret is also printed if the file cannot be written, because it is not available later.
    Raises `NotWritten` if the secret cannot be written or cannot be printed.
    """
    if secret_file is None:
        _print_secret(session, creation)
        session.out.print_message("The secret is shown only once.")
        return
    try:
        data_folder.write_secret(secret_file, creation[field])
    except OSError as error:
        _print_secret(session, creation)
        problem = f"cannot write {secret_file}: {error.strerror}"
        raise NotWritten(
            f"{problem}. The secret is printed instead, and is not shown again."
        ) from error
    session.out.record({**creation, field: f"in {secret_file}"})


def _print_secret(session: ApiSession, creation: dict[str, Any]) -> None:
    try:
        session.out.record(creation)
        sys.stdout.flush()
    except OSError as error:
        streams.discard_output()
        lost = f"{creation['id']} was created, but its secret is lost; rotate or delete it"
        raise NotWritten(f"{error}. {lost}.") from error
