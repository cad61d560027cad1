"""Heartbeats of one authorizer, or of many that a relay reports (FLEET-4)."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from functions.authorizers import proofs, registering
from functions.authorizers import records as model
from functions.authorizers import registrations as rules
from functions.authorizers.records import Authorizer, Heartbeat, RefusedReport, RegistrationCounts
from shared import logs
from shared.errors import AuthorizerLimit, PreconditionFailed
from shared.model import feed, times
from shared.model.audit.audit_log import AuditAction
from shared.model.callers import Caller
from shared.model.feed import FeedHead, StoredEntry
from shared.model.identifiers import AUTHORIZER, is_identifier
from shared.model.items import Item
from shared.operations.base import audit, operation, tenants
from shared.ports import Ports
from shared.ports.store import Change

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KnownChains:
    """The known chain hashes of a feed by sequence, or an empty mapping without a feed."""

    newest: int | None
    known: dict[int, bytes]

    def equivocation(self, beat: Heartbeat) -> bool | None:
        """Return whether a heartbeat reports entries that this service did not publish.

        The result is None if the chain hash is no longer known.
        """
        if self.newest is None or beat.sequence is None:
            return False
        if beat.sequence > self.newest:
            return True
        if not beat.chain:
            return False
        ours = self.known.get(beat.sequence)
        return None if ours is None else beat.chain != ours.hex()


def chains_of(
    ports: Ports, tenant_id: str, head: Item | None, beats: Iterable[Heartbeat]
) -> KnownChains:
    """Return the chain hashes for the reports in `beats`, from the feed head and the entries.

    Reads entries only for sequences that the feed head does not contain. Raises `DataCorrupt`,
    `Unavailable`.
    """
    if head is None:
        return KnownChains(None, {})
    newest = FeedHead.from_item(head)
    known = {newest.base.sequence: newest.base.chain, newest.sequence: newest.signed_head.chain}
    reported = {beat.sequence for beat in beats if beat.chain and beat.sequence is not None}
    addresses = {
        feed.entry_address(tenant_id, each): each
        for each in reported
        if each < newest.sequence and each not in known
    }
    for address, item in ports.store.get_many(addresses).items() if addresses else ():
        if chain := StoredEntry.from_item(item).chain:
            known[addresses[address]] = chain
    return KnownChains(newest.sequence, known)


class HeartbeatOutcome(StrEnum):
    """The outcome of a heartbeat.

    - `equivocation`: accepted, but the authorizer reported entries that this service did not
      publish.
    - `not_found`: the authorizer is not registered, or another owner registered it.
    - `refused`: rejected, because it is not the signed report that the registration requires
      (FLEET-27).
    """

    OK = "ok"
    EQUIVOCATION = "equivocation"
    NOT_FOUND = "not_found"
    REFUSED = "refused"


_Outcome: TypeAlias = HeartbeatOutcome | RefusedReport
_Decision: TypeAlias = tuple[_Outcome, Sequence[Change]]


class AcceptedReports(NamedTuple):
    """The outcomes in the order of the heartbeats, with the reasons for rejected ones.

    `latest` is the last sequence of the feed, or None before the first SRL.
    """

    outcomes: list[_Outcome]
    latest: int | None
    numbers: RegistrationCounts


@dataclass(frozen=True, slots=True)
class _HeartbeatFacts:
    """The records that were read, and the reporter. `relay` has the same meaning as in `take`.

    `own` are the registrations of the reporter. `ended` are the expired ones among them that are
    still remembered. `reported` is the verified content of each heartbeat, or the reason for its
    rejection.
    """

    caller: Caller
    relay: str
    now: datetime
    own: Mapping[str, Authorizer]
    ended: AbstractSet[str]
    reported: Mapping[str, Heartbeat | RefusedReport]
    chains: KnownChains
    numbers: RegistrationCounts


def take(
    ports: Ports, caller: Caller, beats: Mapping[str, Heartbeat], *, relay: str
) -> AcceptedReports:
    """Take heartbeats by identifier of the authorizer; store the ones with news.

    `relay` names the relay that reports them. It is empty if the authorizer itself does. Raises
    `PreconditionFailed` if a registration changed in between; some heartbeats may then be stored.
    """
    facts = _read_facts(ports, caller, beats, relay)
    outcomes, changes = dict[str, _Outcome](), list[Sequence[Change]]()
    for authorizer_id in beats:
        outcomes[authorizer_id], change = _report(ports, facts, authorizer_id)
        changes.append(change)
    # Reports that change the counts have separate writes.
    for each in changes:
        if len(each) > 1:
            ports.store.write(*each)
    if operation.apply_steps(ports, [each for each in changes if len(each) == 1], most=1):
        raise PreconditionFailed(())
    _log_refused_reports(facts, outcomes)
    if rules.is_due(facts.numbers, facts.now):
        rules.recount(ports, caller.tenant_id, facts.numbers)
    return AcceptedReports([*outcomes.values()], facts.chains.newest, facts.numbers)


def _log_refused_reports(facts: _HeartbeatFacts, outcomes: Mapping[str, _Outcome]) -> None:
    """Log rejected reports, and authorizers with a newly reported foreign chain (FLEET-16)."""
    tenant_id = facts.caller.tenant_id
    new = [
        each
        for each, outcome in outcomes.items()
        if outcome is HeartbeatOutcome.EQUIVOCATION and not facts.own[each].equivocation
    ]
    if new:
        figures = {"EquivocationReported": len(new)}
        more = logs.fields(tenant_id=tenant_id, authorizer_ids=new, metrics=figures)
        _log.warning("equivocation", extra=more)
    refused = {
        each: outcome.value
        for each, outcome in outcomes.items()
        if isinstance(outcome, RefusedReport)
    }
    if refused:
        more = logs.fields(tenant_id=tenant_id, authorizers=refused)
        _log.warning("reports were rejected", extra=more)


def _read_facts(
    ports: Ports, caller: Caller, beats: Mapping[str, Heartbeat], relay: str
) -> _HeartbeatFacts:
    tenant_id = caller.tenant_id
    partition = model.authorizers(tenant_id)
    counter, head = model.registered_address(tenant_id), feed.head_address(tenant_id)
    # Malformed identifiers are not valid as keys of every store, and they are never issued.
    ids = [each for each in beats if is_identifier(each, kind=AUTHORIZER)]
    items = ports.store.get_many([counter, head, *map(partition.address, ids)])
    present = {
        each: Authorizer.from_item(items[at])
        for each in ids
        if (at := partition.address(each)) in items
    }
    ended = rules.read_ended(ports, tenant_id, [each for each in ids if each not in present])
    own = {each: of for each, of in (present | ended).items() if of.owner == caller.identity}
    reported = {
        each: proofs.verify_heartbeat(beats[each], before, tenant_id=tenant_id)
        for each, before in own.items()
    }
    counted = [each for each in reported.values() if isinstance(each, Heartbeat)]
    return _HeartbeatFacts(
        caller,
        relay,
        times.truncate_to_second(ports.now()),
        own,
        ended.keys(),
        reported,
        chains_of(ports, tenant_id, items.get(head), counted),
        rules.parse_counts(items.get(counter)),
    )


def _report(ports: Ports, facts: _HeartbeatFacts, authorizer_id: str) -> _Decision:
    """Decide about a heartbeat. An identifier that was never issued is not registered (FLEET-5).

    An expired registration is reactivated if there is room.
    """
    caller, now = facts.caller, facts.now
    before, beat = facts.own.get(authorizer_id), facts.reported.get(authorizer_id)
    if before is None or beat is None:
        return HeartbeatOutcome.NOT_FOUND, []
    if isinstance(beat, RefusedReport):
        return beat, []
    equivocation = facts.chains.equivocation(beat)
    if equivocation is None:
        # The chains cannot be compared now, so the last comparison of the same values counts.
        is_same = (before.sequence, before.chain.hex()) == (beat.sequence, beat.chain)
        equivocation = before.equivocation and is_same
    after = before.with_heartbeat(beat, now, relay=facts.relay, equivocation=equivocation)
    outcome = HeartbeatOutcome.EQUIVOCATION if after.equivocation else HeartbeatOutcome.OK
    if not before.is_expired(now):
        return outcome, rules.change(caller.tenant_id, before, after)
    # A late report does not show that the authorizer is running.
    if after.is_expired(now):
        return HeartbeatOutcome.NOT_FOUND, []
    is_kept, settings = before.id in facts.ended, tenants.settings(ports, caller.tenant_id)
    if is_kept:
        try:
            registering.check_room(ports, caller, facts.numbers, settings)
        except AuthorizerLimit:
            return HeartbeatOutcome.NOT_FOUND, []
    changes = rules.revival(caller.tenant_id, before, after, is_kept=is_kept)
    details = rules.details(after, is_revived=True)
    action = AuditAction.AUTHORIZER_REGISTER
    entry = audit.entry(ports, caller, action, after.id, settings=settings, **details)
    return outcome, [*changes, entry]
