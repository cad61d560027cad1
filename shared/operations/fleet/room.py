"""Whether the registry has room for one more authorizer of a caller (FLEET-3)."""

from typing import Final

from shared.errors import AuthorizerLimit
from shared.model.callers import Caller
from shared.model.fleet import authorizers as model
from shared.model.fleet.authorizers import OfOwner, Registered
from shared.model.tenants import TenantSettings
from shared.operations.fleet import registrations as rules
from shared.ports import Ports

# How long a client waits that found no room: the registrations are counted again by then.
_RETRY_AFTER: Final = 300

_FULL: Final = (
    f"The tenant has {model.REGISTERED_MAX:,} authorizers, which is the most; remove some, or "
    "retry after the time in Retry-After."
)


def check(ports: Ports, caller: Caller, numbers: Registered, settings: TenantSettings) -> None:
    """Raise `AuthorizerLimit` if the caller or the tenant has as many authorizers as it may."""
    most = settings.authorizers_max
    is_at_quota = _of_owner(ports, caller, numbers, most) >= most
    if numbers.room and not is_at_quota:
        return
    if rules.is_due(numbers, ports.now(), is_full=True):
        rules.recount(ports, caller.tenant_id, numbers)
    message = _at_quota(caller, most) if is_at_quota else _FULL
    raise AuthorizerLimit(retry_after=_RETRY_AFTER, message=message)


def _of_owner(ports: Ports, caller: Caller, numbers: Registered, most: int) -> int:
    """Return how many authorizers the caller has registered; 0 for the service itself."""
    if caller.key_id is None:
        return 0
    address = model.of_owners(caller.tenant_id).address(caller.identity)
    item = ports.store.get(address)
    is_due = rules.is_due(numbers, ports.now(), is_full=True)
    if item is None and numbers.count >= most and is_due:
        # Release 0.3.0 did not count them.
        rules.recount(ports, caller.tenant_id, numbers)
        item = ports.store.get(address)
    return 0 if item is None else OfOwner.from_item(item).count


def _at_quota(caller: Caller, most: int) -> str:
    return (
        f"{caller.identity} has registered {most:,} authorizers, which is the setting "
        "authorizers_max of the tenant; remove some (`rescind authorizers remove`), or raise the "
        "setting (`rescind settings set authorizers_max=…`)."
    )
