"""`rescind identity-providers`, `people`, `sessions` and `roles`: manage sign-in and access.

All commands use the API except `add`. It accesses the store, because the first provider is added
before anyone can sign in.
"""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

import typer

from infra.cli import inputs
from infra.cli.columns import Column
from infra.cli.commands import ApiSession, Identifier, Resource, command, confirm, noun
from infra.cli.errors import UsageError, Yes, argument, drop_missing, option
from infra.cli.operator.operators import Operator, handle, operator_command
from shared.model import text
from shared.model.api_keys import MadeKeys
from shared.model.callers import Scope
from shared.model.identities import providers as model
from shared.model.identities.providers import IdentityProvider, ProviderUsage, RoleMapping
from shared.operations.identities import identity_providers
from shared.operations.identities.identity_providers import ProviderChange

_LOCAL: Final = "http://127.0.0.1:8080"
_SHOWN: Final = (
    "id",
    "name",
    "issuer",
    "client_id",
    "cli_client_id",
    "has_client_secret",
    "authorization_endpoint",
    "device_authorization_endpoint",
    "token_endpoint",
    "jwks_uri",
)

app = noun("Manage identity providers for people and programs.")
_people_app = noun("Manage people who have signed in.")
_sessions_app = noun("List and end sessions.")
_roles_app = noun("Manage roles: scopes, and limits to warrants and signing keys.")

_providers = Resource(
    app,
    "identity-providers",
    "/v1/tenant/identity-providers",
    "svc_idp_01J…",
    (
        Column("provider", "id"),
        Column("usage", "usage"),
        Column("name", "name"),
        Column("issuer", "issuer", wraps=True),
    ),
    field="identity_providers",
)
_providers.add_list("List the identity providers.")
_providers.add_show("Show one identity provider, with its role mappings.")
_providers.add_action(
    "check", "Compare the stored metadata with the current metadata of the issuer."
)
_providers.add_delete(
    "Delete an identity provider and end its sessions.",
    "the identity provider {} and its sessions",
    is_protected=True,
)

_people = Resource(
    _people_app,
    "people",
    "/v1/people",
    "svc_usr_01J…",
    (
        Column("person", "id"),
        Column("status", "status"),
        Column("role", "role"),
        Column("email", "email"),
        Column("name", "name", wraps=True),
    ),
)
_people.add_list("List the people who have signed in.")
_people.add_show("Show one person.")
_people.add_action("enable", "Enable a disabled person.", is_protected=True)
_people.add_action("sign-out", "End all sessions of a person. The person can sign in again.")

_sessions = Resource(
    _sessions_app,
    "sessions",
    "/v1/sessions",
    "svc_ses_01J…",
    (
        Column("session", "id"),
        Column("identity", "identity"),
        Column("created at", "created_at"),
        Column("expires at", "expires_at"),
    ),
)
_sessions.add_list("List active sessions: all sessions of the tenant, or your own.")
_sessions.add_delete("End a session; `current` is your own.", "the session {}")

_roles = Resource(
    _roles_app,
    "roles",
    "/v1/roles",
    "laptops",
    (
        Column("role", "name"),
        Column("scopes", "scopes"),
        Column("warrants", "warrant_prefixes"),
        Column("signing keys", "signing_keys", wraps=True),
        Column("built in", "is_built_in"),
    ),
)
_roles.add_list("List the built-in roles and the roles of the tenant.", in_pages=False)
_roles.add_show("Show one role.")
_roles.add_delete(
    "Delete a role. Its holders lose access immediately.",
    "the role {}",
    is_protected=True,
)


MadeKeysOption = Annotated[
    MadeKeys | None,
    option("--made-keys", "Revoke (end) or keep the API keys that the person created."),
]
RoleOf = Annotated[str, argument("ROLE", "Name of the role.")]
Prefixes = Annotated[
    list[str] | None,
    option("--warrant-prefix", "Allow only warrants with this prefix; may be repeated.", "PREFIX"),
]
KeysOfRole = Annotated[
    list[str] | None,
    option(
        "--signing-key", "Allow only this signing key and its descendants; may be repeated.", "KEY"
    ),
]


def register(root: typer.Typer) -> None:
    """Add the commands."""
    root.add_typer(app, name="identity-providers")
    root.add_typer(_roles_app, name="roles")
    root.add_typer(_people_app, name="people")
    root.add_typer(_sessions_app, name="sessions")


@command(
    _people_app, "disable", example="rescind people disable svc_usr_01J… --made-keys end --yes"
)
def disable(
    session: ApiSession, person: Identifier, made_keys: MadeKeysOption = None, yes: Yes = False
) -> None:
    """Disable a person. Their sessions end, and --made-keys decides about their API keys.

    The command first lists the API keys that the person created. --made-keys is required if there
    are any.
    """
    params = {"created_by_id": person}
    page = session.api.list_records("/v1/api-keys", "api_keys", params=params)
    keys = [each for each in page["api_keys"] if each["status"] == "active"]
    for each in keys:
        session.out.print_message(
            f"{each['id']} {','.join(each['scopes']) or each['role']} {each['name']}"
        )
    if keys and made_keys is None:
        raise UsageError(f"the person created {len(keys)} API keys; add --made-keys end or keep.")
    if keys and made_keys is MadeKeys.END:
        confirm(f"Revoke these {len(keys)} API keys of {person}? This cannot be undone.", yes=yes)
    body, ended = {"made_keys": made_keys or MadeKeys.END}, 0
    while True:
        result = session.api.post(_people.at(person, "/disable"), body)
        ended += result["keys_ended"]
        if not result["keys_ended"] or not result["keys_left"]:
            break
    session.out.record({**result, "keys_ended": ended})


@command(
    _roles_app,
    "put",
    example="rescind roles put laptops --scope revoker --warrant-prefix svc_wrt_laptop-",
    is_protected=True,
)
def put_role(
    session: ApiSession,
    name: RoleOf,
    scope: Annotated[list[Scope], option("--scope", "Scope; may be repeated.")],
    warrant_prefix: Prefixes = None,
    signing_key: KeysOfRole = None,
) -> None:
    """Create or replace a role. Changes apply to its holders immediately."""
    limits = {"warrant_prefixes": warrant_prefix, "signing_keys": signing_key}
    session.out.record(session.api.put(_roles.at(name), {"scopes": scope, **drop_missing(limits)}))


def _role_mapping(value: str) -> RoleMapping:
    """Parse a role mapping. Raises `ValueError` if it is invalid."""
    condition, _, role = value.rpartition(":")
    claim, _, wanted = condition.partition("=")
    if not claim or not 0 < len(wanted) <= model.VALUE_MAX or not role:
        raise ValueError("must be CLAIM=VALUE:ROLE, such as groups=security:admin")
    return RoleMapping({model.condition_name(claim): wanted}, text.label(role))


Issuer = Annotated[
    str, option("--issuer", "Issuer URL, as in the iss of its tokens.", "URL", model.issuer)
]
RoleMappings = Annotated[
    list[RoleMapping] | None,
    option(
        "--role-mapping",
        "Role of tokens with this claim; may be repeated. The first match applies.",
        "CLAIM=VALUE:ROLE",
        _role_mapping,
    ),
]
OfTenant = Annotated[str, option("--tenant", "Name of the tenant.", "NAME", handle)]
Usage = Annotated[ProviderUsage, option("--usage", "Usage of its tokens.")]
ClientId = Annotated[
    str | None,
    option("--client-id", "Client of the service at the provider; with verify_only, the audience."),
]
CliClientId = Annotated[
    str | None,
    option("--cli-client-id", "Public client of this program at the provider, if it differs."),
]
NameOption = Annotated[
    str | None, option("--name", "Display name (default: the host of the issuer).", read=text.name)
]
Domains = Annotated[
    list[str] | None,
    option("--email-domain", "E-mail domain of people; may be repeated.", read=model.domain),
]
Account = Annotated[str | None, option("--account", "Service account of programs.")]
Jwks = Annotated[
    Path | None, option("--jwks", "Keys of the issuer, if the service cannot reach it.", "FILE")
]
AllowTokenReuse = Annotated[
    bool, option("--token-reuse", "Accept a workload token more than once, as in Kubernetes.")
]
TrustsEmail = Annotated[
    bool, option("--trusts-email", "Trust the provider to verify all e-mail addresses.")
]
StepUp = Annotated[
    str | None,
    option(
        "--step-up",
        "Evidence of reauthentication: auth_time (default), acr:VALUES or sign_in.",
        read=model.step_up,
    ),
]
Exchange = Annotated[
    bool | None,
    option(
        "--exchange/--no-exchange",
        "Exchange tokens for sessions (default: with --cli-client-id, and for workloads).",
        show_default=False,
    ),
]
TokenSeconds = Annotated[
    int | None,
    option(
        "--lifetime",
        "Maximum lifetime of its tokens, with --usage verify_only.",
        "SECONDS",
        min=60,
        max=model.TOKEN_SECONDS_MAX,
        show_default=False,
    ),
]
Url = Annotated[str, option("--url", "Service URL for browsers.")]


@operator_command(
    app,
    "add",
    example="rescind identity-providers add --tenant acme --issuer https://sso.acme.com "
    "--client-id rescind --role-mapping groups=security:admin --data .data < client.secret",
)
def add(
    operator: Operator,
    issuer: Issuer,
    role_mapping: RoleMappings = None,
    tenant: OfTenant = "local",
    usage: Usage = ProviderUsage.SIGN_IN,
    client_id: ClientId = None,
    cli_client_id: CliClientId = None,
    name: NameOption = None,
    email_domain: Domains = None,
    account: Account = None,
    jwks: Jwks = None,
    allow_token_reuse: AllowTokenReuse = False,
    trusts_email: TrustsEmail = False,
    step_up: StepUp = None,
    exchange: Exchange = None,
    lifetime: TokenSeconds = None,
    url: Url = _LOCAL,
) -> None:
    """Add an identity provider after its issuer has responded, and print the values to register.

    For people, the client secret is prompted for, or read from standard input. It may be empty.
    """
    client_secret = None
    if usage is ProviderUsage.SIGN_IN:
        client_secret = _read_secret() or None
    keys = None
    if jwks is not None:
        try:
            document = inputs.read_json(jwks)
            keys = model.public_keys(document if isinstance(document, dict) else {})
        except ValueError as error:
            raise UsageError(f"{jwks}: {error}.") from None
    change = ProviderChange(
        name=name or urlsplit(issuer).hostname,
        issuer=issuer,
        client_id=client_id,
        cli_client_id=cli_client_id,
        client_secret=client_secret,
        jwks=keys,
        role_mappings=tuple(replace(each, service_account=account) for each in role_mapping or []),
        email_domains=tuple(email_domain or ()),
        allow_token_reuse=allow_token_reuse or None,
        trusts_email=trusts_email or None,
        step_up=step_up,
        token_exchange=exchange,
        token_max_seconds=lifetime,
    )
    caller = operator.caller(tenant)
    provider = identity_providers.create(operator.ports, caller, usage=usage, change=change)
    if others := identity_providers.find_twins(operator.ports, provider):
        operator.out.print_message(
            f"Warning: {', '.join(others)} has the same issuer. Each provider creates separate "
            "people, even for the same subject. Delete the provider that you do not need."
        )
    operator.out.record({each: getattr(provider, each) for each in _SHOWN})
    operator.out.print_message(_describe_next_steps(provider, url.rstrip("/"), tenant))


def _describe_next_steps(provider: IdentityProvider, url: str, tenant: str) -> str:
    """Return the next steps at the provider."""
    if provider.usage is ProviderUsage.VERIFY_ONLY:
        return f"Check its tokens with POST {url}/v1/oauth/introspect."
    if provider.usage is ProviderUsage.WORKLOAD:
        return f"Programs must request tokens with the audience {provider.id}."
    if provider.authorization_endpoint is None or provider.token_endpoint is None:
        return "The issuer has no endpoint for browsers, so people cannot sign in with a browser."
    of_cli = provider.cli_client_id or provider.client_id
    return (
        f"Register these redirect URLs at the provider:\n"
        f"  {url}/console/signed-in/{provider.id} for the client {provider.client_id} (console)\n"
        f"  http://127.0.0.1/ with any port, for the client {of_cli} (rescind login --sso)\n"
        f"Then people sign in at {url}/?tenant={tenant}, or with "
        f"rescind login --sso --tenant {tenant}."
    )


def _read_secret() -> str:
    if not sys.stdin.isatty():
        return inputs.read_secret()
    typed = typer.prompt("Client secret", default="", show_default=False, hide_input=True, err=True)
    return str(typed).strip()
