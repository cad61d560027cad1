"""The keys that a person made, when the person is disabled (IDENTITY-9)."""

from dataclasses import dataclass
from functools import partial
from typing import Final

from shared.errors import Conflict, NotFound
from shared.model import api_keys as model
from shared.model import times
from shared.model.api_keys import ApiKey, ApiKeyStatus, MadeKeys
from shared.model.callers import Caller, Scope
from shared.model.identifiers import API_KEY
from shared.model.identities.people import Person
from shared.operations.access import api_key_end
from shared.operations.base.allowance import find
from shared.operations.base.operation import operation, settle, wait_for_writes
from shared.operations.identities import people
from shared.ports import Ports

# The keys that one request ends.
_PART: Final = 50


@dataclass(frozen=True, slots=True)
class Disabled:
    """A disabled person, the number of keys that the request ended, and the number still active."""

    person: Person
    keys_ended: int
    keys_left: int


@operation(Scope.ADMIN, fresh=True)
def disable_person(
    ports: Ports, caller: Caller, *, person_id: str, made_keys: MadeKeys
) -> Disabled:
    """Disable a person, then revoke up to 50 keys that the person made, also through keys.

    A caller repeats it until no key is left. Raises `NotFound`; `Conflict` if the last admin key is
    among them (APIKEY-7): the person is disabled, and the other keys have ended.
    """
    person = people.disable(ports, caller, person_id=person_id)
    # Each key that the person made before is visible after this. A later one is refused.
    wait_for_writes()
    active = _find_active(ports, person)
    if made_keys is MadeKeys.KEEP or not active:
        return Disabled(person, 0, len(active))
    # The calling key ends last, so that it can repeat the request.
    active.sort(key=lambda each: each.id == caller.key_id)
    ended, refusal = 0, None
    for each in active[:_PART]:
        try:
            ended += settle(partial(_end, ports, caller, each.id, person_id))
        except Conflict as error:
            refusal = error
    if refusal is not None:
        raise refusal
    # Such a key may have made another one since.
    wait_for_writes()
    return Disabled(person, ended, len(_find_active(ports, person)))


def _find_active(ports: Ports, person: Person) -> list[ApiKey]:
    """Return the keys that the person made and that are accepted, oldest first."""
    listed = ports.store.query(model.made_by(person.tenant_id, person.id))
    records, now = model.records(person.tenant_id), ports.now()
    items = ports.store.get_many(records.address(each.sk) for each in listed)
    keys = sorted(map(ApiKey.from_item, items.values()), key=lambda each: each.id)
    return [
        each
        for each in keys
        if each.status is ApiKeyStatus.ACTIVE and not times.has_passed(each.expires_at, now)
    ]


def _end(ports: Ports, caller: Caller, key_id: str, person_id: str) -> bool:
    """Revoke a key, and return whether it was active. Raises `Conflict` for the last admin key."""
    try:
        key = find(ports, model.records(caller.tenant_id), key_id, kind=API_KEY, record=ApiKey)
    except NotFound:
        return False
    if key.status is ApiKeyStatus.REVOKED:
        return False
    api_key_end.revoke(ports, caller, key, person_id=person_id)
    return True
