"""Bodies of the endpoints of identity providers, people and sessions (IDENTITY-1)."""

from typing import Annotated, Any, Final, Self

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue

from shared.model.api_keys import MadeKeys
from shared.model.callers import Scope
from shared.model.identifiers import IDENTITY_PROVIDER, PERSON, SESSION, SIGNING_KEY
from shared.model.identities import providers
from shared.model.identities.claims import ProviderMetadata
from shared.model.identities.people import PersonStatus
from shared.model.identities.providers import IdentityProvider, ProviderUsage, RoleMapping
from shared.model.identities.roles import LIMITS_MAX, NAME_PATTERN, PREFIX_PATTERN, Role
from shared.model.identities.roles import name as role_name
from shared.operations.access.made_keys import DisabledPerson
from shared.operations.identities.identity_providers import ProviderChange
from shared.web.api_keys import GivenScopes
from shared.web.fields import (
    CURSOR,
    MomentOut,
    Name,
    NextCursor,
    RecordBody,
    RequestBody,
    ResponseBody,
    Total,
    example,
    identifier,
    is_of,
    response_field,
    sample,
)
from shared.web.paging import PageBody

_ISSUER: Final = "https://sso.acme.com"
_ROLE_MAPPING: Final[dict[str, JsonValue]] = {"claims": {"groups": "security"}, "role": "admin"}
_CREATED: Final[dict[str, JsonValue]] = {
    "name": "Acme",
    "usage": "sign_in",
    "issuer": _ISSUER,
    "client_id": "rescind",
    "role_mappings": [_ROLE_MAPPING],
    "email_domains": ["acme.com"],
}
_SECRET: Final[dict[str, JsonValue]] = {"client_secret": "Kd83hs-2jd9"}
_ENDPOINTS: Final[dict[str, JsonValue]] = {
    "authorization_endpoint": f"{_ISSUER}/auth",
    "device_authorization_endpoint": f"{_ISSUER}/device",
    "token_endpoint": f"{_ISSUER}/token",
    "jwks_uri": f"{_ISSUER}/jwks",
}
_PROVIDER: Final[dict[str, JsonValue]] = {
    "id": sample(IDENTITY_PROVIDER),
    **_CREATED,
    "role_mappings": [_ROLE_MAPPING | {"service_account": "deploy"}],
    "cli_client_id": "rescind-cli",
    "has_client_secret": True,
    "jwks": {
        "keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "k1", "x": "A" * 43, "alg": "EdDSA"}]
    },
    "session_seconds": 3600,
    "allow_token_reuse": False,
    "trusts_email": False,
    "step_up": "auth_time",
    "token_exchange": True,
    "token_max_seconds": 86_400,
    **_ENDPOINTS,
    "created_at": "2026-11-21T12:00:00Z",
}
_PERSON: Final[dict[str, JsonValue]] = {
    "id": sample(PERSON),
    "email": "alice@acme.com",
    "name": "Alice Martin",
    "role": "admin",
    "status": "active",
    "provider_id": sample(IDENTITY_PROVIDER),
    "issuer": _ISSUER,
    "subject": "248289761001",
    "created_at": "2026-11-21T12:00:00Z",
}
_SESSION: Final[dict[str, JsonValue]] = {
    "id": sample(SESSION),
    "identity": "alice@acme.com",
    "owner": sample(PERSON),
    "provider_id": sample(IDENTITY_PROVIDER),
    "created_at": "2026-11-21T12:00:00Z",
    "authenticated_at": "2026-11-21T11:59:58Z",
    "expires_at": "2026-11-21T13:00:00Z",
}

_EMPTY: Final = BeforeValidator(lambda value: value or None)
_NAME: Final = "A name for people, which a page to sign in shows."
_ISSUER_TEXT: Final = (
    "The `iss` of its tokens, letter by letter. What it publishes below `/.well-known` is read "
    "when it is named here."
)
_CLIENT: Final = (
    "The identifier of the service at the provider. `workload` has none. With `verify_only`, the "
    "audience."
)
_CLI: Final = "That of the command line, if it has one of its own, which needs no secret."
_JWKS: Final = (
    "The public keys of the issuer, if the service cannot reach it. They are then never fetched. "
    "An empty object removes them. Required for `verify_only`."
)
_ROLE_MAPPINGS: Final = (
    "The roles of tokens. The first role mapping that matches applies. Without a match, the "
    "service refuses the token. Required unless `usage` is `verify_only`, which has none."
)
_DOMAINS: Final = "The domains of people's e-mail; if there are none, any."
_SECONDS: Final = (
    "How long a session lasts: 3600 for people and 900 for programs, unless you choose."
)
_TRUSTS_EMAIL: Final = (
    "Whether an e-mail counts as verified if the token has no `email_verified`. Set it only if the "
    "provider verifies all addresses. People need a verified e-mail."
)
_STEP_UP: Final = (
    "The evidence of a fresh sign-in of a person: `auth_time`; `acr:` and values of the claim "
    "`acr`, separated by spaces; or `sign_in`, which counts each sign-in."
)
_EXCHANGE: Final = (
    "Whether tokens can be exchanged for sessions. The default is true for programs, and for "
    "people if there is a `cli_client_id`."
)
_REUSABLE: Final = "Whether a program may exchange one token several times, as in Kubernetes."

_ROLE: Final = "The role that it gives: a scope, or one of `GET /v1/roles`."
_PREFIXES: Final = (
    "How the identifiers of warrants begin. If this or `signing_keys` is given, who has the role "
    "reaches nothing else, and only the endpoints that can tell."
)
_SIGNING_KEYS: Final = "Identifiers of signing keys, each of which stands for all below it too."
_OWN_ROLE: Final[dict[str, JsonValue]] = {
    "scopes": ["revoker"],
    "warrant_prefixes": ["svc_wrt_paris-"],
    "signing_keys": [sample(SIGNING_KEY)],
}
_ROLE_SHOWN: Final[dict[str, JsonValue]] = {"name": "paris", **_OWN_ROLE, "is_built_in": False}

RoleName = Annotated[
    str,
    Field(description="The name of the role.", json_schema_extra={"pattern": f"^{NAME_PATTERN}$"}),
    AfterValidator(role_name),
]
ProviderId = Annotated[
    str, response_field("Identifier of the identity provider.", **identifier(IDENTITY_PROVIDER))
]
PersonId = Annotated[str, response_field("Identifier of the person.", **identifier(PERSON))]
Condition = Annotated[str, Field(min_length=1, max_length=providers.VALUE_MAX)]
ConditionName = Annotated[Condition, AfterValidator(providers.condition_name)]
StepUp = Annotated[str, AfterValidator(providers.step_up)]
ClientId = Annotated[str, Field(max_length=providers.CLIENT_ID_MAX, pattern="^[!-~]*$")]
Issuer = Annotated[str, AfterValidator(providers.issuer)]
Domains = Annotated[
    list[Annotated[str, AfterValidator(providers.domain)]], Field(max_length=providers.DOMAINS_MAX)
]
Seconds = Annotated[int, Field(ge=providers.SESSION_SECONDS_MIN, le=providers.SESSION_SECONDS_MAX)]
TokenSeconds = Annotated[int, Field(ge=60, le=providers.TOKEN_SECONDS_MAX)]
_LIFETIME: Final = (
    "The longest lifetime of its tokens, for `verify_only`. The revocation of a subject leaves "
    "the list so long after its `issued_before`; if it is not stated, the revocation stays."
)


def _keys(value: dict[str, Any]) -> dict[str, Any]:
    return providers.public_keys(value) if value else {}


Jwks = Annotated[dict[str, Any], AfterValidator(_keys)]


class RoleMappingInput(RequestBody):
    """A role for callers with matching claims."""

    claims: dict[ConditionName, Condition] = Field(
        min_length=1,
        max_length=providers.CONDITIONS_MAX,
        description="Values of claims by name. All must match. A claim that is a list must "
        "contain the value. `*` at the end of a value stands for any text. A name that begins with "
        "`/` is a JSON Pointer (RFC 6901), such as `/realm_access/roles`.",
    )
    role: RoleName = Field(description=_ROLE)
    service_account: str | None = Field(
        default=None,
        max_length=63,
        description="The name of the service account that a program calls as; null for people.",
    )

    def to_mapping(self) -> RoleMapping:
        """Return the role mapping."""
        return RoleMapping(self.claims, self.role, self.service_account)


RoleMappings = Annotated[
    list[RoleMappingInput], Field(min_length=1, max_length=providers.ROLE_MAPPINGS_MAX)
]
ClientSecret = Annotated[str, Field(max_length=providers.SECRET_MAX)]


class UpdateIdentityProvider(RequestBody):
    """Changes of an identity provider. Omitted and null members do not change."""

    model_config = example(role_mappings=[_ROLE_MAPPING])

    name: Name | None = Field(default=None, description=_NAME)
    issuer: Issuer | None = Field(default=None, description=_ISSUER_TEXT)
    client_id: ClientId | None = Field(default=None, description=_CLIENT)
    cli_client_id: ClientId | None = Field(default=None, description=_CLI)
    client_secret: ClientSecret | None = Field(
        default=None,
        repr=False,
        description="The secret of the service at the provider. No response shows it. An empty "
        "text removes it.",
    )
    jwks: Jwks | None = Field(default=None, description=_JWKS)
    role_mappings: RoleMappings | None = Field(default=None, description=_ROLE_MAPPINGS)
    email_domains: Domains | None = Field(default=None, description=_DOMAINS)
    session_seconds: Seconds | None = Field(default=None, description=_SECONDS)
    allow_token_reuse: bool | None = Field(default=None, description=_REUSABLE)
    trusts_email: bool | None = Field(default=None, description=_TRUSTS_EMAIL)
    step_up: StepUp | None = Field(default=None, description=_STEP_UP)
    token_exchange: bool | None = Field(default=None, description=_EXCHANGE)
    token_max_seconds: TokenSeconds | None = Field(default=None, description=_LIFETIME)

    def change(self) -> ProviderChange:
        """Return the new values for the operation."""
        members = {name: getattr(self, name) for name in UpdateIdentityProvider.model_fields}
        given, domains = self.role_mappings, self.email_domains
        members["role_mappings"] = (
            None if given is None else tuple(each.to_mapping() for each in given)
        )
        members["email_domains"] = None if domains is None else tuple(domains)
        return ProviderChange(**members)


class CreateIdentityProvider(UpdateIdentityProvider):
    """The identity provider to bind."""

    model_config = example(**_CREATED, **_SECRET)

    name: Name = Field(description=_NAME)
    usage: Annotated[ProviderUsage, Field(strict=False)] = Field(
        description="The use of its tokens. `sign_in`: people sign in. `workload`: programs "
        "exchange them for sessions. `verify_only`: introspection alone. It cannot change later."
    )
    issuer: Issuer = Field(description=_ISSUER_TEXT)


class RoleMappingBody(RecordBody):
    """A role for callers with matching claims."""

    claims: dict[str, str] = response_field("Values of claims by name. All must match.")
    role: str = response_field(_ROLE)
    service_account: str | None = response_field(
        "The account that a program calls as; null for people."
    )


class EndpointsBody(RecordBody):
    """The endpoints in the metadata of an issuer."""

    model_config = example(**_ENDPOINTS)

    authorization_endpoint: str | None = response_field(
        "Where people sign in; null if it has none."
    )
    device_authorization_endpoint: str | None = response_field(
        "Where a program without a browser begins a sign-in; null if it has none."
    )
    token_endpoint: str | None = response_field("Where a code is redeemed; null if it has none.")
    jwks_uri: str | None = response_field("Where its keys are; null if they are in `jwks`.")


class IdentityProviderBody(EndpointsBody):
    """An identity provider, without its client secret."""

    model_config = example(**_PROVIDER)

    id: ProviderId
    name: str = response_field(_NAME)
    usage: ProviderUsage = response_field(
        "The use of its tokens: sign-in, workloads or introspection."
    )
    issuer: str = response_field(_ISSUER_TEXT)
    client_id: str | None = response_field(_CLIENT)
    cli_client_id: str | None = response_field(_CLI)
    has_client_secret: bool = response_field("Whether a client secret is stored.")
    jwks: dict[str, Any] | None = response_field(
        "The keys of the issuer; null if they are fetched."
    )
    role_mappings: tuple[RoleMappingBody, ...] = Field(
        validation_alias="role_mapping_list", description=_ROLE_MAPPINGS
    )
    email_domains: tuple[str, ...] = response_field(_DOMAINS)
    session_seconds: int = response_field("How long a session lasts.")
    allow_token_reuse: bool = response_field(_REUSABLE)
    trusts_email: bool = response_field(_TRUSTS_EMAIL)
    step_up: str = response_field(_STEP_UP)
    token_exchange: bool = Field(validation_alias="exchanges_tokens", description=_EXCHANGE)
    token_max_seconds: int | None = response_field(_LIFETIME)
    created_at: MomentOut = response_field("When it was bound.")


class IdentityProviderList(PageBody):
    """A page of identity providers."""

    model_config = example(identity_providers=[_PROVIDER], total=2, cursor=CURSOR)

    identity_providers: list[IdentityProviderBody] = response_field("The newest first.")
    total: Total
    cursor: NextCursor


class IdentityProviderCheck(EndpointsBody):
    """The endpoints that the issuer publishes now, compared with the stored ones."""

    model_config = example(**_ENDPOINTS, is_stored=True)

    is_stored: bool = response_field(
        "Whether these are stored. If not, send the same `issuer` in a change, which stores them."
    )

    @classmethod
    def comparing(cls, provider: IdentityProvider, metadata: ProviderMetadata | None) -> Self:
        """Return the body for the fetched metadata; None if the provider has none to fetch."""
        stored = EndpointsBody.of(provider)
        now = stored if metadata is None else EndpointsBody.of(metadata)
        return cls(**dict(now), is_stored=now == stored)


class PersonBody(RecordBody):
    """A person who has signed in."""

    model_config = example(**_PERSON)

    id: PersonId
    email: str = response_field(
        "The e-mail of the last sign-in, by which the audit log names the person."
    )
    name: str = response_field("The name of the last sign-in.")
    role: str = response_field("The role of the person's sessions, from the last sign-in.")
    status: PersonStatus = response_field("A disabled person has no session, and cannot sign in.")
    provider_id: str = response_field(
        "The identity provider of the person's tokens.", **identifier(IDENTITY_PROVIDER)
    )
    issuer: str = response_field("The issuer of the person's tokens.")
    subject: str = response_field("The `sub` of the person's tokens.")
    created_at: MomentOut = response_field("When the person first signed in.")


class DisablePerson(RequestBody):
    """Whether to revoke the API keys that the person created."""

    model_config = example(made_keys="end")

    made_keys: Annotated[MadeKeys, Field(strict=False)] = Field(
        description="`end` revokes API keys that the person made. `keep` leaves them as they are."
    )


class DisabledPersonBody(PersonBody):
    """A disabled person, and the number of API keys that the person created."""

    model_config = example(**_PERSON | {"status": "disabled"}, keys_ended=2, keys_left=0)

    keys_ended: int = response_field("How many API keys this request ended.", minimum=0)
    keys_left: int = response_field(
        "How many API keys that the person made are still accepted.", minimum=0
    )

    @classmethod
    def of_disabled(cls, person: DisabledPerson) -> Self:
        """Return the body for a disabled person."""
        shown_ = dict(PersonBody.of(person.person))
        return cls(**shown_, keys_ended=person.keys_ended, keys_left=person.keys_left)


class PersonList(PageBody):
    """A page of people."""

    model_config = example(people=[_PERSON], total=132, cursor=CURSOR)

    people: list[PersonBody] = response_field("The people of this page, newest first.")
    total: Total
    cursor: NextCursor


class SessionBody(RecordBody):
    """A session, without its secret."""

    model_config = example(**_SESSION)

    id: str = response_field("Identifier of the session.", **identifier(SESSION))
    identity: str = response_field("The e-mail of the person or of the service account.")
    owner: Annotated[str | None, _EMPTY] = response_field(
        "Identifier of the person, or of the service account; null for an operator with a ticket."
    )
    provider_id: Annotated[ProviderId | None, _EMPTY] = response_field(
        "Identifier of the identity provider; null for an operator with a ticket."
    )
    created_at: MomentOut = response_field("When the session began.")
    authenticated_at: MomentOut | None = response_field(
        "When its owner was authenticated; null if the provider gives no evidence (`step_up`)."
    )
    expires_at: MomentOut = response_field("When it ends.")


class SessionList(ResponseBody):
    """A page of sessions."""

    model_config = example(sessions=[_SESSION], cursor=CURSOR)

    sessions: list[SessionBody] = response_field("The sessions of this page, newest first.")
    cursor: NextCursor


# An empty list would be ambiguous: no limit, or no access.
_SOME: Final = Field(min_length=1, max_length=LIMITS_MAX)
_Prefix = Annotated[str, Field(pattern=f"^{PREFIX_PATTERN}$")]
_KeyOfRole = Annotated[str, is_of(SIGNING_KEY)]


class PutRole(RequestBody):
    """The scopes of a role, and its limits."""

    model_config = example(**_OWN_ROLE)

    scopes: GivenScopes = Field(description="The scopes that it gives.")
    warrant_prefixes: Annotated[list[_Prefix], _SOME] | None = Field(
        default=None, description=_PREFIXES
    )
    signing_keys: Annotated[list[_KeyOfRole], _SOME] | None = Field(
        default=None, description=_SIGNING_KEYS
    )

    def role(self, name: str) -> Role:
        """Return the role with this name."""
        prefixes, keys = tuple(self.warrant_prefixes or ()), tuple(self.signing_keys or ())
        return Role(name, tuple(self.scopes), prefixes, keys)


class RoleBody(RecordBody):
    """A role."""

    model_config = example(**_ROLE_SHOWN)

    name: str = response_field("The name of the role.")
    scopes: tuple[Scope, ...] = response_field("The scopes that it gives.")
    warrant_prefixes: tuple[str, ...] = response_field(_PREFIXES)
    signing_keys: tuple[str, ...] = response_field(_SIGNING_KEYS)
    is_built_in: bool = response_field("Whether it is one of the scopes, which cannot be changed.")


class RoleList(ResponseBody):
    """All roles of the tenant."""

    model_config = example(roles=[_ROLE_SHOWN])

    roles: list[RoleBody] = response_field("The built-in roles, then the others by name.")
