"""`rescind login`, `logout` and `whoami`: manage the service address and credential."""

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from infra.cli import inputs, profiles, sign_in
from infra.cli.client import ApiClient
from infra.cli.commands import ApiSession, command
from infra.cli.errors import ApiError, BadResponse, NotSignedIn, UsageError, option
from infra.cli.profiles import Profile
from shared.errors import InvalidSettings

_LOCAL: Final = "http://127.0.0.1:8080"
_TENANT: Final = "local"
_REDIRECT: Final = "http://127.0.0.1/"
_SECONDS: Final = 300
_OF_SESSIONS: Final = {"name", "role", "person_id", "session_id", "authenticated_at"}
_OF_KEYS: Final = {"api_key_id", "api_key_name", "can_create_until"}
_ENDED: Final = frozenset({401, 404})

Url = Annotated[str, option("--url", "Service URL.")]
AllowHttp = Annotated[
    bool, option("--allow-http", "Allow sending the key to another machine without TLS.")
]
Sso = Annotated[bool, option("--sso", "Sign in with a browser on this machine.")]
Device = Annotated[bool, option("--device", "Sign in with a browser on any machine, with a code.")]
Reauthenticate = Annotated[
    bool, option("--reauthenticate", "Require a fresh sign-in at the provider.")
]
Tenant = Annotated[str, option("--tenant", "Name of your tenant.", "NAME")]
Provider = Annotated[
    str | None, option("--provider", "Identity provider, if the tenant has several.", "NAME")
]
Redirect = Annotated[
    str,
    option(
        "--redirect",
        "Redirect URL of --sso, as registered at the provider; without a port, any port.",
        "URL",
    ),
]
Timeout = Annotated[int, option("--timeout", "Maximum seconds that --sso waits.", "SECONDS", min=1)]
Audience = Annotated[
    str | None,
    option(
        "--audience", "Exchange the token of a program at this provider (svc_idp_…).", "PROVIDER"
    ),
]
TokenFile = Annotated[
    Path | None,
    option(
        "--token-file",
        "Token for --audience; - is standard input. Default: the GitHub Actions job token.",
        "FILE",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, "login", example=f"rescind login --url {_LOCAL} < .data/admin.key")(_log_in)
    command(app, "logout", example="rescind logout")(_log_out)
    command(app, "whoami", example="rescind whoami")(_show_caller)


def _log_in(
    session: ApiSession,
    url: Url = _LOCAL,
    allow_http: AllowHttp = False,
    sso: Sso = False,
    device: Device = False,
    reauthenticate: Reauthenticate = False,
    tenant: Tenant = _TENANT,
    provider: Provider = None,
    redirect: Redirect = _REDIRECT,
    timeout: Timeout = _SECONDS,
    audience: Audience = None,
    token_file: TokenFile = None,
) -> None:
    """Save a service address, and an API key or a session, in a profile.

    The API key is prompted for, or read from standard input, which keeps it out of the shell
    history. A session starts with your company account (--sso, --device), or with the token of a
    program (--audience). Only you can read the file of the profile.
    """
    if sum((sso, device, audience is not None)) > 1:
        raise UsageError("use one of --sso, --device and --audience.")
    if token_file is not None and audience is None:
        raise UsageError("--token-file requires --audience with the provider (svc_idp_…).")
    folder = profiles.folder_of(session.profile_name)
    place = profiles.reaching(Profile(folder, url, allow_http=allow_http))
    if not (sso or device or audience):
        api_key = (
            str(typer.prompt("API key", hide_input=True, err=True))
            if sys.stdin.isatty()
            else inputs.read_secret()
        )
        _save_accepted(session, profiles.validate(replace(place, api_key=api_key)))
        return
    with ApiClient(place) as api:
        if audience:
            token = sign_in.token_of_program(token_file, audience)
            new_session = sign_in.exchange_token(api, audience, token)
        else:
            chosen = sign_in.select_provider(api, tenant, provider)
            say = session.out.print_message
            new_session = (
                sign_in.by_device(api, chosen, say, fresh=reauthenticate)
                if device
                else sign_in.by_browser(api, chosen, redirect, timeout, say, fresh=reauthenticate)
            )
    typed = shlex.join(["rescind", *sys.argv[1:]])
    _save_accepted(session, replace(place, api_key=new_session["access_token"], renewal=typed))


def _log_out(session: ApiSession) -> None:
    """End the session of a profile, and remove its address and credential.

    An API key stays valid. Revoke it first if you no longer need it.
    """
    try:
        saved = profiles.load_saved(session.profile_name)
    except (UsageError, InvalidSettings):
        # The file is missing, or others could have set its address. Do not send the session there.
        saved = None
    known = profiles.forget(session.profile_name)
    if saved is not None and saved.is_session:
        try:
            with ApiClient(saved) as api:
                api.delete("/v1/sessions/current")
        except (ApiError, BadResponse) as error:
            if not isinstance(error, ApiError) or error.status not in _ENDED:
                raise NotSignedIn(
                    f"the session was removed here, but the service did not end it: {error} It "
                    f"expires at {saved.expires_at}."
                ) from None
    done = "was removed" if known else "does not exist"
    session.out.print_message(f"The profile {session.profile_name} {done}.")


def _show_caller(session: ApiSession) -> None:
    """Show the tenant of this profile and its API key with scopes, or the signed-in person."""
    session.out.record(_caller_view(session.api.get("/v1/whoami")))


def _save_accepted(session: ApiSession, profile: Profile) -> None:
    """Save a profile that the service accepts. Raises `UsageError` if it does not."""
    with ApiClient(replace(profile, renewal=None)) as api:
        try:
            caller = api.get("/v1/whoami")
        except ApiError as error:
            raise UsageError(f"{profile.url} does not accept this key: {error}") from error
    ends_at = caller.get("expires_at") if profile.is_session else None
    profiles.save(replace(profile, expires_at=ends_at))
    session.out.print_message(f"Saved the profile {session.profile_name} in {profile.folder}.")
    session.out.record(_caller_view(caller))


def _caller_view(caller: dict[str, Any]) -> dict[str, Any]:
    """Return a caller without the fields that apply to another kind of caller."""
    hidden = _OF_KEYS if caller.get("session_id") else _OF_SESSIONS
    return {name: value for name, value in caller.items() if name not in hidden}
