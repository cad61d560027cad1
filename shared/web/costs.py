"""What a request costs beyond the token that the gate took (AUTH-14).

A token is about the processor time of a check: 1 to 2 ms here. Each number was measured against it,
on one machine with 4,000 revocations and 1,000 authorizers.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from starlette.datastructures import QueryParams

from shared.model import authorizers as model
from shared.operations.rules import authorizers
from shared.ports import Ports

# No request costs more than this, so that a full bucket always suffices.
COST_MAX: Final = 1000
# What is parsed takes a token for so many bytes, and a page one for so many rows above `_PAGE`.
_BYTES_A_TOKEN: Final = 16 * 1024
_ROWS_A_TOKEN: Final = 10
_PAGE: Final = 50
_DIGITS_MAX: Final = 3
_AUTHORIZERS_A_TOKEN: Final = 30
# Filters of revocations for which no index exists.
_SEARCHED: Final = {"reason", "created_by", "actor_key_id"}


class Cost(NamedTuple):
    """The tokens of an endpoint: `flat`, and `searching` if the query reads what it does not show.

    One token more is for each `a_token` entries of the members `entries` of the body, where "" is
    the body itself. `by_fleet`: the registered authorizers are read.
    """

    flat: int = 0
    searching: int = 0
    entries: tuple[str, ...] = ()
    a_token: int = 1
    by_fleet: bool = False


# By the name of the endpoint. All others cost only what their body and their page do.
COSTS: Final[Mapping[str, Cost]] = {
    "check_revocations": Cost(entries=("warrant_ids",), a_token=25),
    "change_revocations": Cost(entries=("warrant_ids", "revocation_ids"), a_token=10),
    "count_revocations": Cost(flat=1),
    "list_revocations": Cost(searching=30),
    "get_revocation_propagation": Cost(by_fleet=True),
    "send_reports": Cost(entries=("reports",)),
    "count_stock_events": Cost(entries=("",), a_token=10),
    "remove_authorizers_of_key": Cost(flat=100),
    "export_audit_log": Cost(flat=100),
}
_USUAL: Final = Cost()


def of_body(raw: bytes) -> int:
    """Return what it costs to parse a body, which is due before it is parsed."""
    return max(len(raw) - 1, 0) // _BYTES_A_TOKEN


def of_request(
    endpoint: str,
    body: object,
    query: QueryParams,
    parameters: set[str],
    fleet: Callable[[], int],
) -> int:
    """Return what a request costs beside its body; `fleet` returns the number of authorizers."""
    cost = COSTS.get(endpoint, _USUAL)
    tokens = cost.flat
    if not _SEARCHED.isdisjoint(query.keys()):
        tokens += cost.searching
    tokens += sum(_length(body, each) for each in cost.entries) // cost.a_token
    if "limit" in parameters:
        tokens += _rows(query) // _ROWS_A_TOKEN
    if cost.by_fleet:
        tokens += fleet() // _AUTHORIZERS_A_TOKEN
    return min(tokens, COST_MAX)


def fleet(ports: Ports, tenant_id: str) -> int:
    """Return the number of registered authorizers."""
    numbers = authorizers.registered(ports.store.get(model.registered_address(tenant_id)))
    return max(numbers.count, 0)


def _length(body: object, member: str) -> int:
    entries = body.get(member) if isinstance(body, dict) else None if member else body
    return len(entries) if isinstance(entries, list) else 0


def _rows(query: QueryParams) -> int:
    """Return how many rows more than a usual page has are asked for; 0 if that is refused."""
    asked = query.get("limit", "")
    is_number = asked.isascii() and asked.isdecimal() and len(asked) <= _DIGITS_MAX
    return max(int(asked) - _PAGE, 0) if is_number else 0
