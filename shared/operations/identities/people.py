"""People: list, get, disable, enable, sign out everywhere (IDENTITY-4)."""

from dataclasses import replace
from typing import Final

from shared.errors import Conflict, InsufficientScope
from shared.model import api_keys
from shared.model.api_keys import ApiKey
from shared.model.audit.audit_log import Action
from shared.model.callers import Caller, Scope
from shared.model.identifiers import PERSON
from shared.model.identities import people as model
from shared.model.identities.people import Person, PersonStatus
from shared.operations.base import audit
from shared.operations.base.allowance import find
from shared.operations.base.idempotency import Keep, of_record, once
from shared.operations.base.operation import operation
from shared.operations.base.paging import Page, Walk, count, newest
from shared.operations.identities import approvers
from shared.ports import Ports
from shared.ports.store import At, Change, Delete, Expect, Put

_KEPT: Final = of_record(Person)


@operation(Scope.ADMIN, Scope.READ_ONLY, Scope.AUDITOR)
def page(ports: Ports, caller: Caller, *, before: str | None, limit: int) -> Page[Person]:
    """Return a page of the tenant's people, newest first."""
    walk = Walk(model.people(caller.tenant_id), Person.from_item, before, limit)
    return newest(ports, walk, total=lambda: count(ports, model.count_address(caller.tenant_id)))


@operation(Scope.ADMIN, Scope.READ_ONLY, Scope.AUDITOR)
def get(ports: Ports, caller: Caller, *, person_id: str) -> Person:
    """Return a person of the tenant. Raises `NotFound`."""
    return find(ports, model.people(caller.tenant_id), person_id, kind=PERSON, record=Person)


@operation(Scope.ADMIN, fresh=True)
def disable(ports: Ports, caller: Caller, *, person_id: str) -> Person:
    """End a person's sessions, and let the person begin none.

    Raises `NotFound`; `TooFewApprovers` (APPROVAL-5).

    The e-mail becomes free, as a company may give it to another person. A disabled person is
    returned unchanged.
    """
    person = get(ports, caller, person_id=person_id)
    if not person.is_active:
        return person
    email = Delete(model.email_address(person.tenant_id, person.email), Expect.ANYTHING)
    kept = (
        [] if caller.is_inside else approvers.keep_two(ports, person.tenant_id, without=person.id)
    )
    changes = [email, *kept]
    return _replaced(
        ports, caller, lambda _: (), Action.PERSON_DISABLE, person.disabled(), *changes
    )


@once(Scope.ADMIN, keeps=_KEPT, fresh=True)
def enable(ports: Ports, caller: Caller, keep: Keep[Person], *, person_id: str) -> Person:
    """Let a person sign in again; an active person is returned unchanged.

    Raises `NotFound`; `Conflict` if another active person has the e-mail; `InsufficientScope` if
    the calling key was made by the person, also through keys.
    """
    person = get(ports, caller, person_id=person_id)
    if person.is_active:
        return person
    _check_caller(ports, caller, person)
    address = model.email_address(person.tenant_id, person.email)
    if ports.store.get(address) is not None:
        raise Conflict("Another active person has this e-mail; disable that one first.")
    after = replace(person, status=PersonStatus.ACTIVE, version=person.version + 1)
    email = Put(address, {"id": person.id}, Expect.ABSENT)
    return _replaced(ports, caller, keep, Action.PERSON_ENABLE, after, email)


@once(Scope.ADMIN, keeps=_KEPT, fresh=True)
def sign_out(ports: Ports, caller: Caller, keep: Keep[Person], *, person_id: str) -> Person:
    """End all sessions of a person, who may begin new ones. Raises `NotFound`."""
    person = get(ports, caller, person_id=person_id)
    after = replace(person, epoch=person.epoch + 1, version=person.version + 1)
    return _replaced(ports, caller, keep, Action.PERSON_SIGN_OUT, after)


def _check_caller(ports: Ports, caller: Caller, person: Person) -> None:
    """Raise `InsufficientScope` if the person may have the secret of the calling key."""
    if caller.key_id is None:
        return
    item = ports.store.get(api_keys.records(caller.tenant_id).address(caller.key_id))
    key = ApiKey.from_optional(item)
    if key is None or person.id in key.people_ids:
        raise InsufficientScope(
            [Scope.ADMIN], "The person made the calling key; enable the person with another one."
        )


def _replaced(
    ports: Ports,
    caller: Caller,
    keep: Keep[Person],
    action: Action,
    after: Person,
    *changes: Change,
) -> Person:
    ports.store.write(
        Put(after.address, after.to_item(), At(after.version - 1)),
        *changes,
        audit.entry(ports, caller, action, after.id, email=after.email),
        *keep(after),
    )
    return after
