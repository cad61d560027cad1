"""Changes that are recorded, and not in the list in force yet (SRL-21)."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple

from shared.model import feed as model
from shared.model.feed import FeedHead, StoredEntry
from shared.model.lists.head import ListHead
from shared.model.lists.schedule import Mark, SignersMark
from shared.operations.lists import in_force, marks
from shared.ports import Ports

# The most marks of a partition, and the most entries of the feed, that are read: a caller asks
# every few seconds.
_MARKS_MAX: Final = 100
_ENTRIES_MAX: Final = 1_000


class Pending(NamedTuple):
    """How many warrants were revoked, or are not revoked any more, since the list was made.

    If `is_truncated` is true there may be more. `oldest_at` is since when the first of them waits,
    None if none waits or if that is not known.
    """

    warrants: int
    is_truncated: bool
    oldest_at: datetime | None


def read(ports: Ports, tenant_id: str) -> tuple[ListHead, FeedHead | None, Pending]:
    """Return the heads of the list in force and of the feed, and what that list lacks.

    Changes during this read may be missing; earlier ones are not. Raises `Corrupt`, `Unavailable`.
    """
    # Before the feed: a warrant that has lost its mark meanwhile is in the feed then.
    (marked, are_all), of_signers = ports.gather(
        lambda: marks.set_on_warrants(ports, tenant_id, limit=_MARKS_MAX),
        lambda: marks.set_on_signers(ports, tenant_id, limit=_MARKS_MAX),
    )
    newest, head = ports.gather(
        lambda: in_force.feed_head(ports, tenant_id), lambda: in_force.head(ports, tenant_id)
    )
    unlisted, are_all_read = _unlisted(ports, tenant_id, newest, head)
    told = [each.opened()[0] for each in unlisted]
    warrants = {each.sk for each in marked}.union(
        *(each.revoked for each in told), *(each.removed for each in told)
    )
    # A break names no warrants, and a mark on signers does not say what they signed.
    names_all = not of_signers and not any(each.is_break for each in told)
    is_truncated = not (are_all and are_all_read and names_all)
    count = max(len(warrants), int(is_truncated))
    oldest = _oldest([*marked.values(), *of_signers], unlisted)
    return head, newest, Pending(count, is_truncated, oldest)


def _unlisted(
    ports: Ports, tenant_id: str, newest: FeedHead | None, head: ListHead
) -> tuple[list[StoredEntry], bool]:
    """Return the entries that the list does not cover, and whether these are all.

    They are counted from the list that is shown, whichever the head of the feed names.
    """
    if newest is None:
        return [], True
    # Releases without a feed do not say what their lists cover.
    covered = newest.base.sequence if head.sequence is None else head.sequence
    wanted = max(newest.sequence - covered, 0)
    if not wanted:
        return [], True
    rows = ports.store.query(
        model.feed(tenant_id),
        after=model.entry_sk(covered),
        before=model.entry_sk(newest.sequence + 1),
        limit=_ENTRIES_MAX,
    )
    found = [StoredEntry.from_item(row.item) for row in rows]
    return found, len(found) == wanted


def _oldest(
    marked: Sequence[Mark | SignersMark], unlisted: Sequence[StoredEntry]
) -> datetime | None:
    """Return since when the first change waits: its mark or its entry has the moment."""
    moments = [each.set_at for each in marked if each.set_at is not None]
    return min([*moments, *(each.issued_at for each in unlisted[:1])], default=None)
