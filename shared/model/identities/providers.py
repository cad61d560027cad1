"""Identity providers of a tenant (IDENTITY-1) and their role mappings (IDENTITY-2)."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple, Self
from urllib.parse import urlsplit

from shared.authorizer.formats.jwk_sets import usable_keys
from shared.model import seeds
from shared.model.identities.claims import ProviderMetadata
from shared.model.items import Address, Partition, Table, Value
from shared.model.records import Record
from shared.model.seeds import KeyPurpose

ROLE_MAPPINGS_MAX: Final = 50
CONDITIONS_MAX: Final = 5
VALUE_MAX: Final = 255

_ANY: Final = "*"
_TEXT: Final = re.compile("[^*].*")
_NUMBER: Final = re.compile("[0-9]+")


class Family(NamedTuple):
    """Issuers of one kind, and the claims that identify the owner of a program's token.

    A condition identifies the owner if its value matches the pattern. If `is_shared`, other
    customers use the same issuer, and their tokens must not match.
    """

    issuer: re.Pattern[str]
    owners: Mapping[str, re.Pattern[str]]
    is_shared: bool = True


_FAMILIES: Final = (
    # GitHub Actions
    Family(
        re.compile("https://token\\.actions\\.githubusercontent\\.com(/.*)?"),
        {
            "repository_id": _NUMBER,
            "repository_owner_id": _NUMBER,
            "sub": re.compile("repo:[^/*]+/.*"),
        },
    ),
    # GitLab
    Family(
        re.compile("https://gitlab\\.com/?"),
        {
            "project_id": _NUMBER,
            "namespace_id": _NUMBER,
            "sub": re.compile("project_path:[^/*]+/.*"),
        },
    ),
    # Terraform Cloud
    Family(
        re.compile("https://app\\.(eu\\.)?terraform\\.io/?"),
        {
            "terraform_organization_id": re.compile("[^*]+"),
            "sub": re.compile("organization:[^:*]+:.*"),
        },
    ),
    # Buildkite
    Family(
        re.compile("https://agent\\.buildkite\\.com/?"),
        {
            "organization_id": re.compile("[^*]+"),
            "sub": re.compile("organization:[^:*]+:.*"),
        },
    ),
    # Google
    Family(
        re.compile("https://accounts\\.google\\.com/?"),
        dict.fromkeys(("sub", "email", "hd"), re.compile("[^*]+")),
    ),
    # Keycloak
    Family(re.compile("https://.+/realms/[^/]+/?"), dict.fromkeys(("azp", "sub"), _TEXT), False),
    # Entra. Its tokens of version 1 have `appid` in place of `azp`.
    Family(
        re.compile("https://(login\\.microsoftonline\\.com|sts\\.windows\\.net)/.+"),
        dict.fromkeys(("azp", "appid", "oid"), _TEXT),
        False,
    ),
    # Kubernetes, and all others
    Family(re.compile(".*"), dict.fromkeys(("sub", "/kubernetes.io/namespace"), _TEXT), False),
)


def family_of(issuer: str) -> Family:
    """Return the family of an issuer."""
    return next(each for each in _FAMILIES if each.issuer.fullmatch(issuer))


@dataclass(frozen=True, slots=True)
class RoleMapping:
    """Gives a role to tokens with claims that match all conditions of `claims`.

    The name of a condition is a claim, or a JSON Pointer (RFC 6901) if it begins with `/`.
    `service_account` is the name of the account that a program acts as, or None for people.
    """

    claims: Mapping[str, str]
    role: str
    service_account: str | None = None

    @classmethod
    def of(cls, item: Mapping[str, Value]) -> Self:
        """Return the role mapping in a value of `to_value`."""
        wanted, account = item["claims"], item.get("service_account")
        conditions = wanted.items() if isinstance(wanted, dict) else ()
        texts = {name: str(value) for name, value in conditions}
        return cls(texts, str(item["role"]), None if account is None else str(account))

    @property
    def to_value(self) -> dict[str, Value]:
        """The role mapping as a value of an item."""
        named: dict[str, Value] = {"claims": dict(self.claims), "role": self.role}
        return named | ({"service_account": self.service_account} if self.service_account else {})

    def matches(self, claims: Mapping[str, object]) -> bool:
        """Return whether all conditions match. An absent claim never matches."""
        # Creation rejects a mapping without conditions, because it would match every token.
        return bool(self.claims) and all(
            _holds(wanted, _find_claim(claims, name)) for name, wanted in self.claims.items()
        )

    def names_owner(self, family: Family) -> bool:
        """Return whether a condition identifies the owner of the token."""
        return any(
            name in self.claims and pattern.fullmatch(self.claims[name])
            for name, pattern in family.owners.items()
        )


def first(mappings: Iterable[RoleMapping], claims: Mapping[str, object]) -> RoleMapping | None:
    """Return the first role mapping that matches, or None."""
    return next((each for each in mappings if each.matches(claims)), None)


def condition_name(value: str) -> str:
    """Return `value`. Raises `ValueError` if it begins with `/` but is not a JSON Pointer."""
    if value.startswith("/") and re.search("~(?![01])", value):
        raise ValueError("must be a JSON Pointer, in which ~ is followed by 0 or 1 (RFC 6901)")
    return value


def _find_claim(claims: Mapping[str, object], name: str) -> object:
    """Return the claim, or the value at a JSON Pointer, or None if it is absent."""
    if not name.startswith("/"):
        return claims.get(name)
    found: object = claims
    for part in name[1:].split("/"):
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list):
            found = found[int(key)] if _INDEX.fullmatch(key) and int(key) < len(found) else None
        else:
            found = found.get(key) if isinstance(found, dict) else None
    return found


def _holds(value: str, claim: object) -> bool:
    """Return whether a claim is `value`, or a list that contains it.

    `*` at the end of `value` matches any text. Numbers and booleans never match.
    """
    claims = claim if isinstance(claim, list) else [claim]
    texts = [each for each in claims if isinstance(each, str)]
    if value.endswith(_ANY):
        return any(each.startswith(value[:-1]) for each in texts)
    return value in texts


PROVIDERS_MAX: Final = 10
SESSION_SECONDS_MIN: Final = 300
SESSION_SECONDS_MAX: Final = 43_200
ISSUER_MAX: Final = 512
CLIENT_ID_MAX: Final = 255
SECRET_MAX: Final = 1024
KEYS_MAX: Final = 20
# Maximum size of an issuer's keys for introspection, in bytes.
TOKEN_KEYS_MAX: Final = 16 * 1024
# The default and maximum lifetime of introspected tokens, in seconds.
TOKEN_SECONDS: Final = 86_400
TOKEN_SECONDS_MAX: Final = 366 * 86_400
DOMAINS_MAX: Final = 50

_ISSUER: Final = re.compile("https://[!-~]+")
# Entra issues tokens of all its customers at these addresses.
_EVERYBODY: Final = re.compile(
    "https://(login\\.microsoftonline\\.com|sts\\.windows\\.net)/"
    "(common|organizations|consumers|.*[{*]).*",
    re.IGNORECASE,
)
_INDEX: Final = re.compile("0|[1-9][0-9]{0,5}")
_STEP_UP: Final = re.compile("auth_time|sign_in|acr:[!-~]+( [!-~]+)*")
_DOMAIN: Final = re.compile("([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\\.)+[a-z0-9-]{2,63}")
# Members of private JSON Web Keys.
_PRIVATE: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
_PUBLIC: Final = ("kty", "kid", "alg", "use", "n", "e", "crv", "x", "y")
_MEMBER_MAX: Final = 2048


class ProviderUsage(StrEnum):
    """Whether a provider authenticates people or programs, or only issues tokens (TOKEN-3)."""

    SIGN_IN = "sign_in"
    WORKLOAD = "workload"
    VERIFY_ONLY = "verify_only"


# Tokens that are only introspected cannot be used to sign in.
SESSION_SECONDS: Final = {
    ProviderUsage.SIGN_IN: 3600,
    ProviderUsage.WORKLOAD: 900,
    ProviderUsage.VERIFY_ONLY: SESSION_SECONDS_MIN,
}


@dataclass(frozen=True, slots=True)
class IdentityProvider(Record):
    """An identity provider, with the metadata that its issuer published when it was added.

    `client_id` is the service's client at the provider, or the audience of `TOKENS`.
    `cli_client_id` is a separate client for the command line, if any. `sealed_client_secret` is the
    wrapped secret number `secret_number`, and `client_secret_sha256` its hash in hex, for the audit
    log. Without `jwks`, the keys are fetched from `jwks_uri`. The first matching mapping in
    `role_mappings` applies. If a change could remove a role, `epoch` increases, and earlier
    sessions of the provider end.

    With `trusts_email`, an e-mail counts as verified without `email_verified`. `step_up` names the
    evidence of reauthentication. `token_exchange` is None for the default. `token_max_seconds` is
    the longest lifetime of `TOKENS`, or None if it is not set.
    """

    id: str
    tenant_id: str
    name: str
    usage: ProviderUsage
    issuer: str
    role_mappings: tuple[dict[str, Value], ...]
    session_seconds: int
    created_at: datetime
    client_id: str | None = None
    cli_client_id: str | None = None
    sealed_client_secret: bytes | None = field(default=None, repr=False)
    secret_number: int = 0
    jwks: dict[str, Value] | None = None
    email_domains: tuple[str, ...] = ()
    allow_token_reuse: bool = False
    trusts_email: bool = False
    step_up: str = "auth_time"
    token_exchange: bool | None = None
    token_max_seconds: int | None = None
    authorization_endpoint: str | None = None
    device_authorization_endpoint: str | None = None
    token_endpoint: str | None = None
    jwks_uri: str | None = None
    epoch: int = 1
    version: int = 1
    client_secret_sha256: str | None = None

    @property
    def address(self) -> Address:
        """The address of the provider."""
        return providers(self.tenant_id).address(self.id)

    @property
    def has_client_secret(self) -> bool:
        """Whether the service has a secret at the provider."""
        return self.sealed_client_secret is not None

    @property
    def role_mapping_list(self) -> tuple[RoleMapping, ...]:
        """The role mappings, in order."""
        return tuple(map(RoleMapping.of, self.role_mappings))

    @property
    def exchanges_tokens(self) -> bool:
        """Whether tokens can be exchanged. By default, people need a client of the command line."""
        if self.token_exchange is not None:
            return self.token_exchange
        return self.usage is ProviderUsage.WORKLOAD or self.cli_client_id is not None

    def with_endpoints(self, metadata: ProviderMetadata | None) -> Self:
        """Return the provider with its issuer's metadata, or without endpoints."""
        endpoints: dict[str, Any] = {
            each.name: getattr(metadata, each.name, None) for each in fields(ProviderMetadata)
        }
        return replace(self, **endpoints)

    @property
    def seal_context(self) -> dict[str, str]:
        """The context of the wrapped client secret."""
        return seeds.seal_context(
            self.tenant_id, self.id, purpose=KeyPurpose.IDENTITY, version=self.secret_number
        )


def issuer(value: str) -> str:
    """Return `value`. Raises `ValueError` if it cannot be the issuer of a single company."""
    parts = urlsplit(value)
    if not (_ISSUER.fullmatch(value) and len(value) <= ISSUER_MAX and parts.hostname):
        raise ValueError(f"must be an https address of at most {ISSUER_MAX} visible characters")
    if parts.query or parts.fragment or "@" in parts.netloc:
        raise ValueError("must have no query, no fragment and no user name")
    if _EVERYBODY.fullmatch(value):
        raise ValueError("must name one directory: write its identifier in place of common")
    return value


def step_up(value: str) -> str:
    """Return `value`. Raises `ValueError` if it names no evidence of reauthentication."""
    if not _STEP_UP.fullmatch(value) or len(value) > VALUE_MAX:
        raise ValueError("must be auth_time, sign_in, or acr: and values separated by spaces")
    return value


def domain(value: str) -> str:
    """Return `value`. Raises `ValueError` if it cannot be the domain of people's e-mail."""
    if not _DOMAIN.fullmatch(value) or value.endswith(".svc"):
        raise ValueError("must be a domain in lower case, such as example.com")
    return value


def public_keys(value: Mapping[str, object]) -> dict[str, Value]:
    """Return the keys of a JSON Web Key Set that verify signatures, with the members for that.

    Other keys are omitted (RFC 7517, 5). Raises `ValueError` if a key is private, or no key is
    left.
    """
    given = value.get("keys")
    keys = [each for each in given if isinstance(each, dict)] if isinstance(given, list) else []
    if any(_PRIVATE & each.keys() for each in keys):
        raise ValueError("must have public keys only")
    usable = [each for alike in usable_keys({"keys": keys}).values() for each in alike]
    if not 1 <= len(usable) <= KEYS_MAX:
        raise ValueError(f"must have 1 to {KEYS_MAX} keys that check signatures, with a kid each")
    public = [
        {name: key[name] for name in _PUBLIC if isinstance(key.get(name), str)} for key in usable
    ]
    if any(len(member) > _MEMBER_MAX for key in public for member in key.values()):
        raise ValueError(f"must have members of at most {_MEMBER_MAX} characters")
    return {"keys": [*public]}


def providers(tenant_id: str) -> Partition:
    """Return the partition of a tenant's identity providers, in order of creation."""
    return Partition(Table.KEYS, f"{tenant_id}#identity-providers")


def owner_address(provider_id: str) -> Address:
    """Return the address of the item that names the tenant of a provider."""
    return Address(Table.KEYS, f"identity-provider#{provider_id}")


def count_address(tenant_id: str) -> Address:
    """Return the address of the number of a tenant's providers, in the attribute `count`."""
    return Address(Table.KEYS, tenant_id, "counts#identity-providers")
