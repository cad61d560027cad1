"""The registry of authorizers: register authorizers, and take their heartbeats (FLEET-1)."""

import re
from collections.abc import Mapping
from enum import StrEnum
from itertools import islice
from typing import Final, NamedTuple

from functions.authorizers import heartbeats
from functions.authorizers import records as model
from functions.authorizers import registrations as rules
from functions.authorizers.heartbeats import AcceptedReports, HeartbeatOutcome
from functions.authorizers.records import Authorizer, Heartbeat, RefusedReport, RegistrationCounts
from shared.errors import Conflict, InvalidRequest, NotFound, RateLimited
from shared.model.audit.audit_log import AuditAction
from shared.model.callers import Caller, Scope
from shared.model.identifiers import API_KEY, AUTHORIZER, is_identifier
from shared.model.items import Partition, Value
from shared.operations.base import audit
from shared.operations.base.allowance import find
from shared.operations.base.operation import operation
from shared.operations.base.paging import Page, PageQueryPlan, count, newest
from shared.ports import Ports

# The remedy for each rejected report.
_REFUSED: Final = {
    RefusedReport.UNSIGNED: "the authorizer has a key, but the report is not signed. Sign the "
    "report; or remove the authorizer, and register it as a stock authorizer.",
    RefusedReport.KEY_UNVERIFIED: "the authorizer has no key. Register again with a proof.",
    RefusedReport.TOO_LARGE: "it must have at most 4,096 bytes.",
    RefusedReport.SIGNATURE: "the key of this authorizer did not sign it. If the key is lost, "
    "remove the authorizer, and register again.",
    RefusedReport.MALFORMED: "it must be a report in deterministic CBOR, in base64.",
    RefusedReport.TENANT: "it names another tenant.",
    RefusedReport.ROLLBACK: "its number must be above the number of the last report. Register "
    "again; the response contains that number.",
}

# The most authorizers that one request removes.
_REMOVED_MAX: Final = 2_000
_LEFT: Final = f"{_REMOVED_MAX:,} authorizers were removed; repeat the request for the others."

# The identity of a caller (ACCOUNT-2).
_IDENTITY: Final = re.compile(r"[^@\s]{1,255}@[a-z0-9-]{1,63}\.svc")


class HeartbeatStatus(StrEnum):
    """The service's assessment of a heartbeat.

    `equivocation`: the authorizer reported entries that this service did not publish.
    """

    OK = "ok"
    EQUIVOCATION = "equivocation"


class HeartbeatAnswer(NamedTuple):
    """The response to a heartbeat.

    `latest` is the last sequence of the feed, or None without one.
    """

    status: HeartbeatStatus
    latest: int | None
    numbers: RegistrationCounts


@operation(Scope.ADMIN, Scope.AUTHORIZER)
def heartbeat(
    ports: Ports, caller: Caller, *, authorizer_id: str, beat: Heartbeat, is_stock: bool = False
) -> HeartbeatAnswer:
    """Take a heartbeat of an authorizer (FLEET-4). Store it if it has news.

    Raises `NotFound` if the caller has not registered the authorizer, `Conflict` if the report is
    rejected. A stock authorizer would never register again, so it gets a response without being
    stored (NATIVE-6). A malformed identifier still raises `NotFound`.
    """
    reports = heartbeats.take(ports, caller, {authorizer_id: beat}, relay="")
    (outcome,) = reports.outcomes
    if isinstance(outcome, RefusedReport):
        raise Conflict(f"The report was rejected ({outcome.value}): {_REFUSED[outcome]}")
    if outcome is not HeartbeatOutcome.NOT_FOUND:
        return HeartbeatAnswer(HeartbeatStatus(outcome), reports.latest, reports.numbers)
    if not is_stock or not is_identifier(authorizer_id, kind=AUTHORIZER):
        raise NotFound
    return HeartbeatAnswer(HeartbeatStatus.OK, reports.latest, reports.numbers)


@operation(Scope.ADMIN, Scope.AUTHORIZER)
def report(
    ports: Ports, caller: Caller, *, relay: str, beats: Mapping[str, Heartbeat]
) -> AcceptedReports:
    """Take the reports of a relay about the caller's authorizers, by their identifiers.

    There are at most `REPORTS_MAX` (FLEET-7).
    """
    return heartbeats.take(ports, caller, beats, relay=relay)


@operation(Scope.ADMIN, Scope.READ_ONLY, Scope.AUDITOR)
def page(ports: Ports, caller: Caller, *, before: str | None, limit: int) -> Page[Authorizer]:
    """Return a page of the tenant's unexpired authorizers, newest first."""
    partition, now = model.authorizers(caller.tenant_id), ports.now()
    walk = PageQueryPlan(
        partition, Authorizer.from_item, before, limit, keep=lambda of: not of.is_expired(now)
    )
    counter = model.registered_address(caller.tenant_id)
    return newest(ports, walk, total=lambda: count(ports, counter))


@operation(Scope.ADMIN, Scope.READ_ONLY, Scope.AUDITOR)
def get(ports: Ports, caller: Caller, *, authorizer_id: str) -> Authorizer:
    """Return an authorizer of the tenant.

    Raises `NotFound`, also if the registration has expired.
    """
    authorizer = _find(ports, caller, authorizer_id)
    if authorizer.is_expired(ports.now()):
        raise NotFound
    return authorizer


@operation(Scope.ADMIN, Scope.AUTHORIZER)
def remove(ports: Ports, caller: Caller, *, authorizer_id: str) -> None:
    """Remove an authorizer. The service then rejects its heartbeats (FLEET-5).

    Raises `NotFound`, also if the caller is no administrator and has not registered the authorizer.
    """
    ids = [authorizer_id] if is_identifier(authorizer_id, kind=AUTHORIZER) else []
    ended = rules.read_ended(ports, caller.tenant_id, ids)
    gone = ended.get(authorizer_id) or _find(ports, caller, authorizer_id)
    if not caller.is_admin and gone.owner != caller.identity:
        raise NotFound
    removal = rules.forgetting if ended else rules.removal
    ports.store.write(
        *removal(caller.tenant_id, gone),
        *rules.noting(caller.tenant_id, ports.now(), gone),
        audit.entry(ports, caller, AuditAction.AUTHORIZER_REMOVE, gone.id, name=gone.name),
    )


@operation(Scope.ADMIN, Scope.AUTHORIZER)
def remove_of_owner(ports: Ports, caller: Caller, *, owner: str) -> None:
    """Remove the authorizers of an owner, which is an API key or an identity (FLEET-19).

    Raises `RateLimited` if some are left, `InvalidRequest`; `NotFound` if the caller is no
    administrator and names another owner.
    """
    if not is_identifier(owner, kind=API_KEY) and not _IDENTITY.fullmatch(owner):
        raise InvalidRequest(
            "owner: must be an API key, or an owner in the form of GET /v1/authorizers."
        )
    if not caller.is_admin and owner not in (caller.key_id, caller.identity):
        raise NotFound
    tenant_id, left = caller.tenant_id, _REMOVED_MAX
    present, ended = ports.gather(
        lambda: _of_owner(ports, model.authorizers(tenant_id), owner),
        lambda: _of_owner(ports, model.ended_partition(tenant_id), owner),
    )
    for gone, removal in ((present, rules.removal), (ended, rules.forgetting)):
        for start in range(0, min(len(gone), left), rules.AT_ONCE):
            batch = gone[start : min(start + rules.AT_ONCE, left)]
            named: list[Value] = [{"id": each.id, "name": each.name} for each in batch]
            entry = audit.entry(
                ports, caller, AuditAction.AUTHORIZER_REMOVE_BATCH, owner, authorizers=named
            )
            notes = rules.noting(tenant_id, ports.now(), *batch)
            ports.store.write(*removal(tenant_id, *batch), *notes, entry)
        left -= len(gone)
        if left < 0:
            raise RateLimited(retry_after=1, message=_LEFT)


def _of_owner(ports: Ports, partition: Partition, owner: str) -> list[Authorizer]:
    """Return the authorizers of an owner, at most one more than a request removes."""
    every = Authorizer.from_rows(ports.store.query(partition))
    return list(islice((each for each in every if each.is_of(owner)), _REMOVED_MAX + 1))


def _find(ports: Ports, caller: Caller, authorizer_id: str) -> Authorizer:
    partition = model.authorizers(caller.tenant_id)
    return find(ports, partition, authorizer_id, kind=AUTHORIZER, record=Authorizer)
