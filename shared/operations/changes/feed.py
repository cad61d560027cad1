"""Read the feed: the pages that authorizers poll, and the base for a new client (POLL-1)."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from shared.authorizer.formats.wire import FeedEntry
from shared.errors import DataCorrupt, NotFound
from shared.model import feed as model
from shared.model.callers import Caller, Scope
from shared.model.feed import FeedHead, StoredEntry
from shared.model.lists.head import SrlHead, StoredBody, history_address, sha256_of
from shared.operations.base.operation import operation, reread
from shared.operations.lists import in_force, unpublished
from shared.operations.lists.unpublished import BacklogSnapshot
from shared.ports import Ports

# The most bytes of entries in a response, as base64 in JSON. The whole response is at most 4 MiB.
ENTRIES_BYTES_MAX: Final = 4 * 2**20 - 8 * 2**10

_NO_FEED: Final = "The tenant has no feed yet. The next SRL starts it; retry in a minute."

_GONE: Final = "There is no base of this version, or it was removed; poll the feed for the newest."


class FeedPage(NamedTuple):
    """A feed head, and consecutive encoded entries that end at the head."""

    head: FeedHead
    entries: list[bytes]


@operation(Scope.ADMIN, Scope.AUTHORIZER, Scope.AUDITOR)
def news(
    ports: Ports,
    caller: Caller,
    *,
    after_sequence: int | None = None,
    known_head: FeedHead | None = None,
) -> FeedPage:
    """Return the feed head and the entries after `after_sequence`, with one query.

    If `known_head` has this sequence, it is returned without a read.

    Returns the entries after the base instead in these cases:

    - `after_sequence` is None.
    - An entry after it was removed.
    - The base covers a discontinuity after it.
    - The entries do not fit.

    If even the entries after the base do not fit, only the newest of them are returned. Raises
    `NotFound` if there is no feed yet; `DataCorrupt`, `Unavailable`.
    """
    if known_head is not None and after_sequence == known_head.sequence:
        return FeedPage(known_head, [])
    return reread(lambda: _read_page(ports, caller.tenant_id, after_sequence))


def _read_page(ports: Ports, tenant_id: str, after_sequence: int | None) -> FeedPage:
    bound = None if after_sequence is None else model.entry_sk(after_sequence)
    # The feed head sorts after all entries, so it comes first.
    rows = ports.store.query(model.feed_partition(tenant_id), after=bound, newest_first=True)
    first = next(rows, None)
    if first is None or first.sk != model.HEAD:
        raise NotFound(_NO_FEED)
    newest = FeedHead.from_item(first.item)
    base = newest.base.sequence
    start = (
        base
        if after_sequence is None or after_sequence < newest.broke_at <= base
        else after_sequence
    )
    # The entries from the newest down to the entry after `start`, as far as they fit.
    entries, size = list[bytes](), 0
    for sequence in range(newest.sequence, start, -1):
        sk = model.entry_sk(sequence)
        # Skips entries that were written after the feed head was read.
        row = next((row for row in rows if row.sk <= sk), None)
        entry = StoredEntry.from_item(row.item).entry if row and row.sk == sk else None
        if entry is None:
            # After a restore, the sequence jumps before a discontinuity that no base covers yet.
            is_jump = entries[-1:] == [FeedEntry(sequence + 1).encode()]
            if sequence > newest.base.sequence and not is_jump:
                raise DataCorrupt(f"feed entry {sequence} is missing")
            # An older entry was removed.
            break
        size += -(-len(entry) // 3) * 4 + len('"",')
        if size > ENTRIES_BYTES_MAX:
            break
        entries.append(entry)
    if start < newest.sequence - len(entries) < base:
        # The entries do not reach back to the start, so entries that the base covers are useless.
        del entries[newest.sequence - base :]
    return FeedPage(newest, entries[::-1])


class StoredBase(NamedTuple):
    """The stored payload of an SRL, in gzip."""

    form: StoredBody
    is_in_force: bool


@operation(Scope.ADMIN, Scope.AUTHORIZER, Scope.AUDITOR)
def base(ports: Ports, caller: Caller, *, version: int) -> StoredBase:
    """Return the SRL of this version as a base.

    Raises `NotFound` if the SRL never existed or was removed; `DataCorrupt`, `Unavailable`.
    """
    newest = in_force.read_srl_head(ports, caller.tenant_id)
    listed = newest
    if version != newest.version:
        item = ports.store.get(history_address(caller.tenant_id, version))
        listed = newest if item is None else SrlHead.from_item(item)
    if listed.version != version:
        raise NotFound(_GONE)
    return StoredBase(StoredBody(listed.base, listed.base_size), listed is newest)


@operation(Scope.ADMIN, Scope.AUTHORIZER, Scope.AUDITOR)
def base_body(ports: Ports, _caller: Caller, *, of: StoredBase) -> bytes:
    """Read a base and check its hash.

    Raises `NotFound` if it was removed; `DataCorrupt`, `Unavailable`.
    """
    with _gone_if_old(of):
        return in_force.read_blob(ports, of.form.blob)


@operation(Scope.ADMIN, Scope.AUTHORIZER, Scope.AUDITOR)
def base_file(ports: Ports, _caller: Caller, *, of: StoredBase) -> Path | None:
    """Return the file of a base after a check of its hash, or None if the store has no files.

    Raises `NotFound` if it was removed; `DataCorrupt`, `Unavailable`.
    """
    with _gone_if_old(of):
        return ports.blobs.get_file(of.form.blob, sha256=sha256_of(of.form.blob))


@contextmanager
def _gone_if_old(of: StoredBase) -> Iterator[None]:
    """Raise `NotFound` if the blob of an old SRL is missing.

    A missing blob of the current SRL raises `DataCorrupt`.
    """
    try:
        yield
    except DataCorrupt:
        if of.is_in_force:
            raise
        raise NotFound(_GONE) from None


@operation(Scope.ADMIN, Scope.AUTHORIZER, Scope.REVOKER, Scope.AUDITOR)
def look(ports: Ports, caller: Caller) -> BacklogSnapshot:
    """Read the backlog of the tenant's feed. Raises `DataCorrupt`, `Unavailable`."""
    return unpublished.read_backlog(ports, caller.tenant_id)
