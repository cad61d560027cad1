"""Registrations of authorizers: their number, and the changes that store and remove them."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from shared.errors import Conflict, RateLimited
from shared.model import authorizers as model
from shared.model.authorizers import Authorizer, Registered
from shared.model.items import Address, Item
from shared.ports.store import At, Change, Delete, Expect, Increment, Put

# How long a client waits that found no room: the registrations are counted again by then.
_RETRY_AFTER: Final = 300

_FULL: Final = (
    f"The tenant has {model.REGISTERED_MAX:,} authorizers, which is the most; remove some, or "
    "retry after the time in Retry-After."
)


def registered(item: Item | None) -> Registered:
    """Return the numbers of registered authorizers that an item has. Raises `Corrupt`."""
    return Registered() if item is None else Registered.from_item(item)


def full() -> RateLimited:
    """Return the error for a tenant that may register no more authorizers (FLEET-3).

    An authorizer that gets any other refusal may never come back.
    """
    return RateLimited(retry_after=_RETRY_AFTER, message=_FULL)


def at_quota(most: int, *, is_stock: bool) -> Conflict | RateLimited:
    """Return the error for an API key that has registered `most` authorizers (FLEET-3).

    A stock authorizer retries only the second (NATIVE-6).
    """
    message = (
        f"The API key has registered {most:,} authorizers, which is the setting authorizers_max of "
        "the tenant; remove some, or raise the setting."
    )
    return RateLimited(retry_after=_RETRY_AFTER, message=message) if is_stock else Conflict(message)


def creation(tenant_id: str, new: Authorizer) -> list[Change]:
    """Return the changes that store a new registration, and count it."""
    return [
        Put(_address(tenant_id, new.id), new.to_item(), Expect.ABSENT),
        _counting(tenant_id, count=1, polling=int(new.polls)),
        *_counting_keys(tenant_id, Counter({new.key_id: 1})),
    ]


def change(tenant_id: str, before: Authorizer, after: Authorizer) -> Sequence[Change]:
    """Return the changes that store `after`; none if it says nothing new (FLEET-4)."""
    if not after.says_more_than(before):
        return []
    put = Put(_address(tenant_id, after.id), after.to_item(), At(before.version))
    if after.polls == before.polls:
        return [put]
    polling = int(after.polls) - int(before.polls)
    return [put, _counting(tenant_id, count=0, polling=polling)]


def removal(tenant_id: str, *gone: Authorizer) -> list[Change]:
    """Return the changes that remove registrations and their names, and count them no more."""
    polling = sum(each.polls for each in gone)
    return [
        *(Delete(_address(tenant_id, each.id), At(each.version)) for each in gone),
        *(Delete(name_address(tenant_id, each), Expect.ANYTHING) for each in gone),
        _counting(tenant_id, count=-len(gone), polling=-polling),
        *_counting_keys(tenant_id, Counter(each.key_id for each in gone), sign=-1),
    ]


def name_address(tenant_id: str, of: Authorizer) -> Address:
    """Return the address of the item that finds `of` by its owner, name and public key."""
    return model.name_address(tenant_id, owner=of.owner, name=of.name, public_key=of.public_key)


def _address(tenant_id: str, authorizer_id: str) -> Address:
    return model.authorizers(tenant_id).address(authorizer_id)


def _counting(tenant_id: str, *, count: int, polling: int) -> Increment:
    address = model.registered_address(tenant_id)
    return Increment(address, {"count": count, "polling": polling, "version": 1}, Expect.ANYTHING)


def _counting_keys(tenant_id: str, counts: Counter[str], *, sign: int = 1) -> list[Increment]:
    partition = model.of_keys(tenant_id)
    return [
        Increment(
            partition.address(key_id), {"count": sign * number, "version": 1}, Expect.ANYTHING
        )
        for key_id, number in counts.items()
        if key_id
    ]
