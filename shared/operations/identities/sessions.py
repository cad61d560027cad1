"""Sessions: begin, list and end them (IDENTITY-5)."""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from shared.errors import NotFound
from shared.model import times
from shared.model.audit.audit_log import AuditAction
from shared.model.callers import Caller, Scope
from shared.model.identifiers import SESSION
from shared.model.identities import providers
from shared.model.identities import sessions as model
from shared.model.identities.people import Person
from shared.model.identities.providers import IdentityProvider
from shared.model.identities.roles import Role
from shared.model.identities.sessions import SessionRecord
from shared.model.items import Item
from shared.model.service_accounts import ServiceAccount
from shared.operations.base import audit
from shared.operations.base.allowance import find
from shared.operations.base.operation import operation
from shared.operations.base.paging import PageQueryPlan
from shared.operations.identities.authentication import owner_address, owner_of, read_access
from shared.ports import Ports
from shared.ports.store import Change, Delete, Expect, Put, expect_version

# Stands for the session of the request.
CURRENT: Final = "current"


@dataclass(frozen=True, slots=True)
class StartedSession:
    """A new session, its current role, and its secret, which is returned once and not stored."""

    session: SessionRecord
    role: Role
    secret: str = field(repr=False)


def start_session(
    ports: Ports,
    provider: IdentityProvider,
    owner: Person | ServiceAccount,
    *,
    role: Role,
    authenticated_at: datetime | None,
    provider_session: str | None,
) -> tuple[StartedSession, list[Change]]:
    """Return a new session, and the changes that store it. The caller writes them."""
    secret, blank = blank_session(ports, provider.tenant_id, owner.email, provider.session_seconds)
    session = replace(
        blank,
        owner=owner.id,
        provider_id=provider.id,
        provider_epoch=provider.epoch,
        authenticated_at=authenticated_at,
        provider_session=provider_session,
        owner_epoch=owner.epoch if isinstance(owner, Person) else 1,
        # A person's role may change during the session.
        role=None if isinstance(owner, Person) else role.name,
    )
    return StartedSession(session, role, secret), store_changes(session)


def blank_session(
    ports: Ports, tenant_id: str, identity: str, seconds: int
) -> tuple[str, SessionRecord]:
    """Return a new secret, and a session of `seconds` seconds without owner and role."""
    secret, now = model.new_secret(), ports.now()
    ends_at = times.truncate_to_second(now + timedelta(seconds=seconds))
    return secret, SessionRecord(
        id=ports.new_id(SESSION),
        tenant_id=tenant_id,
        digest=model.digest(secret),
        owner="",
        identity=identity,
        provider_id="",
        provider_epoch=0,
        created_at=now,
        authenticated_at=now,
        expires_at=ends_at,
        expires=int(ends_at.timestamp()),
    )


def store_changes(session: SessionRecord) -> list[Change]:
    """Return the changes that store a new session."""
    item, credential = session.to_item(), session.credential.to_item()
    return [
        Put(session.address, item, Expect.ABSENT),
        Put(model.credential_at(session.digest), credential, Expect.ABSENT),
        *(Put(each, item, Expect.ABSENT) for each in session.listed_at),
    ]


@operation(*Scope, rate_limited=True)
def page(
    ports: Ports, caller: Caller, *, before: str | None, limit: int
) -> tuple[list[SessionRecord], str | None]:
    """Return the currently valid sessions, newest first, and `before` for the next page or None.

    Administrators see all sessions of the tenant, others only their own.
    """
    live = _SessionValidity(ports, caller.tenant_id)
    partition = model.sessions(caller.tenant_id)
    if not caller.is_admin:
        partition = model.sessions_of(caller.tenant_id, caller.owner_id or "")
    return PageQueryPlan(partition, SessionRecord.from_item, before, limit, live.has).run(ports)


@operation(*Scope, rate_limited=True)
def delete(ports: Ports, caller: Caller, *, session_id: str) -> None:
    """End a session, which can be the caller's `CURRENT` one. Its next request is refused.

    Raises `NotFound`, also for another owner's session if the caller is no administrator.
    """
    named = (caller.session_id or "") if session_id == CURRENT else session_id
    partition = model.sessions(caller.tenant_id)
    session = find(ports, partition, named, kind=SESSION, record=SessionRecord)
    if not caller.is_admin and session.owner != caller.owner_id:
        raise NotFound
    ports.store.write(
        Delete(session.address, Expect.PRESENT),
        Delete(model.credential_at(session.digest), Expect.ANYTHING),
        *(Delete(each, Expect.ANYTHING) for each in session.listed_at),
        audit.entry(
            ports, caller, AuditAction.SESSION_DELETE, session.id, identity=session.identity
        ),
    )


def end_all(ports: Ports, tenant_id: str) -> None:
    """End all sessions and tickets of a tenant, including sessions that a list lacks.

    Raises `PreconditionFailed`.
    """
    access, now = read_access(ports, tenant_id), ports.now()
    # A clock that was ahead may have written the previous time.
    after = max(now, access.sessions_after or now)
    ended = replace(access, sessions_after=after, version=access.version + 1)
    expect = expect_version(access.version)
    ports.store.write(Put(model.access_address(tenant_id), ended.to_item(), expect))


class _SessionValidity:
    """Checks whether sessions of a tenant are accepted, with one read of each owner."""

    def __init__(self, ports: Ports, tenant_id: str) -> None:
        self._ports, self._now = ports, ports.now()
        rows = ports.store.query(providers.providers(tenant_id))
        self._epochs = {row.sk: IdentityProvider.from_item(row.item).epoch for row in rows}
        self._barrier = read_access(ports, tenant_id).sessions_after
        self._owners: dict[str, Item | None] = {"": None}

    def has(self, session: SessionRecord) -> bool:
        """Return whether a session is accepted."""
        if session.is_over(self._now, self._barrier):
            return False
        if session.owner not in self._owners:
            address = owner_address(session.tenant_id, session.owner)
            self._owners[session.owner] = self._ports.store.get(address)
        item, epoch = self._owners[session.owner], self._epochs.get(session.provider_id)
        return owner_of(session, item, provider_epoch=epoch) is not None
