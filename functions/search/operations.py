"""Search a tenant by identifier, by prefix of an identifier, or by words of a name (FLEET-33).

No partition is read whole. Identifiers are found by their keys, and names among the newest records.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain, islice, zip_longest
from typing import Any, Final, NamedTuple

from functions.authorizers import operations as authorizers
from functions.authorizers import records as authorizer_model
from functions.authorizers.records import Authorizer
from functions.changes.records import RecordedChange
from shared.model import api_keys as api_key_model
from shared.model import revocation_batches, revocations, service_accounts, signing_keys, warrants
from shared.model.api_keys import ApiKey
from shared.model.audit.audit_log import AuditAction, AuditEntry, EntryFilters
from shared.model.callers import Caller, Scope
from shared.model.identifiers import (
    API_KEY,
    AUDIT_ENTRY,
    AUTHORIZER,
    BATCH,
    REVOCATION,
    SERVICE_ACCOUNT,
    SIGNING_KEY,
    WARRANT,
    is_identifier,
    span_of,
)
from shared.model.items import Item, Partition
from shared.model.records import Record
from shared.model.revocations import Revocation, RevocationFilters
from shared.model.service_accounts import ServiceAccount
from shared.model.signing_keys import SigningKey
from shared.model.warrants import WarrantState
from shared.operations.access import api_keys
from shared.operations.access import service_accounts as accounts
from shared.operations.audit import audit_log
from shared.operations.base.operation import Operation, operation
from shared.operations.base.paging import merge_partitions
from shared.operations.changes import revocation_search
from shared.operations.changes import revocations as revoked
from shared.operations.changes import signing_keys as keys
from shared.ports import Ports

# How many of the newest records of each kind are searched for a name.
_NAMED_MOST: Final = 1_000
# The longest window in which audit entries are searched by identifier.
_SPAN_MAX: Final = timedelta(hours=12)
_IDENTIFIER: Final = re.compile("svc_([a-z]{2,3})_([A-Za-z0-9_-]{0,64})")
_WARRANT: Final = re.compile("[A-Za-z0-9_-]{2,64}")
_AFTER_ALL: Final = "~"


@dataclass(frozen=True, slots=True)
class SearchMatch:
    """A record that was found; `note` describes it."""

    kind: str
    id: str
    name: str | None
    note: str | None
    status: str | None


class _Searchable(NamedTuple):
    """A kind of records with names: its list operation, its partition, and its display."""

    lists: Operation[Any, Any]
    partition: Callable[[str], Partition]
    record: type[Record]
    shown: Callable[[Any], SearchMatch]


_NAMED: Final = {
    SIGNING_KEY: _Searchable(
        keys.page,
        signing_keys.keys,
        SigningKey,
        lambda each: SearchMatch(
            "signing_key", each.id, each.name, each.type.value, each.status.value
        ),
    ),
    API_KEY: _Searchable(
        api_keys.page,
        api_key_model.records,
        ApiKey,
        lambda each: SearchMatch("api_key", each.id, each.name, None, each.status.value),
    ),
    SERVICE_ACCOUNT: _Searchable(
        accounts.page,
        service_accounts.accounts,
        ServiceAccount,
        lambda each: SearchMatch(
            "service_account", each.id, each.name, each.description, each.status.value
        ),
    ),
    AUTHORIZER: _Searchable(
        authorizers.page,
        authorizer_model.authorizers,
        Authorizer,
        lambda each: SearchMatch("authorizer", each.id, each.name, each.owner, None),
    ),
}


@operation(Scope.ADMIN, Scope.READ_ONLY, Scope.REVOKER, Scope.SIGNER, Scope.AUDITOR)
def search(ports: Ports, caller: Caller, *, query: str, limit: int) -> list[SearchMatch]:
    """Return up to `limit` records that match `query`, of the kinds that the caller may list.

    Raises `DataCorrupt`, `Unavailable`.
    """
    identifier = _IDENTIFIER.fullmatch(query)
    if identifier is not None:
        return _search_by_id(ports, caller, identifier[1], query, limit)
    finds: list[Callable[[], list[SearchMatch]]] = []
    if _WARRANT.fullmatch(query) and _may(caller, revoked.page):
        finds.append(partial(_of_warrants, ports, caller, f"svc_{WARRANT}_{query}", limit))
    words = query.casefold().split()

    def find_by_words(of: _Searchable) -> list[SearchMatch]:
        partition = of.partition(caller.tenant_id)
        rows = ports.store.query(partition, newest_first=True, limit=_NAMED_MOST)
        hits = _hits(ports, of, (row.item for row in rows))
        named = ((each, (each.name or "").casefold()) for each in hits)
        matches = (each for each, name in named if all(word in name for word in words))
        return list(islice(matches, limit))

    finds += (partial(find_by_words, each) for each in _NAMED.values() if _may(caller, each.lists))
    # The kinds alternate, so a kind with many matches does not hide the others.
    turns = chain.from_iterable(zip_longest(*ports.gather(*finds)))
    return list(islice((each for each in turns if each is not None), limit))


def _may(caller: Caller, lists: Operation[Any, Any]) -> bool:
    return not set(lists.scopes).isdisjoint(caller.scopes)


def _search_by_id(
    ports: Ports, caller: Caller, kind: str, prefix: str, limit: int
) -> list[SearchMatch]:
    """Return the records of a kind by prefix of their identifiers."""
    tenant_id = caller.tenant_id
    if (named := _NAMED.get(kind)) and _may(caller, named.lists):
        items = _beginning(ports, [named.partition(tenant_id)], prefix, limit)
        return list(_hits(ports, named, items))
    if kind == AUDIT_ENTRY and _may(caller, audit_log.page):
        entries = (
            SearchMatch("audit_entry", each.id, each.action.value, each.resource_id, each.result)
            for each in _search_audit_log(ports, caller, prefix, None)
            if each.id.startswith(prefix)
        )
        return list(islice(entries, limit))
    if not _may(caller, revoked.page):
        return []
    if kind == WARRANT:
        return _of_warrants(ports, caller, prefix, limit)
    if kind == REVOCATION:
        items = _beginning(ports, revocations.records(tenant_id), prefix, limit)
        return [
            SearchMatch("revocation", each.id, each.warrant_id, each.reason, "revoked")
            for each in map(Revocation.from_item, items)
        ]
    return list(islice(_batches(ports, caller, prefix), limit)) if kind == BATCH else []


def _beginning(
    ports: Ports, partitions: list[Partition], prefix: str, limit: int
) -> Iterator[Item]:
    """Return the items with sort keys that begin with `prefix`."""
    before_all = prefix[:-1] + chr(ord(prefix[-1]) - 1) + _AFTER_ALL
    rows, _ = merge_partitions(
        ports,
        partitions,
        limit=limit,
        newest_first=False,
        after=before_all,
        before=prefix + _AFTER_ALL,
    )
    return (row.item for row in rows)


def _hits(ports: Ports, of: _Searchable, items: Iterable[Item]) -> Iterator[SearchMatch]:
    """Return the records in these items, without expired registrations."""
    now = ports.now()
    for record in map(of.record.from_item, items):
        if not (isinstance(record, Authorizer) and record.is_expired(now)):
            yield of.shown(record)


def _of_warrants(ports: Ports, caller: Caller, prefix: str, limit: int) -> list[SearchMatch]:
    """Return revoked warrants by prefix, and a signed warrant with exactly this identifier."""
    filters = RevocationFilters(warrant_prefix=prefix)
    page = revocation_search.page(ports, caller, filters=filters, before=None, limit=limit)
    matches = [
        SearchMatch("warrant", each.warrant_id, None, each.reason, "revoked")
        for each in page.entries
    ]
    if any(each.id == prefix for each in matches) or prefix == f"svc_{WARRANT}_":
        return matches
    state = WarrantState.of(ports.store.get(warrants.warrant_address(caller.tenant_id, prefix)))
    if state.key_id is None:
        return matches
    return [SearchMatch("warrant", prefix, None, state.key_id, "signed"), *matches][:limit]


def _batches(ports: Ports, caller: Caller, prefix: str) -> Iterator[SearchMatch]:
    """Return batches by prefix of their identifiers, from the audit entries of that time."""
    known = set[str]()
    for entry in _search_audit_log(ports, caller, prefix, AuditAction.REVOCATION_BATCH):
        if entry.resource_id.startswith(prefix) and entry.resource_id not in known:
            known.add(entry.resource_id)
            reason = RecordedChange.of_entry(entry).reason
            yield SearchMatch("batch", entry.resource_id, None, reason, None)
    if is_identifier(prefix, kind=BATCH) and prefix not in known:
        parts = revocation_batches.parts(caller.tenant_id, prefix)
        if any(ports.store.query(parts, limit=1)):
            yield SearchMatch("batch", prefix, None, None, None)


def _search_audit_log(
    ports: Ports, caller: Caller, prefix: str, action: AuditAction | None
) -> Iterable[AuditEntry]:
    """Return audit entries of the time span that a prefix implies, or none if it is too long."""
    start, end = (datetime.fromtimestamp(each / 1000, UTC) for each in span_of(prefix))
    if end - start > _SPAN_MAX:
        return []
    filters = EntryFilters(start.replace(microsecond=0), end, action)
    return audit_log.newest(ports, caller, filters, before=None, limit=_NAMED_MOST)
