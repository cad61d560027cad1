"""Append entries to the feed of a tenant (FEED-4, docs/adr/12)."""

import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from datetime import datetime
from itertools import count, islice
from typing import Final

from shared import logs
from shared.authorizer.formats.wire import FeedEntry
from shared.capabilities import INSTALLED
from shared.errors import DataCorrupt
from shared.model import feed, revocations
from shared.model.items import Address
from shared.model.revocations import RevokedWarrant
from shared.operations.base import operation
from shared.operations.base.operation import settle
from shared.operations.lists import decisions, in_force, marks, records, storage, verdicts
from shared.operations.lists.decisions import PendingEntry, PublicationFacts
from shared.operations.lists.storage import Coverage, SeedCache
from shared.ports import Ports

_log = logging.getLogger(__name__)

# Attempts to remove marks while the write of their change is still in flight.
_ATTEMPTS: Final = 3


class FeedWriter:
    """Appends entries to the feed of a tenant during one publication.

    `facts` always contain the newest heads that the writer read or wrote.
    """

    def __init__(self, ports: Ports, facts: PublicationFacts) -> None:
        self.ports, self.facts, self.seed_cache = ports, facts, SeedCache(ports)

    def publish_pending(self) -> None:
        """Append entries for all outbox marks, and remove the marks.

        Marks on signers stay if the feed head cannot name the key bundle. Clients can then detect
        the age of their bundle. Raises `DataCorrupt`, `Unavailable`.
        """
        signer_marks = self.append_pending()
        if not signer_marks:
            return
        tenant_id = self.facts.tenant_id
        try:
            is_new = INSTALLED.publish_references(self.ports, self.seed_cache, tenant_id)
        except DataCorrupt:
            _log.exception("cannot publish the signing keys of tenant %s", tenant_id)
            return
        marks.remove_signer_marks(self.ports, signer_marks)
        if is_new:
            self.facts = in_force.refresh_heads(self.ports, self.facts)

    def append_pending(self, unnamed_marks: Collection[Address] = ()) -> frozenset[Address]:
        """Append entries for all marks except `unnamed_marks`; remove the marks on warrants.

        Returns the marks on signers, which stay until the feed head names the key bundle. A mark
        on a warrant stays if it was set again, or if its change is only partly visible. In that
        case all marks are read again. Raises `DataCorrupt`, `Unavailable`.
        """
        attempts, signer_marks = 0, frozenset[Address]()
        while self.facts.feed_head is not None:
            pending = self.facts.pending
            ids = [address.sk for address in pending.warrants]
            moments = [mark.set_at for mark in pending.warrants.values()]
            moments += [mark.set_at for mark in pending.signers.values()]
            known = [each for each in moments if each is not None]
            since = min([pending.read_at, *known])
            keys = tuple(key for mark in pending.signers.values() for key in mark.changes)
            signed_ids = self._read_ids_of_revoked_signers()
            if len(signed_ids) > decisions.INLINE_MAX:
                # Too many warrants for entries are published by the next SRL.
                self.append_discontinuity(Coverage(since, changes=keys))
            else:
                ids += signed_ids
            until = pending.read_at if pending.is_complete else None
            revoked_ids = self.append_statuses(ids, Coverage(since, until, keys))
            left = marks.remove_published(
                self.ports, self.facts.tenant_id, pending.warrants, ids=revoked_ids
            )
            self._log_waits(known)
            signer_marks |= pending.signers.keys()
            attempts += left > 0
            if attempts == _ATTEMPTS or (pending.is_complete and not left):
                break
            if left:
                operation.wait_for_writes()
            pending, feed_head = in_force.read_marks(self.ports, self.facts.tenant_id)
            pending = pending.without({*unnamed_marks, *signer_marks})
            self.facts = replace(self.facts, pending=pending, feed_head=feed_head)
        return signer_marks

    def append_statuses(self, ids: Iterable[str], coverage: Coverage) -> set[str]:
        """Append entries with the revocation status of each warrant.

        Returns the warrants that are revoked directly, not only by their key. `coverage` applies
        to the last entry together with the entries before it. Raises `DataCorrupt`,
        `SeedUnavailable`, `Unavailable`.
        """
        revoked_ids, rest = set[str](), list(dict.fromkeys(ids))
        while rest:
            part, rest = rest[: feed.ENTRY_MAX], rest[feed.ENTRY_MAX :]
            revoked_ids |= self._append_status_entry(
                part, Coverage(coverage.since) if rest else coverage
            )
        return revoked_ids

    def append_discontinuity(
        self, coverage: Coverage | None = None, *, restored_sequence: int | None = None
    ) -> None:
        """Append a discontinuity. Clients reload from the next SRL, a full rebuild.

        After a restore, `restored_sequence` is the highest sequence known to be published. The new
        sequence then jumps far above it. `coverage` describes the changes that the discontinuity
        replaces. Raises `DataCorrupt` if the tenant has no feed; `SeedUnavailable`, `Unavailable`.
        """

        def create_entry(facts: PublicationFacts) -> PendingEntry:
            return PendingEntry(FeedEntry(decisions.next_sequence(facts, restored_sequence)), [])

        self._append(create_entry, coverage)

    def _append_status_entry(self, ids: Collection[str], coverage: Coverage) -> set[str]:
        """Append one entry with the revocation status of these warrants, or a discontinuity."""
        directly_revoked = set[str]()

        def create_entry(facts: PublicationFacts) -> PendingEntry:
            # The facts contain the feed head, which was read before these records. If a record
            # changes after this read, its entry can only follow this one.
            nonlocal directly_revoked
            ends, directly_revoked = _read_revoked_ends(self.ports, facts.tenant_id, ids)
            return decisions.next_entry(facts, ids, ends, self.ports.now())

        self._append(create_entry, coverage)
        return directly_revoked

    def _append(
        self, create_entry: Callable[[PublicationFacts], PendingEntry], coverage: Coverage | None
    ) -> None:
        """Append an entry. After a conflict, read the heads and create the entry again."""
        attempts = count()

        def attempt() -> PublicationFacts:
            facts = self.facts
            if next(attempts) > 0:
                facts = in_force.refresh_heads(self.ports, facts)
            entry = create_entry(facts)
            return storage.append_entry(self.ports, self.seed_cache, facts, entry, coverage)

        self.facts = settle(attempt)

    def _read_ids_of_revoked_signers(self) -> list[str]:
        """Return the warrants that newly revoked signers signed.

        Returns at most `INLINE_MAX` + 1 warrants. More than `INLINE_MAX` are too many for entries.
        """
        facts = self.facts
        revoked = [signer for mark in facts.pending.signers.values() for signer in mark.signers]
        if not revoked:
            return []
        since = self.ports.now() - facts.settings.srl_ttl
        signed = records.read_signed_by(self.ports, facts.tenant_id, revoked, since=since)
        return [warrant_id for warrant_id, _ in islice(signed, decisions.INLINE_MAX + 1)]

    def _log_waits(self, moments: Iterable[datetime]) -> None:
        """Log how long the changes of these times waited for their publication."""
        now = self.ports.now()
        waits = [max((now - each).total_seconds(), 0.0) for each in moments]
        if waits:
            name = "ChangePublishedSeconds"
            extra = logs.fields(
                tenant_id=self.facts.tenant_id, metrics={name: max(waits)}, samples={name: waits}
            )
            _log.info("changes", extra=extra)


def _read_revoked_ends(
    ports: Ports, tenant_id: str, ids: Collection[str]
) -> tuple[dict[str, datetime | None], set[str]]:
    """Return the expiries of the revoked warrants.

    Also returns the warrants that are revoked directly, not only by their key.
    """
    statuses = verdicts.read_statuses(ports, tenant_id, ids)
    ends = {each: status.ends_at for each, status in statuses.items() if status.revoked}
    # A warrant in its shard is revoked, even if its own record is damaged or not visible yet.
    shards = {
        revocations.shard_of(tenant_id, each).address(each): each
        for each in ids
        if each not in ends
    }
    for address, item in ports.store.get_many(shards).items() if shards else ():
        ends[shards[address]] = RevokedWarrant.from_item(item).ends_at
    return ends, {each for each in ends if not statuses[each].by_key}
