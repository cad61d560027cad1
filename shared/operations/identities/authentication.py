"""Authenticate a session: read the credential, then all other records at once (AUTH-16).

A disabled person or account, another role, a sign-out and a changed provider therefore take effect
at the next request.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from shared.errors import InvalidApiKey
from shared.model.callers import Caller
from shared.model.identifiers import PERSON, is_identifier
from shared.model.identities import people, providers, roles
from shared.model.identities import sessions as model
from shared.model.identities.people import Person
from shared.model.identities.sessions import AccessRecord, SessionCredential, SessionRecord
from shared.model.items import Address, Item
from shared.model.records import integer
from shared.model.service_accounts import AccountStatus, ServiceAccount, accounts
from shared.ports import Ports

_ENDED = "The session has ended; sign in again."


class SessionOwner(NamedTuple):
    """The current state of the person or account that owns a session."""

    identity: str
    name: str
    role: str


def authenticate(
    ports: Ports,
    secret: str,
    *,
    source_ip: str | None = None,
    request_id: str | None = None,
    refusing: Callable[[], object] = lambda: None,
) -> Caller:
    """Return the caller with the secret of a session, after two reads.

    The other arguments belong to its request. Raises `InvalidApiKey` if the secret is not accepted,
    after the same number of reads, and `Unavailable`. `refusing` is called before a refusal, and
    may raise instead (AUTH-9).
    """
    address = model.credential_address(secret)
    item = ports.store.get(address)
    if item is None or not model.is_well_formed(secret):
        refusing()
        # The same number of reads as for a session that has ended (AUTH-2).
        ports.store.get(address)
        raise InvalidApiKey
    credential = SessionCredential.from_item(item)
    tenant_id = credential.tenant_id
    session_at = model.sessions(tenant_id).address(credential.session_id)
    access_at = model.access_address(tenant_id)
    owner_at = owner_address(tenant_id, credential.owner)
    provider_at = providers.providers(tenant_id).address(credential.provider_id)
    owned = [owner_at, provider_at] if credential.owner else []
    items = ports.store.get_many([session_at, access_at, *owned])
    session = SessionRecord.from_optional(items.get(session_at))
    access = AccessRecord.of(items.get(access_at) if session else None)
    owner = None
    if session is not None and not session.is_over(ports.now(), access.sessions_after):
        provider = items.get(provider_at)
        epoch = None if provider is None else integer(provider, "epoch")
        owner = owner_of(session, items.get(owner_at), provider_epoch=epoch)
    if session is None or owner is None:
        refusing()
        raise InvalidApiKey(_ENDED)
    role = roles.effective_role(access, owner.role)
    return Caller(
        tenant_id=session.tenant_id,
        identity=owner.identity,
        scopes=role.scopes,
        source_ip=source_ip,
        request_id=request_id,
        key_expires_at=session.expires_at,
        operator=session.operator,
        name=owner.name,
        session_id=session.id,
        owner_id=credential.owner or None,
        authenticated_at=session.authenticated_at,
        role=role.name,
        limits=role.limits,
    )


def read_access(ports: Ports, tenant_id: str) -> AccessRecord:
    """Return the access record of a tenant, or an empty one."""
    return AccessRecord.of(ports.store.get(model.access_address(tenant_id)))


def with_role(ports: Ports, caller: Caller, name: str) -> Caller:
    """Return the caller of an API key with its current role, after one more read."""
    role = roles.effective_role(read_access(ports, caller.tenant_id), name)
    return replace(caller, scopes=role.scopes, role=role.name, limits=role.limits)


def owner_address(tenant_id: str, owner: str) -> Address:
    """Return the address of the person or account that owns a session."""
    is_person = is_identifier(owner, kind=PERSON)
    return (people.people(tenant_id) if is_person else accounts(tenant_id)).address(owner)


def owner_of(
    session: SessionRecord, item: Item | None, *, provider_epoch: int | None
) -> SessionOwner | None:
    """Return the owner of a session from `item`, or None if it does not accept the session.

    `provider_epoch` is the current epoch of the provider, or None without a provider. A session
    from a ticket needs neither.
    """
    if not session.owner and session.role is not None:
        return SessionOwner(session.identity, session.operator or "operator", session.role)
    if item is None or provider_epoch != session.provider_epoch:
        return None
    if session.role is None:
        person = Person.from_item(item)
        is_accepted = person.is_active and person.epoch == session.owner_epoch
        return SessionOwner(person.email, person.name, person.role) if is_accepted else None
    account = ServiceAccount.from_item(item)
    is_accepted = account.status is AccountStatus.ACTIVE
    return SessionOwner(account.email, account.name, session.role) if is_accepted else None
