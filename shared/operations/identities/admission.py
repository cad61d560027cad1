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
    provider: IdentityProvider,
    claims: IdentityClaims,
    stranger: UnauthenticatedClient,
) -> StartedSession:
    """Begin a session for the owner of these checked claims (IDENTITY-6).

    `provider` has its state at the time of the check. Raises `SignInRefused`, `Unavailable`.
    """
    return settle(lambda: _attempt(ports, provider, claims, stranger))


def _attempt(
    ports: Ports,
    provider: IdentityProvider,
    claims: IdentityClaims,
    stranger: UnauthenticatedClient,
) -> StartedSession:
    provider = _as_it_is(ports, provider)
    used = sessions.used_token_address(claims.digest)
    if not provider.allow_token_reuse and ports.store.get(used) is not None:
        raise SignInRefused(OAuthErrorCode.INVALID_GRANT, "The token was used before.")
    names = jwts.identifiers(claims.members)
    if any(
        each.revoked for each in token_verdicts(ports, provider.tenant_id, names.values()).values()
    ):
        raise SignInRefused(OAuthErrorCode.INVALID_GRANT, "The token is revoked; sign in again.")
    mapping = _find_role_mapping(provider, claims)
    role = roles.of_tenant(ports, provider.tenant_id).get(mapping.role)
    if role is None:
        raise SignInRefused(
            OAuthErrorCode.DENIED,
            "The role of the role mapping does not exist; change the mapping.",
        )
    is_person = provider.usage is ProviderUsage.SIGN_IN
    admitted = (_person if is_person else _program)(ports, provider, claims, mapping)
    made, changes = start_session(
        ports,
        provider,
        admitted.owner,
        role=role,
        authenticated_at=_authenticated_at(provider, claims),
        provider_session=names.get("sid"),
    )
    expires = int((claims.expires_at + _USED).timestamp())
    note = Put(used, {"tenant_id": provider.tenant_id, "expires": expires}, Expect.ABSENT)
    ports.store.write(
        # A provider that changed since might not admit this owner.
        Check(provider.address, VersionIs(provider.version)),
        *admitted.changes,
        *changes,
        *([] if provider.allow_token_reuse else [note]),
        _entry(ports, stranger, admitted, made, claims),
    )
    if admitted.is_lowered:
        approvers.report_loss(ports, provider.tenant_id)
    return made


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


def _as_it_is(ports: Ports, checked_provider: IdentityProvider) -> IdentityProvider:
    """Return the current state of the provider.

    Raises `SignInRefused` if its epoch differs from `checked_provider`.
    """
    item = ports.store.get(checked_provider.address)
    if item is None:
        raise SignInRefused(OAuthErrorCode.INVALID_TARGET, "There is no such identity provider.")
    provider = IdentityProvider.from_item(item)
    if provider.epoch != checked_provider.epoch:
        message = "The identity provider has just been changed; sign in again."
        raise SignInRefused(OAuthErrorCode.INVALID_GRANT, message)
    return provider


def _entry(
    ports: Ports,
    stranger: UnauthenticatedClient,
    admitted_owner: _AdmittedOwner,
    started_session: StartedSession,
    claims: IdentityClaims,
) -> Put:
    owner, session = admitted_owner.owner, started_session.session
    caller = Caller(
        session.tenant_id,
        owner.email,
        (),
        source_ip=stranger.source_ip,
        request_id=stranger.request_id,
        name=owner.name,
        owner_id=owner.id,
    )
    return audit.entry(
        ports,
        caller,
        AuditAction.SESSION_CREATE,
        session.id,
        settings=None,
        identity=session.identity,
        owner=session.owner,
        role=started_session.role.name,
        provider_id=session.provider_id,
        subject=claims.subject,
        **({"disabled": admitted_owner.disabled_id} if admitted_owner.disabled_id else {}),
    )


def _person(
    ports: Ports, provider: IdentityProvider, claims: IdentityClaims, mapping: RoleMapping
) -> _AdmittedOwner:
    """Return the person with these claims, updated by this sign-in."""
    email, tenant_id = _email(provider, claims), provider.tenant_id
    subject_at = people.subject_address(tenant_id, provider.id, claims.subject)
    email_at = people.email_address(tenant_id, email)
    found = ports.store.get_many([subject_at, email_at])
    known, holder = found.get(subject_at), found.get(email_at)
    former_id: str | None = None
    freed, expected = list[Change](), Expect.ABSENT
    if holder is not None and (known is None or known["id"] != holder["id"]):
        former = _former(ports, tenant_id, str(holder["id"]))
        freed = [Put(former.address, former.disable().to_item(), VersionIs(former.version))]
        former_id, expected = former.id, Expect.PRESENT
    name = _name(claims, email)
    if known is None:
        person_id, now, active = ports.new_id(PERSON), ports.now(), PersonStatus.ACTIVE
        subject = (provider.id, provider.issuer, claims.subject)
        same = find_same_account(ports, tenant_id, provider.issuer, claims.subject)
        if not all(each.is_active for each in same):
            raise SignInRefused(OAuthErrorCode.DENIED, _DISABLED)
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
    person, changes = _update_person(before, after, expected)
    return _AdmittedOwner(
        person, [*freed, *changes], former_id, is_lowered=before.role != person.role
    )


def _former(ports: Ports, tenant_id: str, holder_id: str) -> Person:
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


def _update_person(
    previous: Person, after: Person, precondition: Expect
) -> tuple[Person, list[Change]]:
    """Return a known person after another sign-in, and the changes that store this."""
    if after == previous:
        # Rejects a person who is disabled concurrently.
        return previous, [Check(previous.address, VersionIs(previous.version))]
    after = replace(after, version=previous.version + 1)
    changes: list[Change] = [Put(after.address, after.to_item(), VersionIs(previous.version))]
    old, new = (people.email_address(each.tenant_id, each.email) for each in (previous, after))
    if old != new:
        changes += [
            Delete(old, Expect.ANYTHING),
            Put(new, {"id": after.id}, precondition),
        ]
    return after, changes


def _name(claims: IdentityClaims, email: str) -> str:
    """Return the name of a person, or the e-mail if the provider states no printable name."""
    try:
        return text.name(claims.name or "")
    except ValueError:
        return email


def _email(provider: IdentityProvider, claims: IdentityClaims) -> str:
    """Return the e-mail of a person. Raises `SignInRefused` if the tenant does not allow it."""
    if claims.email is None:
        message = "The provider states no e-mail address; have it add the claim `email`."
        raise SignInRefused(OAuthErrorCode.DENIED, message)
    domain = claims.email.rpartition("@")[2]
    if provider.email_domains and domain not in provider.email_domains:
        raise SignInRefused(
            OAuthErrorCode.DENIED, "The tenant does not allow the domain of the e-mail address."
        )
    return claims.email


def _program(
    ports: Ports, provider: IdentityProvider, _claims: IdentityClaims, mapping: RoleMapping
) -> _AdmittedOwner:
    """Return the service account of a program."""
    name = ports.store.get(name_address(provider.tenant_id, mapping.service_account or ""))
    item = name and ports.store.get(accounts(provider.tenant_id).address(str(name["id"])))
    account = ServiceAccount.from_item(item) if item else None
    if account is None or account.status is not AccountStatus.ACTIVE:
        message = "The service account of the role mapping does not exist, or is disabled."
        raise SignInRefused(OAuthErrorCode.DENIED, message)
    return _AdmittedOwner(account, [Check(account.address, VersionIs(account.version))])
