"""Identity providers: list, get, create, update, check, delete (IDENTITY-1 to IDENTITY-3)."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from shared.errors import Conflict, InvalidRequest
from shared.model.audit.audit_log import AuditAction
from shared.model.callers import Caller, Scope
from shared.model.differences import changed_details
from shared.model.identifiers import IDENTITY_PROVIDER
from shared.model.identities import providers as model
from shared.model.identities.claims import ProviderMetadata
from shared.model.identities.providers import IdentityProvider, ProviderUsage, RoleMapping
from shared.model.identities.sessions import access_address
from shared.model.items import Value
from shared.model.records import integer
from shared.operations.base import audit
from shared.operations.base.allowance import find
from shared.operations.base.idempotency import Keep, idempotent, of_record
from shared.operations.base.operation import operation
from shared.operations.base.paging import Page, PageQueryPlan, count, newest
from shared.operations.identities import approvers, issuers, protected_acts, provider_calls, roles
from shared.operations.identities.authentication import read_access
from shared.ports import Ports
from shared.ports.store import Change, Delete, Expect, Increment, Put, VersionIs, expect_version

# A secret is never stored twice, even wrapped.
_KEPT: Final = of_record(IdentityProvider, but=["sealed_client_secret"])
# If one of these changes, a session may lose its basis.
_GIVING: Final = (
    "issuer",
    "client_id",
    "cli_client_id",
    "jwks",
    "role_mappings",
    "email_domains",
    "trusts_email",
    "step_up",
    "token_exchange",
)
_REMOVABLE: Final = frozenset({"client_id", "cli_client_id", "jwks"})
_USUAL: Final = "auth_time"
_GOOGLE: Final = "https://accounts.google.com"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderChange:
    """New values of a provider. None keeps a value. An empty text or list removes it."""

    name: str | None = None
    issuer: str | None = None
    client_id: str | None = None
    cli_client_id: str | None = None
    client_secret: str | None = None
    jwks: dict[str, Value] | None = None
    role_mappings: tuple[RoleMapping, ...] | None = None
    email_domains: tuple[str, ...] | None = None
    session_seconds: int | None = None
    allow_token_reuse: bool | None = None
    trusts_email: bool | None = None
    step_up: str | None = None
    token_exchange: bool | None = None
    token_max_seconds: int | None = None

    def made_to(self, provider: IdentityProvider) -> IdentityProvider:
        """Return the provider with these values, except its secret and the discovered endpoints."""
        values = dict[str, Any]()
        for name in (each.name for each in fields(self) if each.name != "client_secret"):
            if (value := getattr(self, name)) is not None:
                values[name] = (value or None) if name in _REMOVABLE else value
        if self.role_mappings is not None:
            values["role_mappings"] = tuple(each.to_value for each in self.role_mappings)
        changed = replace(provider, **values)
        is_other = any(getattr(changed, each) != getattr(provider, each) for each in _GIVING)
        return replace(changed, epoch=provider.epoch + 1) if is_other else changed


@operation(Scope.ADMIN, Scope.READ_ONLY, Scope.AUDITOR)
def page(ports: Ports, caller: Caller, *, before: str | None, limit: int) -> Page[IdentityProvider]:
    """Return a page of the tenant's providers, newest first."""
    walk = PageQueryPlan(
        model.providers(caller.tenant_id), IdentityProvider.from_item, before, limit
    )
    return newest(ports, walk, total=lambda: count(ports, model.count_address(caller.tenant_id)))


@operation(Scope.ADMIN, Scope.READ_ONLY, Scope.AUDITOR)
def get(ports: Ports, caller: Caller, *, provider_id: str) -> IdentityProvider:
    """Return a provider of the tenant. Raises `NotFound`."""
    partition = model.providers(caller.tenant_id)
    return find(ports, partition, provider_id, kind=IDENTITY_PROVIDER, record=IdentityProvider)


@idempotent(Scope.ADMIN, keeps=_KEPT, fresh=True)
def create(
    ports: Ports,
    caller: Caller,
    keep: Keep[IdentityProvider],
    *,
    usage: ProviderUsage,
    change: ProviderChange,
) -> IdentityProvider:
    """Bind a provider. Discovers its endpoints from the issuer, unless `jwks` has its keys.

    Raises `Conflict` if the tenant has `PROVIDERS_MAX`; `InvalidRequest` if the values contradict
    each other, or the issuer publishes no keys.
    """
    counter = model.count_address(caller.tenant_id)
    counted = ports.store.get(counter) or {"count": 0, "version": 0}
    number, version = integer(counted, "count"), integer(counted, "version")
    if number >= model.PROVIDERS_MAX:
        raise Conflict(f"The tenant has {model.PROVIDERS_MAX} identity providers; delete one.")
    new = IdentityProvider(
        id=ports.new_id(IDENTITY_PROVIDER),
        tenant_id=caller.tenant_id,
        name="",
        usage=usage,
        issuer="",
        role_mappings=(),
        session_seconds=model.SESSION_SECONDS[usage],
        created_at=ports.now(),
    )
    provider = replace(_complete_provider(ports, new, change), epoch=1)
    anchored = _cooling_off_changes(ports, caller, None, provider)
    details = _details(ports, None, provider)
    approval = protected_acts.access_changed(ports, caller, "identity provider", details)
    ports.store.write(
        Put(provider.address, provider.to_item(), Expect.ABSENT),
        Put(model.owner_address(provider.id), {"tenant_id": provider.tenant_id}, Expect.ABSENT),
        # One of two concurrent creations counts again.
        Put(counter, {"count": number + 1, "version": version + 1}, expect_version(version)),
        _entry(ports, caller, AuditAction.IDENTITY_PROVIDER_CREATE, provider, details, anchored),
        *anchored,
        *approval,
        *keep(provider),
    )
    return provider


@idempotent(Scope.ADMIN, keeps=_KEPT, fresh=True)
def update(
    ports: Ports,
    caller: Caller,
    keep: Keep[IdentityProvider],
    *,
    provider_id: str,
    change: ProviderChange,
) -> IdentityProvider:
    """Change a provider. If the issuer is given, its endpoints are discovered again.

    If other people may now receive its roles, the sessions from this provider end. Raises the
    errors of `create`, and `NotFound`.
    """
    before = get(ports, caller, provider_id=provider_id)
    changed = _complete_provider(ports, before, change)
    is_new, details = changed != before, _details(ports, before, changed)
    approval = protected_acts.access_changed(
        ports, caller, before.id, details, version=before.version, is_needed=is_new
    )
    if not is_new:
        return before
    stored = replace(changed, version=before.version + 1)
    anchored = _cooling_off_changes(ports, caller, before, stored)
    ports.store.write(
        Put(stored.address, stored.to_item(), VersionIs(before.version)),
        _entry(ports, caller, AuditAction.IDENTITY_PROVIDER_UPDATE, stored, details, anchored),
        *anchored,
        *approval,
        *keep(stored),
    )
    return stored


@operation(Scope.ADMIN)
def check(
    ports: Ports, caller: Caller, *, provider_id: str
) -> tuple[IdentityProvider, ProviderMetadata | None]:
    """Return a provider and its published metadata, or None if the provider has its keys.

    Makes no changes. Raises `NotFound`, `InvalidRequest`, `Unavailable`.
    """
    provider = get(ports, caller, provider_id=provider_id)
    return provider, _discover(ports, provider)


@operation(Scope.ADMIN, fresh=True)
def delete(ports: Ports, caller: Caller, *, provider_id: str) -> None:
    """Delete a provider. Its sessions end.

    People stay, because the audit log names them, but cannot sign in without a provider. Raises
    `NotFound`; `TooFewApprovers` (APPROVAL-5).
    """
    provider = get(ports, caller, provider_id=provider_id)
    details = changed_details(provider.name, provider, None)
    approval = protected_acts.access_changed(
        ports, caller, provider.id, details, version=provider.version
    )
    amounts = {"count": -1, "version": 1}
    checks = approvers.keep_two(ports, caller, without={provider.id}, extra_changes=approval)
    ports.store.write(
        Delete(provider.address, VersionIs(provider.version)),
        Delete(model.owner_address(provider.id), Expect.ANYTHING),
        Increment(model.count_address(caller.tenant_id), amounts, Expect.PRESENT),
        _entry(ports, caller, AuditAction.IDENTITY_PROVIDER_DELETE, provider, details),
        *approval,
        *checks,
    )


def find_twins(ports: Ports, provider: IdentityProvider) -> list[str]:
    """Return the other providers of people that have the same issuer (IDENTITY-4)."""
    if provider.usage is not ProviderUsage.SIGN_IN:
        return []
    rows = ports.store.query(model.providers(provider.tenant_id))
    return [
        each.id
        for each in IdentityProvider.from_rows(rows)
        if each.id != provider.id
        and each.usage is provider.usage
        and each.issuer == provider.issuer
    ]


def _details(ports: Ports, old: IdentityProvider | None, new: IdentityProvider) -> dict[str, Value]:
    """Return the details of a change. A new issuer adds a warning about its other providers."""
    details = changed_details(new.name, old, new)
    is_other = old is None or old.issuer != new.issuer
    twins = find_twins(ports, new) if is_other else []
    return details | ({"same_issuer": [*twins]} if twins else {})


def _complete_provider(
    ports: Ports, previous: IdentityProvider, change: ProviderChange
) -> IdentityProvider:
    """Return the changed provider, with a wrapped secret and discovered endpoints."""
    changed = change.made_to(previous)
    _check(changed)
    if changed.role_mappings != previous.role_mappings:
        known = roles.of_tenant(ports, changed.tenant_id)
        if not all(each.role in known for each in changed.role_mapping_list):
            raise InvalidRequest("role_mappings: each role must be one of GET /v1/roles.")
    # Otherwise a role mapping could not be removed while a provider is down.
    if change.issuer is not None or changed.jwks != previous.jwks:
        changed = changed.with_endpoints(_discover(ports, changed))
    if change.client_secret is None:
        return changed
    if not change.client_secret:
        return replace(changed, sealed_client_secret=None, client_secret_sha256=None)
    numbered = replace(changed, secret_number=previous.secret_number + 1)
    secret = change.client_secret.encode()
    sealed = ports.sealer.seal(secret, context=numbered.seal_context)
    digest = hashlib.sha256(secret).hexdigest()
    return replace(numbered, sealed_client_secret=sealed, client_secret_sha256=digest)


def _discover(ports: Ports, provider: IdentityProvider) -> ProviderMetadata | None:
    """Return the published metadata of the issuer, or None if the provider has its keys."""
    if provider.jwks is not None:
        return None
    return issuers.discover(provider_calls.guard(ports, provider.tenant_id), provider.issuer)


def _check(provider: IdentityProvider) -> None:
    """Raise `InvalidRequest` if the values of a provider contradict each other (IDENTITY-2)."""
    if provider.usage is ProviderUsage.VERIFY_ONLY:
        _check_tokens(provider)
        return
    if provider.token_max_seconds is not None:
        raise InvalidRequest("token_max_seconds: is only for tokens.")
    if not provider.role_mappings:
        raise InvalidRequest("role_mappings: must have at least one entry.")
    is_of_people = provider.usage is ProviderUsage.SIGN_IN
    if is_of_people and not provider.client_id:
        raise InvalidRequest("client_id: is required for people.")
    if not is_of_people and (provider.client_id or provider.cli_client_id):
        raise InvalidRequest(
            "client_id: must be omitted for programs, because their tokens are for this provider."
        )
    if is_of_people and provider.issuer == _GOOGLE and not provider.email_domains:
        raise InvalidRequest(
            "email_domains: is required, because anyone can have an account at this provider."
        )
    if is_of_people and provider.allow_token_reuse:
        raise InvalidRequest("allow_token_reuse: is only for `workload`.")
    if not is_of_people and (provider.token_exchange is False or provider.step_up != _USUAL):
        raise InvalidRequest("token_exchange, step_up: are only for people.")
    for mapping in provider.role_mapping_list:
        _check_role_mapping(provider, mapping)


def _check_tokens(provider: IdentityProvider) -> None:
    """Raise `InvalidRequest` unless a token issuer has the values for introspection (TOKEN-3)."""
    if not provider.client_id:
        raise InvalidRequest("client_id: is required for tokens, as their audience.")
    if provider.jwks is None or len(json.dumps(provider.jwks)) > model.TOKEN_KEYS_MAX:
        kib = model.TOKEN_KEYS_MAX // 1024
        raise InvalidRequest(f"jwks: is required for tokens, with at most {kib} KiB.")
    if provider.role_mappings or provider.cli_client_id or provider.email_domains:
        raise InvalidRequest(
            "role_mappings, cli_client_id, email_domains: must be omitted for `verify_only`."
        )


def _check_role_mapping(provider: IdentityProvider, mapping: RoleMapping) -> None:
    is_of_people = provider.usage is ProviderUsage.SIGN_IN
    if is_of_people is (mapping.service_account is not None):
        raise InvalidRequest(
            "role_mappings: must name a service_account each for programs, and none for people."
        )
    family = model.family_of(provider.issuer)
    # The domain of the e-mail distinguishes people of a shared issuer.
    is_named = provider.email_domains or not family.is_shared if is_of_people else False
    if not is_named and not mapping.names_owner(family):
        claims = " or ".join(family.owners)
        raise InvalidRequest(
            f"role_mappings: must name the owner of the token by {claims} in each `claims`, with "
            "your own value before any `*`."
        )


def _entry(
    ports: Ports,
    caller: Caller,
    action: AuditAction,
    provider: IdentityProvider,
    details: dict[str, Value],
    cooling_off: Sequence[Change] = (),
) -> Change:
    changed: dict[str, Value] = {"anchors_changed": True} if cooling_off else {}
    return audit.entry(ports, caller, action, provider.id, settings=None, **details, **changed)


def _cooling_off_changes(
    ports: Ports, caller: Caller, old: IdentityProvider | None, new: IdentityProvider
) -> list[Change]:
    """Return the change that begins a cooling-off period, if other people may sign in now.

    Returns no change while no action is protected. Otherwise a tenant could not protect actions
    after its first provider.
    """
    is_other = old is None or old.epoch != new.epoch
    is_anchor = is_other and new.usage is ProviderUsage.SIGN_IN
    if not is_anchor or not protected_acts.read_protected_actions(ports, caller.tenant_id).protects:
        return []
    access = read_access(ports, caller.tenant_id)
    changed = replace(access, anchors_changed_at=ports.now(), version=access.version + 1)
    expect = expect_version(access.version)
    return [Put(access_address(caller.tenant_id), changed.to_item(), expect)]
