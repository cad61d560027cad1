"""Complete a sign-in: one write with the person, session, used token and audit entry.

The claims of the provider were checked before, in shared/operations/identities/sign_in.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from shared.authorizer.formats import jwts
from shared.errors import DataCorrupt
from shared.model import text
from shared.model.audit.audit_log import AuditAction
from shared.model.callers import Caller
from shared.model.identifiers import PERSON
from shared.model.identities import people, providers, sessions
from shared.model.identities.claims import IdentityClaims, OAuthErrorCode, SignInRefused
from shared.model.identities.people import Person, PersonStatus
from shared.model.identities.providers import IdentityProvider, ProviderUsage, RoleMapping
from shared.model.service_accounts import AccountStatus, ServiceAccount, accounts, name_address
from shared.operations.base import audit
from shared.operations.base.operation import reread, settle
from shared.operations.identities import approvers, roles
from shared.operations.identities.people import find_same_account
from shared.operations.identities.sessions import StartedSession, start_session
from shared.operations.lists.verdicts import token_verdicts
from shared.ports import Ports
from shared.ports.store import Change, Check, Delete, Expect, Increment, Put, VersionIs

# A token is accepted up to a minute after its expiry. The record of its use stays a little longer.
_USED: Final = timedelta(minutes=5)
_UNVERIFIED: Final = (
    "The provider does not state that it verified the e-mail address (email_verified). If it "
    "verifies all addresses, set trusts_email as an administrator."
)
_TAKEN: Final = (
    "Another person of the tenant has this e-mail address; an administrator can disable that "
    "person. If both are the same person, the provider issues a different subject to each client; "
    "use one client for all."
)
_DISABLED: Final = "An administrator has disabled this person."


@dataclass(frozen=True, slots=True)
class UnauthenticatedClient:
    """The origin of a request without a credential."""

    source_ip: str | None = None
    request_id: str | None = None


class _AdmittedOwner(NamedTuple):
    """The owner of the new session, the required changes, and the person that they disable."""

    owner: Person | ServiceAccount
    changes: Sequence[Change]
    disabled_id: str | None = None
    is_lowered: bool = False


def admit(
    ports: Ports,
    checked_provider: IdentityProvider,
    claims: IdentityClaims,
    stranger: UnauthenticatedClient,
) -> StartedSession:
    """Begin a session for the owner of these checked claims (IDENTITY-6).

    `checked_provider` has its state at the time of the check. Raises `SignInRefused`,
    `Unavailable`.
    """

    def attempt() -> StartedSession:
        provider = IdentityProvider.from_optional(ports.store.get(checked_provider.address))
        if provider is None:
            message = "There is no such identity provider."
            raise SignInRefused(OAuthErrorCode.INVALID_TARGET, message)
        if provider.epoch != checked_provider.epoch:
            message = "The identity provider has just been changed; sign in again."
            raise SignInRefused(OAuthErrorCode.INVALID_GRANT, message)
        return _start_session(ports, provider, claims, stranger)

    return settle(attempt)


def _start_session(
    ports: Ports,
    provider: IdentityProvider,
    claims: IdentityClaims,
    stranger: UnauthenticatedClient,
) -> StartedSession:
    """Write the session, its owner and the used token. Raises `SignInRefused`."""
    tenant_id = provider.tenant_id
    used = sessions.used_token_address(claims.digest)
    if not provider.allow_token_reuse and ports.store.get(used) is not None:
        raise SignInRefused(OAuthErrorCode.INVALID_GRANT, "The token was used before.")
    names = jwts.identifiers(claims.members)
    if any(each.revoked for each in token_verdicts(ports, tenant_id, names.values()).values()):
        raise SignInRefused(OAuthErrorCode.INVALID_GRANT, "The token is revoked; sign in again.")
    mapping = _find_role_mapping(provider, claims)
    role = roles.of_tenant(ports, tenant_id).get(mapping.role)
    if role is None:
        message = "The role of the role mapping does not exist; change the mapping."
        raise SignInRefused(OAuthErrorCode.DENIED, message)
    if provider.usage is ProviderUsage.SIGN_IN:
        admitted = _admit_person(ports, provider, claims, mapping)
    else:
        admitted = _admit_program(ports, provider, mapping)
    owner = admitted.owner
    authenticated_at, sid = _authenticated_at(provider, claims), names.get("sid")
    started, changes = start_session(
        ports, provider, owner, role=role, authenticated_at=authenticated_at, provider_session=sid
    )
    session = started.session
    caller = Caller(
        tenant_id,
        owner.email,
        (),
        source_ip=stranger.source_ip,
        request_id=stranger.request_id,
        name=owner.name,
        owner_id=owner.id,
    )
    expires = int((claims.expires_at + _USED).timestamp())
    note = Put(used, {"tenant_id": tenant_id, "expires": expires}, Expect.ABSENT)
    ports.store.write(
        # A provider that changed since might not admit this owner.
        Check(provider.address, VersionIs(provider.version)),
        *admitted.changes,
        *changes,
        *([] if provider.allow_token_reuse else [note]),
        audit.entry(
            ports,
            caller,
            AuditAction.SESSION_CREATE,
            session.id,
            settings=None,
            identity=session.identity,
            owner=session.owner,
            role=role.name,
            provider_id=session.provider_id,
            subject=claims.subject,
            **({"disabled": admitted.disabled_id} if admitted.disabled_id else {}),
        ),
    )
    if admitted.is_lowered:
        approvers.report_loss(ports, tenant_id)
    return started


def _find_role_mapping(provider: IdentityProvider, claims: IdentityClaims) -> RoleMapping:
    """Return the first matching role mapping. Raises `SignInRefused`."""
    members = claims.members
    if not jwts.is_email_verified(members, default=provider.trusts_email):
        # It would become the identity of a person, and keep the real owner out.
        if claims.email is not None:
            raise SignInRefused(OAuthErrorCode.DENIED, _UNVERIFIED)
        members = {name: value for name, value in members.items() if name != "email"}
    if mapping := providers.first(provider.role_mapping_list, members):
        return mapping
    is_of_email = providers.first(provider.role_mapping_list, claims.members) is not None
    message = _UNVERIFIED if is_of_email else "No role mapping of the identity provider matches."
    raise SignInRefused(OAuthErrorCode.DENIED, message)


def _authenticated_at(provider: IdentityProvider, claims: IdentityClaims) -> datetime | None:
    """Return the time of the sign-in for AUTH-17, or None without the evidence of `step_up`."""
    kind, _, values = provider.step_up.partition(":")
    if provider.usage is ProviderUsage.WORKLOAD or kind == "sign_in":
        return claims.auth_time or claims.issued_at
    if kind == "acr":
        is_met = claims.members.get("acr") in values.split(" ")
        return (claims.auth_time or claims.issued_at) if is_met else None
    return claims.auth_time


def _admit_person(
    ports: Ports, provider: IdentityProvider, claims: IdentityClaims, mapping: RoleMapping
) -> _AdmittedOwner:
    """Return the person with these claims, updated by this sign-in."""
    email, tenant_id = claims.email, provider.tenant_id
    if email is None:
        message = "The provider states no e-mail address; have it add the claim `email`."
        raise SignInRefused(OAuthErrorCode.DENIED, message)
    if provider.email_domains and email.rpartition("@")[2] not in provider.email_domains:
        message = "The tenant does not allow the domain of the e-mail address."
        raise SignInRefused(OAuthErrorCode.DENIED, message)
    try:
        name = text.name(claims.name or "")
    except ValueError:
        name = email
    subject_at = people.subject_address(tenant_id, provider.id, claims.subject)
    email_at = people.email_address(tenant_id, email)
    items = ports.store.get_many([subject_at, email_at])
    known, holder = items.get(subject_at), items.get(email_at)
    former_id: str | None = None
    freed, expected = list[Change](), Expect.ABSENT
    if holder is not None and (known is None or known["id"] != holder["id"]):
        former = _find_former_holder(ports, tenant_id, str(holder["id"]))
        freed = [Put(former.address, former.disable().to_item(), VersionIs(former.version))]
        former_id, expected = former.id, Expect.PRESENT
    if known is None:
        subject = (provider.id, provider.issuer, claims.subject)
        same = find_same_account(ports, tenant_id, provider.issuer, claims.subject)
        if not all(each.is_active for each in same):
            raise SignInRefused(OAuthErrorCode.DENIED, _DISABLED)
        person_id, now, active = ports.new_id(PERSON), ports.now(), PersonStatus.ACTIVE
        person = Person(person_id, tenant_id, *subject, email, name, mapping.role, active, now)
        changes: list[Change] = [
            Put(person.address, person.to_item(), Expect.ABSENT),
            Put(subject_at, {"id": person_id}, Expect.ABSENT),
            Put(email_at, {"id": person_id}, expected),
            Increment(people.count_address(tenant_id), {"count": 1}, Expect.ANYTHING),
            # The same account at another provider of the issuer must not be disabled concurrently.
            *(Check(each.address, VersionIs(each.version)) for each in same),
        ]
        return _AdmittedOwner(person, [*freed, *changes], former_id)
    before = reread(lambda: _read_person(ports, tenant_id, str(known["id"])))
    issuer = provider.issuer
    after = replace(before, issuer=issuer, email=email, name=name, role=mapping.role)
    if after == before:
        # Rejects a person who is disabled concurrently.
        changes = [Check(before.address, VersionIs(before.version))]
    else:
        after = replace(after, version=before.version + 1)
        changes = [Put(after.address, after.to_item(), VersionIs(before.version))]
        if (old_email_at := people.email_address(tenant_id, before.email)) != email_at:
            changes += [
                Delete(old_email_at, Expect.ANYTHING),
                Put(email_at, {"id": after.id}, expected),
            ]
    return _AdmittedOwner(after, [*freed, *changes], former_id, before.role != after.role)


def _find_former_holder(ports: Ports, tenant_id: str, holder_id: str) -> Person:
    """Return the holder of an e-mail if the provider of that person was deleted.

    Raises `SignInRefused` if the holder may still sign in.
    """
    item = ports.store.get(people.people(tenant_id).address(holder_id))
    holder = None if item is None else Person.from_item(item)
    partition = providers.providers(tenant_id)
    if holder is None or ports.store.get(partition.address(holder.provider_id)) is not None:
        raise SignInRefused(OAuthErrorCode.DENIED, _TAKEN)
    return holder


def _read_person(ports: Ports, tenant_id: str, person_id: str) -> Person:
    item = ports.store.get(people.people(tenant_id).address(person_id))
    if item is None:
        raise DataCorrupt("a subject names a person without a record")
    person = Person.from_item(item)
    if not person.is_active:
        raise SignInRefused(OAuthErrorCode.DENIED, _DISABLED)
    return person


def _admit_program(
    ports: Ports, provider: IdentityProvider, mapping: RoleMapping
) -> _AdmittedOwner:
    """Return the service account of a program."""
    name = ports.store.get(name_address(provider.tenant_id, mapping.service_account or ""))
    item = name and ports.store.get(accounts(provider.tenant_id).address(str(name["id"])))
    account = ServiceAccount.from_item(item) if item else None
    if account is None or account.status is not AccountStatus.ACTIVE:
        message = "The service account of the role mapping does not exist, or is disabled."
        raise SignInRefused(OAuthErrorCode.DENIED, message)
    return _AdmittedOwner(account, [Check(account.address, VersionIs(account.version))])
