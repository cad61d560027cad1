"""Publishing the feed and the list, in an order that loses no revocation (docs/adr/09).

1. read the facts (`in_force`)
2. state in the feed what has a mark, in one write with its head; remove the marks
3. decide whether a list is due (`decisions`)
4. read the list in force and its state; remove old blobs
5. make the next list, sign and check it; store its state, then the list
6. move the heads of list and feed, in one write that expects what was read
7. remove old entries of the feed; note which marks on the tenant were seen

A fault in the list must not delay the feed, so each has a write of its own. If it stops at any
point, the old list stays in force; an entry may be stated twice, and an unused blob may be left.
"""

import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Final, NamedTuple, TypeVar

from shared import logs
from shared.authorizer.formats import wire
from shared.authorizer.formats.wire import FeedEntry
from shared.errors import Corrupt, ExpectationLost, Unavailable
from shared.model import feed, revocations, times
from shared.model.audit.audit_log import Action
from shared.model.callers import Caller
from shared.model.feed import FeedHead
from shared.model.items import Address
from shared.model.lists import schedule as schedule_model
from shared.model.lists.content import (
    Content,
    ListState,
    Payload,
    PublishedVersion,
    version_address,
)
from shared.model.lists.head import ListHead, head_address
from shared.model.lists.schedule import Turn
from shared.model.lists.signers import ListSigner
from shared.model.revocations import RevokedWarrant
from shared.model.tenants import TenantSettings
from shared.operations.base import audit, operation
from shared.operations.base.operation import reread, settle
from shared.operations.base.seals import SeedLost
from shared.operations.lists import (
    decisions,
    in_force,
    marks,
    published_keys,
    records,
    schedule,
    storage,
    verdicts,
)
from shared.operations.lists.decisions import Facts, Issue, Plan, Prior, Told
from shared.operations.lists.storage import Covered, Pen
from shared.ports import Ports
from shared.ports.store import At, Change, Check, Delete, Expect, Put

T = TypeVar("T")

_log = logging.getLogger(__name__)

# How often the head of the feed is read again because an entry was published meanwhile.
_TRIES: Final = 20

_WAITED: Final = "ChangePublishedSeconds"

# How often marks are read again that could not be removed, because a write is in flight.
_LOOKS: Final = 3


class Above(NamedTuple):
    """The highest version of a list, and of the feed the highest sequence, that were published."""

    version: int
    sequence: int


class PublishedFeed(NamedTuple):
    """The head after a publication of the feed, and how many entries were written.

    `facts` are those of the entries, None if no change had a mark, and `pen` has their seed open.
    `unnamed` are the marks on signers that `name_keys` has yet to remove.
    """

    head: FeedHead
    entries: int = 0
    facts: Facts | None = None
    pen: Pen | None = None
    unnamed: frozenset[Address] = frozenset()

    @property
    def is_whole(self) -> bool:
        """Whether the feed has each change that was acknowledged before its publication."""
        return self.facts is None or self.facts.marked.are_all


@dataclass(frozen=True, slots=True)
class Tick:
    """The result of one run: identifiers of published tenants, and errors by tenant identifier."""

    published: list[str] = field(default_factory=list)
    failed: dict[str, Exception] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Next:
    """The facts for the next list. `signer` signs it, and `list_signers` go into its state."""

    facts: Facts
    issue: Issue
    signer: ListSigner
    list_signers: tuple[ListSigner, ...]
    prior: Prior
    above: int | None
    leaps: bool


class _Made(NamedTuple):
    """A list that is stored and not in force yet: what it was made from, and its head."""

    making: _Next
    plan: Plan
    head: ListHead


# --- the feed ---


def publish_feed(
    ports: Ports, tenant_id: str, unnamed: Collection[Address] = ()
) -> PublishedFeed | None:
    """Publish entries for all warrants with a mark (FEED-4). No blob is read or written.

    The feed already covers the marks on signers in `unnamed`. Call `name_keys` with them and with
    the new ones, which are in the result.

    Returns None if the tenant has no feed yet: its next list begins it. Raises `Corrupt`,
    `Unavailable`; a change that was not published keeps its mark.
    """
    marked, newest = in_force.read_marks(ports, tenant_id)
    if newest is None:
        return None
    marked = marked.without(unnamed)
    if not (marked.warrants or marked.signers):
        return PublishedFeed(newest)
    facts = in_force.of_feed(ports, tenant_id, marked, newest)
    facts, new = _append_marked(ports, pen := Pen(ports), facts, unnamed)
    return PublishedFeed(facts.newest or newest, len(facts.own), facts, pen, new)


def name_keys(ports: Ports, tenant_id: str, unnamed: Collection[Address]) -> None:
    """Name the signing keys in the feed, and remove marks on signers that it covers.

    Raises `Corrupt`, `Unavailable`.
    """
    published_keys.name(ports, Pen(ports), tenant_id)
    marks.clear_signers(ports, unnamed)


def caught_up(ports: Ports, pen: Pen, facts: Facts) -> Facts:
    """Publish entries for all marks, and remove the marks. Return the facts after that.

    Marks on signers stay if the feed cannot name the keys. Clients then learn how old their keys
    are. Raises `Corrupt`, `Unavailable`.
    """
    facts, signers = _append_marked(ports, pen, facts)
    if not signers:
        return facts
    try:
        is_new = published_keys.name(ports, pen, facts.tenant_id)
    except Corrupt:
        _log.exception("the signing keys of tenant %s cannot be published", facts.tenant_id)
        return facts
    marks.clear_signers(ports, signers)
    return in_force.with_heads(ports, facts) if is_new else facts


def _append_marked(
    ports: Ports, pen: Pen, facts: Facts, unnamed: Collection[Address] = ()
) -> tuple[Facts, frozenset[Address]]:
    """Publish entries for all marks but `unnamed`, and remove the marks on warrants.

    Return also the marks on signers. A mark stays that is set again, or whose change is visible
    only in part. Then all marks are read again.
    """
    looks, signers = 0, frozenset[Address]()
    while facts.newest is not None:
        facts, revoked = _stated_marks(ports, pen, facts)
        left = marks.clear(ports, facts.tenant_id, facts.marked.warrants, revoked=revoked)
        _report_waits(ports, facts)
        signers |= facts.marked.signers.keys()
        looks += left > 0
        if looks == _LOOKS or (facts.marked.are_all and not left):
            break
        if left:
            operation.wait_for_writes()
        facts = in_force.with_marks(ports, facts)
        facts = replace(facts, marked=facts.marked.without({*unnamed, *signers}))
    return facts, signers


def _report_waits(ports: Ports, facts: Facts) -> None:
    """Log how long each change that an entry states has waited, if that is known."""
    now, marked = ports.now(), facts.marked
    moments = [each.set_at for each in marked.warrants.values()]
    moments += [each.set_at for each in marked.signers.values()]
    waits = [max((now - each).total_seconds(), 0.0) for each in moments if each is not None]
    if waits:
        metrics, gathered = {_WAITED: max(waits)}, {_WAITED: waits}
        extra = logs.fields(tenant_id=facts.tenant_id, metrics=metrics, gathered=gathered)
        _log.info("changes", extra=extra)


def broken_off(
    ports: Ports,
    pen: Pen,
    facts: Facts,
    *,
    above: int | None = None,
    covered: Covered | None = None,
) -> Facts:
    """Publish a break: clients continue with the next list, which is made from all records.

    `above` is given after a restore: the highest sequence that is known to be published. The new
    one then exceeds it by far. `covered` is what the break stands for. Raises `Corrupt` if the
    tenant has no feed; `SeedLost`, `Unavailable`.
    """

    def write(facts: Facts) -> Facts:
        told = Told(FeedEntry(decisions.next_sequence(facts, above)), [])
        return storage.append(ports, pen, facts, told, covered)

    return _settled(ports, facts, write)


def _stated_marks(ports: Ports, pen: Pen, facts: Facts) -> tuple[Facts, set[str]]:
    """Write entries for what is marked; return also which warrants are revoked by themselves."""
    marked = facts.marked
    moments = [each.set_at or marked.read_at for each in marked.warrants.values()]
    moments += [each.set_at or marked.read_at for each in marked.signers.values()]
    since = min([marked.read_at, *moments])
    extra = _signed_ids(ports, facts)
    keys = tuple(each for mark in marked.signers.values() for each in mark.changes)
    if len(extra) > decisions.INLINE_MAX:
        covered = Covered(since, changes=keys)
        facts, extra = broken_off(ports, pen, facts, covered=covered), []
    ids = [address.sk for address in marked.warrants] + extra
    covered = Covered(since, marked.read_at if marked.are_all else None, keys)
    return _stated(ports, pen, facts, ids, covered)


def _signed_ids(ports: Ports, facts: Facts) -> list[str]:
    """Return what newly revoked signers signed; more than `INLINE_MAX` if that is too much."""
    revoked = [signer for mark in facts.marked.signers.values() for signer in mark.signers]
    if not revoked:
        return []
    since = ports.now() - facts.settings.srl_ttl
    found = records.signed_by(ports, facts.tenant_id, revoked, since=since)
    return [warrant_id for warrant_id, _ in islice(found, decisions.INLINE_MAX + 1)]


def _stated(
    ports: Ports, pen: Pen, facts: Facts, ids: Iterable[str], covered: Covered
) -> tuple[Facts, set[str]]:
    """Write entries that say of each warrant whether it is revoked.

    Returns also which are revoked by themselves. `covered` is what the last of the entries covers
    with those before it.
    """
    own, rest = set[str](), list(dict.fromkeys(ids))
    while rest:
        part, rest = rest[: feed.ENTRY_MAX], rest[feed.ENTRY_MAX :]
        so_far = Covered(covered.since) if rest else covered
        facts, found = _settled(ports, facts, partial(_state, ports, pen, part, so_far))
        own |= found
    return facts, own


def _state(
    ports: Ports, pen: Pen, ids: Collection[str], covered: Covered, facts: Facts
) -> tuple[Facts, set[str]]:
    """Write the entry that says of each of these warrants whether it is revoked, or a break."""
    # The facts have the head of the feed: if the records change after they are read here, another
    # entry may follow this one, but none may come before it.
    ends, own = _revoked(ports, facts.tenant_id, ids)
    told = decisions.entry(facts, ids, ends, ports.now())
    return storage.append(ports, pen, facts, told, covered), own


def _revoked(
    ports: Ports, tenant_id: str, ids: Collection[str]
) -> tuple[dict[str, datetime | None], set[str]]:
    """Return the ends of those that are revoked, and which of these are not only by their key."""
    found = verdicts.verdicts(ports, tenant_id, ids)
    ends = {each: verdict.ends_at for each, verdict in found.items() if verdict.revoked}
    # A warrant that its shard has is revoked, even if its own record is damaged or not yet visible.
    shards = {
        revocations.shard_of(tenant_id, each).address(each): each
        for each in ids
        if each not in ends
    }
    for address, item in ports.store.get_many(shards).items() if shards else ():
        ends[shards[address]] = RevokedWarrant.from_item(item).ends_at
    return ends, {each for each in ends if not found[each].by_key}


def _settled(ports: Ports, facts: Facts, write: Callable[[Facts], T]) -> T:
    """Return what `write` returns; if its write loses, read the heads and call it again."""
    known = [facts]
    return settle(lambda: write(known.pop() if known else in_force.with_heads(ports, facts)))


# --- the list ---


def first(ports: Ports, settings: TenantSettings, list_signer: ListSigner) -> list[Change]:
    """Store version 1, an empty list, and return the changes that publish it (SRL-6)."""
    now, pen = times.whole(ports.now()), Pen(ports)
    tenant_id, list_signers = settings.tenant_id, (replace(list_signer, sealed_seed=None),)
    payload = Payload(1, now, now + settings.srl_ttl, [])
    state = ListState(tenant_id, 1, now, list_signers=list_signers)
    signed = storage.sign(pen, list_signer, payload, state)
    head = storage.store(ports, signed, changes=0, sequence=0)
    base = decisions.base(head, 0, wire.first_chain(tenant_id))
    begins = storage.based(pen, None, base, settings, list_signer)
    row = PublishedVersion.of(head, base, Content(), [])
    return [*_writes(tenant_id, head, row, Expect.ABSENT), begins]


def publish_due(ports: Ports, *, until: Callable[[], bool] = lambda: False) -> Tick:
    """Publish for every tenant that is due, in this process; a failure does not stop the others.

    Stops before the next tenant if `until` returns true. Raises `Unavailable` if the due tenants
    cannot be read.
    """
    tick = Tick()
    for tenant_id in schedule.due(ports).tenant_ids:
        if until():
            break
        try:
            if publish_if_due(ports, tenant_id):
                tick.published.append(tenant_id)
        except Exception as error:  # noqa: BLE001 (what stops one tenant must not stop the rest)
            tick.failed[tenant_id] = error
    return tick


def publish_if_due(ports: Ports, tenant_id: str) -> bool:
    """Publish a tenant's feed, and its list if it is due; return whether a list was published.

    Repeated and concurrent calls are harmless. Raises `Corrupt`, `Unavailable` if it fails.
    """
    facts, is_published = settle(partial(_if_due, ports, tenant_id))
    marks.see(ports, facts.on_tenant())
    return is_published


def publish(
    ports: Ports,
    caller: Caller,
    *,
    above: Above | None = None,
    anew: bool = False,
    tidies: bool = False,
    beside: Callable[[ListHead], Iterable[Change]] = lambda _: (),
) -> ListHead:
    """Publish the next version, whether or not anything changed (SRL-6); return its head.

    `above` is given after a restore. If it is given, the list is made from all records; if `anew`
    is true, it is compared with them. If `tidies` is true, old entries of the feed
    are removed afterwards, and warrants that ended long ago are moved.
    `beside` returns further changes for the write that replaces the head.

    Raises `ExpectationLost` if another publication or a rotation of the list signer came first
    (see `settle`), `Unavailable` if a port does not answer, `Corrupt` if the list would be wrong.
    In each case the old list stays in force.
    """
    pen, read = Pen(ports), in_force.read_facts(ports, caller.tenant_id)
    facts = read
    if above is not None and facts.newest is not None:
        facts = broken_off(ports, pen, facts, above=above.sequence)
    making = _next(ports, read, caught_up(ports, pen, facts), above=above)
    made = _published(ports, pen, caller, making, anew=anew, beside=beside)
    if tidies:
        _tidy(ports, made)
    return made.head


def hand_over(
    ports: Ports,
    caller: Caller,
    head: ListHead,
    list_signer: ListSigner,
    changes: Iterable[Change],
    *,
    leaps: bool = False,
) -> None:
    """Publish the next version, signed by `list_signer`, and apply `changes` in the same write.

    `head` is the head that the caller read; the write expects it. If `leaps` is true, the signer
    before was stolen: the feed breaks in the same write, far above its entries (FEED-7). Raises
    what `publish` raises.
    """
    changes, pen = list(changes), Pen(ports)
    read = in_force.read_facts(ports, caller.tenant_id)
    if read.listed.version != head.version:
        raise ExpectationLost([head_address(caller.tenant_id)])
    try:
        facts = caught_up(ports, pen, read)
    except SeedLost as error:
        facts = read
        _warn_unsigned(error)
    making = _next(ports, read, facts, leaps=leaps)
    stored = in_force.without_seeds(caller.tenant_id, facts.stored_signers(), changes)
    making = replace(making, signer=list_signer, list_signers=stored)
    _move_heads(ports, pen, _made(ports, pen, making), changes)


def _if_due(ports: Ports, tenant_id: str) -> tuple[Facts, bool]:
    """Publish what is due, and return the facts and whether a list was published."""
    pen, read = Pen(ports), in_force.read_facts(ports, tenant_id, sees_tenant=True)
    facts = caught_up(ports, pen, read)
    if facts.own:
        figures = {"FeedCaughtUp": len(facts.own)}
        _log.info("feed", extra=logs.fields(tenant_id=tenant_id, metrics=figures))
    now = ports.now()
    anew = decisions.is_anew(facts, now)
    if not (anew or decisions.is_due(facts, now)):
        return facts, False
    caller = Caller.inside(tenant_id, name="schedule", handle=facts.settings.handle)
    made = _published(ports, pen, caller, _next(ports, read, facts), anew=anew)
    _tidy(ports, made)
    return facts, True


def _next(
    ports: Ports, read: Facts, facts: Facts, *, above: Above | None = None, leaps: bool = False
) -> _Next:
    """Return what the next list is made from. `read` are the facts before the feed was caught up.

    Raises `ExpectationLost` if they have changed since, apart from the feed.
    """
    _check_unmoved(read, facts)
    issue = decisions.issue(facts, ports.now(), above=above.version if above else 0)
    # Old lists must not use the space of the next one, whether or not it is published.
    beside = storage.discards(ports, facts.tenant_id, facts.listed)
    return _Next(
        facts,
        issue,
        facts.signer,
        in_force.without_seeds(facts.tenant_id, facts.stored_signers()),
        in_force.prior(ports, facts, beside),
        above.sequence if above else None,
        leaps,
    )


def _check_unmoved(before: Facts, after: Facts) -> None:
    """Raise `ExpectationLost` if a list or another signer came between."""
    if (before.listed.version, before.signer.id, before.signer.version) != (
        after.listed.version,
        after.signer.id,
        after.signer.version,
    ):
        raise ExpectationLost([head_address(before.tenant_id)])


def _published(
    ports: Ports,
    pen: Pen,
    caller: Caller,
    making: _Next,
    *,
    anew: bool = False,
    beside: Callable[[ListHead], Iterable[Change]] = lambda _: (),
) -> _Made:
    made = _made(ports, pen, making, anew=anew)
    facts, head = made.making.facts, made.head
    action, resource = Action.SRL_REGENERATE, f"srl/{head.version}"
    entry = audit.entry(ports, caller, action, resource, settings=facts.settings, count=head.count)
    unchanged = Check(facts.signer.address, At(facts.signer.version))
    _move_heads(ports, pen, made, [unchanged, entry, *beside(head)])
    return made


def _made(ports: Ports, pen: Pen, making: _Next, *, anew: bool = False) -> _Made:
    """Make and store the next list: from the list in force if possible, else from all records.

    If `anew` is true, or if its issue says so, it is compared with all records.
    """
    making, plan = _planned(ports, pen, making, anew=anew)
    try:
        return _stored(ports, pen, making, plan)
    except Corrupt as error:
        _log.warning("the list before cannot be followed (%s); reading all records instead", error)
    return _stored(ports, pen, *_of_all_records(ports, pen, making))


def _planned(ports: Ports, pen: Pen, making: _Next, *, anew: bool) -> tuple[_Next, Plan]:
    """Return the content of the next list, which the feed is brought up to date with (SRL-12)."""
    if anew:
        # Their counter may have been visible before them when the last list was made.
        ended = in_force.read_ended(ports, making.facts)
        making = replace(making, prior=making.prior._replace(ended=ended))
    making, is_exact = _agreed(ports, pen, making, decisions.leaving(making.prior, making.issue))
    plan = decisions.followed(making.facts, making.prior, ports.now())
    if plan is None:
        return _of_all_records(ports, pen, making)
    if not (anew or decisions.is_compared(making.facts.listed, making.issue)):
        return making, replace(plan, is_exact=is_exact)
    recorded = reread(partial(_recorded, ports, making))
    if differences := plan.content.differences(recorded.content):
        making, is_exact = _agreed(ports, pen, making, differences)
        plan = decisions.followed(making.facts, making.prior, ports.now())
        if plan is None:
            return _of_all_records(ports, pen, making)
    return making, replace(plan, misplaced=recorded.misplaced, is_exact=is_exact)


def _agreed(ports: Ports, pen: Pen, making: _Next, ids: Collection[str]) -> tuple[_Next, bool]:
    """State in the feed what the list will say of these; false if no entry can be signed."""
    if not ids:
        return making, True
    covered = Covered(making.facts.marked.read_at)
    try:
        if len(ids) > decisions.INLINE_MAX:
            facts = broken_off(ports, pen, making.facts, covered=covered)
        else:
            facts, _ = _stated(ports, pen, making.facts, ids, covered)
    except SeedLost as error:
        _warn_unsigned(error)
        return making, False
    _check_unmoved(making.facts, facts)
    told = in_force.told(ports, facts, making.prior.told or ())
    return replace(making, facts=facts, prior=making.prior._replace(told=told)), True


def _warn_unsigned(error: SeedLost) -> None:
    # Another signer is about to replace this one. It publishes what has a mark.
    _log.warning("no entry can be signed (%s); the list covers the feed as it is", error)


def _of_all_records(ports: Ports, pen: Pen, making: _Next) -> tuple[_Next, Plan]:
    """Return the content that all records give, with a break of the feed before it.

    A tenant without a feed begins one, after a restore above the one that it may have had.
    """
    facts, is_exact = making.facts, True
    newest = facts.newest
    is_broken = newest and decisions.is_broken_since(newest, facts.listed)
    if newest and (not is_broken or newest.is_ahead(ports.now())):
        try:
            facts = broken_off(ports, pen, facts)
        except SeedLost:
            is_exact = False
    _check_unmoved(making.facts, facts)
    # After the head of the feed: a later change is in an entry that the list does not cover.
    recorded = reread(lambda: _recorded(ports, making))
    revoked_signers, tombstones = in_force.read_ended(ports, facts)
    # A feed that lost its head may still have entries.
    left = in_force.last_entry(ports, facts.tenant_id) if facts.newest is None else None
    sequence, chain = decisions.begun(facts, making.above, left)
    content = replace(recorded.content, signers=revoked_signers)
    plan = Plan(content, tombstones, sequence, chain, recorded.misplaced, is_exact)
    return replace(making, facts=facts), plan


def _recorded(ports: Ports, making: _Next) -> records.Recorded:
    issue, listed = making.issue, making.prior.revoked_ids or []
    return records.for_list(
        ports, making.facts.tenant_id, listed, at=issue.issued_at, ttl=issue.lifetime
    )


def _stored(ports: Ports, pen: Pen, making: _Next, plan: Plan) -> _Made:
    """Sign and store the list with its state."""
    plan = plan.leapt(ports.now()) if making.leaps else plan
    issue, listed, before = making.issue, plan.content, making.facts.listed
    state = ListState(
        making.facts.tenant_id,
        issue.version,
        issue.issued_at,
        listed.ends,
        listed.signers,
        making.list_signers,
        plan.tombstones,
        plan.sequence,
        making.prior.log,
    )
    payload = Payload(issue.version, issue.issued_at, issue.expires_at, listed.revoked_ids)
    packs = before.is_packed_next(ports.now())
    signed = storage.sign(pen, making.signer, payload, state, packs=packs)
    # Without a sequence, no list follows from this one, and the feed breaks with the next.
    sequence = plan.sequence if plan.is_exact else None
    changes = making.facts.counted().changes
    head = storage.store(ports, signed, changes=changes, sequence=sequence, before=before)
    head = replace(head, packs_until=before.packs_until if packs else None)
    return _Made(making, plan, head)


def _move_heads(ports: Ports, pen: Pen, made: _Made, changes: Iterable[Change]) -> None:
    """Replace the head of the list, and make it the base of the feed, in one write.

    If an entry is published first, only the head of the feed is read and signed again.
    """
    making, plan, head = made
    facts, changes = making.facts, list(changes)
    tenant_id, before, newest = facts.tenant_id, facts.listed, facts.newest
    base = decisions.base(head, plan.sequence, plan.chain)
    row = PublishedVersion.of(head, base, plan.content, making.prior.revoked_ids)
    for _ in range(_TRIES):
        newest = newest and newest.listed(head.issued_at)
        leapt = storage.leapt(ports, tenant_id, newest, plan.leap) if plan.leap else None
        based = storage.based(pen, newest, base, facts.settings, making.signer, leapt)
        try:
            ports.store.write(
                *_writes(tenant_id, head, row, At(before.version)),
                Delete(Turn.after(before, tenant_id).address, Expect.ANYTHING),
                Delete(schedule_model.issue_address(before, tenant_id), Expect.ANYTHING),
                *changes,
                *(leapt.entries if leapt else ()),
                based,
            )
        except ExpectationLost as lost:
            if set(lost.lost) != {based.address}:
                raise
        else:
            return
        newest = in_force.feed_head(ports, tenant_id)
    raise Unavailable("entries of the feed were published during every attempt")


def _tidy(ports: Ports, made: _Made) -> None:
    """Move warrants that ended long ago, and remove old entries of the feed that it covers."""
    making, plan, _ = made
    tenant_id, since = making.facts.tenant_id, making.issue.listed_since
    try:
        if plan.misplaced:
            records.move_ended(ports, tenant_id, plan.misplaced, since=since)
        storage.prune(ports, tenant_id, until=plan.sequence)
    except (Corrupt, Unavailable):
        # The list is published. The next publication does the same again.
        _log.warning("what ended could not be moved, or old entries not removed", exc_info=True)


def _writes(
    tenant_id: str, head: ListHead, row: PublishedVersion, expected: At | Expect
) -> list[Change]:
    turn, item = Turn.after(head, tenant_id), head.to_item()
    return [
        Put(turn.address, turn.to_item(), Expect.ABSENT),
        Put(schedule_model.issue_address(head, tenant_id), {}, Expect.ABSENT),
        Put(head_address(tenant_id), item, expected),
        Put(head.history_address(tenant_id), item, Expect.ANYTHING),
        # After a restore there may be a row of this version already.
        Put(version_address(tenant_id, head.version), row.to_item(), Expect.ANYTHING),
    ]
