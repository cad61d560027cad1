"""The oldest data that this release reads: what release 0.3.0 stores (OPS-11).

It stores all of a tenant's data in its own formats once its `rescind upgrade` has ended.
"""

from collections.abc import Callable
from typing import Final

from shared.errors import InvalidSettings
from shared.model.items import Address, Item
from shared.model.lists.head import head_address
from shared.model.revoked_signers import count_address

# Messages for an operator, without full stops.
PROBLEM: Final = "was stored by a release before 0.3.0, which is too old for this one"
REMEDY: Final = "serve it with release 0.3.0, run its `rescind upgrade`, then use this release"

# The format of the lists of release 0.3.0.
_LIST: Final = 3


def refusal(whose: str) -> InvalidSettings:
    """Return the error for data that is too old; `whose` names it, as "the database"."""
    return InvalidSettings(f"SVC_STORE: {whose} {PROBLEM}.", f"{REMEDY[0].upper()}{REMEDY[1:]}.")


def is_too_old(get: Callable[[Address], Item | None], tenant_id: str) -> bool:
    """Return whether the records of a tenant are older than what release 0.3.0 makes of them.

    `get` reads an item. Raises what `get` raises.
    """
    head, revoked_keys = get(head_address(tenant_id)), get(count_address(tenant_id))
    # Releases that did not number their lists kept all revoked keys in one item.
    names_keys = revoked_keys is not None and isinstance(revoked_keys.get("signers"), list)
    return names_keys or (head is not None and head.get("format", 0) in range(_LIST))
