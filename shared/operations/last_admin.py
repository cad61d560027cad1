"""A tenant never loses its last admin key (decisions 3, API keys)."""

from collections.abc import Collection
from datetime import timedelta
from typing import Final

from shared.errors import RequestConflict
from shared.model import api_keys as model
from shared.model import service_accounts
from shared.model.api_keys import ApiKey
from shared.model.records import integer
from shared.model.service_accounts import ServiceAccount
from shared.ports import Ports
from shared.ports.store import At, Change, Expect, Put

# How long the key that stays must live (decisions 3, API keys).
REMAINING: Final = timedelta(hours=24)


def guard(ports: Ports, tenant_id: str, *, losing: Collection[ApiKey]) -> list[Change]:
    """The changes that make the loss of these keys depend on no other admin key going with them.

    Raises `RequestConflict` if one of them is an admin key, and no other one stays accepted for
    `REMAINING` at least.
    """
    now = ports.now()
    if not any(key.is_live_admin(now) for key in losing):
        return []
    # Read before the keys: whoever moves it on after this makes the write lose.
    item = ports.store.get(model.admins_key(tenant_id))
    if not _another_lives(ports, tenant_id, {key.id for key in losing}):
        raise RequestConflict(
            "This would end the last active admin key; first create another one that does not "
            "expire within 24 hours."
        )
    version = integer(item, "version") if item else 0
    expected = At(version) if item else Expect.ABSENT
    return [Put(model.admins_key(tenant_id), {"version": version + 1}, expected)]


def is_left(ports: Ports, tenant_id: str) -> bool:
    """Whether an admin key of the tenant is accepted now, and stays so for `REMAINING`."""
    return _another_lives(ports, tenant_id, set())


def _another_lives(ports: Ports, tenant_id: str, losing: set[str]) -> bool:
    entries = ports.store.query(model.records(tenant_id), newest_first=True)
    keys = (ApiKey.from_item(entry.item) for entry in entries if entry.sk not in losing)
    # A key that is about to expire would leave nobody to create the next one.
    until = ports.now() + REMAINING
    owners = {key.service_account_id for key in keys if key.is_live_admin(until)}
    accounts = service_accounts.accounts(tenant_id)
    items = ports.store.get_many(accounts.key(owner) for owner in owners if owner is not None)
    # A key of no account lives by itself, any other with its account.
    return None in owners or any(
        ServiceAccount.from_item(item).status is service_accounts.Status.ACTIVE
        for item in items.values()
    )
