"""Bodies of the endpoints of identity providers, people and sessions (IDENTITY-1)."""

from typing import Annotated, Any, Final, Self

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue

from shared.model import text
from shared.model.api_keys import MadeKeys
from shared.model.callers import Scope
from shared.model.identifiers import IDENTITY_PROVIDER, PERSON, SESSION, SIGNING_KEY
from shared.model.identities import providers
from shared.model.identities.claims import ProviderMetadata
from shared.model.identities.people import PersonStatus
from shared.model.identities.providers import IdentityProvider, ProviderUsage, RoleMapping
from shared.model.identities.roles import LIMITS_MAX, PREFIX_PATTERN, Role
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
    attribute,
    example,
    field,
    identifier,
    is_of,
    omittable,
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
_NAME: Final = "Display name, which the sign-in page shows."
_ISSUER_TEXT: Final = (
    "Issuer: the exact `iss` of its tokens. The service reads the metadata below "
    "`/.well-known` whenever this field is sent."
)
_CLIENT: Final = (
    "OAuth client identifier of the service at the provider. For `verify_only`, the audience. "
    "Not used for `workload`."
)
_CLI: Final = "OAuth client identifier of the command line, if it has a separate public client."
_JWKS: Final = (
    "JSON Web Key Set of the issuer, for issuers that the service cannot reach. The service "
    "then never fetches keys. An empty object removes the keys. Required for `verify_only`."
)
_ROLE_MAPPINGS: Final = (
    "Role mappings of tokens. The first mapping that matches applies. The service rejects "
    "tokens without a match. Required unless `usage` is `verify_only`, which allows none."
)
_DOMAINS: Final = "Allowed domains of people's e-mail addresses. If empty, all domains are allowed."
_SECONDS: Final = (
    "Lifetime of a session in seconds. The default is 3600 for people and 900 for programs."
)
_TRUSTS_EMAIL: Final = (
    "Whether an e-mail address counts as verified if the token has no `email_verified`. Set "
    "it only if the provider verifies all addresses. People need a verified e-mail address."
)
_STEP_UP: Final = (
    "Evidence of a recent sign-in of a person: `auth_time`; `acr:` with values of the claim "
    "`acr`, separated by spaces; or `sign_in`, which accepts every sign-in."
)
_EXCHANGE: Final = (
    "Whether tokens can be exchanged for sessions. The default is true for programs, and for "
    "people if `cli_client_id` is set."
)
_REUSABLE: Final = (
    "Whether a program may exchange one token several times, as Kubernetes workloads do."
)

_ROLE: Final = "Role to assign: a scope, or the name of a role from `GET /v1/roles`."
_PREFIXES: Final = (
    "Allowed prefixes of warrant identifiers. If this or `signing_keys` is set, the role is "
    "limited to these warrants and keys, and to endpoints that support role limits."
)
_SIGNING_KEYS: Final = (
    "Identifiers of allowed signing keys. Each includes the descendants of the key."
)
_OWN_ROLE: Final[dict[str, JsonValue]] = {
    "scopes": ["revoker"],
    "warrant_prefixes": ["svc_wrt_paris-"],
    "signing_keys": [sample(SIGNING_KEY)],
}
_ROLE_SHOWN: Final[dict[str, JsonValue]] = {"name": "paris", **_OWN_ROLE, "is_built_in": False}

RoleName = Annotated[
    str,
    Field(
        description="Name of the role.", json_schema_extra={"pattern": f"^{text.LABEL_PATTERN}$"}
    ),
    AfterValidator(text.label),
]
ProviderId = Annotated[
    str, field("Identifier of the identity provider.", **identifier(IDENTITY_PROVIDER))
]
PersonId = Annotated[str, field("Identifier of the person.", **identifier(PERSON))]
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
    "Maximum lifetime of tokens in seconds, for `verify_only`. The revocation of a subject "
    "leaves the SRL this long after its `issued_before`. If null, the revocation never leaves "
    "the SRL."
)


def _keys(value: dict[str, Any]) -> dict[str, Any]:
    return providers.public_keys(value) if value else {}


Jwks = Annotated[dict[str, Any], AfterValidator(_keys)]


class RoleMappingInput(RequestBody):
    """A role for callers with matching claims."""

    claims: dict[ConditionName, Condition] = Field(
        min_length=1,
        max_length=providers.CONDITIONS_MAX,
        description="Required claims by name. All must match. A list claim must contain the "
        "value. A trailing `*` matches any text. A name that begins with `/` is a JSON Pointer "
        "(RFC 6901), such as `/realm_access/roles`.",
    )
    role: RoleName = Field(description=_ROLE)
    service_account: str | None = Field(
        default=None,
        max_length=63,
        description="Name of the service account for sessions of programs; null for people.",
    )

    def to_mapping(self) -> RoleMapping:
        """Return the role mapping."""
        return RoleMapping(self.claims, self.role, self.service_account)


RoleMappings = Annotated[
    list[RoleMappingInput], Field(min_length=1, max_length=providers.ROLE_MAPPINGS_MAX)
]


class UpdateIdentityProvider(RequestBody):
    """Changes of an identity provider. Omitted and null members do not change."""

    model_config = example(role_mappings=[_ROLE_MAPPING])

    name: Name | None = omittable(_NAME)
    issuer: Issuer | None = omittable(_ISSUER_TEXT)
    client_id: ClientId | None = omittable(_CLIENT)
    cli_client_id: ClientId | None = omittable(_CLI)
    client_secret: Annotated[str, Field(max_length=providers.SECRET_MAX)] | None = Field(
        default=None,
        repr=False,
        description="OAuth client secret of the service at the provider. No response contains it. "
        "An empty string removes it.",
    )
    jwks: Jwks | None = omittable(_JWKS)
    role_mappings: RoleMappings | None = omittable(_ROLE_MAPPINGS)
    email_domains: Domains | None = omittable(_DOMAINS)
    session_seconds: Seconds | None = omittable(_SECONDS)
    allow_token_reuse: bool | None = omittable(_REUSABLE)
    trusts_email: bool | None = omittable(_TRUSTS_EMAIL)
    step_up: StepUp | None = omittable(_STEP_UP)
    token_exchange: bool | None = omittable(_EXCHANGE)
    token_max_seconds: TokenSeconds | None = omittable(_LIFETIME)

    def change(self) -> ProviderChange:
        """Return the new values for the operation."""
        members = {name: getattr(self, name) for name in UpdateIdentityProvider.model_fields}
        if self.role_mappings is not None:
            members["role_mappings"] = tuple(each.to_mapping() for each in self.role_mappings)
        if self.email_domains is not None:
            members["email_domains"] = tuple(self.email_domains)
        return ProviderChange(**members)


class CreateIdentityProvider(UpdateIdentityProvider):
    """The identity provider to bind."""

    model_config = example(**_CREATED, **_SECRET)

    name: Name = Field(description=_NAME)
    usage: Annotated[ProviderUsage, Field(strict=False)] = Field(
        description="Usage of the tokens. `sign_in`: people sign in. `workload`: programs "
        "exchange tokens for sessions. `verify_only`: token introspection only. It cannot be "
        "changed later."
    )
    issuer: Issuer = Field(description=_ISSUER_TEXT)


class RoleMappingBody(RecordBody):
    """A role for callers with matching claims."""

    claims: dict[str, str] = field("Required claims by name. All must match.")
    role: str = field(_ROLE)
    service_account: str | None = field(
        "Name of the service account for sessions of programs; null for people."
    )


class EndpointsBody(RecordBody):
    """The endpoints in the metadata of an issuer."""

    model_config = example(**_ENDPOINTS)

    authorization_endpoint: str | None = field(
        "URL at which people sign in; null if there is none."
    )
    device_authorization_endpoint: str | None = field(
        "URL at which a program without a browser starts a sign-in; null if there is none."
    )
    token_endpoint: str | None = field("URL at which codes are redeemed; null if there is none.")
    jwks_uri: str | None = field("URL of the issuer's keys; null if they are in `jwks`.")


class IdentityProviderBody(EndpointsBody):
    """An identity provider, without its client secret."""

    model_config = example(**_PROVIDER)

    id: ProviderId
    name: str = field(_NAME)
    usage: ProviderUsage = field("Usage of the tokens: sign-in, workloads or introspection only.")
    issuer: str = field(_ISSUER_TEXT)
    client_id: str | None = field(_CLIENT)
    cli_client_id: str | None = field(_CLI)
    has_client_secret: bool = field("Whether a client secret is stored.")
    jwks: dict[str, Any] | None = field(
        "JSON Web Key Set of the issuer; null if the service fetches the keys."
    )
    role_mappings: tuple[RoleMappingBody, ...] = attribute("role_mapping_list", _ROLE_MAPPINGS)
    email_domains: tuple[str, ...] = field(_DOMAINS)
    session_seconds: int = field("Lifetime of a session in seconds.")
    allow_token_reuse: bool = field(_REUSABLE)
    trusts_email: bool = field(_TRUSTS_EMAIL)
    step_up: str = field(_STEP_UP)
    token_exchange: bool = attribute("exchanges_tokens", _EXCHANGE)
    token_max_seconds: int | None = field(_LIFETIME)
    created_at: MomentOut = field("Time of creation.")


class IdentityProviderList(PageBody):
    """A page of identity providers."""

    model_config = example(identity_providers=[_PROVIDER], total=2, cursor=CURSOR)

    identity_providers: list[IdentityProviderBody] = field(
        "The identity providers of this page, newest first."
    )
    total: Total
    cursor: NextCursor


class IdentityProviderCheck(EndpointsBody):
    """The endpoints that the issuer publishes now, compared with the stored ones."""

    model_config = example(**_ENDPOINTS, is_stored=True)

    is_stored: bool = field(
        "Whether the endpoints match the stored ones. If false, update the provider with the same "
        "`issuer` to store them."
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
    email: str = field(
        "E-mail address from the last sign-in. The audit log names the person by it."
    )
    name: str = field("Name from the last sign-in.")
    role: str = field("Role from the last sign-in. It applies to the person's sessions.")
    status: PersonStatus = field(
        "Status of the person. A disabled person has no sessions and cannot sign in."
    )
    provider_id: str = field("Identity provider of the person.", **identifier(IDENTITY_PROVIDER))
    issuer: str = field("Issuer of the person's tokens.")
    subject: str = field("Subject of the person's tokens (`sub`).")
    created_at: MomentOut = field("Time of the first sign-in.")


class DisablePerson(RequestBody):
    """Whether to revoke the API keys that the person created."""

    model_config = example(made_keys="end")

    made_keys: Annotated[MadeKeys, Field(strict=False)] = Field(
        description="`end`: revoke the API keys that the person created. `keep`: leave them "
        "unchanged."
    )


class DisabledPersonBody(PersonBody):
    """A disabled person, and the number of API keys that the person created."""

    model_config = example(**_PERSON | {"status": "disabled"}, keys_ended=2, keys_left=0)

    keys_ended: int = field("Number of API keys that this request revoked.", minimum=0)
    keys_left: int = field("Number of accepted API keys that the person created.", minimum=0)

    @classmethod
    def of_disabled(cls, person: DisabledPerson) -> Self:
        """Return the body for a disabled person."""
        members = dict(PersonBody.of(person.person))
        return cls(**members, keys_ended=person.keys_ended, keys_left=person.keys_left)


class PersonList(PageBody):
    """A page of people."""

    model_config = example(people=[_PERSON], total=132, cursor=CURSOR)

    people: list[PersonBody] = field("The people of this page, newest first.")
    total: Total
    cursor: NextCursor


class SessionBody(RecordBody):
    """A session, without its secret."""

    model_config = example(**_SESSION)

    id: str = field("Identifier of the session.", **identifier(SESSION))
    identity: str = field("E-mail address of the person, or e-mail of the service account.")
    owner: Annotated[str | None, _EMPTY] = field(
        "Identifier of the person or the service account; null for an operator with a sign-in "
        "ticket."
    )
    provider_id: Annotated[ProviderId | None, _EMPTY] = field(
        "Identifier of the identity provider; null for an operator with a sign-in ticket."
    )
    created_at: MomentOut = field("Time of the sign-in.")
    authenticated_at: MomentOut | None = field(
        "Time at which the owner was authenticated; null if the provider gives no evidence (see "
        "`step_up`)."
    )
    expires_at: MomentOut = field("Expiry of the session.")


class SessionList(ResponseBody):
    """A page of sessions."""

    model_config = example(sessions=[_SESSION], cursor=CURSOR)

    sessions: list[SessionBody] = field("The sessions of this page, newest first.")
    cursor: NextCursor


# An empty list would be ambiguous: no limit, or no access.
_SOME: Final = Field(min_length=1, max_length=LIMITS_MAX)
_Prefix = Annotated[str, Field(pattern=f"^{PREFIX_PATTERN}$")]
_KeyOfRole = Annotated[str, is_of(SIGNING_KEY)]


class PutRole(RequestBody):
    """The scopes of a role, and its limits."""

    model_config = example(**_OWN_ROLE)

    scopes: GivenScopes = Field(description="Scopes of the role.")
    warrant_prefixes: Annotated[list[_Prefix], _SOME] | None = omittable(_PREFIXES)
    signing_keys: Annotated[list[_KeyOfRole], _SOME] | None = omittable(_SIGNING_KEYS)

    def role(self, name: str) -> Role:
        """Return the role with this name."""
        prefixes, keys = tuple(self.warrant_prefixes or ()), tuple(self.signing_keys or ())
        return Role(name, tuple(self.scopes), prefixes, keys)


class RoleBody(RecordBody):
    """A role."""

    model_config = example(**_ROLE_SHOWN)

    name: str = field("Name of the role.")
    scopes: tuple[Scope, ...] = field("Scopes of the role.")
    warrant_prefixes: tuple[str, ...] = field(_PREFIXES)
    signing_keys: tuple[str, ...] = field(_SIGNING_KEYS)
    is_built_in: bool = field(
        "Whether the role is built in. Built-in roles are the scopes, and cannot be changed."
    )


class RoleList(ResponseBody):
    """All roles of the tenant."""

    model_config = example(roles=[_ROLE_SHOWN])

    roles: list[RoleBody] = field("The built-in roles, then the other roles by name.")
