"""The cost of a request beyond the token that the gate took (AUTH-14).

One token corresponds to the processor time of a check, 1 to 2 ms. The costs were measured relative
to a check on one machine with 4,000 revocations, 1,000 authorizers and 20,000 audit entries.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final, NamedTuple, TypeVar

from starlette.datastructures import QueryParams

from shared.model import times
from shared.model.audit.audit_log import EntryFilters
from shared.model.tenants import AUDIT_RETENTION_DAYS_MAX
from shared.ports import Ports

# The maximum cost of a request, so that a full bucket always suffices.
COST_MAX: Final = 1000
# A parsed body costs a token per `_BYTES_A_TOKEN`. A page costs a token per `_ROWS_A_TOKEN` above
# `_PAGE`.
_BYTES_A_TOKEN: Final = 16 * 1024
_ROWS_A_TOKEN: Final = 10
_PAGE: Final = 50
_DIGITS_MAX: Final = 3
_RECORDS_A_TOKEN: Final = 30
_DAYS_A_TOKEN: Final = 60
# The audit log has no older entries, so no longer window is read.
_DAYS_MAX: Final = AUDIT_RETENTION_DAYS_MAX
# A store may have no index for these filters, and then reads rows that it does not return.
_OF_REVOCATIONS: Final = frozenset({"reason", "created_by", "actor_key_id"})
_OF_KEYS: Final = frozenset({"type", "status"})
_UNSEARCHED: Final = {"start", "end", "warrant_id", "words"}
_OF_ENTRIES: Final = frozenset(EntryFilters.__dataclass_fields__) - _UNSEARCHED | {"q"}


class EndpointCost(NamedTuple):
    """The tokens of an endpoint: `flat`, and `SEARCH` if the query has a `searched` parameter.

    The request costs one more token per `a_token` entries in the body members `entries`, where ""
    is the body itself. `records` counts the records of a tenant that the endpoint reads, or that it
    reads only if the query has the parameter `records_for`. `by_window`: it reads each part of the
    window from `from` to `to`.
    """

    flat: int = 0
    searched: frozenset[str] = frozenset()
    entries: tuple[str, ...] = ()
    a_token: int = 1
    records: Callable[[Ports, str], int] | None = None
    records_for: str = ""
    by_window: bool = False


SEARCH: Final = 30
# A page that reads up to 1,000 records and returns a part of them.
_FILTERED: Final = 10

# By the name of the endpoint. All other endpoints cost only their body and their page, unless they
# are marked by `charges`.
COSTS: Final[Mapping[str, EndpointCost]] = {
    "check_revocations": EndpointCost(entries=("warrant_ids",), a_token=25),
    "batch_revocations": EndpointCost(entries=("warrant_ids", "revocation_ids"), a_token=10),
    # By identifiers and by batch; the revocations of a batch are not counted in advance.
    "create_unrevoke_manifest": EndpointCost(
        flat=100, entries=("warrant_ids", "revocation_ids"), a_token=50
    ),
    "list_unrevoke_manifest_members": EndpointCost(flat=5),
    "apply_unrevoke_manifest_part": EndpointCost(flat=50),
    "count_revocations": EndpointCost(flat=1),
    "list_revocations": EndpointCost(searched=_OF_REVOCATIONS),
    "search": EndpointCost(flat=SEARCH),
    "list_sessions": EndpointCost(flat=_FILTERED),
    "list_approvals": EndpointCost(flat=_FILTERED),
    "list_signing_keys": EndpointCost(searched=_OF_KEYS),
    "list_audit_log": EndpointCost(searched=_OF_ENTRIES, by_window=True),
    "export_audit_log": EndpointCost(flat=250),
    "get_audit_entry_proof": EndpointCost(flat=5),
}
USUAL: Final = EndpointCost()

Endpoint = TypeVar("Endpoint", bound=Callable[..., object])


def charges(cost: EndpointCost) -> Callable[[Endpoint], Endpoint]:
    """Mark an endpoint of a capability with its cost."""

    def mark(endpoint: Endpoint) -> Endpoint:
        vars(endpoint)["cost"] = cost
        return endpoint

    return mark


def of_body(raw: bytes) -> int:
    """Return the cost of parsing a body, which is charged before parsing."""
    return max(len(raw) - 1, 0) // _BYTES_A_TOKEN


def of_request(
    cost: EndpointCost, body: object, query: QueryParams, ports: Ports, tenant_id: str
) -> int:
    """Return the cost of a request except for parsing its body. The query has only known names."""
    now, tokens = ports.now(), cost.flat + _rows(query) // _ROWS_A_TOKEN
    if not cost.searched.isdisjoint(query.keys()):
        tokens += SEARCH
    tokens += sum(_length(body, each) for each in cost.entries) // cost.a_token
    if cost.records and (not cost.records_for or cost.records_for in query):
        tokens += cost.records(ports, tenant_id) // _RECORDS_A_TOKEN
    if cost.by_window:
        tokens += _days(query, now) // _DAYS_A_TOKEN
    return min(tokens, COST_MAX)


def _days(query: QueryParams, now: datetime) -> int:
    """Return the days of the window that is read; 0 if it is invalid or absent."""
    if "warrant_id" in query:
        # An index finds the entries of one warrant in any window.
        return 0
    try:
        end = times.parse(query["to"]) if "to" in query else now
        days = (end - times.parse(query["from"])).days
    except (KeyError, ValueError):
        return 0
    return min(max(days, 0), _DAYS_MAX)


def _length(body: object, member: str) -> int:
    entries = body.get(member) if isinstance(body, dict) else None if member else body
    return len(entries) if isinstance(entries, list) else 0


def _rows(query: QueryParams) -> int:
    """Return the number of requested rows beyond a normal page; 0 if the limit is invalid."""
    asked = query.get("limit", "")
    is_number = asked.isascii() and asked.isdecimal() and len(asked) <= _DIGITS_MAX
    return max(int(asked) - _PAGE, 0) if is_number else 0
