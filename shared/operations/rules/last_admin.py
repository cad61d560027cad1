"""A tenant never loses its last admin key (APIKEY-7)."""

from collections.abc import Collection, Iterable, Iterator
from datetime import timedelta
from typing import Final

from shared.errors import Conflict
from shared.model import api_keys as model
from shared.model import service_accounts
from shared.model.api_keys import ApiKey
from shared.model.callers import Caller
from shared.model.service_accounts import ServiceAccount
from shared.ports import Ports
from shared.ports.store import Address, At, Change, Check

# How long the key that stays must live (APIKEY-7).
REMAINING: Final = timedelta(hours=24)


def guard(
    ports: Ports, caller: Caller, *, losing: Collection[ApiKey], written: Collection[Address] = ()
) -> list[Change]:
    """The changes that make the loss of these keys depend on another admin key that stays.

    `written` are the items that the same write puts with the version that was read. The caller's
    own key is looked at first; nearly always it is the one that stays. Raises `Conflict` if
    one of the keys is an admin key, and no other one stays accepted for `REMAINING` at least.
    """
    now = ports.now()
    if not any(key.is_live_admin(now) for key in losing):
        return []
    ids = {key.id for key in losing}
    stays = _another(ports, caller.tenant_id, _own(ports, caller, ids))
    stays = stays or _another(ports, caller.tenant_id, _all(ports, caller.tenant_id, ids))
    if stays is None:
        raise Conflict(
            "This would end the last active admin key; first create another one that does not "
            "expire within 24 hours."
        )
    # Whoever takes that one away, or its account, makes this write lose, or loses to it.
    return [Check(each.address, At(each.version)) for each in stays if each.address not in written]


def is_left(ports: Ports, tenant_id: str) -> bool:
    """Whether an admin key of the tenant is accepted now, and stays so for `REMAINING`."""
    return _another(ports, tenant_id, _all(ports, tenant_id, set())) is not None


def _own(ports: Ports, caller: Caller, losing: set[str]) -> list[ApiKey]:
    """The key that the caller uses, unless it is one of those that are lost."""
    if caller.key_id is None or caller.key_id in losing:
        return []
    item = ports.store.get(model.records(caller.tenant_id).address(caller.key_id))
    return [] if item is None else [ApiKey.from_item(item)]


def _all(ports: Ports, tenant_id: str, losing: set[str]) -> Iterator[ApiKey]:
    entries = ports.store.query(model.records(tenant_id), newest_first=True)
    return (ApiKey.from_item(entry.item) for entry in entries if entry.sk not in losing)


def _another(
    ports: Ports, tenant_id: str, keys: Iterable[ApiKey]
) -> tuple[ApiKey] | tuple[ApiKey, ServiceAccount] | None:
    """An admin key among `keys` that stays, with its account if it has one."""
    # A key that is about to expire would leave nobody to create the next one.
    until = ports.now() + REMAINING
    owned: dict[str, ApiKey] = {}
    for key in keys:
        if key.is_live_admin(until):
            if key.service_account_id is None:
                return (key,)
            owned.setdefault(key.service_account_id, key)
    accounts = service_accounts.accounts(tenant_id)
    items = ports.store.get_many(accounts.address(owner) for owner in owned)
    found = map(ServiceAccount.from_item, items.values())
    active = next((each for each in found if each.status is service_accounts.Status.ACTIVE), None)
    return (owned[active.id], active) if active else None
