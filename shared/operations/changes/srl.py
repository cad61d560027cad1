"""The Signed Revocation List: read it, its status and its history, and regenerate it."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, TypeVar

from shared.errors import DataCorrupt, InvalidRequest, NotFound, PreconditionFailed, Unavailable
from shared.model import feed
from shared.model.callers import Caller, Scope
from shared.model.feed import FeedHead
from shared.model.lists import content as model
from shared.model.lists.content import SrlVersionRecord
from shared.model.lists.head import SrlHead, StoredBody, head_address, sha256_of, version_of
from shared.model.lists.schedule import due_by
from shared.model.rate_limit import BURST, BucketPurpose
from shared.operations.base import allowance
from shared.operations.base.idempotency import Keep, idempotent, of_record
from shared.operations.base.operation import operation
from shared.operations.base.paging import Page
from shared.operations.lists import in_force, publication, unpublished
from shared.operations.lists.unpublished import UnlistedChanges
from shared.ports import Ports
from shared.ports.store import ItemFilter, Put, VersionIs

T = TypeVar("T")

# The cost of a publication in tokens, about its CPU time in milliseconds: a fixed part, and one
# token for this many warrants. The bucket gains RATE_PER_SECOND tokens a second.
_LEAST: Final = 40
_WARRANTS_A_TOKEN: Final = 500


@operation(Scope.ADMIN, Scope.AUTHORIZER, Scope.REVOKER, Scope.AUDITOR)
def current(
    ports: Ports, caller: Caller, *, is_gzip: bool = False
) -> tuple[SrlHead, FeedHead | None]:
    """Return the head of the current SRL, and the feed head.

    The SRL is the base of that feed, or newer. Otherwise the feed head is None. `is_gzip` is true
    if the caller accepts gzip; later SRLs are then also stored in that form (SRL-18). Raises
    `DataCorrupt`, `Unavailable`.
    """
    of_list, of_feed = head_address(caller.tenant_id), feed.head_address(caller.tenant_id)
    items = ports.store.get_many([of_list, of_feed])
    if of_list not in items:
        raise DataCorrupt("a tenant has no published SRL")
    head = SrlHead.from_item(items[of_list])
    newest = FeedHead.from_item(items[of_feed]) if of_feed in items else None
    noted = head.with_gzip_request(ports.now()) if is_gzip else None
    if noted is not None:
        # If an SRL was published since, the next request records it.
        with suppress(PreconditionFailed, Unavailable):
            ports.store.write(Put(of_list, noted.to_item(), VersionIs(head.version)))
    is_base = newest is not None and newest.base.version <= head.version
    return head, newest if is_base else None


@operation(Scope.ADMIN, Scope.AUTHORIZER, Scope.REVOKER, Scope.AUDITOR)
def old(
    ports: Ports, caller: Caller, *, version: int | None = None, sha256: str | None = None
) -> SrlHead:
    """Return the head of a published SRL, by its version or its payload hash.

    Raises `NotFound` if it is not kept (SRL-20), `InvalidRequest` if both are given; `DataCorrupt`,
    `Unavailable`.
    """
    if version is not None and sha256 is not None:
        raise InvalidRequest("query: pass either version or sha256.")
    if version is not None:
        head = in_force.read_head_of_version(ports, caller.tenant_id, version)
    else:
        head = in_force.read_head_of_payload(ports, caller.tenant_id, sha256 or "")
    if head is None:
        raise NotFound
    return head


@operation(Scope.ADMIN, Scope.AUTHORIZER, Scope.REVOKER, Scope.AUDITOR)
def body(ports: Ports, caller: Caller, *, of: StoredBody) -> bytes:
    """Read a stored response body and check its hash. Raises `DataCorrupt`, `Unavailable`.

    Raises `NotFound` if it belongs to an older SRL and was removed.
    """
    return _unless_removed(ports, caller, of, lambda: in_force.read_blob(ports, of.blob))


@operation(Scope.ADMIN, Scope.AUTHORIZER, Scope.REVOKER, Scope.AUDITOR)
def file(ports: Ports, caller: Caller, *, of: StoredBody) -> Path | None:
    """Return the file of a response body after a check of its hash.

    Returns None if the store has no files. Raises `DataCorrupt`, `Unavailable`, `NotFound`.
    """
    sha256 = sha256_of(of.blob)
    return _unless_removed(ports, caller, of, lambda: ports.blobs.get_file(of.blob, sha256=sha256))


def _unless_removed(ports: Ports, caller: Caller, of: StoredBody, read: Callable[[], T]) -> T:
    try:
        return read()
    except DataCorrupt:
        folder, _, _ = of.blob.rpartition("/")
        is_old = version_of(of.blob) < in_force.read_srl_head(ports, caller.tenant_id).version
        if is_old and of.blob not in ports.blobs.names(folder):
            raise NotFound from None
        raise


@idempotent(Scope.ADMIN, keeps=of_record(SrlHead), claims=True)
def regenerate(ports: Ports, caller: Caller, keep: Keep[SrlHead]) -> SrlHead:
    """Publish the next SRL (SRL-13). Raises `DataCorrupt`, `Unavailable`."""
    return publication.publish(ports, caller, extra_changes=keep)


@operation(Scope.ADMIN, Scope.READ_ONLY, Scope.REVOKER, Scope.AUDITOR)
def page(ports: Ports, caller: Caller, *, before: str | None, limit: int) -> Page[SrlVersionRecord]:
    """Return a page of the tenant's SRLs of the last 30 days, without a total (SRL-22).

    Raises `DataCorrupt`, `Unavailable`.
    """
    alive = ItemFilter(alive_at=int(ports.now().timestamp()))
    rows = ports.store.query(
        model.versions(caller.tenant_id),
        before=before,
        newest_first=True,
        limit=limit + 1,
        where=alive,
    )
    versions = list(rows)
    shown = versions[:limit]
    entries = [SrlVersionRecord.from_item(row.item) for row in shown]
    return Page(entries, None, shown[-1].sk if len(versions) > limit else None)


@operation(Scope.ADMIN)
def take(ports: Ports, caller: Caller) -> None:
    """Take the cost of a publication from the tenant's bucket. Raises `RateLimited`.

    This bucket is separate from the bucket for requests, and the scheduler does not use it. The
    publication is allowed if the bucket cannot be read.
    """
    count = in_force.read_srl_head(ports, caller.tenant_id).count
    cost = min(BURST, _LEAST + count // _WARRANTS_A_TOKEN)
    allowance.take(ports, caller, BucketPurpose.PUBLICATIONS, cost)


@dataclass(frozen=True, slots=True)
class ListStatus:
    """The current SRL, its pending changes, and the time by which the next SRL is due.

    `feed_sequence` is the newest sequence of the feed, or None before the first entry.
    """

    head: SrlHead
    feed_sequence: int | None
    pending: UnlistedChanges
    next_due_at: datetime


@operation(Scope.ADMIN, Scope.READ_ONLY, Scope.REVOKER, Scope.AUDITOR)
def read(ports: Ports, caller: Caller) -> ListStatus:
    """Return the status of the tenant's SRL (SRL-21). Raises `DataCorrupt`, `Unavailable`."""
    head, newest, waiting = unpublished.read_unlisted_changes(ports, caller.tenant_id)
    sequence = None if newest is None else newest.sequence
    due_at = due_by(head, waiting.oldest_at, ports.now())
    return ListStatus(head, sequence, waiting, due_at)
