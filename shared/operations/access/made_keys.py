"""Revoke the keys that a person made, when the person is disabled (IDENTITY-9)."""

from dataclasses import dataclass
from typing import Final

from shared.errors import Conflict, PreconditionFailed
from shared.model import api_keys as model
from shared.model.api_keys import ApiKey, MadeKeys
from shared.model.callers import Caller, Scope
from shared.model.identities.people import Person
from shared.operations.access import api_key_end
from shared.operations.base.operation import operation, wait_for_writes
from shared.operations.identities import people
from shared.ports import Ports

# The most keys that one request ends.
_PART: Final = 50


@dataclass(frozen=True, slots=True)
class DisabledPerson:
    """A disabled person, the number of keys that the request ended, and the number still active."""

    person: Person
    keys_ended: int
    keys_left: int


@operation(Scope.ADMIN, fresh=True)
def disable_person(
    ports: Ports, caller: Caller, *, person_id: str, made_keys: MadeKeys
) -> DisabledPerson:
    """Disable a person, then revoke up to 50 keys that the person made, also through keys.

    Repeat the call until no key is left. Raises `NotFound`; `Conflict` if the last admin key is
    among them (APIKEY-7). In that case the person is disabled, and the other keys have ended.
    """
    person = people.disable(ports, caller, person_id=person_id)
    # After this, every key that the person made before is visible. A later key is refused.
    wait_for_writes()
    # The accepted keys of the account at any provider of its issuer, oldest first.
    accounts = people.find_same_account(ports, person.tenant_id, *person.account)
    records, now = model.records(person.tenant_id), ports.now()
    items = ports.store.get_many(
        records.address(row.sk)
        for maker_id in {person.id, *(each.id for each in accounts)}
        for row in ports.store.query(model.made_by(person.tenant_id, maker_id))
    )
    keys = sorted(map(ApiKey.from_item, items.values()), key=lambda each: each.id)
    active = [each for each in keys if each.is_live(now)]
    if made_keys is MadeKeys.KEEP or not active:
        return DisabledPerson(person, 0, len(active))
    # The calling key ends last, because it may have to repeat the request.
    active.sort(key=lambda each: each.id == caller.key_id)
    ended, refusal = 0, None
    for each in active[:_PART]:
        try:
            api_key_end.revoke(ports, caller, each, person_id=person_id)
        except PreconditionFailed:
            # Another request changed the key, so it counts among the keys left.
            continue
        except Conflict as error:
            refusal = error
            continue
        ended += 1
    if refusal is not None:
        done = "The person is disabled, and the other keys are revoked. Then repeat the request."
        raise Conflict(f"{refusal} {done}")
    # None of these keys has made another key since (`api_key_creation.find_maker`).
    return DisabledPerson(person, ended, len(active) - ended)
