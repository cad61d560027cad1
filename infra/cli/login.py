"""`rescind login`, `logout` and `whoami`: which service, and which API key."""

import sys
from typing import Annotated, Any, Final

import typer

from infra.cli import profiles
from infra.cli.client import Api
from infra.cli.commands import ApiSession, command
from infra.cli.errors import ApiError, WrongUsage
from infra.cli.profiles import Profile

_LOCAL: Final = "http://127.0.0.1:8080"
_OF_SESSIONS: Final = {"name", "role", "person_id", "session_id", "authenticated_at"}

Url = Annotated[str, typer.Option("--url", help="The address of the service.")]
AllowHttp = Annotated[
    bool, typer.Option("--allow-http", help="Send the key without TLS to another machine.")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, "login", example=f"rescind login --url {_LOCAL} < .data/admin.key")(_login)
    command(app, "logout", example="rescind logout")(_logout)
    command(app, "whoami", example="rescind whoami")(_whoami)


def _login(session: ApiSession, url: Url = _LOCAL, allow_http: AllowHttp = False) -> None:
    """Keep the address of a service and an API key in a profile.

    The key is asked for, or read from standard input, so that no history of a shell has it. It is
    kept in a file that only you can read.
    """
    folder = profiles.folder_of(session.profile_name)
    profile = profiles.checked(Profile(folder, url, _api_key(), allow_http))
    with Api(profile) as api:
        try:
            caller = api.get("/v1/whoami")
        except ApiError as error:
            raise WrongUsage(f"{profile.url} does not take this key: {error}") from error
    profiles.save(profile)
    session.out.say(f"The profile {session.profile_name} is in {folder}.")
    session.out.record(_shown(caller))


def _logout(session: ApiSession) -> None:
    """Remove the address and the API key from a profile.

    The key stays valid: if it is not needed, revoke it first.
    """
    known = profiles.forget(session.profile_name)
    done = "is removed" if known else "does not exist"
    session.out.say(f"The profile {session.profile_name} {done}.")


def _whoami(session: ApiSession) -> None:
    """Show the tenant, the API key and the scopes of this profile."""
    session.out.record(_shown(session.api.get("/v1/whoami")))


def _shown(caller: dict[str, Any]) -> dict[str, Any]:
    """Return what is known of a caller, without the fields that only a session has."""
    if caller.get("session_id"):
        return caller
    return {name: value for name, value in caller.items() if name not in _OF_SESSIONS}


def _api_key() -> str:
    if not sys.stdin.isatty():
        return sys.stdin.readline().strip()
    return str(typer.prompt("API key", hide_input=True, err=True)).strip()
