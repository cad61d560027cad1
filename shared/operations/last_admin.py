"""A tenant never loses its last admin key (decisions 3, API keys)."""

from shared.errors import RequestConflict
from shared.model import api_keys as model
from shared.model.api_keys import ApiKey
from shared.model.records import integer
from shared.ports import Ports
from shared.ports.store import At, Change, Expect, Put


def guard(ports: Ports, key: ApiKey) -> list[Change]:
    """The changes that make the loss of `key` depend on no other admin key going with it.

    Raises `RequestConflict` where `key` is the last one that is active and unexpired.
    """
    if not key.is_live_admin(ports.now()):
        return []
    # Read before the keys: whoever moves it on after this makes the write lose.
    item = ports.store.get(model.admins_key(key.tenant_id))
    if not _another_lives(ports, key):
        raise RequestConflict("This is the last active admin key; create another one first.")
    version = integer(item, "version") if item else 0
    expected = At(version) if item else Expect.ABSENT
    return [Put(model.admins_key(key.tenant_id), {"version": version + 1}, expected)]


def _another_lives(ports: Ports, key: ApiKey) -> bool:
    entries = ports.store.query(model.records(key.tenant_id), newest_first=True)
    others = (ApiKey.from_item(entry.item) for entry in entries if entry.sk != key.id)
    return any(other.is_live_admin(ports.now()) for other in others)
