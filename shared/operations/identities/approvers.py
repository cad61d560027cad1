"""People who can approve requests of other people (APPROVAL-5)."""

import logging
from collections.abc import Collection, Sequence
from typing import Final

from shared import logs
from shared.errors import TooFewApprovers
from shared.model.callers import Caller, Scope
from shared.model.identities import approvals, people, providers, roles
from shared.model.identities.approvals import ProtectedActions
from shared.model.identities.people import Person
from shared.model.identities.providers import IdentityProvider
from shared.model.identities.sessions import AccessRecord, access_address
from shared.operations.identities.authentication import read_access
from shared.ports import Ports
from shared.ports.store import Change, Check, VersionIs

_log = logging.getLogger(__name__)

_TWO: Final = 2
_TOO_FEW: Final = logs.fields(metrics={"ApproversTooFew": 1})


def may_approve(person: Person, access: AccessRecord) -> bool:
    """Return whether a person is active and has the scope `admin` without limits."""
    role = roles.effective_role(access, person.role)
    return person.is_active and Scope.ADMIN in role.scopes and role.limits is None


def keep_two(
    ports: Ports,
    caller: Caller,
    *,
    without: Collection[str] = (),
    after: AccessRecord | None = None,
    extra_changes: Sequence[Change] = (),
    is_protected: bool = False,
) -> list[Change]:
    """Return the preconditions of a write that leaves two approvers.

    They apply only if the policy protects any action. The write disables the people or deletes the
    provider in `without`, or stores the roles of `after`. With `is_protected`, the write protects
    an action. Returns no precondition for the operator, if no approver is lost, or for an item that
    `extra_changes` already checks, because that item was read before. If two writes are concurrent,
    the later one is decided again. Raises `TooFewApprovers`.
    """
    tenant_id = caller.tenant_id
    if caller.is_inside or not (is_protected or _protects(ports, tenant_id)):
        return []
    access = read_access(ports, tenant_id)
    before = _find(ports, tenant_id, access)
    left = {
        person.account: (person, source)
        for person, source in before
        if not {person.id, source.id}.intersection(without) and may_approve(person, after or access)
    }
    if len(left) == len({each.account for each, _ in before}) and not is_protected:
        return []
    if len(left) < _TWO:
        raise TooFewApprovers
    two = [*left.values()][:_TWO]
    versions = {each.address: each.version for pair in two for each in pair}
    checks: list[Change] = [
        Check(address, VersionIs(number)) for address, number in versions.items()
    ]
    if after is None and not all(each.role in roles.BUILT_IN for each, _ in two):
        checks.append(Check(access_address(tenant_id), VersionIs(access.version)))
    checked = {each.address for each in extra_changes}
    return [each for each in checks if each.address not in checked]


def report_loss(ports: Ports, tenant_id: str) -> None:
    """Log an error for the alarm if fewer than two people can approve protected actions."""
    access = read_access(ports, tenant_id)
    accounts = {person.account for person, _ in _find(ports, tenant_id, access)}
    if _protects(ports, tenant_id) and len(accounts) < _TWO:
        _log.error("fewer than two people can approve protected actions", extra=_TOO_FEW)


def _protects(ports: Ports, tenant_id: str) -> bool:
    policy = ProtectedActions.from_optional(ports.store.get(approvals.protected_address(tenant_id)))
    return policy is not None and policy.protects


def _find(
    ports: Ports, tenant_id: str, access: AccessRecord
) -> list[tuple[Person, IdentityProvider]]:
    """Return the people who may approve, each with an existing provider."""
    rows = ports.store.query(providers.providers(tenant_id))
    sources = {each.id: each for each in IdentityProvider.from_rows(rows)}
    return [
        (each, sources[each.provider_id])
        for each in Person.from_rows(ports.store.query(people.people(tenant_id)))
        if each.provider_id in sources and may_approve(each, access)
    ]
