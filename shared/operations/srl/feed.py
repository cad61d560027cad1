"""Publishing the feed, in an order that loses no change (docs/adr/0046).

1. read the marks         2. read the head           3. look at the records
4. write the next entry and the head, expecting the head that was read
5. remove the marks

If it stops at any point, the worst is that the next entry states the same again.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

from shared.authorizer.wire import Entry
from shared.model import feed as model
from shared.model import revocations
from shared.model.feed import FeedHead
from shared.model.items import Address
from shared.model.revocations import RevokedWarrant
from shared.model.srl.schedule import SignersMark
from shared.model.warrants import left_behind
from shared.operations.rules import operation, tenants
from shared.operations.rules.operation import settle
from shared.operations.rules.verdicts import verdicts
from shared.operations.srl import feed_storage, marks
from shared.operations.srl.feed_storage import Covered
from shared.operations.srl.signed import signed_by
from shared.ports import Ports

# More warrants than this, of a revoked key or found by a rebuild, are published by a list.
INLINE_MAX: Final = 20_000

# How often marks are read again that could not be removed, because a write is in flight.
_TRIES: Final = 3


class Published(NamedTuple):
    """The head after a publication of the feed, and how many entries were written."""

    head: FeedHead
    entries: int = 0


class _Found(NamedTuple):
    """The revoked warrants of some, with their ends; None if an end is not known.

    `own` have a revocation of their own, not only of the key that signed them.
    """

    ends: Mapping[str, datetime | None]
    own: frozenset[str]


def publish(ports: Ports, tenant_id: str, *, also: Collection[str] = ()) -> Published | None:
    """Publish entries for all warrants with a mark, and for those in `also` (FEED-4).

    Returns None if the tenant has no feed yet: its next list begins it. Raises `Corrupt`,
    `Unavailable`; what was not published keeps its mark.
    """
    entries, tries = 0, 0
    while True:
        read_at = ports.now()
        (marked, are_all), of_signers = ports.gather(
            lambda: marks.set_on_warrants(ports, tenant_id, limit=model.ENTRY_MAX),
            lambda: marks.of_revoked_signers(ports, tenant_id),
        )
        # After the marks: this head then covers what another process states and unmarks meanwhile.
        newest = feed_storage.head(ports, tenant_id)
        if newest is None:
            return None
        extra = {*also, *_signed_ids(ports, tenant_id, of_signers.values())}
        moments = [each.set_at or read_at for each in marked.values()]
        moments += [each.set_at or read_at for each in of_signers.values()]
        covered = Covered(min([read_at, *moments]), read_at if are_all else None)
        heads, own = _stated(ports, tenant_id, marked, extra, covered)
        newest, entries, also = [newest, *heads][-1], entries + len(heads), ()
        left = marks.clear(ports, tenant_id, marked, revoked=own)
        marks.clear_signers(ports, of_signers)
        tries += left > 0
        if tries == _TRIES or (are_all and not left):
            return Published(newest, entries)
        if left:
            # They were set again, or their change is visible only in part.
            operation.wait_for_writes()


def break_off(
    ports: Ports, tenant_id: str, *, above: int | None = None, covered: Covered | None = None
) -> FeedHead:
    """Publish a break: clients continue with the next list, which is made from all records.

    `above` is given after a restore: the highest sequence that is known to be published. The new
    one then exceeds it by far. `covered` is what the break stands for. Raises `Corrupt` if the
    tenant has no feed; `Unavailable`.
    """

    def attempt() -> FeedHead:
        facts = feed_storage.facts(ports, tenant_id)
        sequence = facts.head.sequence + 1
        if above is not None:
            sequence = max(facts.head.sequence, above) + model.LEAP
        return feed_storage.append(ports, facts, Entry(sequence), {}, covered)

    return settle(attempt)


def _stated(
    ports: Ports,
    tenant_id: str,
    marked: Iterable[Address],
    extra: Collection[str],
    covered: Covered,
) -> tuple[list[FeedHead], set[str]]:
    """Write entries for these warrants; return the heads, and the warrants revoked by themselves.

    If there are too many in `extra`, a break is written for them. `covered` is what the last of
    the entries covers with those before it.
    """
    heads, own = list[FeedHead](), set[str]()
    if len(extra) > INLINE_MAX:
        heads, extra = [break_off(ports, tenant_id, covered=Covered(covered.since))], ()
    ids = list(dict.fromkeys([*(address.sk for address in marked), *extra]))
    for start in range(0, len(ids), model.ENTRY_MAX):
        part, rest = ids[start : start + model.ENTRY_MAX], ids[start + model.ENTRY_MAX :]
        so_far = Covered(covered.since) if rest else covered
        written, found = settle(partial(_state, ports, tenant_id, part, so_far))
        heads.append(written)
        own |= found.own
    return heads, own


def _signed_ids(ports: Ports, tenant_id: str, of_signers: Iterable[SignersMark]) -> list[str]:
    """Return what newly revoked signers signed; more than `INLINE_MAX` if that is too much."""
    revoked = [signer for mark in of_signers for signer in mark.signers]
    if not revoked:
        return []
    since = ports.now() - tenants.settings(ports, tenant_id).srl_ttl
    found = signed_by(ports, tenant_id, revoked, since=since)
    return [warrant_id for warrant_id, _ in islice(found, INLINE_MAX + 1)]


def _state(
    ports: Ports, tenant_id: str, ids: Collection[str], covered: Covered
) -> tuple[FeedHead, _Found]:
    """Write the entry that says of each of these warrants whether it is revoked, or a break."""
    # The head first: if the records change after they were read, another entry may follow this
    # one, but none may come before it.
    facts = feed_storage.facts(ports, tenant_id)
    found = _found(ports, tenant_id, ids)
    if facts.is_left_behind:
        broken = Entry(facts.head.sequence + 1)
        return feed_storage.append(ports, facts, broken, {}, covered), found
    ttl, now = facts.settings.srl_ttl, ports.now()
    ends = {each: at for each, at in found.ends.items() if not left_behind(at, now, ttl=ttl)}
    removed = tuple(sorted(each for each in ids if each not in ends))
    entry = Entry(facts.head.sequence + 1, tuple(sorted(ends)), removed)
    return feed_storage.append(ports, facts, entry, ends, covered), found


def _found(ports: Ports, tenant_id: str, ids: Collection[str]) -> _Found:
    found = verdicts(ports, tenant_id, ids)
    ends = {each: verdict.ends_at for each, verdict in found.items() if verdict.revoked}
    # A warrant that its shard has is revoked, even if its own record is damaged or not yet visible.
    shards = {
        revocations.shard_of(tenant_id, each).address(each): each
        for each in ids
        if each not in ends
    }
    for address, item in ports.store.get_many(shards).items():
        ends[shards[address]] = RevokedWarrant.from_item(item).ends_at
    return _Found(ends, frozenset(each for each in ends if not found[each].by_key))
