"""Sign-in tickets: an operator issues one, and its first use signs in (IDENTITY-8)."""

from dataclasses import replace
from typing import Final

from shared.model.audit.audit_log import AuditAction
from shared.model.callers import Caller, Scope
from shared.model.identities import roles
from shared.model.identities import sessions as model
from shared.model.identities.claims import OAuthErrorCode, SignInRefused
from shared.model.identities.sessions import TICKET_LIFETIME, Ticket
from shared.model.tenants import settings_address
from shared.operations.base import audit
from shared.operations.base.operation import settle
from shared.operations.identities.admission import UnauthenticatedClient
from shared.operations.identities.authentication import read_access
from shared.operations.identities.sessions import StartedSession, blank_session, store_changes
from shared.ports import Ports
from shared.ports.store import Check, Delete, Expect, Put

_SESSION_SECONDS: Final = 3600
_REFUSED: Final = "The ticket was used or has expired. To get another ticket, run: rescind console"


def issue(ports: Ports, operator: Caller) -> str:
    """Return a new ticket, which signs in to the operator's tenant once. Raises `Unavailable`."""
    ticket, now = model.new_ticket(), ports.now()
    expires = int((now + TICKET_LIFETIME).timestamp())
    stored = Ticket(operator.tenant_id, operator.identity, operator.operator, now, expires)
    ports.store.write(
        # Otherwise it could remain after the removal of a tenant.
        Check(settings_address(operator.tenant_id), Expect.PRESENT),
        Put(model.ticket_address(ticket), stored.to_item(), Expect.ABSENT),
    )
    return ticket


def redeem(ports: Ports, stranger: UnauthenticatedClient, ticket_text: str) -> StartedSession:
    """Begin a session for a ticket, and delete it, in one write.

    Raises `SignInRefused` if it is wrong, used or too old; `Unavailable`.
    """

    def attempt() -> StartedSession:
        place = model.ticket_address(ticket_text)
        ticket = Ticket.from_optional(ports.store.get(place))
        if ticket is None or not ticket.is_valid(
            ports.now(), read_access(ports, ticket.tenant_id).sessions_after
        ):
            raise SignInRefused(OAuthErrorCode.INVALID_GRANT, _REFUSED)
        secret, blank = blank_session(ports, ticket.tenant_id, ticket.identity, _SESSION_SECONDS)
        role = roles.BUILT_IN[Scope.ADMIN]
        session = replace(blank, role=role.name, operator=ticket.operator)
        caller = Caller(
            session.tenant_id,
            session.identity,
            (),
            source_ip=stranger.source_ip,
            request_id=stranger.request_id,
            operator=session.operator,
        )
        ports.store.write(
            Delete(place, Expect.PRESENT),
            *store_changes(session),
            audit.entry(ports, caller, AuditAction.SESSION_CREATE, session.id, role=role.name),
        )
        return StartedSession(session, role, secret)

    return settle(attempt)
