"""People: list, get, disable, enable, sign out everywhere (IDENTITY-4)."""

from dataclasses import replace
from typing import Final

from shared.errors import Conflict
from shared.model.audit.audit_log import AuditAction
from shared.model.callers import Caller, Scope
from shared.model.differences import describe_change
from shared.model.identifiers import PERSON
from shared.model.identities import people as model
from shared.model.identities import providers
from shared.model.identities.people import Person, PersonStatus
from shared.model.identities.providers import IdentityProvider
from shared.model.items import Value
from shared.operations.base import allowance, audit
from shared.operations.base.allowance import find
from shared.operations.base.idempotency import Keep, idempotent, of_record
from shared.operations.base.operation import operation
from shared.operations.base.paging import Page, PageQueryPlan, count, newest
from shared.operations.identities import approvers, protected_acts
from shared.ports import Ports
from shared.ports.store import Change, Delete, Expect, Put, VersionIs

_KEPT: Final = of_record(Person)


@operation(Scope.ADMIN, Scope.READ_ONLY, Scope.AUDITOR)
def page(ports: Ports, caller: Caller, *, before: str | None, limit: int) -> Page[Person]:
    """Return a page of the tenant's people, newest first."""
    walk = PageQueryPlan(model.people(caller.tenant_id), Person.from_item, before, limit)
    return newest(ports, walk, total=lambda: count(ports, model.count_address(caller.tenant_id)))


@operation(Scope.ADMIN, Scope.READ_ONLY, Scope.AUDITOR)
def get(ports: Ports, caller: Caller, *, person_id: str) -> Person:
    """Return a person of the tenant. Raises `NotFound`."""
    return find(ports, model.people(caller.tenant_id), person_id, kind=PERSON, record=Person)


@operation(Scope.ADMIN, fresh=True)
def disable(ports: Ports, caller: Caller, *, person_id: str) -> Person:
    """Disable a person, and end the person's sessions.

    The e-mail becomes free, because a company may give it to another person. The same account at
    other providers of the issuer is disabled, too. A disabled person is returned unchanged. Raises
    `NotFound`; `TooFewApprovers` (APPROVAL-5).
    """
    person = get(ports, caller, person_id=person_id)
    if not person.is_active:
        return person
    same = find_same_account(ports, person.tenant_id, *person.account)
    others = [each for each in same if each.is_active and each.id != person.id]
    changes: list[Change] = [
        Delete(model.email_address(each.tenant_id, each.email), Expect.ANYTHING)
        for each in (person, *others)
    ]
    for each in others:
        after, details = each.disable(), _describe(each, each.disable())
        entry = audit.entry(
            ports, caller, AuditAction.PERSON_DISABLE, each.id, settings=None, **details
        )
        changes += [Put(after.address, after.to_item(), VersionIs(each.version)), entry]
    changes += approvers.keep_two(ports, caller, without={person.id, *(each.id for each in others)})
    return _replace_person(
        ports, caller, AuditAction.PERSON_DISABLE, person, person.disable(), *changes
    )


def find_same_account(ports: Ports, tenant_id: str, issuer: str, subject: str) -> list[Person]:
    """Return the people with this subject of an issuer, one for each provider of the issuer."""
    rows = ports.store.query(providers.providers(tenant_id))
    subjects = ports.store.get_many(
        model.subject_address(tenant_id, each.id, subject)
        for each in IdentityProvider.from_rows(rows)
        if each.issuer == issuer
    )
    addresses = [model.people(tenant_id).address(str(each["id"])) for each in subjects.values()]
    same = map(Person.from_item, ports.store.get_many(addresses).values())
    return [each for each in same if each.account == (issuer, subject)]


@idempotent(Scope.ADMIN, keeps=_KEPT, fresh=True)
def enable(ports: Ports, caller: Caller, keep: Keep[Person], *, person_id: str) -> Person:
    """Allow a person to sign in again. An active person is returned unchanged.

    Raises `NotFound`; `Conflict` if another active person has the e-mail; `ApprovalRequired` while
    any action is protected, because the person may approve (APPROVAL-1).
    """
    person = get(ports, caller, person_id=person_id)
    if person.is_active:
        allowance.check_asks_nothing(caller)
        return person
    address = model.email_address(person.tenant_id, person.email)
    if ports.store.get(address) is not None:
        raise Conflict("Another active person has this e-mail address; disable that person first.")
    after = replace(person, status=PersonStatus.ACTIVE, version=person.version + 1)
    email = Put(address, {"id": person.id}, Expect.ABSENT)
    details, version = _describe(person, after), person.version
    approval = protected_acts.access_changed(ports, caller, person.id, details, version=version)
    changes = (email, *approval, *keep(after))
    return _replace_person(ports, caller, AuditAction.PERSON_ENABLE, person, after, *changes)


@idempotent(Scope.ADMIN, keeps=_KEPT, fresh=True)
def sign_out(ports: Ports, caller: Caller, keep: Keep[Person], *, person_id: str) -> Person:
    """End all sessions of a person, who may begin new ones. Raises `NotFound`."""
    person = get(ports, caller, person_id=person_id)
    after = replace(person, epoch=person.epoch + 1, version=person.version + 1)
    return _replace_person(ports, caller, AuditAction.PERSON_SIGN_OUT, person, after, *keep(after))


def _replace_person(
    ports: Ports, caller: Caller, action: AuditAction, old: Person, new: Person, *changes: Change
) -> Person:
    ports.store.write(
        Put(new.address, new.to_item(), VersionIs(new.version - 1)),
        *changes,
        audit.entry(ports, caller, action, new.id, settings=None, **_describe(old, new)),
    )
    return new


def _describe(old: Person, new: Person) -> dict[str, Value]:
    return {"email": new.email, "changes": describe_change(old, new)}
