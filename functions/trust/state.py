"""The state of trust documents, for the operator (TRUST-19)."""

import logging
from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from functions.trust import documents
from functions.trust.facts import TrustFacts, read_facts
from functions.trust.records import TrustHead, head_address, waiting_address
from shared import logs
from shared.authorizer.formats.documents import NotTrusted
from shared.capabilities.finding import Finding
from shared.errors import DataCorrupt
from shared.model import times
from shared.model.lists.head import SrlHead
from shared.model.tenants import DirectoryEntry
from shared.operations.base import tenants
from shared.operations.lists import in_force
from shared.ports import Ports

_log = logging.getLogger(__name__)

# How many tenants one read covers.
_TENANTS: Final = 50

_SIGN: Final = (
    "sign a new document with the root keys (rescind trust draft, sign, publish); see"
    " docs/runbook.md#trust-documents-expiring"
)
_LOG: Final = "wait a minute, because the service renews it; otherwise see the cause in its log"
_GUIDE: Final = "restore the blobs (docs/restore.md)"


# A problem and its remedy, without full stops, and whether it is a remark.
_Problem: TypeAlias = tuple[str, str] | tuple[str, str, bool]


class TrustSurvey(NamedTuple):
    """How many tenants have an expiring document, or one that waits for root signatures.

    The documents of `expired` of these tenants are no longer valid: clients refuse all warrants.
    """

    due: int
    expired: int


def has_documents(ports: Ports) -> bool:
    """Return whether a root key has signed a document for any tenant. Raises `Unavailable`."""
    return any(
        documents.read_head(ports, each.tenant_id) is not None
        or documents.highest(ports, each.tenant_id) > 0
        for each in tenants.directory(ports)
    )


def survey(ports: Ports) -> TrustSurvey:
    """Survey the documents of all tenants. Raises `Unavailable`.

    Reads two items of each tenant. If an item is damaged, a document counts as expiring.
    """
    now, due, expired = ports.now(), 0, 0
    try:
        rest = tenants.identifiers(ports)
        while batch := list(islice(rest, _TENANTS)):
            items = ports.store.get_many(
                address(each) for each in batch for address in (head_address, waiting_address)
            )
            for each in batch:
                head = TrustHead.from_optional(items.get(head_address(each)))
                due += waiting_address(each) in items or (head is not None and now >= head.warns_at)
                expired += head is not None and now >= head.expires_at
    except DataCorrupt:
        _log.exception("cannot read the state of the trust documents")
        return TrustSurvey(due=1, expired=0)
    return TrustSurvey(due, expired)


def log_survey(ports: Ports) -> None:
    """Log how many documents are expiring or expired, if there are any. Raises `Unavailable`."""
    found = survey(ports)
    if found.due or found.expired:
        figures = {"TrustDocumentsExpiring": found.due, "TrustDocumentsExpired": found.expired}
        _log.warning("trust", extra=logs.fields(metrics=figures))


def check_documents(ports: Ports, tenant: DirectoryEntry, _head: SrlHead) -> Iterator[Finding]:
    """Yield the problems with the documents of a tenant, unless other checks report the cause."""
    try:
        in_force.read_active_signer(ports, tenant.tenant_id)
        if (feed := in_force.read_feed_head(ports, tenant.tenant_id)) is not None:
            _ = feed.signed_head
    except DataCorrupt:
        return  # `consistency` reports this.
    for each in problems(ports, tenant.tenant_id):
        yield Finding(tenant.handle, *each)


def problems(ports: Ports, tenant_id: str) -> Iterator[_Problem]:
    """Verify the documents of a tenant as a client does, and compare them with the records.

    Raises `DataCorrupt`, `Unavailable`.
    """
    facts = read_facts(ports, tenant_id)
    if facts.head is None:
        if ports.store.get(waiting_address(tenant_id)) is not None:
            yield "it has no trust document", _SIGN
        return
    try:
        reachable = facts.reachable_document(ports.now())
    except NotTrusted as error:
        yield f"clients reject its trust documents ({error.reason})", _GUIDE
    else:
        if reachable is None or reachable.reference != facts.head.reference:
            yield "its newest trust document differs from the published one", _GUIDE
    newest = in_force.read_feed_head(ports, facts.tenant_id)
    if newest is not None and newest.signed_head.trust != facts.head.reference:
        yield "its feed does not name the newest trust document", _LOG
    if documents.highest(ports, tenant_id) > facts.head.version:
        problem = "a newer trust document than the published one is stored"
        remedy = "ignore it if a publication was interrupted; after a restore, run: rescind recover"
        yield problem, remedy, True
    root = None if ports.root is None else ports.root.public_key
    yield from _due(ports, facts, facts.head, is_online=facts.may_sign(root))


def _due(
    ports: Ports, facts: TrustFacts, head: TrustHead, *, is_online: bool
) -> Iterator[_Problem]:
    now, remedy = ports.now(), _LOG if is_online else _SIGN
    if facts.newest_document is not None and not facts.uses.are_those_of(facts.newest_document):
        yield "its trust document does not name the signers of its records", remedy
    if now >= head.expires_at:
        yield "its trust document has expired, so clients refuse all warrants", remedy
    elif now >= head.warns_at:
        expires_at = times.format_utc(head.expires_at)
        yield f"its trust document expires at {expires_at}", remedy
